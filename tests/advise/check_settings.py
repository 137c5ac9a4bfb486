#!/usr/bin/env python3
"""`memprof advise` on settings of PyTorch's allocator. Predicted reserved bytes are compared with a second, naive model
that runs the program under these settings, and with settings that people try by hand.
"""
import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "unit" / "analysis")]
import asserted
import naive_allocator
import advice_text
from check_torch_replay import snapshot_of

MEMPROF = str(pathlib.Path(os.getcwd()) / "memprof")
MIB = 1 << 20
USUAL = ("expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512", "roundup_power2_divisions:8",
         "garbage_collection_threshold:0.8")
RECORDED = ({}, {}, {}, {"expandable_segments": True}, {"max_split_size": 64 * MIB}, {"roundup": 4})


class Program:
    """A program's requests: batches of different lengths, a cache that grows, long-lived blocks between short-lived
    ones. The requests are the same under any settings."""

    def __init__(self, seed, calls):
        r = random.Random(seed)
        self.settings = r.choice(RECORDED)
        self.calls, live = [], []
        lengths = [r.choice([1, 3, 8, 21, 40]) * r.randrange(40000, 900000) for _ in range(r.randrange(4, 9))]
        shapes = r.random()
        for at in range(calls):
            if live and r.random() < 0.48:
                self.calls.append(("free", live.pop(r.randrange(len(live)) if r.random() < 0.6 else -1)))
                continue
            size = r.choice(lengths)
            if shapes < 0.6:
                size = int(size * r.uniform(0.5, 1.5)) + 1
            if r.random() < 0.2:
                size = r.randrange(1, 3 * MIB)
            self.calls.append(("alloc", at, size))
            live.append(at)

    def run(self, settings):
        allocator, handles = naive_allocator.Allocator(1 << 42, 1 << 43, settings), {}
        for call, key, *size in self.calls:
            if call == "alloc":
                handles[key] = allocator.malloc(size[0], 0)
            else:
                allocator.free(handles.pop(key))
        return allocator


LOAD = [{"filename": "/home/user/serve.py", "name": "load", "line": 7}]
FORWARD = [{"filename": "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", "name": "_call_impl", "line": 1}]


STEP = [{"filename": "/usr/lib/python3/dist-packages/torch/optim/adamw.py", "name": "step", "line": 1}]
FRAMES = {"load": LOAD, "train": FORWARD + LOAD, "serve": FORWARD + LOAD}


class Phased(Program):
    """Requests of a program whose phases use buffers of many sizes (`wild`), or of repeated sizes. Training ends with
    the temporary blocks of an optimizer's step."""

    def __init__(self, seed, phases=("load", "serve"), wild=("load",)):
        super().__init__(seed, 0)
        self.borders, self.random, self.count = {}, random.Random(seed), 0
        for phase in phases:
            self.borders[phase] = len(self.calls)
            self.add_wild(160) if phase in wild else self.add_tame(70)
            if phase == "train":
                self.borders["step"] = len(self.calls)
                self.calls += [("alloc", self.count, (60 if phase in wild else 1) * MIB), ("free", self.count)]
                self.count += 1

    def add_wild(self, count):
        live = []
        for at in range(self.count, self.count + count):
            self.calls.append(("alloc", at, self.random.randrange(2 * MIB, 40 * MIB)))
            live.append(at)
            if len(live) > 12:
                self.calls.append(("free", live.pop(self.random.randrange(len(live)))))
        self.calls += [("free", at) for at in live[:2]]
        self.count += count

    def add_tame(self, count):
        for at in range(self.count, self.count + 2 * count, 2):
            self.calls += [("alloc", at, 3 * MIB), ("alloc", at + 1, 5 * MIB), ("free", at), ("free", at + 1)]
        self.count += 2 * count

    def run(self, settings, then=None, border="serve"):
        """`then`: the settings from that phase's beginning on."""
        allocator, handles = naive_allocator.Allocator(1 << 42, 1 << 43, settings), {}
        self.traced = {}
        for i, (call, key, *size) in enumerate(self.calls):
            for phase in [phase for phase, begin in self.borders.items() if begin == i]:
                self.traced[phase] = len(allocator.trace)
                if then is not None and phase == border:
                    allocator.set(then)
            if call == "alloc":
                handles[key] = allocator.malloc(size[0], 0)
            else:
                allocator.free(handles.pop(key))
        return allocator


def snapshot_of_phases(program):
    snapshot = snapshot_of(program.run(program.settings), program.settings)
    for i, entry in enumerate(snapshot["device_traces"][0]):
        phase = max((begin, phase) for phase, begin in program.traced.items() if begin <= i)[1]
        entry["frames"] = {**FRAMES, "step": STEP + LOAD}[phase]
    return snapshot


