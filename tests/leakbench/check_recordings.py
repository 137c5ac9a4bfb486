#!/usr/bin/env python3
"""Recordings by others, of a few steps each. None shows a leak, each says why the verdict is unknown, and none takes a
network's layers for steps."""

import json
import os
import pathlib
import pickle
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

DATA = os.environ.get("MEMPROF_TEST_DATA")
# Steps of the programs, by source: loops of one round, three steps of training, marked steps.
STEPS = {"niu_fb_200_mixed": 3, "sidsoc_train": 0, "silmont_fwd_bf16": 0, "bolong_cl128": 0, "ctx128_inference": 0,
         "ctx256_inference": 0, "ctx512_inference": 0, "ctx1024_inference": 0, "yiyi_oom_v1": 0, "docubox_notrace": 0,
         "hta_df_index_resolver": 5, "kineto_resnet50_w0": 6, "sidnb13_transformer": 3}


class Told(harness.TestCase):
    def assert_nothing_is_told_to_grow(self, path):
        """The answer has no advice that only the program's author could follow."""
        for command in ("report", "leaks", "steps"):
            text = harness.memprof(command, path).stdout
            for word in ("GROWING", " keeps growing,", " keep growing", "libmemprof", "--step-at"):
                self.assertNotIn(word, text, command)


class Made(Told):
    """PyTorch's snapshots of programs that do not grow over several steps."""

    def snapshot(self, name, moves):
        """A recording made of (number, bytes or None for a free, calls from the innermost on as "file:line
        function")."""
        trace = []
        sizes = {number: size for number, size, _ in moves if size}
        for i, (number, size, calls) in enumerate(moves):
            frames = [{"name": name, "filename": "/home/ada/" + place.split(":")[0], "line": int(place.split(":")[1])}
                      for place, name in map(str.split, calls)]
            entry = {"addr": 0x7f0000000000 + (number << 24), "stream": 0, "frames": frames, "time_us": 1000 + 7 * i}
            for action in ["alloc"] if size else ["free_requested", "free_completed"]:
                trace.append(entry | {"action": action, "size": sizes[number]})
        path = self.folder / f"{name}.pickle"
        path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
        return path

    def test_a_forward_keeps_what_backward_needs(self):
        path = self.snapshot("forward", [(i, 4 << 20, ["linear.py:9 forward", f"net.py:{30 + i % 4} forward",
                                                        "net.py:5 forward", "use.py:8 main"]) for i in range(192)])
        self.assert_nothing_is_told_to_grow(path)
        self.assertEqual(harness.answer("leaks", path)["steps"]["count"], 0)  # 48 layers of one step

    def test_a_cache_of_one_request(self):
        moves = []
        for token in range(150):
            moves.append((token, (token + 1) << 12, ["use.py:44 work"]))
            if token:
                moves.append((token - 1, None, []))
        self.assert_nothing_is_told_to_grow(self.snapshot("cache", moves))

    def test_a_window_that_slides(self):
        moves = []
        for step in range(300):
            moves.append((step, 1 << 20, ["use.py:50 work"]))
            if step >= 40:
                moves.append((step - 40, None, []))
            moves += [(1000 + step, 1 << 22, ["use.py:51 work"]), (1000 + step, None, [])]
        self.assert_nothing_is_told_to_grow(self.snapshot("window", moves))

    def test_rounds_of_one_line(self):
        """Ten steps of forty layers and a head, all under one line of the script."""
        moves, number = [], 0
        for _ in range(10):
            number += 1000
            under = ["net.py:12 forward", "use.py:70 <module>"]
            moves.append((number, 4096, ["embed.py:3 forward", "net.py:11 forward", "use.py:70 <module>"]))
            for layer in range(1, 41):
                for part in range(4):
                    at = number + 4 * layer + part
                    moves.append((at, 1 << 16, [f"layer.py:{20 + part} forward"] + under))
                    moves.append((at, None, []))
            moves += [(number + 999, 512, ["head.py:4 forward"] + under), (number + 999, None, []), (number, None, [])]
        self.assertEqual(harness.answer("leaks", self.snapshot("rounds", moves))["steps"],
                         {"count": 10, "source": "inferred"})


    def test_rounds_of_a_network_of_many_layers(self):
        """Ten steps, mostly of layers; the output is two of 902 allocations. A real recording has its name with
        them."""
        for keeps in (False, True):  # a result of each round
            moves, number = [], 0
            under = ["net.py:12 forward", "use.py:70 work", "use.py:90 <module>"]
            for _ in range(10):
                number += 1000
                for at in range(900):
                    moves += [(number + at, 1 << 14, [f"layer.py:{20 + at % 18} forward"] + under),
                              (number + at, None, [])]
                for at in (900, 901):
                    moves.append((number + at, 512, ["linear.py:9 forward", "net.py:13 forward"] + under[1:]))
                moves += [(number + at, None, []) for at in (900, 901)[keeps:]]
            self.assertEqual(harness.answer("leaks", self.snapshot("layers", moves))["steps"],
                             {"count": 10, "source": "inferred"})


    def test_rounds_whose_first_ones_differ(self):
        """Trainings of 50 layers in one line of a script. In "states" and "none", backward has no frames. The first
        round of "states" makes the optimizer's states, and "none" has no optimizer. In "warmed", a call from another
        line comes first. In "workspace", the first round makes more blocks, so it is no round."""
        def layers(line):
            under = ["layers.py:30 forward", f"use.py:{line} train", "use.py:90 <module>"]
            for layer in range(50):
                for part in (9, 9, 10, 11, 11, 12, 11, 12):
                    yield [f"linear.py:{part} forward", f"layer.py:{part} forward"] + under

        for name in ("states", "none", "warmed", "workspace"):
            moves, number = [], 0
            for done in range(11 if name == "warmed" else 10):
                line = 60 if name == "warmed" and not done else 61
                script = [f"use.py:{line} train", "use.py:90 <module>"]
                round_ = [["embed.py:3 forward"] + script]
                round_ += [["workspace.py:1 make", "embed.py:3 forward"] + script] * (3 * (name == "workspace" and not done))
                round_ += [*layers(line), ["head.py:4 forward"] + script, script]
                if name in ("states", "none"):
                    round_ += [[]] * 600
                if name == "states":
                    state = ["/torch/optim/adam.py:150 step", *script]
                    round_ += [["/torch/optim/adam.py:120 init", *state], ["/torch/optim/adam.py:121 init", *state]] * \
                        (200 * (not done)) + [["/torch/optim/adam.py:400 multi", *state]] * 300
                for calls in round_:
                    moves += [(number, 1 << 12, calls), (number, None, [])]
                    number += 1
            with self.subTest(name=name):
                self.assertEqual(harness.answer("leaks", self.snapshot(name, moves))["steps"],
                                 {"count": 9 if name == "workspace" else 10, "source": "inferred"})


