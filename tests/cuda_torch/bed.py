"""PyTorch's real CUDA allocator on the stand-in GPU: runs programs there under memprof, with PyTorch's own data about
each run.

The tests run in an environment of tools/cuda-torch. It has the newest PyTorch, or $MEMPROF_TORCH's version, or what the
options in $MEMPROF_CUDA_TORCH name. The long form runs with each of VERSIONS. The tests are skipped if pip cannot be
reached.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
INSIDE = "MEMPROF_IN_CUDA_TORCH"
VERSION = os.environ.get("MEMPROF_TORCH")
VERSIONS = ("", "2.7.1", "2.9.1", "2.11.0", "2.13.0")  # of the long form; "": the newest
# The tests that run on each version; the others run only on the newest.
ON_ALL = ("check_allocations.py", "check_harmless.py", "check_kinds.py", "check_values.py", "check_torch.py",
          "check_newer.py", "check_versions.py", "plan/check_ranks.py", "plan/check_matrix.py")
MIB = 1 << 20

if INSIDE not in os.environ:
    os.environ.setdefault("MEMPROF_BUILD", os.getcwd())
    os.environ.pop("PYTHON3", None)
    is_long = os.environ.get("MEMPROF_TEST_LONG")
    path = os.path.abspath(sys.argv[0])
    if VERSION is None and is_long and path.endswith(ON_ALL):
        ends = [subprocess.run([sys.executable, *sys.argv], env={**os.environ, "MEMPROF_TORCH": each}).returncode
                for each in VERSIONS]
        sys.exit(next((end for end in ends if end not in (0, 77)), 77 if 77 in ends else 0))
    os.environ[INSIDE] = "1"
    tool = [SOURCE / "tools" / "cuda-torch", *(["--torch", VERSION] if VERSION else []),
            *os.environ.get("MEMPROF_CUDA_TORCH", "").split()]
    if subprocess.run([*tool, "true"]).returncode:
        print("tools/cuda-torch could not make its environment")
        sys.exit(77)
    print("with PyTorch", VERSION or "of pip, the newest", flush=True)
    os.execv(tool[0], [*map(str, tool), "python3", *sys.argv])

import harness  # noqa: E402

main = harness.main


def settings(**variables):
    """A program's environment: only these variables are set for the allocator and the stand-in."""
    environment = {name: value for name, value in os.environ.items()
                   if name == "SOFTGPU_ON" or not name.startswith(("PYTORCH", "SOFTGPU", "CUBLAS", "MEMPROF_CONF"))}
    environment.update({name: str(value) for name, value in variables.items()})
    return environment


def together(*programs, then=()):
    """A program that runs programs of programs/ one after the other, each with its arguments, to start PyTorch only once.
    The tensors of `then`, the last one, stay."""
    return f"""
import gc, runpy, sys, torch
for sys.argv in {[[*map(str, program)] for program in programs]!r}:
    runpy.run_path(f"{HERE}/programs/{{sys.argv[0]}}.py")
    gc.collect()
    torch.cuda.empty_cache()
for sys.argv in {[[*map(str, then)]] if then else []!r}:
    module = runpy.run_path(f"{HERE}/programs/{{sys.argv[0]}}.py")
"""


class Run:
    """The result of a program: `truth` (of truth.py), `path` of the recording, `output`, `said` (stderr) and `status`.
    `told`: where memprof's own lines are, about all children of one process."""

    def rows(self):
        if not hasattr(self, "_rows"):
            table = self.path.with_suffix(".jsonl")
            result = harness.memprof("export", self.path, "--force", "--format", "jsonl", "-o", table)
            assert result.returncode in (0, 4), result.stderr
            with open(table) as lines:
                self._rows = [row for row in map(json.loads, lines) if row["type"] != "stack"]
        return self._rows

    def blocks(self, track="cuda:0/torch"):
        """In order of allocation."""
        found = [row for row in self.rows() if row["type"] == "block" and row["track"] == track]
        for row in found:
            row["address"] = int(row["address"], 16)
        return sorted(found, key=lambda row: row["block"])

    def tracks(self):
        return {track["id"]: track for track in self.info()["tracks"]}

    def info(self):
        if not hasattr(self, "_info"):
            self._info = harness.answer("info", self.path, status=(0, 4))
        return self._info