def measure_phased(seed, folder, *phases):
    """(the advice for one phase, True if it is set before the run, {border: real reserved bytes with a change there},
    reserved bytes without it). None without advice."""
    program = Phased(seed, *phases)
    path = pathlib.Path(folder) / "phased.pickle"
    path.write_bytes(pickle.dumps(snapshot_of_phases(program)))
    changes = [change for change in advise(path, "--kind", "allocator")["changes"] if change["pattern"] == "phase_settings"]
    if not changes:
        return None
    change, = changes
    then = settings_of(re.search(r'_set_allocator_settings\("([^"]*)"\)', change["code"])[1])
    early = "export" in change["code"]
    real = {border: program.run(settings_of(change["setting"]) if early else program.settings, then, border).peak_reserved
            for border in program.borders if border in ("train", "serve")}
    return change, early, real, program.run(program.settings).peak_reserved


def settings_of(text, recorded=None):
    """PYTORCH_CUDA_ALLOC_CONF in the naive allocator's form."""
    settings = dict(recorded or {})
    at = 0
    while at < len(text):
        end = text.find("]", at) + 1 if "[" in text[at:].split(",")[0] else text.find(",", at) % (len(text) + 1)
        name, value = text[at:end].split(":", 1)
        at = end + 1
        if name == "expandable_segments":
            settings[name] = value == "True"
        elif name == "max_split_size_mb":
            settings["max_split_size"] = int(value) * MIB
        elif name == "garbage_collection_threshold":
            settings["gc_threshold"] = float(value)
        elif value[0] == "[":
            divisions, first = [0] * 16, True
            for pair in value[1:-1].split(","):
                boundary, number = map(int, pair.split(":"))
                index = boundary.bit_length() - 1
                divisions[0 if first else index:index + 1] = [number] * (index + 1 if first else 1)
                first = False
            settings["roundup"] = divisions
        else:
            assert name == "roundup_power2_divisions", name
            settings["roundup"] = int(value)
    return settings


def advise(path, *options):
    """The advice as JSON; the text is compared with it."""
    found, text = (subprocess.run([MEMPROF, "advise", str(path), *form, *options], capture_output=True, text=True, timeout=120)
                   for form in (["--json"], []))
    assert found.returncode in (0, 4) and found.returncode == text.returncode, found.stderr
    found = json.loads(found.stdout)
    wrong = advice_text.differences(found, text.stdout)
    assert not wrong, wrong
    return found


def measure(seed, folder, calls=500):
    program = Program(seed, calls)
    path = pathlib.Path(folder) / "made.pickle"
    now = program.run(program.settings)
    path.write_bytes(pickle.dumps(snapshot_of(now, program.settings)))
    found = advise(path, "--kind", "allocator")
    truth = [program.run(settings_of(change["setting"])).peak_reserved for change in found["changes"]]
    usual = {text: program.run(settings_of(text, program.settings)).peak_reserved for text in USUAL}
    return program, now, found, truth, usual


DATA = os.environ.get("MEMPROF_TEST_DATA")