@harness.unittest.skipUnless(DATA and pathlib.Path(DATA).is_dir(), "$MEMPROF_TEST_DATA names no folder")
class Recordings(Told):
    def test_none_leaks(self):
        read = set()
        for path in sorted(pathlib.Path(DATA).glob("*")):
            name = path.name.split(".")[0]
            result = harness.memprof("leaks", "--json", path)
            if path.suffix not in (".pickle", ".gz", ".json") or result.returncode not in (0, 4):
                continue  # not a recording of memory
            with self.subTest(path=path.name):
                leaks = json.loads(result.stdout)
                self.assertEqual((leaks["verdict"], leaks["findings"]), ("unknown", []))
                self.assertTrue(leaks["reason"])
                if name in STEPS:
                    self.assertEqual(leaks["steps"]["count"], STEPS[name])
                self.assert_nothing_is_told_to_grow(path)
            read.add(name)
        self.assertLessEqual(STEPS.keys(), read)

    def test_peaks_have_categories(self):
        """Most programs here began long before their recording: the share of the peak without a category, as a
        median."""
        without = []
        for path in sorted(pathlib.Path(DATA).glob("*")):
            result = harness.memprof("peak", "--json", path)
            peak = json.loads(result.stdout) if result.returncode in (0, 4) else {"peak_bytes": 0}
            if peak["peak_bytes"]:
                told = sum(row["bytes"] for row in peak["categories"] or () if row["category"] not in ("other", None))
                without.append(1 - told / peak["peak_bytes"])
        self.assertGreater(len(without), 12)
        print(f"without a category: median {statistics.median(without):.1%}, at most {max(without):.1%}, of {len(without)}")
        self.assertLessEqual(statistics.median(without), 0.15)


if __name__ == "__main__":
    harness.main()
