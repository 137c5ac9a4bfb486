#!/usr/bin/env python3
"""%c in a recording's name: each cycle of the schedule is a whole file of its own, which says of its steps what one file of
the same run says."""

import os
import pathlib
import signal
import sys
import time
import unittest

import harness

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "recordings")]
import check_recordings  # noqa: E402

PYTHON = harness.python_with_torch()
SCHEDULE = "wait=2,active=3,repeat=3,every=6"
CYCLES = ((3, 4, 5), (9, 10, 11), (15, 16, 17))  # the steps that are active, from 1
# 1000 floats are kept before the first step, 256 in each of 20; a step has two more blocks, one in a region.
PROGRAM = """
import os, sys, time, torch
import libmemprof as mp

kept = [torch.zeros(1000)]
for i in range(1, 21):
    mp.step()
    kept.append(torch.zeros(256))
    x = torch.zeros(1024 * i)
    with mp.region("train"):
        y = torch.zeros(77)
        del y
    {}
    del x
"""


@unittest.skipUnless(PYTHON, "no Python with PyTorch is here")
class Cycles(harness.TestCase):
    def record(self, name, then="pass", options=(), status=0):
        script = self.folder / "steps.py"
        script.write_text(PROGRAM.replace("{}", then))
        result = harness.memprof("snapshot", "-o", self.folder / name, "--schedule", SCHEDULE, *options, "--", PYTHON, script)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def files(self):
        return sorted(path.name for path in self.folder.glob("*.mp"))

    def steps(self, path):
        keys = ("step", "allocated_bytes", "freed_bytes", "peak_bytes", "end_bytes")
        return [{key: step[key] for key in keys} for step in harness.answer("steps", path)["steps"]]

    def functions(self, path):
        """Of the sites of the peak: bytes by the stack's lines."""
        sites = harness.answer("peak", path, "-n", "0")["sites"]
        return {tuple((frame["function"], frame["line"]) for frame in site["stack"]): site["bytes"] for site in sites}

    def check_cycle(self, path, steps):
        """By what the program does, and by a reader that is made from docs/FORMAT.md alone."""
        self.assertEqual([step["step"] for step in self.steps(path)], list(steps))
        track, last = self.track(path, "cpu/torch"), steps[-1]
        self.assertEqual(track["base_bytes"], 4 * (1000 + 256 * (steps[0] - 1)))
        self.assertEqual(track["peak_bytes"], 4 * (1000 + 256 * last + 1024 * last + 77))
        self.assertEqual((track["allocs"], track["frees"]), (9, 6))
        info = harness.answer("info", path)
        self.assertFalse(info["coverage"]["complete"])
        self.assertEqual(info["coverage"]["dropped"], 0)
        self.assertEqual(info["process"]["exit"], "still running when its cycle of the schedule ended")
        self.assertEqual(check_recordings.Reader(path).figures(), check_recordings.figures_of(info))
        self.assertIn(("<module>", 8), {frame for stack in self.functions(path) for frame in stack})

    def test_each_says_what_one_file_says(self):
        self.record("one.mp")
        for options in ((), ("--max-events", "100000")):
            result = self.record("run.%c.mp", options=("--force", *options))
            self.assertEqual(self.files(), ["one.mp", "run.0.mp", "run.1.mp", "run.2.mp"])
            whole = {step["step"]: step for step in self.steps(self.folder / "one.mp")}
            for number, steps in enumerate(CYCLES):
                path = self.folder / f"run.{number}.mp"
                self.assertIn(path.name, result.stderr)
                self.check_cycle(path, steps)
                self.assertEqual(self.steps(path), [whole[step] for step in steps])
        # The highest peak of the windows is that of the last one; its sites are those of the whole.
        self.assertEqual(self.functions(self.folder / "run.2.mp"), self.functions(self.folder / "one.mp"))

    def test_a_bound_holds_for_each(self):
        self.record("run.%c.mp", options=("--max-events", "5"))
        for number, steps in enumerate(CYCLES):
            info = harness.answer("info", self.folder / f"run.{number}.mp")
            self.assertGreater(info["coverage"]["folded_events"], 0)
            track, last = info["tracks"][0], steps[-1]
            self.assertEqual(track["peak_bytes"], 4 * (1000 + 256 * last + 1024 * last + 77))

    def test_a_program_killed_in_the_second(self):
        self.record("run.%c.mp", "if i == 10: os.kill(os.getpid(), 9)", status=128 + signal.SIGKILL)
        self.assertEqual(self.files(), ["run.0.mp", "run.1.mp"])
        self.check_cycle(self.folder / "run.0.mp", CYCLES[0])
        info = harness.answer("info", self.folder / "run.1.mp")
        self.assertEqual(info["process"]["exit"], "killed by SIGKILL")
        self.assertEqual([step["step"] for step in self.steps(self.folder / "run.1.mp")], [9, 10])

    def recover(self, path):
        """When the program has ended."""
        whole, deadline = self.folder / "whole.mp", time.monotonic() + 60
        while (result := harness.memprof("recover", path, "-o", whole)).returncode:
            self.assertLess(time.monotonic(), deadline, result.stderr)
            time.sleep(0.05)
        return {step["step"]: step["allocated_bytes"] for step in self.steps(whole)}

    def kill_collector(self, file):
        """In step 10, when the file of its cycle is there."""
        waits = f"while i == 10 and not os.path.exists({str(file)!r}): time.sleep(0.001)"
        self.record("run.%c.mp", waits + "\n    if i == 10: os.kill(os.getppid(), 9); time.sleep(0.1)", status=-signal.SIGKILL)

    def test_a_collector_killed_in_the_second(self):
        self.kill_collector(self.folder / "run.1.mp")
        # A file that is over is joined with nothing, though the spool is there.
        self.assertEqual(harness.memprof("recover", self.folder / "run.0.mp", "-o", self.folder / "copy.mp").returncode, 0)
        found = self.recover(self.folder / "run.1.mp")
        for name in ("run.0.mp", "copy.mp"):
            self.check_cycle(self.folder / name, CYCLES[0])
        self.assertEqual(self.files(), ["copy.mp", "run.0.mp", "run.1.mp", "whole.mp"])
        self.assertEqual(min(found), CYCLES[1][0])
        for step in (*CYCLES[1], *CYCLES[2]):
            self.assertEqual(found[step], 4 * (256 + 1024 * step + 77), step)

    def test_a_collector_killed_before_it_wrote(self):
        self.record("run.%c.mp", "if i == 2: os.kill(os.getppid(), 9); time.sleep(0.1)", status=-signal.SIGKILL)
        self.assertEqual(self.files(), [])
        found = self.recover(self.folder / "run.%c.mp")
        for step in (*CYCLES[0], *CYCLES[1], *CYCLES[2]):
            self.assertEqual(found[step], 4 * (256 + 1024 * step + 77), step)

    def test_nothing_is_overwritten(self):
        (self.folder / "run.1.mp").write_text("precious")
        self.record("run.%c.mp")
        self.assertEqual((self.folder / "run.1.mp").read_text(), "precious")
        files = self.files()
        self.assertEqual(len(files), 4)
        others = [name for name in files if name not in ("run.0.mp", "run.1.mp")]
        self.check_cycle(self.folder / others[0], CYCLES[1])
        self.check_cycle(self.folder / others[1], CYCLES[2])
        self.assertEqual([name.replace("run.1.", "run.2.") for name in others[:1]], others[1:])

    def test_of_several_processes_each_keeps_its_name(self):
        self.record("run.%c.mp", "if i == 1: child = os.fork()\n    if i == 20 and child: os.waitpid(child, 0)")
        files = self.files()
        self.assertEqual(len(files), 6)
        for number, steps in enumerate(CYCLES):
            for path in self.folder.glob(f"run.{number}.*mp"):
                self.assertEqual(harness.answer("info", path)["steps"]["count"], 3, path)
        pids = [{harness.answer("info", path)["process"]["pid"] for path in self.folder.glob(pattern)}
                for pattern in ("run.?.mp", "run.?.*.mp")]
        self.assertEqual([len(found) for found in pids], [1, 1])