class TestCase(harness.TestCase):
    def execute(self, program, *arguments, options=(), history=False, recorded=True, status=0, how="snapshot",
                **variables):
        """Runs programs/NAME.py, or a text. `history`: PyTorch's own history is on from the start; `how`: "plan",
        too."""
        run, command = self.command(self.folder, program, arguments, history)
        run.path = self.folder / "run.mp"
        if recorded:
            command = [harness.MEMPROF, how, "--force", "-o", run.path, *options, "--", *command]
        variables.setdefault("SOFTGPU_STATE", self.folder / "state")
        result = subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT,
                                env=settings(**variables), cwd=self.folder)
        run.said, run.output, run.status = result.stderr, result.stdout, result.returncode
        run.told = run.said
        return self.ended(run, status)

    def execute_each(self, *programs, options=(), history=False, how="snapshot"):
        """execute() of several programs, each with its arguments and variables, as children of one process: PyTorch is
        imported once. A list of runs."""
        runs, rows = [], []
        for program, arguments, variables in programs:
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            run, (_, *words) = self.command(folder, program, arguments, history)
            runs.append(run)
            rows.append((words, {"SOFTGPU_STATE": folder / "state", **variables}))
        found = harness.record_each(self.folder, rows, *options, how=how, env=settings(),
                                    modules=("torch", "torch._dynamo"))  # as the first optimizer imports it
        for run, (run.path, run.status, run.output, run.said, run.told) in zip(runs, found):
            self.ended(run, 0)
        return runs

    @staticmethod
    def command(folder, program, arguments, history):
        """A run, and the command of its program."""
        run = Run()
        run.truth_path = folder / "truth.json"
        if "\n" in program:
            path = folder / "program.py"
            path.write_text(program)
        else:
            path = HERE / "programs" / f"{program}.py"
        return run, ["python3", HERE / "truth.py", run.truth_path, "history" if history else "-", path, *map(str, arguments)]

    def ended(self, run, status):
        self.assertEqual(run.status, status, run.said)
        run.truth = json.loads(run.truth_path.read_text())
        return run

    def assert_totals(self, run):
        """Counts and totals of every device, from PyTorch's own statistics."""
        tracks = run.tracks()
        for number, device in enumerate(run.truth["devices"]):
            stats = device["stats"]
            if not stats.get("allocation.all.allocated"):
                continue
            track = tracks[f"cuda:{number}/torch"]
            self.assertEqual(
                {key: track[key] for key in ("allocs", "peak_bytes", "reserved_peak_bytes", "ooms")},
                {"allocs": stats["allocation.all.allocated"], "peak_bytes": stats["allocated_bytes.all.peak"],
                 "reserved_peak_bytes": stats["reserved_bytes.all.peak"], "ooms": stats["num_ooms"]}, f"cuda:{number}")

    def assert_trace(self, run, device=0):
        """Compares each allocation with PyTorch's own history, which the program recorded completely."""
        entries = [entry for entry in run.truth["devices"][device]["trace"] if entry["action"] == "alloc"]
        blocks = run.blocks(f"cuda:{device}/torch")
        self.assertEqual(len(blocks), len(entries))
        for number, (block, entry) in enumerate(zip(blocks, entries)):
            self.assertEqual(block["address"], entry["addr"], number)
            self.assertGreaterEqual(block["bytes"], entry["size"], number)

    def assert_requests(self, run, device=0):
        """Compares each allocation's requested size and stream with what PyTorch reported to the shim in that run. Two
        runs differ: autograd's threads free while the main thread goes on."""
        entries = run.truth["devices"][device]["trace"]
        blocks = run.blocks(f"cuda:{device}/torch")
        self.assertEqual(len(blocks), len(entries))
        self.assertEqual([(block["address"], block["requested_bytes"], block["stream"]) for block in blocks],
                         [(entry["addr"], entry["size"], entry["stream"]) for entry in entries])

    def assert_end(self, run, device=0):
        """The segments at the end as PyTorch lists them, block by block."""
        path = self.folder / "exported.json"
        harness.memprof("export", run.path, "--force", "--format", "pytorch", "-o", path)
        def end(segments):
            return {segment["address"]: (segment["total_size"], segment["allocated_size"], segment["stream"],
                                         segment["segment_type"], segment["is_expandable"],
                                         [(block["address"], block["size"], block["requested_size"])
                                          for block in segment["blocks"] if block["state"] == "active_allocated"])
                    for segment in segments if segment["device"] == device}
        found = end(json.loads(path.read_text())["segments"])
        truth = end(run.truth["devices"][device]["segments"])
        # About the end itself, not about an earlier out-of-memory.
        frag = truth and harness.answer("frag", run.path, "--track", f"cuda:{device}/torch", "--from", "100%",
                                        status=(0, 4))
        if frag:
            self.assertEqual(frag["moment"], "end")
            self.assertEqual({int(segment["address"], 16): segment["bytes"] for segment in frag["segments"]},
                             {address: segment[0] for address, segment in truth.items()})
        self.assertEqual(found, truth)
