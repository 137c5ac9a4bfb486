#!/usr/bin/env python3
"""The recorder on real PyTorch, compared with an independent counter preloaded in the same run. The peak agrees to the
byte, as do the numbers of allocs and frees. At least 99 % of the bytes at the peak reach a line of the program's own
Python."""

import collections
import json
import os
import pickle
import re

import harness

PYTHON = harness.python_with_torch()
EXAMPLES = harness.SOURCE / "examples"


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Torch(harness.TestCase):
    def record(self, *command, order="recorder-first", options=()):
        """Records `command` with the counter preloaded after the recorder, or before it."""
        snapshot, counts = self.folder / "run.mp", self.folder / "counts.json"
        counter = str(harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so")
        environment = dict(os.environ, TORCH_COUNTER_OUT=str(counts), OMP_NUM_THREADS="1")
        if order == "recorder-first":
            environment["LD_PRELOAD"] = counter
        else:
            command = ("env", f"--unset=NOTHING", "sh", "-c", f'LD_PRELOAD="{counter}:$LD_PRELOAD" exec "$@"', "sh", *command)
        result = harness.memprof("snapshot", "--follow", "all", "-o", snapshot, *options, "--", *command, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return snapshot, json.loads(counts.read_text()), result

    def check_against(self, snapshot, counts):
        device = next(device for device in counts["devices"] if device["type"] == 0)
        track = self.track(snapshot, "cpu/torch")
        self.assertEqual(track["peak_bytes"], device["peak_bytes"])
        self.assertEqual(track["allocs"], device["allocs"])
        self.assertEqual(track["frees"], device["frees"])
        self.assertEqual(track["end_bytes"], device["live_bytes"])
        self.assertGreater(device["allocs"], 1000)

    def reaches(self, snapshot, file_name, function):
        peak = harness.answer("peak", snapshot)
        reached = sum(
            site["bytes"] for site in peak["sites"]
            if any(frame["language"] == "python" and (frame["file"] or "").endswith(file_name)
                   and (frame["function"] or "").endswith(function) and frame["line"] for frame in site["stack"]))
        self.assertEqual(sum(site["bytes"] for site in peak["sites"]), peak["peak_bytes"])
        return reached / peak["peak_bytes"]

    def test_training_equals_the_counter(self):
        for order in ("recorder-first", "counter-first"):
            with self.subTest(order=order):
                snapshot, counts, _ = self.record(PYTHON, EXAMPLES / "train.py", "--steps", "8", order=order,
                                                  options=("--force",))
                self.check_against(snapshot, counts)
                self.assertGreaterEqual(self.reaches(snapshot, "train.py", "main"), 0.99)
                coverage = harness.answer("info", snapshot)["coverage"]
                self.assertTrue(coverage["complete"], coverage)
                self.assertEqual(coverage["dropped"], 0)

    def test_stacks_of_one_kind(self):
        for stacks, language in (("python", {"python"}), ("native", {"native"}), ("none", set())):
            with self.subTest(stacks=stacks):
                snapshot, counts, _ = self.record(PYTHON, EXAMPLES / "train.py", "--steps", "3",
                                                  options=("--stacks", stacks, "--force"))
                self.check_against(snapshot, counts)
                sites = harness.answer("peak", snapshot)["sites"]
                languages = {frame["language"] for site in sites for frame in site["stack"]}
                self.assertEqual(languages, language | {"backward"} if language else set())

    def test_the_leak_is_on_top(self):
        snapshot, counts, result = self.record(PYTHON, EXAMPLES / "leak.py")
        self.check_against(snapshot, counts)
        step = harness.answer("peak", snapshot)["step"]  # None: what follows the last optimizer's step is of none
        self.assertIn(f"({f'step {step}' if step else 'after step 60'})", result.stderr)
        self.assertIn("Next: memprof report", result.stderr.splitlines()[-1])
        leaks = harness.answer("leaks", snapshot)
        self.assertEqual(leaks["verdict"], "leak")
        self.assertEqual(leaks["steps"], {"count": 60, "source": "torch"})
        source = (EXAMPLES / "leak.py").read_text().splitlines()
        self.assertEqual(leaks["outstanding"]["bytes"], 0)  # Python frees everything at its end
        calls = [number for number, line in enumerate(source, 1) if "validate(model, held_out)" in line]
        kept = [frame["line"] for frame in leaks["findings"][0]["stack"] if (frame["file"] or "").endswith("leak.py")
                and frame["function"] == "main"]
        self.assertEqual(kept, calls)
        first_row = harness.memprof("leaks", snapshot).stdout.split("\n\n")[1].splitlines()[1]
        self.assertIn("leak.py:", first_row)

    def test_totals_agree_also_when_everything_is_freed(self):
        script = self.folder / "empties.py"
        script.write_text("import torch\n"
                          "for _ in range(50):\n"
                          "    kept = [torch.empty(16) for _ in range(100)]\n"
                          "    kept.clear()\n")
        snapshot, counts, _ = self.record(PYTHON, script)
        self.check_against(snapshot, counts)
        coverage = harness.answer("info", snapshot)["coverage"]
        self.assertEqual(coverage["totals_wrong"], 0)
        self.assertGreater(coverage["totals_checked"], 9000)

    def test_no_two_rows_read_alike(self):
        """Operands of a multiplication: PyTorch copies them by the same functions, in a single call of Python, so their
        stacks are nearly equal."""
        start = "import os, torch\na, b = torch.randn(16, 64, 32), torch.randn(16, 32, 64)\nwide = lambda x: x.unsqueeze(1).expand(-1, 2, -1, -1)\n"
        programs = {
            "multiplied": "for step in range(4): out = wide(a) @ wide(b)\n",
            "kept": "kept = []\nfor step in range(12): kept.append(torch.matmul(wide(a), wide(b)))\nos._exit(0)\n",
            "of_module": "class M(torch.nn.Module):\n    def forward(self, a, b): return torch.matmul(wide(a), wide(b)), torch.matmul(wide(b), wide(a))\n"
                      "m = M()\nfor step in range(4): out = m(a, b)\n"}
        shared = 0
        for name, text in programs.items():
            program, snapshot, page = (self.folder / f"{name}{end}" for end in (".py", ".mp", ".html"))
            program.write_text(start + text)
            result = harness.memprof("snapshot", "-o", snapshot, "--", PYTHON, program)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = harness.memprof("report", snapshot, "-n", "0").stdout
            rows = re.findall(r"^ +[0-9]+\. .*? blocks? +[0-9.]+ %  (.*)$", report.partition("\n\nLEAKS")[0], re.MULTILINE)
            harness.memprof("report", snapshot, "-n", "0", "-o", page, "--format", "html")
            cells = re.findall(r'<td class="l">(.*?)</td></tr>', page.read_text().partition("<h2>LEAKS")[0])
            for told in (rows, cells):
                self.assertGreater(len(told), 2, report)
                self.assertEqual(len(told), len(set(told)), told)
            shared += len(rows) - len({re.sub(", [0-9]+(st|nd|rd|th) of .* such calls", "", row) for row in rows})
        self.assertGreater(shared, 0, "a program whose operands no function's name tells apart")

    def test_the_mended_leak_is_clean(self):
        snapshot, _, _ = self.record(PYTHON, EXAMPLES / "leak.py", "--fixed")
        self.assertEqual(harness.answer("leaks", snapshot)["verdict"], "clean")

    def test_threads_workers_and_fork(self):
        script = self.folder / "workers.py"
        script.write_text(WORKERS)
        snapshot, _, result = self.record(PYTHON, script)
        self.assertEqual(harness.answer("info", snapshot)["process"]["exit"], "exit 0")
        others = sorted(path for path in self.folder.glob("run.*.mp"))
        self.assertEqual(len(others), 2, result.stderr)
        for path in others:
            self.assertGreater(self.track(path, "cpu/torch")["allocs"], 0)

    def test_no_follow(self):
        script = self.folder / "workers.py"
        script.write_text(WORKERS)
        self.record(PYTHON, script, options=("--follow", "no"))
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.mp")), ["run.mp"])

    def test_marks_of_the_python_module(self):
        script = self.folder / "marks.py"
        script.write_text(MARKS)
        snapshot, _, _ = self.record(PYTHON, script)
        steps = harness.answer("steps", snapshot)
        self.assertEqual(len(steps["steps"]), 3)
        self.assertEqual(steps["source"], "api")
        regions = {region["name"]: region["count"] for region in steps["regions"]}
        self.assertEqual(regions, {"forward": 3, "backward": 3})
        stats = json.loads((self.folder / "stats.json").read_text())
        self.assertEqual(stats["live"], 4000 * 4)
        self.assertEqual(stats["peak_after_reset"] - stats["live_before"], 8000 * 4)

    def test_marks_in_a_snapshot_for_pytorch(self):
        """Every end has the name of its begin. Each step is written once, by the program's mark, not by the
        optimizer's."""
        script, exported = self.folder / "trained.py", self.folder / "run.pickle"
        for marks in ("mp.step()", "pass"):
            script.write_text(TRAINED.replace("MARKS", marks))
            snapshot, _, _ = self.record(PYTHON, script, options=("--force",))
            done = harness.memprof("export", snapshot, "-o", exported, "--format", "pytorch")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(exported, "rb") as file:
                annotations = pickle.load(file)["external_annotations"]
            counts = {stage: collections.Counter(each["name"] for each in annotations if each["stage"] == stage)
                      for stage in ("START", "END")}
            self.assertEqual(counts["START"], counts["END"])
            self.assertEqual([each["time_us"] for each in annotations],
                             sorted(each["time_us"] for each in annotations))
            wanted, found = harness.answer("steps", snapshot), harness.answer("steps", exported)
            self.assertEqual(len(wanted["steps"]), 400)
            self.assertEqual(*({region["name"]: region["count"] for region in each["regions"]}
                               for each in (wanted, found)))
            self.assertEqual(*([step["step"] for step in each["steps"]] for each in (wanted, found)))
            for ours, theirs in zip(wanted["steps"], found["steps"]):
                self.assertLess(abs(theirs["start_ns"] - ours["start_ns"]
                                    - found["steps"][0]["start_ns"] + wanted["steps"][0]["start_ns"]), 2000)

    def test_steps_of_the_profiler(self):
        script = self.folder / "profiled.py"
        script.write_text(PROFILED)
        snapshot, _, _ = self.record(PYTHON, script)
        steps = harness.answer("steps", snapshot)
        self.assertEqual(steps["source"], "torch")
        self.assertEqual([step["allocated_bytes"] for step in steps["steps"]], [1000 * 4] * 20)
        leaks = harness.answer("leaks", snapshot)
        self.assertEqual((leaks["verdict"], leaks["steps"]), ("leak", {"count": 20, "source": "torch"}))
        self.assertEqual(leaks["findings"][0]["bytes_per_step"], 1000 * 4)

    def test_a_step_of_an_optimizer_that_calls_another_of_its_own_is_one(self):
        for kind in ("Mine", "torch.optim.SGD", "torch.optim.Adagrad"):
            script = self.folder / "nested.py"
            script.write_text(NESTED.replace("KIND", kind))
            snapshot, _, _ = self.record(PYTHON, script, options=("--force",))
            self.assertEqual(harness.answer("leaks", snapshot)["steps"], {"count": 30, "source": "torch"}, kind)

    def test_start_and_stop(self):
        script = self.folder / "window.py"
        script.write_text(WINDOW)
        snapshot, _, _ = self.record(PYTHON, script, options=("--paused",))
        track = self.track(snapshot, "cpu/torch")
        # 3 blocks inside the window; earlier blocks are its base, later ones are not recorded
        self.assertEqual(track["allocs"], 3)
        self.assertEqual(track["base_bytes"], 10 * 1024 * 4)
        self.assertEqual(track["peak_bytes"], (10 * 1024 + 3 * 4096) * 4)

    def test_schedule(self):
        script = self.folder / "scheduled.py"
        script.write_text(SCHEDULED)
        # The program keeps 1000 floats before the first step and 256 in each of 20 steps. A step also has two temporary
        # blocks, one of them in a region. Lasting changes and steps between windows, and after the last one, are
        # recorded, too. At the end the interpreter frees everything.
        for schedule, steps, told_steps, regions, between in (
                ("wait=2,warmup=1,active=3,repeat=2,every=8", (3, 4, 5, 11, 12, 13), 12, (), 5),
                ("active=1,repeat=3,unit=^eval$", (), 20, (0, 5, 10), 2 * 6), ("wait=19,active=5", (19,), 1, (), 0)):
            with self.subTest(schedule):
                snapshot, _, result = self.record(PYTHON, script, options=("--force", "--schedule", schedule))
                self.assertIn("cpu/torch  in the whole run: peak", result.stderr)
                track = self.track(snapshot, "cpu/torch")
                self.assertEqual(track["allocs"], 3 * len(steps) + len(regions) + between)
                self.assertEqual(track["end_bytes"], 0)
                if steps:
                    found = harness.answer("steps", snapshot)["steps"]
                    self.assertEqual(len(found), told_steps)
                    inside = [step for step in found if step["allocated_bytes"] > 256 * 4]
                    self.assertEqual([step["allocated_bytes"] for step in inside],
                                     [4 * (256 + 1024 * (step + 1) + 77) for step in steps])
                    self.assertEqual([step["step"] for step in inside], [step + 1 for step in steps])
                first = (steps or regions)[0]
                # when the region begins, the step's other two blocks are live
                base = 1000 + 256 * first + (256 + 1024 * (first + 1) if regions else 0)
                self.assertEqual(track["base_bytes"], base * 4)
                last = (steps or regions)[-1]
                inside = 256 + 1024 * (last + 1) + 77
                self.assertEqual(track["peak_bytes"], (1000 + 256 * last + inside) * 4)
                coverage = harness.answer("info", snapshot)["coverage"]
                self.assertFalse(coverage["complete"])
                self.assertIn("scheduled", str(coverage["notes"]))
        for schedule, words in (("wait=20,active=1", "never came to an active step; 20 began"),
                                ("active=1,unit=nosuch", "never came to an active region; 0 began")):
            result = harness.memprof("snapshot", "--follow", "all", "--schedule", schedule, "-o", self.folder / "none.mp", "--", PYTHON,
                                     script)
            self.assertEqual(result.returncode, 0)
            self.assertIn(words, str(result.stderr))
            self.assertFalse((self.folder / "none.mp").exists())

    def test_a_leak_has_its_rate_whatever_was_scheduled(self):
        script = self.folder / "leaking.py"
        script.write_text(SCHEDULED.replace("range(20)", "range(200)").replace("1024 * (i + 1)", "4096"))
        for schedule in ("wait=2,active=2,repeat=0", "wait=7,active=1,repeat=0,every=10"):
            snapshot, _, _ = self.record(PYTHON, script, options=("--force", "--schedule", schedule))
            leaks = harness.answer("leaks", snapshot)
            self.assertEqual(leaks["verdict"], "leak", schedule)
            self.assertEqual([finding["bytes_per_step"] for finding in leaks["findings"]], [1024], schedule)
        snapshot, _, _ = self.record(PYTHON, script, options=("--force", "--schedule", "wait=5,active=3,repeat=1"))
        self.assertEqual(harness.answer("leaks", snapshot)["verdict"], "unknown")  # only three steps were recorded

    def test_a_cut_recording_is_not_called_clean(self):
        snapshot, _, _ = self.record(PYTHON, EXAMPLES / "train.py")
        self.assertEqual(harness.answer("leaks", snapshot)["verdict"], "clean")
        cut = self.folder / "cut.mp"
        cut.write_bytes(snapshot.read_bytes()[:-1000])
        leaks = harness.answer("leaks", cut, status=4)
        self.assertEqual(leaks["verdict"], "unknown")
        self.assertIn("in the part of the file that could be read", leaks["reason"])

    def test_exit_of_every_kind(self):
        for code, status, text in (("pass", 0, "exit 0"), ("raise SystemExit(7)", 7, "exit 7"),
                                   ("os._exit(3)", 3, "exit 3"), ("os.abort()", 134, "killed by SIGABRT"),
                                   ("os.kill(os.getpid(), 15)", 143, "killed by SIGTERM"),
                                   ("os.kill(os.getpid(), 9)", 137, "killed by SIGKILL"),
                                   ("import ctypes; ctypes.string_at(0)", 139, "killed by SIGSEGV")):
            with self.subTest(code=code):
                snapshot = self.folder / "end.mp"
                program = f"import os, torch\nx = torch.zeros(12345)\n{code}"
                result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", snapshot, "--", PYTHON, "-c", program)
                self.assertEqual(result.returncode, status, result.stderr)
                info = harness.answer("info", snapshot)
                self.assertEqual(info["process"]["exit"], text)
                self.assertEqual(self.track(snapshot, "cpu/torch")["peak_bytes"], 12345 * 4)

    def test_exec(self):
        snapshot = self.folder / "run.mp"
        program = (f"import os, torch\nx = torch.zeros(1000)\n"
                   f"os.execv({PYTHON!r}, [{PYTHON!r}, '-c', 'import torch; y = torch.zeros(3000)'])")
        result = harness.memprof("snapshot", "--follow", "all", "-o", snapshot, "--", PYTHON, "-c", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.track(snapshot, "cpu/torch")["peak_bytes"], 4000)
        self.assertEqual(harness.answer("info", snapshot)["process"]["exit"], "replaced by exec")
        others = list(self.folder.glob("run.*.2.mp")) + list(self.folder.glob("run.*.mp"))
        self.assertEqual(self.track(others[0], "cpu/torch")["peak_bytes"], 12000)

    def test_pages_and_traces(self):
        snapshot, _, _ = self.record(PYTHON, EXAMPLES / "train.py", "--steps", "3")
        self.assertEqual(harness.memprof("trace_plot", snapshot, "-o", self.folder / "trace.html").returncode, 0)
        self.assertIn("train.py", (self.folder / "trace.html").read_text())
        self.assertEqual(harness.memprof("chrome_trace", snapshot, "-o", self.folder / "trace.json").returncode, 0)
        trace = json.loads((self.folder / "trace.json").read_text())
        values = [value for event in trace["traceEvents"] if event["ph"] == "C" and "torch" in event["name"]
                  for value in event["args"].values()]
        self.assertEqual(max(values), self.track(snapshot, "cpu/torch")["peak_bytes"])
        steps = [event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]
        self.assertEqual(steps, ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"])
        self.assertEqual(harness.memprof("report", snapshot).returncode, 0)


WORKERS = """
import threading, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 32
    def __getitem__(self, index): return torch.full((64,), float(index))
def work():
    for _ in range(50): torch.randn(200, 200)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()  # before the fork: a worker would inherit the generator's lock as it is held
total = sum(batch.sum().item() for batch in DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
assert total == 64 * sum(range(32)), total
"""

MARKS = """
import json, os, torch, libmemprof as mp
assert mp.active()
for step in range(3):
    mp.step()
    with mp.region("forward"):
        x = torch.randn(1000)
    with mp.region("backward"):
        y = x * 2
del x, y
kept = torch.zeros(4000)
live = mp.stats().live_bytes
mp.reset_peak()
before = mp.stats().live_bytes
torch.zeros(8000)
folder = os.path.dirname(os.environ["TORCH_COUNTER_OUT"])
with open(os.path.join(folder, "stats.json"), "w") as out:
    json.dump({"live": live, "live_before": before, "peak_after_reset": mp.peak()}, out)
"""

TRAINED = """
import torch, libmemprof as mp
model = torch.nn.Linear(100, 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    MARKS
    with mp.region("forward"):
        with mp.region("inner"):
            loss = model(torch.randn(8, 100)).sum()
    loss.backward()
    optimizer.step()
"""

# Optimizer classes: the program's own; one that PyTorch wraps twice, as if two threads made the first instances; and a
# usual one.
NESTED = """
import torch


class Mine(torch.optim.Adam):
    def step(self, closure=None):
        return super().step(closure)


net = torch.nn.Linear(50, 50)
torch.optim.Adam(net.parameters())
torch.optim.SGD(net.parameters(), lr=0.01)
del torch.optim.SGD.step.hooked
optimizer = KIND(net.parameters(), lr=0.01)
for _ in range(30):
    optimizer.zero_grad()
    net(torch.randn(9, 50)).sum().backward()
    optimizer.step()
"""

PROFILED = """
import torch, libmemprof as mp
kept = []
for step in range(20):
    with mp.region(f"ProfilerStep#{step}"):
        kept.append(torch.zeros(1000))
"""

SCHEDULED = """
import torch
import libmemprof as mp

kept = [torch.zeros(1000)]
for i in range(20):
    mp.step()
    kept.append(torch.zeros(256))
    x = torch.zeros(1024 * (i + 1))
    with mp.region("train" if i % 5 else "eval"):
        y = torch.zeros(77)
        del y
    del x
"""

WINDOW = """
import torch, libmemprof as mp
before = [torch.zeros(1024) for _ in range(10)]
gone = [torch.zeros(999) for _ in range(5)]
del gone
mp.start()
inside = [torch.zeros(4096) for _ in range(3)]
mp.stop()
after = [torch.zeros(7777) for _ in range(4)]
"""

if __name__ == "__main__":
    harness.main()