class Killed(harness.TestCase):
    """The collector is killed at each of its writes, and what is left is recovered: every step of the schedule is in a whole
    file or in the recovered one, and no other."""

    FAULT_POINT = harness.BUILD / "tests/faults/fault_point.so"
    SCHEDULES = (("run.%c.mp", SCHEDULE, CYCLES), ("run.mp", SCHEDULE, CYCLES), ("run.mp", "wait=4,active=2,repeat=1", ((5, 6),)))

    def record(self, name, schedule, number, where):
        """The last file, where the collector came so far."""
        for path in self.folder.iterdir():
            path.unlink()
        environment = os.environ | {"MEMPROF_FAULT_POINT": f"main:{number}:{where}:{int(signal.SIGKILL)}",
                                    "LD_PRELOAD": str(self.FAULT_POINT)}
        result = harness.memprof("snapshot", "-o", self.folder / name, "--schedule", schedule, "--", harness.program("cycles"),
                                 env=environment)
        if result.returncode == 0:
            return None
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        return max(self.folder.glob("*.mp"), default=self.folder / name)

    def steps(self, last):
        """Of all files together; the last is recovered once its program has ended."""
        whole, deadline = self.folder / "whole.mp", time.monotonic() + harness.TIMEOUT
        while (result := harness.memprof("recover", last, "-o", whole)).returncode and "still running" in result.stderr:
            self.assertLess(time.monotonic(), deadline, result.stderr)
            time.sleep(0.01)
        self.assertEqual(result.returncode, 0, result.stderr)
        files = [path for path in self.folder.glob("*.mp") if path != last]
        return [step for path in files for step in harness.answer("steps", path, status=(0, 4))["steps"]]

    def test_at_each_write(self):
        for name, schedule, cycles in self.SCHEDULES:
            wanted = [step for cycle in cycles for step in cycle]
            number = 0
            while last := self.record(name, schedule, number := number + 1, "half" if number % 2 else "after"):
                with self.subTest(name=name, schedule=schedule, write=number):
                    found = {step["step"]: step["allocated_bytes"] for step in self.steps(last)}
                    self.assertEqual({step: found.get(step) for step in wanted},
                                     {step: 256 + 1024 * step + 77 for step in wanted})
                    self.assertLessEqual(set(found), set(range(1, 21)))
            self.assertGreater(number, 8)


if __name__ == "__main__":
    harness.main()
