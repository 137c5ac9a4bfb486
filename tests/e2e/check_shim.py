#!/usr/bin/env python3
"""The PyTorch shim. Programs compute the same as without it, and Python starts the same. Steps and regions are the
program's. $MEMPROF_TORCH_PYTHON names a Python with another PyTorch; torch.compile needs version 2 or newer."""

import os
import subprocess
import sys

import harness

PYTHON = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "e2e" / "programs" / "training.py"
EXAMPLES = harness.SOURCE / "examples"
# A memprof with sanitizers may run here under another memprof, whose library is loaded first.
SINGLE = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
              ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "verify_asan_link_order=0"))


class Shim(harness.TestCase):
    def recorded(self, *command, options=(), **variables):
        self.snapshot = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--quiet", "--force", "-o", self.snapshot, *options, "--", *command,
                               env=dict(SINGLE, **variables))
        # Remove memprof's own last lines, such as that nothing was allocated.
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("memprof: "))
        return done

    def plain(self, *command, **variables):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env=dict(SINGLE, **variables), timeout=harness.TIMEOUT)

    def script(self, text, name="program.py"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def same(self, *command, options=(), **variables):
        """Asserts that the program behaves and prints the same with and without memprof. Returns its output."""
        without, with_ = self.plain(*command, **variables), self.recorded(*command, options=options, **variables)
        self.assertEqual((with_.returncode, with_.stdout), (without.returncode, without.stdout), with_.stderr)
        self.assertEqual(with_.stderr, without.stderr)
        return without


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Programs(Shim):
    def test_results_are_bit_identical(self):
        # Without notes about files that workers did not leave.
        done = self.same(PYTHON, PROGRAMS, options=("--follow", "all"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len([line for line in done.stdout.splitlines() if " " in line]), 11)
        self.assertEqual(harness.answer("info", self.snapshot)["coverage"]["notes"], [])

    def test_data_parallel(self):
        answer = self.plain(PYTHON, "-c", "import torch.distributed as d; print(d.is_available() and d.is_gloo_available()"
                                          " if hasattr(d, 'is_gloo_available') else False)")
        if answer.stdout.strip() != "True":
            self.skipTest("no gloo")
        without, with_ = self.plain(PYTHON, PROGRAMS, "ddp"), self.recorded(PYTHON, PROGRAMS, "ddp")
        self.assertEqual(without.returncode, 0, without.stderr)
        self.assertEqual(with_.stdout, without.stdout)  # gloo may write times to stderr

    def test_compiled(self):
        if harness.torch_version(PYTHON) < (2, 0):
            self.skipTest("no torch.compile")
        without, with_ = self.plain(PYTHON, PROGRAMS, "compiled"), self.recorded(PYTHON, PROGRAMS, "compiled")
        self.assertEqual(without.returncode, 0, without.stderr)
        self.assertEqual(with_.stdout, without.stdout)  # on stderr both warn of record_function, with times

    def test_steps_are_those_of_the_optimizer(self):
        self.assertEqual(self.recorded(PYTHON, EXAMPLES / "train.py", "--steps", "5").returncode, 0)
        steps = harness.answer("steps", self.snapshot)
        self.assertEqual((steps["source"], len(steps["steps"])), ("torch", 5))
        # Each step ends after the optimizer's work, when the live bytes are the same from the first step on.
        self.assertEqual(len({step["end_bytes"] for step in steps["steps"]}), 1)
        ends = [step["end_ns"] for step in steps["steps"]]
        self.assertEqual([step["start_ns"] for step in steps["steps"]][1:], ends[:-1])
        info = harness.answer("info", self.snapshot)
        self.assertIn("shim", info["coverage"]["sources"])
        self.assertLess(ends[-1], info["process"]["duration_ns"])

    def test_steps_of_compiled_optimizers(self):
        if harness.torch_version(PYTHON) < (2, 0):
            self.skipTest("no torch.compile")
        done = self.recorded(PYTHON, self.script(COMPILED_STEPS))
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = harness.answer("steps", self.snapshot)
        self.assertEqual((steps["source"], len(steps["steps"])), ("torch", int(done.stdout)))
        notes = harness.answer("info", self.snapshot)["coverage"]["notes"]
        self.assertFalse([note for note in notes if "shim" in note])

    def test_without_cuda_there_is_no_history(self):
        """The history does not run, and prints nothing, if torch was built without CUDA."""
        program = self.script("import torch, libmemprof_torch as shim; torch.zeros(1000)\n"
                              "with torch.profiler.record_function('x'): pass\n"
                              "own, queued = shim.parts['history'], torch.cuda._queued_calls\n"
                              "print(hasattr(torch._C, '_cuda_memorySnapshot') or (own, len(queued)))\n")
        done = self.recorded(PYTHON, program)
        plain = self.plain(PYTHON, "-c", "import torch; print(len(torch.cuda._queued_calls))")
        if done.stdout.strip() == "True":
            self.skipTest("this torch has CUDA")
        self.assertEqual(done.stdout, f"(None, {plain.stdout.strip()})\n", done.stderr)
        self.assertEqual(harness.answer("info", self.snapshot)["coverage"]["notes"], [])

    def test_without_the_shim(self):
        self.assertEqual(self.recorded(PYTHON, EXAMPLES / "train.py", "--steps", "9", options=("--no-shim",)).returncode,
                         0)
        self.assertEqual(harness.answer("steps", self.snapshot)["source"], "inferred")
        info = harness.answer("info", self.snapshot)
        self.assertNotIn("shim", info["coverage"]["sources"])
        self.assertEqual(info["coverage"]["notes"], [])

    def test_a_python_that_ignores_its_environment(self):
        looked = 0
        for flag in ("-E", "-S"):
            program = "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import torch; x = torch.zeros(1000)"
            if self.plain(PYTHON, flag, "-c", program).returncode:
                continue  # torch is elsewhere
            self.assertEqual(self.recorded(PYTHON, flag, "-c", program).returncode, 0)
            coverage = harness.answer("info", self.snapshot)["coverage"]
            self.assertIn("PyTorch was not asked for modules", str(coverage["notes"]))
            self.assertNotIn("shim", coverage["sources"])
            looked += 1
        if not looked:
            self.skipTest("torch is found through the environment only")

    def test_which_steps_win(self):
        """The program's steps come first, then ProfilerStep, then the optimizer's. One optimizer of several counts,
        then its successor."""
        for begin, count, source in (("mp.step()", 6, "api"), ("prof.step()", 7, "torch"), ("pass", 6, "torch"),
                                     ("second.step()", 6, "torch")):
            program = self.script(STEPS.replace("BEGIN", begin).replace("PROFILED", str("prof" in begin)))
            self.assertEqual(self.recorded(PYTHON, program).returncode, 0)
            steps = harness.answer("steps", self.snapshot)
            self.assertEqual((len(steps["steps"]), steps["source"]), (count, source), begin)
            regions = {region["name"]: region["count"] for region in steps["regions"]}
            self.assertEqual(regions["mine"], 6)
            self.assertEqual(regions["decorated"], 6)
            self.assertEqual(regions["Optimizer.step#SGD.step"], 12 if "second" in begin else 6)
        program = self.script(SUCCESSOR)
        self.assertEqual(self.recorded(PYTHON, program).returncode, 0)
        self.assertEqual(len(harness.answer("steps", self.snapshot)["steps"]), 70)

    def test_a_schedule_counts_them(self):
        self.assertEqual(self.recorded(PYTHON, EXAMPLES / "train.py", "--steps", "9", "--width", "16",
                                       options=("--schedule", "wait=2,active=3,repeat=1")).returncode, 0)
        steps = harness.answer("steps", self.snapshot)
        full = [step for step in steps["steps"] if step["freed_bytes"] > 1000000]
        self.assertEqual((len(full), steps["source"]), (3, "torch"))

    def test_live_leaks_have_them(self):
        program = self.script(LEAKING)
        self.assertEqual(self.recorded(PYTHON, program).returncode, 0)
        leaks = harness.answer("leaks", self.snapshot)
        self.assertEqual((leaks["verdict"], leaks["steps"]["source"]), ("leak", "torch"))
        self.assertEqual([finding["bytes_per_step"] for finding in leaks["findings"]], [4000])
        running = harness.json.loads((self.folder / "live.json").read_text())
        self.assertEqual(running["verdict"], "leak")
        self.assertEqual((running["steps"]["source"], running["steps"]["count"] >= 30), ("torch", True))

    def test_signals_of_the_program_are_its_own(self):
        program = self.script(ALARMS)
        for _ in range(2):
            done = self.recorded(PYTHON, program)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            raised, seen = done.stdout.split()
            self.assertEqual(raised, seen)


class Start(Shim):
    """Works with any Python: torch is a folder with an empty __init__.py."""

    def setUp(self):
        super().setUp()
        self.show = self.script("import sys, os\n"
                                "print(sorted(name for name in sys.modules if 'custom' in name or 'memprof' in name))\n"
                                f"print([entry for entry in sys.path if entry != {str(harness.SOURCE / 'python')!r}])\n"
                                "print(len(sys.meta_path))\n"
                                "try:\n    import sitecustomize; print(sitecustomize.__file__, vars(sitecustomize).keys())\n"
                                "except ImportError as error: print(repr(error))\n")

    def test_nobody_has_one(self):
        self.same_but_finder(sys.executable, self.show)

    def same_but_finder(self, *command, **variables):
        """Asserts the same behaviour, except that sys.meta_path has one more finder."""
        without, with_ = self.plain(*command, **variables), self.recorded(*command, **variables)
        ours = [line if not line.isdigit() else str(int(line) - 1) for line in with_.stdout.splitlines()]
        self.assertEqual(ours, without.stdout.splitlines(), with_.stderr)
        self.assertEqual(with_.returncode, without.returncode)
        return with_, without

    def test_the_programs_own_runs(self):
        for text in ("value = 3\nprint('here', __name__, __file__)\n", "raise ImportError('mine')\n",
                     "import nosuchmodule\n", "1 / 0\n", "raise ImportError('none', name='sitecustomize')\n",
                     "import sys\nsys.exit(5)\n"):
            self.script(text, "own/sitecustomize.py")
            with_, without = self.same_but_finder(sys.executable, self.show, PYTHONPATH=str(self.folder / "own"))
            if "exit" not in text:  # then Python prints its frames
                self.assertEqual(with_.stderr, without.stderr, text)
        self.script("print('user')\n", "own/usercustomize.py")
        self.same_but_finder(sys.executable, self.show, PYTHONPATH=str(self.folder / "own"))

    def test_children_and_odd_imports(self):
        self.script("", "own/torch.py")
        program = self.script("import subprocess, sys, importlib, importlib.util\n"
                              "spec = importlib.util.find_spec('torch')\n"
                              "print(type(spec.loader).__name__, sorted(vars(spec.loader).keys() - {'exec_module'}))\n"
                              "import torch\n"
                              "print(torch.__spec__.loader is torch.__loader__, vars(torch.__loader__))\n"
                              "importlib.reload(torch)\n"
                              "print([kind for kind in map(type, sys.meta_path) if kind.__name__ != '_Finder'])\n"
                              "print('memprof' in sys.path[0])\n"
                              "if len(sys.argv) < 2: subprocess.run([sys.executable, __file__, 'child'], check=True)\n")
        done = self.same(sys.executable, program, PYTHONPATH=str(self.folder / "own"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_torch_that_fails(self):
        self.script("import nosuchmodule\n", "own/torch.py")
        program = self.script("for _ in range(2):\n"
                              "    try: import torch\n"
                              "    except ImportError as error: print(error)\n"
                              "import sys; print('torch' in sys.modules)\n"
                              "open(sys.argv[1], 'w').write('')\n"
                              "import importlib; importlib.invalidate_caches(); import torch\n")
        own = self.folder / "own" / "torch.py"
        self.assertEqual(self.plain(sys.executable, program, own, PYTHONPATH=str(own.parent)).returncode, 0)
        self.script("import nosuchmodule\n", "own/torch.py")
        done = self.recorded(sys.executable, program, own, PYTHONPATH=str(own.parent))
        self.assertEqual((done.returncode, done.stdout), (0, "No module named 'nosuchmodule'\n" * 2 + "False\n"),
                         done.stderr)

    def test_a_torch_that_is_none(self):
        """The module torch has none of the names that the shim needs: the program runs without messages."""
        for text in ("", "nn = autograd = None\n", "class nn:\n    Module = object()\n"):
            self.script(text, "own/torch.py")
            done = self.same(sys.executable, "-c", "import torch; print(torch.__name__)",
                             PYTHONPATH=str(self.folder / "own"))
            self.assertEqual(done.stdout, "torch\n")

    def test_memprof_in_memprof(self):
        done = self.recorded(harness.MEMPROF, "snapshot", "--quiet", "-o", self.folder / "in.mp", "--", sys.executable,
                             self.show)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[0], self.plain(sys.executable, self.show).stdout.splitlines()[0])


STEPS = """
import contextlib, torch, libmemprof as mp
from torch import nn
model = nn.Linear(4, 4)
first = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.SGD(model.parameters(), lr=0.1)
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                  schedule=torch.profiler.schedule(wait=100, warmup=0, active=1))
@torch.autograd.profiler.record_function("decorated")
def work(): return model(torch.ones(2, 4)).sum()
with profiler if PROFILED else contextlib.nullcontext() as prof:
    for step in range(6):
        with torch.profiler.record_function("mine"):
            loss = work()
        loss.backward()
        first.step()
        BEGIN
"""

SUCCESSOR = """
import torch
from torch import nn
model = nn.Linear(4, 4)
first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
for optimizer, steps in ((first, 10), (second, 60)):
    for step in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
"""

LEAKING = """
import os, subprocess, sys, torch
from torch import nn
model, kept = nn.Linear(4, 4), []
optimizer = torch.optim.Adam(model.parameters())
for step in range(40):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    kept.append(torch.zeros(1000))
    if step == 35:
        folder = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(folder, "live.json"), "w") as out:
            subprocess.run([MEMPROF, "leaks", "--json", "--pid", str(os.getpid())], stdout=out)
""".replace("MEMPROF", repr(harness.MEMPROF))

COMPILED_STEPS = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
def train(forward, step):
    optimizer.zero_grad()
    forward(torch.ones(4, 8)).sum().backward()
    step()
def within():
    optimizer.step()
steps = 0
for backend in ("eager", "aot_eager"):
    def compiled(function):
        return torch.compile(function, backend=backend)
    inner = compiled(within)
    ways = [(model, optimizer.step), (model, compiled(optimizer.step)), (model, compiled(within)),
            (compiled(model), optimizer.step), (compiled(model), compiled(lambda: inner()))]
    for forward, step in ways:
        for _ in range(3):
            train(forward, step)
            steps += 1
    whole = compiled(train)
    for _ in range(3):
        whole(model, optimizer.step)
        steps += 1
print(steps)
"""

ALARMS = """
import signal, torch
from torch import nn
class Alarm(Exception): pass
raised = seen = 0
def ring(number, frame):
    global raised
    raised += 1
    raise Alarm
signal.signal(signal.SIGALRM, ring)
model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(100)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for turn in range(60):
    torch.set_grad_enabled(True)  # an alarm in no_grad's own __exit__ leaves it off, with or without a recorder
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.0001 * turn)
        while raised == turn:  # one more is one that somebody has lost
            fresh = nn.Sequential(nn.Linear(4, 4))
            (model(torch.ones(2, 4)).sum() + fresh(torch.ones(2, 4)).sum()).backward()
            optimizer.step()
    except Alarm:
        seen += 1
print(raised, seen)
"""

if __name__ == "__main__":
    harness.main()
