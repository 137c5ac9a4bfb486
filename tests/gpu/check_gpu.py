#!/usr/bin/env python3
"""A real GPU: allocations of every kind and PyTorch trainings, recorded and compared with the programs' own counts.
Skipped (exit status 77) without a GPU.

    check_gpu.py [-v] [NAME...]

* $MEMPROF: the program. Without it: that of the build.
* $MEMPROF_GPU_PROGRAMS: the folder with the compiled programs. Without it, nvcc compiles them here.
* $MEMPROF_GPU_KEEP: the folder that gets the recordings and, as results.json, the figures.
"""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCE.parent / "e2e"))
import harness

KEEP = os.environ.get("MEMPROF_GPU_KEEP")
MIB = 1 << 20
KINDS = ("linear", "pitched", "managed", "pinned", "registered", "stream_ordered", "pool", "virtual_memory", "graph",
         "out_of_memory")
WAYS = ("cupti", "hooks")
results = {}


def has_gpu():
    for command in (["nvidia-smi", "-L"], ["/usr/local/nvidia/bin/nvidia-smi", "-L"]):
        try:
            if b"GPU" in subprocess.run(command, capture_output=True, timeout=60).stdout:
                return True
        except (OSError, subprocess.TimeoutExpired):
            pass
    return False


def compiled():
    """The folder with known, records and cost; None where there is neither that nor a compiler."""
    given = os.environ.get("MEMPROF_GPU_PROGRAMS")
    if given:
        return pathlib.Path(given)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        return None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memprof-gpu-"))
    cuda = pathlib.Path(nvcc).resolve().parents[1]
    for name in ("known.cpp", "records.cu", "cost.cpp"):
        extra = []
        if name == "records.cu":
            extra = [f"-I{cuda}/extras/CUPTI/include", f"-L{cuda}/extras/CUPTI/lib64", f"-L{cuda}/lib64", "-lcupti"]
        subprocess.run([nvcc, "-std=c++17", "-O2", "-o", folder / name.partition(".")[0],
                        SOURCE / "programs" / name, *extra], check=True)
    return folder


