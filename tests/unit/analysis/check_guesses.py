#!/usr/bin/env python3
"""Categories of blocks from before the history of a made-up snapshot: each program below knows the category of each of
its blocks. For real snapshots: which part of a peak has no category."""
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "exchange"))
import asserted

from snapshots import START, Case, unittest

TORCH = "/usr/lib/python3/dist-packages/torch"
REAL = ("bolong_cl128.pickle", "ctx1024_inference.pickle", "ctx128_inference.pickle", "ctx256_inference.pickle",
        "ctx512_inference.pickle", "docubox_notrace.pickle", "drisspg_mini.pickle", "magma27.pickle",
        "niu_fb_200_mixed.pickle", "sidsoc_train.pickle", "silmont_fwd_bf16.pickle", "silmont_small.pickle",
        "yiyi_oom_v1.pickle", "sidnb13_transformer.pt.trace.json", "hta_df_index_resolver.json.gz")


def stack(*lines):
    """Innermost first: "FILE:LINE FUNCTION"."""
    places = [line.split(" ", 1) for line in (*lines, "/home/u/train.py:9 main")]
    return [{"name": name, "filename": place.rsplit(":", 1)[0], "line": int(place.rsplit(":", 1)[1])}
            for place, name in places]


FORWARD = stack("/home/u/model.py:20 forward", f"{TORCH}/nn/modules/module.py:1747 _call_impl", "/home/u/train.py:5 step")
HEAD = stack("/home/u/model.py:31 forward", f"{TORCH}/nn/modules/module.py:1747 _call_impl", "/home/u/train.py:5 step")
BACKWARD = stack(f"{TORCH}/autograd/graph.py:823 _engine_run_backward", f"{TORCH}/_tensor.py:626 backward")
STEP = stack("/home/u/own.py:61 step", f"{TORCH}/optim/optimizer.py:493 wrapper")
ZERO = stack(f"{TORCH}/optim/optimizer.py:975 zero_grad", "/home/u/train.py:4 step")
AGAIN = stack("/home/u/train.py:7 evaluate")