def ask(*arguments):
    done = subprocess.run([MEMPROF, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 4), done.stderr
    return json.loads(done.stdout)


def by_hand(path):
    """Reserved bytes of a real GPU's snapshot: recorded, with the best advice, and with each usual setting, each
    replayed alone. None: no trace."""
    found = advise(path, "--kind", "allocator")
    if not found["replays"]:
        return None
    usual = {text: ask("frag", path, "--replay", text)["replay"] for text in USUAL}
    best = min([found["reserved_peak_bytes"], *(change["reserved_peak_bytes"] for change in found["changes"])])
    return found, best, {text: replay["reserved_peak_bytes"] for text, replay in usual.items() if not replay["oom"]}


class Settings(unittest.TestCase):
    @unittest.skipUnless(DATA, "MEMPROF_TEST_DATA names no recordings")
    def test_real_snapshots_are_no_worse_off_than_by_hand(self):
        compared = 0
        for path in sorted(pathlib.Path(DATA).glob("*.pickle")):
            replayed = by_hand(path)
            if not replayed:
                continue
            found, best, usual = replayed
            # savings below 1 % are not listed
            worth = [reserved for reserved in usual.values() if reserved <= found["reserved_peak_bytes"] * 0.99]
            self.assertLessEqual(best, min(worth, default=best), (path.name, usual))
            self.assertLessEqual(found["least_reserved_bytes"] or 0, best, path.name)
            compared += 1
        self.assertGreater(compared, 7)

    def test_the_report_has_them_too(self):
        told = 0
        for seed in range(8):
            with tempfile.TemporaryDirectory() as folder:
                measure(seed, folder)
                path = pathlib.Path(folder) / "made.pickle"
                said = ask("report", path)["advice"]
                texts = [advice["text"] for advice in said if not advice["text"].endswith("(replayed)")]
                wanted = [change["text"] for change in advise(path)["changes"][:3]]
                self.assertEqual(texts, wanted, seed)
                told += any("PYTORCH_CUDA_ALLOC_CONF" in text for text in texts)
        self.assertGreater(told, 2)

    def test_promised_keys_and_a_capacity(self):
        with tempfile.TemporaryDirectory() as folder:
            program, now, found, truth, _ = measure(33, folder)
            self.assertLessEqual({"kind", "text", "saved_bytes", "saved_reserved_bytes", "exact", "cost", "code", "setting",
                                  "module", "stack"}, set(found["changes"][0]))
            self.assertIsNone(found["fit"])
            for capacity, fits in ((now.peak_reserved, True), (truth[0], True), (found["least_reserved_bytes"] - 2 * MIB, False)):
                fit = advise(pathlib.Path(folder) / "made.pickle", "--capacity", str(capacity))["fit"]
                self.assertEqual((fit["capacity_bytes"], fit["fits"], fit["fits_now"]),
                                 (capacity, fits, capacity >= now.peak_reserved))
                self.assertLessEqual(fit["reserved_peak_bytes"], capacity)

    def test_settings_of_a_phase_are_those_of_another_allocator(self):
        """It also reserves less than without them, and the variable alone is at most 1 % better."""
        sides = set()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(40):
                measured = measure_phased(seed, folder)
                if not measured:
                    continue
                change, early, real, before = measured
                self.assertEqual(change["reserved_peak_bytes"], real["serve"], (seed, change["code"]))
                self.assertEqual(change["saved_reserved_bytes"], before - real["serve"], seed)
                self.assertLess(real["serve"], before * 0.99)
                self.assertIn("not public", change["cost"])
                sides.add(early)
        self.assertTrue(sides)

    def test_settings_of_training_and_of_what_follows(self):
        """The phase with many sizes gets its own settings, up to the named border. If that phase is the second, a
        change at the other border would reserve another amount."""
        cases = ((("load", "train"), "load", "before the first call of a module ("),
                 (("load", "train", "serve"), "load", "before the first call of a module ("),
                 (("train", "serve"), "train", "before the first call of a module after training"),
                 (("load", "train", "serve"), "train", "before the first call of a module after training"))
        with tempfile.TemporaryDirectory() as folder:
            for phases, wild, words in cases:
                found = 0
                for seed in range(16):
                    measured = measure_phased(seed, folder, phases, (wild,))
                    if not measured:
                        continue
                    change, early, real, before = measured
                    border, other = ("serve", "train") if wild == "train" else ("train", "serve")
                    self.assertTrue(early)
                    self.assertIn(words, change["code"])
                    self.assertIn("up to the end of " + {"load": "loading", "train": "training"}[wild], change["text"])
                    self.assertEqual(change["reserved_peak_bytes"], real[border], (phases, seed, change["code"]))
                    self.assertEqual(change["saved_reserved_bytes"], before - real[border], (phases, seed))
                    self.assertTrue(wild == "load" or real[other] > real[border], (phases, seed))
                    found += 1
                self.assertGreater(found, 5, phases)

    def test_savings_are_those_of_another_allocator(self):
        changes = better = 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(40):
                program, now, found, truth, usual = measure(seed, folder)
                self.assertEqual((found["peak_bytes"], found["reserved_peak_bytes"]),
                                 (now.peak_allocated, now.peak_reserved), seed)
                self.assertEqual([change["reserved_peak_bytes"] for change in found["changes"]], truth, seed)
                self.assertEqual([change["saved_reserved_bytes"] for change in found["changes"]],
                                 [now.peak_reserved - reserved for reserved in truth], seed)
                best = min([now.peak_reserved, *truth])
                # savings below 1 % are not listed
                worth = [usually for usually in usual.values() if usually <= now.peak_reserved * 0.99]
                self.assertLessEqual(best, min(worth, default=best), (seed, usual))
                self.assertLessEqual(found["least_reserved_bytes"], best, seed)
                self.assertTrue(all(change["exact"] and change["kind"] == "allocator" for change in found["changes"]))
                self.assertTrue(all(reserved < now.peak_reserved for reserved in truth), seed)
                changes += len(truth)
                better += best < min(now.peak_reserved, *usual.values())
        self.assertGreater(changes, 8)
        self.assertGreater(better, 3)


if __name__ == "__main__":
    asserted.main()