class Gpu(harness.TestCase):
    def record(self, name, command, options=(), environment=None):
        folder = pathlib.Path(KEEP) if KEEP else self.folder
        path = folder / f"{name}.mp"
        result = harness.memprof("snapshot", "--force", "-o", path, *options, "--", *command,
                                 env=dict(os.environ, **(environment or {})))
        if result.returncode == 77:
            self.skipTest(result.stderr.strip().splitlines()[0])
        self.assertEqual(result.returncode, 0, result.stderr)
        return path, result

    def device_part(self, name, info):
        """The rest that nobody explains, against its goal, wherever the total is known."""
        for use in info["device_use"]:
            results.setdefault("unattributed", {})[name] = use
            if use["unattributed_bytes"] is not None:
                self.assertLessEqual(use["unattributed_bytes"], max(use["in_use_bytes"] // 50, 64 * MIB), use)


class Measure(Gpu):
    """`memprof measure`."""

    def test_measure(self):
        """The file describes the GPU as plans need it, and a plan takes it."""
        path = os.path.join(KEEP or self.folder, "measured.dev")
        begun = time.monotonic()
        done = harness.memprof("measure", "--force", "-o", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        results["measure"] = {"seconds": time.monotonic() - begun, "file": open(path).read()}
        for key in ("total", "context", "graph_node", "local_threads"):
            self.assertIn(f"\n{key} = ", results["measure"]["file"])
        plan = harness.memprof("plan", "--device", path, "--", "true")
        self.assertNotIn("line", plan.stderr)


class Known(Gpu):
    """Programs that say what they allocated."""

    @classmethod
    def setUpClass(cls):
        cls.programs = compiled()
        if cls.programs is None:
            raise unittest.SkipTest("no nvcc, and no $MEMPROF_GPU_PROGRAMS")

    def kind(self, kind, way):
        path, result = self.record(f"{kind}-{way}", [self.programs / "known", kind], ("--capture", way))
        info = harness.answer("info", path)
        tracks = {track["id"]: track for track in info["tracks"]}
        for line in result.stdout.splitlines():
            word, track, *numbers = line.split()
            self.assertIn(track, tracks)
            found = tracks[track]
            if word == "oom":
                self.assertEqual(found["ooms"], 1)
                continue
            self.assertEqual([found["allocs"], found["frees"], found["peak_bytes"], found["end_bytes"]],
                             [int(number) for number in numbers], f"{track} by {way}")
        results.setdefault("kinds", {}).setdefault(kind, {})[way] = "exact"
        self.device_part(f"{kind}-{way}", info)

    def test_records(self):
        result = subprocess.run([self.programs / "records"], capture_output=True, text=True, timeout=120)
        if result.returncode == 77:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        results["records"] = result.stdout.splitlines()

    def test_costs(self):
        figures = {way: [] for way in ("bare", *WAYS)}
        for _ in range(5):
            for way in figures:
                command = [self.programs / "cost", "50000"]
                if way == "bare":
                    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
                    if result.returncode == 77:
                        self.skipTest(result.stderr.strip())
                else:
                    _, result = self.record(f"cost-{way}", command, ("--capture", way))
                figures[way].append(json.loads(result.stdout))
        middle = lambda way, key: sorted(row[key] for row in figures[way])[2]
        results["costs"] = {way: {"pair_ns": middle(way, "pair_ns") - middle("bare", "pair_ns"),
                                  "device_bytes": middle("bare", "free_bytes") - middle(way, "free_bytes")}
                            for way in WAYS}
        results["costs"]["bare"] = {"pair_ns": middle("bare", "pair_ns")}


for name_ in KINDS:
    for way_ in WAYS:
        setattr(Known, f"test_{name_}_by_{way_}", lambda self, kind=name_, way=way_: self.kind(kind, way))


class Training(Gpu):
    """Compares PyTorch's own counts with the recording's."""

    @classmethod
    def setUpClass(cls):
        cls.python = harness.python_with_torch()
        if cls.python is None:
            raise unittest.SkipTest("no Python with torch")

    def train(self, mode, conf=None, steps=20, options=()):
        environment = {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
        path, result = self.record(f"train-{mode}", [self.python, SOURCE / "programs" / "train.py", mode, str(steps)],
                                   options, environment)
        truth = json.loads(result.stdout.splitlines()[-1])
        info = harness.answer("info", path)
        results.setdefault("trainings", {})[mode] = truth
        self.device_part(f"train-{mode}", info)
        return truth, info, {track["id"]: track for track in info["tracks"]}

    def torch_is_right(self, truth, tracks):
        track = tracks["cuda:0/torch"]
        self.assertEqual(track["peak_bytes"], truth["peak_bytes"])
        self.assertEqual(track["reserved_peak_bytes"], truth["reserved_peak_bytes"])
        self.assertEqual(track["allocs"], truth["allocs"])

    def test_native(self):
        truth, info, tracks = self.train("native")
        self.torch_is_right(truth, tracks)
        self.assertEqual(info["coverage"]["totals_wrong"], 0)
        self.assertEqual(info["steps"], {"count": 20, "source": "nvtx"})
        self.assertGreaterEqual(tracks["cuda:0/driver"]["peak_bytes"], truth["reserved_peak_bytes"])

    def test_expandable(self):
        truth, _, tracks = self.train("expandable", "expandable_segments:True")
        self.torch_is_right(truth, tracks)

    def test_graph(self):
        truth, _, tracks = self.train("graph")
        self.torch_is_right(truth, tracks)

    def test_async(self):
        _, _, tracks = self.train("async", "backend:cudaMallocAsync")
        self.assertGreater(tracks["cuda:0/driver/pool"]["peak_bytes"], 0)

    def test_pinned(self):
        truth, _, tracks = self.train("pinned")
        self.torch_is_right(truth, tracks)
        self.assertGreater(tracks["cpu/driver"]["allocs"], 0)

    def test_nccl(self):
        truth, info, tracks = self.train("nccl")
        self.torch_is_right(truth, tracks)

    def test_slow_down(self):
        script = [self.python, str(SOURCE / "programs" / "train.py")]
        ways = {"bare": script + ["plain", "200"], "memprof": None, "history": script + ["history", "200"]}
        nsys = shutil.which("nsys")
        if nsys:
            ways["nsys"] = [nsys, "profile", "--cuda-memory-usage=true", "--force-overwrite=true", "-o",
                            str(self.folder / "nsys")] + script + ["plain", "200"]
        times = {way: [] for way in ways}
        for _ in range(3):
            for way, command in ways.items():
                if command is None:
                    _, result = self.record("train-slow-down", script + ["plain", "200"])
                else:
                    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
                    if result.returncode == 77:
                        self.skipTest(result.stderr.strip())
                line = next(line for line in reversed(result.stdout.splitlines()) if line.startswith("{"))
                times[way].append(json.loads(line)["step_ms"])
        middle = {way: sorted(values)[1] for way, values in times.items()}
        results["slow_down"] = {way: value / middle["bare"] - 1 for way, value in middle.items()}
        results["slow_down"]["bare_step_ms"] = middle["bare"]


class History(Gpu):
    """PyTorch's own history, joined to blocks: each block's request, stream and pool."""

    @classmethod
    def setUpClass(cls):
        cls.python = harness.python_with_torch()
        if cls.python is None:
            raise unittest.SkipTest("no Python with torch")
        cls.script = [cls.python, SOURCE / "programs" / "history.py"]

    def answer(self, name, mode, options=()):
        # A version that passes here is proven, and goes into PROVEN (python/libmemprof_torch/history.py).
        path, result = self.record(name, [*self.script, mode], ("--torch-history", *options))
        return path, json.loads(result.stdout.splitlines()[-1])

    def bare(self, mode):
        result = subprocess.run([*self.script, mode], capture_output=True, text=True, timeout=300)
        if result.returncode == 77:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.splitlines()[-1])

    def test_blocks(self):
        path, truth = self.answer("history-blocks", "blocks")
        self.assertEqual((truth["on"], set(truth["traces"])), (False, {0}), "the program sees memprof's history")
        table = self.folder / "blocks.csv"
        self.assertEqual(harness.memprof("export", path, "--format", "csv", "-o", table).returncode, 0)
        with open(table, newline="") as rows:
            blocks = [row for row in csv.DictReader(rows) if row["track"] == "cuda:0/torch"]
        told = [block for block in blocks if block["requested_bytes"]]
        results["history"] = {"blocks": len(blocks), "told": len(told)}
        notes = [note for note in harness.answer("info", path)["coverage"]["notes"] if "history" in note]
        self.assertEqual(notes, [])
        # In order: each tensor of the program is the next block at its address.
        at, right = 0, 0
        for address, size, stream in truth["told"]:
            while int(blocks[at]["address"], 16) != address:
                at += 1
            block, at = blocks[at], at + 1
            if block["requested_bytes"]:
                self.assertEqual([int(block["requested_bytes"]), int(block["stream"])], [size, stream], block)
                right += 1
        self.assertGreater(right, 0.9 * len(truth["told"]))
        last = {int(block["address"], 16): block for block in blocks}
        for address, size, requested, stream, pool in truth["held"]:
            block = last[address]
            self.assertEqual([int(block["bytes"]), int(block["requested_bytes"]), int(block["stream"]), block["pool"]],
                             [size, requested, stream, f"{pool[0]},{pool[1]}"])
        frag = harness.answer("frag", path, "--track", "cuda:0/torch")
        self.assertTrue(all(segment["pool"] for segment in frag["segments"]), "the segments are not PyTorch's own")

    def test_the_program_s_own(self):
        _, result = self.record("history-own", [*self.script, "own"], ("--torch-history",))
        self.assertEqual(json.loads(result.stdout.splitlines()[-1]), self.bare("own"))
        self.assertNotIn("callback", result.stderr)

    def test_bit_identical(self):
        bare = self.bare("train")
        for name, options in (("history-train", ()), ("history-train-off", ("--no-torch-history",))):
            self.assertEqual(self.answer(name, "train", options)[1], bare)

    def test_cost(self):
        figures = {"bare": [], "off": [], "on": []}
        for _ in range(5):
            figures["bare"].append(self.bare("cost"))
            figures["off"].append(self.answer("history-cost", "cost", ("--no-torch-history",))[1])
            figures["on"].append(self.answer("history-cost", "cost")[1])
        middle = {way: sorted(row["pair_ns"] for row in rows)[2] for way, rows in figures.items()}
        reads = [row["read_ns"] for row in figures["on"] if "read_ns" in row]
        self.assertTrue(reads, "the history was not on")
        results["history_cost"] = {"pair_ns": middle, "read_ns": sorted(reads)[len(reads) // 2],
                                   "entries": figures["on"][0]["entries"]}


if __name__ == "__main__":
    if not has_gpu():
        print("no GPU")
        sys.exit(77)
    try:
        harness.main()
    finally:
        if KEEP:
            (pathlib.Path(KEEP) / "results.json").write_text(json.dumps(results, indent=1))