class Program:
    """Entries of a trace, and the right category of each block live at the peak."""

    def __init__(self):
        self.entries, self.live, self.base, self.next, self.best = [], {}, {}, 0x7f0000000000, (0, {})

    def before(self, size, role):
        address = self.place()
        self.live[address] = self.base[address] = size, role
        self.look()
        return address

    def place(self):
        self.next += 1 << 30
        return self.next

    def look(self):
        level = sum(size for size, _ in self.live.values())
        if level <= self.best[0]:
            return
        sums = {}
        for size, role in self.live.values():
            sums[role] = sums.get(role, 0) + size
        self.best = level, sums

    def say(self, action, address, size, frames):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames,
                             "time_us": START + 10 * len(self.entries)})

    def alloc(self, size, role, frames):
        address = self.place()
        self.live[address] = size, role
        self.say("alloc", address, size, frames)
        self.look()
        return address

    def free(self, address, frames):
        size, _ = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self.say(action, address, size, frames)

    def snapshot(self):
        segments = [{"device": 0, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
                     "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                     "is_expandable": False, "frames": [],
                     "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                                 "frames": []}]}
                    for address, (size, _) in sorted(self.live.items())]
        return {"segments": segments, "device_traces": [self.entries], "allocator_settings": {},
                "external_annotations": []}


LAYERS = [size << 10 for size in (640, 640, 1280, 512, 512, 4000)]


def trained(copies):
    """Steps of a training that began before the trace. `copies`: tensors that the optimizer keeps for each
    parameter."""
    program = Program()
    for role in ("parameters", *("optimizer state",) * copies):
        for size in LAYERS:
            program.before(size, role)
    for _ in range(3):
        kept = [program.alloc(900 << 10, "activations", frames) for frames in (FORWARD,) * 6 + (HEAD,)]
        gradients = []
        for size, saved in zip(LAYERS, kept):
            flowing = program.alloc(333 << 10, "temporary", BACKWARD)
            gradients.append(program.alloc(size, "gradients", BACKWARD))
            program.free(saved, BACKWARD)
            program.free(flowing, BACKWARD)
        program.free(kept[-1], BACKWARD)
        for size in LAYERS:
            program.free(program.alloc(size, "temporary", STEP), STEP)
        for gradient in gradients:
            program.free(gradient, ZERO)
    return program


def evaluated(passes):
    """Forward passes with autograd on. A pass's graph stays live until the next pass is done."""
    program = Program()
    for size in LAYERS * 2:
        program.before(size, "parameters")
    kept = [program.before(700 << 10, "previous graph") for _ in range(12)]
    for _ in range(passes):
        fresh = [program.alloc(700 << 10, "activations", frames) for frames in (HEAD,) + (FORWARD,) * 11]
        program.look()
        for address in kept:
            program.free(address, AGAIN)
        kept = fresh
        for address in kept:
            program.live[address] = 700 << 10, "previous graph"
    return program


def generated(calls):
    """Calls of a network without autograd, whose keys and values grow from call to call."""
    program, caches = Program(), []
    for size in LAYERS * 2:
        program.before(size, "parameters")
    for call in range(1, calls + 1):
        fresh = []
        for layer in range(6):
            working = [program.alloc(300 << 10, "working memory", FORWARD) for _ in range(5)]
            fresh.append(program.alloc(call * 100 << 10, "kept over calls", HEAD))
            if caches:
                program.free(caches[layer], HEAD)
            for address in working:
                program.free(address, FORWARD)
        caches = fresh
        program.free(program.alloc(512, None, stack("/home/u/generate.py:3 pick")), stack("/home/u/generate.py:3 pick"))
    return program


class Guesses(Case):
    def compare(self, program, **few):
        peak = self.answer("peak", self.dump(program.snapshot()))
        self.assertEqual(peak["peak_bytes"], program.best[0])
        found = {row["category"]: row["bytes"] for row in peak["categories"]}
        self.assertEqual({role: size for role, size in found.items() if size}, program.best[1])
        guessed = {row["category"]: row["guessed_bytes"] for row in peak["categories"]}
        self.assertEqual(guessed["parameters"], found["parameters"])
        return peak

    def test_training(self):
        for copies in range(3):
            with self.subTest(copies=copies):
                self.compare(trained(copies))

    def test_a_graph_that_is_held(self):
        for passes in (2, 3, 5):
            with self.subTest(passes=passes):
                program = evaluated(passes)
                peak = self.compare(program)
                previous = peak["previous_graph"]
                self.assertEqual((previous["bytes"], previous["blocks"]), (12 * 700 << 10, 12))
                self.assertEqual([line["line"] for line in previous["freed_at"][0]["stack"]], [7, 9])
                report = self.memprof("report", self.dump(program.snapshot())).stdout
                self.assertIn("8.20 MiB of it (12 blocks) belong to a previous graph", report)
                self.assertIn("freed at train.py:7 evaluate", report)

    def test_inference(self):
        for calls in (2, 5, 9):
            with self.subTest(calls=calls):
                peak = self.compare(generated(calls))
                self.assertEqual(peak["phase"], "inference")
                self.assertIsNone(peak["previous_graph"])

    def test_nothing_is_known(self):
        """One large block and no trace: no rule fits."""
        program = Program()
        program.before(5 << 20, None)
        peak = self.answer("peak", self.dump(program.snapshot()))
        self.assertEqual(peak["picked_bytes"], 5 << 20)
        self.assertIsNone(peak["categories"])

    @unittest.skipUnless(os.environ.get("MEMPROF_TEST_DATA"), "no real recordings here")
    def test_real_ones(self):
        shares = {}
        for name in REAL:
            peak = self.answer("peak", pathlib.Path(os.environ["MEMPROF_TEST_DATA"]) / name)
            # None: not one block has a category, as in a snapshot without a trace.
            rows = peak["categories"] or [{"category": None, "bytes": peak["peak_bytes"]}]
            without = sum(row["bytes"] for row in rows if row["category"] is None)
            shares[name] = without / peak["peak_bytes"]
        self.assertLessEqual(statistics.median(shares.values()), 0.15, shares)


if __name__ == "__main__":
    asserted.main()
