#!/usr/bin/env python3
"""Snapshots of running programs: requested by the program, by a signal, or taken when memory runs out. Each is a
complete file of its moment, and does not change the recording itself."""

import os
import signal
import subprocess
import time
import unittest

import harness

PYTHON = harness.python_with_torch()


class OfARunningProgram(harness.Churning):
    def start(self, *options, pause_us=1000, **more):
        """At this pace a busy collector has ten seconds before events are dropped."""
        super().start(*options, pause_us=pause_us, **more)
        self.wait_for(lambda: sum(self.handed_over()) > 100)

    def is_whole(self, path):
        return path.exists() and harness.memprof("info", path).returncode == 0

    def test_each_signal_gives_a_whole_file_of_its_moment(self):
        self.start("--at-signal", "USR1")
        seen = 0
        for name in ("run.now.mp", "run.now.2.mp", "run.now.3.mp"):
            self.wait_for(lambda: sum(self.handed_over()) > seen + self.threads)
            before = sum(self.handed_over())
            self.collector.send_signal(signal.SIGUSR1)
            path = self.folder / name
            self.wait_for(lambda: self.is_whole(path))
            after = sum(self.handed_over())
            track = self.track(path, self.track_id)
            count = track["allocs"] + track["frees"]
            # events published since the collector's last round may be missing
            self.assertGreater(count, seen)
            self.assertLessEqual(count, after + self.threads)
            self.assertGreaterEqual(count, min(before, seen))
            self.assertEqual(track["end_bytes"], 64 * (track["allocs"] - track["frees"]))
            exit_text = harness.answer("info", path)["process"]["exit"]
            self.assertEqual(exit_text, "still running when the snapshot was taken")
            seen = count
        said = self.end()
        self.assertIn("run.now.3.mp", said)
        allocs, frees = self.handed_over()
        track = self.track(self.file, self.track_id)
        self.assertGreaterEqual(track["allocs"] + track["frees"], allocs + frees)
        self.assertLessEqual(track["allocs"] + track["frees"], allocs + frees + self.threads)

    def test_the_writer_of_a_snapshot_is_killed(self):
        self.start("--at-signal", "SIGUSR2", pause_us=0)
        time.sleep(0.5)
        self.collector.send_signal(signal.SIGUSR2)
        children = lambda: open(f"/proc/{self.collector.pid}/task/{self.collector.pid}/children").read().split()
        written = (self.folder / "run.now.mp").exists  # the file may be incomplete: at this pace events may be dropped
        self.wait_for(lambda: len(children()) > 1 or written())
        killed = [pid for pid in map(int, children()) if pid != self.program]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        said = self.end()
        if killed and not written():
            self.assertIn("was killed", said)
        allocs, frees = self.handed_over()
        info = harness.answer("info", self.file, status=(0, 4))
        track = next(track for track in info["tracks"] if track["id"] == self.track_id)
        self.assertGreaterEqual(track["allocs"] + track["frees"] + info["coverage"]["dropped"], allocs + frees)

    def test_somebody_else_asks(self):
        self.start()
        for pid in (self.program, self.collector.pid):
            path = self.folder / f"asked.{pid}.mp"
            before = sum(self.handed_over())
            result = harness.memprof("snapshot", "--pid", pid, "-o", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            track = self.track(path, self.track_id)
            self.assertGreater(track["allocs"], 0)
            self.assertLessEqual(track["allocs"] + track["frees"], sum(self.handed_over()) + self.threads)
            self.assertEqual(track["end_bytes"], 64 * (track["allocs"] - track["frees"]))
            self.assertGreater(sum(self.handed_over()), before)  # it ran on meanwhile
            again = harness.memprof("snapshot", "--pid", pid, "-o", path)
            self.assertEqual(again.returncode, 1)
            self.assertIn("--force", again.stderr)
        chosen = harness.memprof("snapshot", "--pid", self.program, "--quiet", cwd=self.folder)
        self.assertEqual((chosen.returncode, chosen.stderr), (0, ""))
        self.assertTrue(self.is_whole(self.folder / f"snapshot.{self.program}.mp"))
        self.end()
        for pid in (1, os.getpid(), self.program, "x", ""):
            path = self.folder / "none.mp"
            self.assertIn(harness.memprof("snapshot", "--pid", pid, "-o", path).returncode, (1, 2))
            self.assertFalse(path.exists())
        self.assertEqual(list(self.folder.glob("none*")), [])

    def test_signals_that_mean_something_else_are_refused(self):
        for name in ("TERM", "KILL", "CHLD", "INT", "nonsense", ""):
            result = harness.memprof("snapshot", "--at-signal", name, "-o", self.folder / "x.mp", "--", "true")
            self.assertEqual(result.returncode, 2, name)
        self.assertEqual(harness.memprof("snapshot", "--on-oom", "x", "--", "true").returncode, 2)


ASKS = """
import os, sys
import torch
import libmemprof as mp

kept = [torch.zeros(1000 * (i + 1)) for i in range(50)]
os.chdir(sys.argv[1])
assert mp.snapshot()
assert mp.snapshot("given.mp")
assert not mp.snapshot("given.mp")      # is there already
assert not mp.snapshot("nosuch/x.mp")
assert not mp.snapshot("")
kept.append(torch.zeros(77))
del kept[0]
assert mp.snapshot(b"given.2.mp".decode())
"""

OUT_OF_MEMORY = """
import os
import torch

kept = [torch.zeros(1000) for i in range(50)]
for size in (1 << 46, 1 << 47):
    try:
        torch.zeros(size)
    except RuntimeError:
        pass
{}
"""

OUTSIDE = """
import torch
import libmemprof as mp

kept = [torch.zeros(1000)]
mp.step()
kept.append(torch.zeros(2000))
mp.step()
kept.append(torch.zeros(3000))
del kept[0]
assert mp.snapshot()
"""


@unittest.skipUnless(PYTHON, "no Python with PyTorch")
class OfPyTorch(harness.TestCase):
    def record(self, script, *arguments, options=(), status=0):
        path = self.folder / "script.py"
        path.write_text(script)
        result = harness.memprof("snapshot", "--force" if "--force" in options else "--quiet", "-o",
                                 self.folder / "run.mp", *options, "--", PYTHON, path, *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr

    def live(self, name):
        track = self.track(self.folder / name, "cpu/torch")
        return track["end_bytes"], track["allocs"] - track["frees"]

    def test_the_program_asks(self):
        other = self.folder / "elsewhere"
        other.mkdir()
        said = self.record(ASKS, other)
        whole = sum(4000 * (i + 1) for i in range(50))
        self.assertEqual(self.live("run.now.mp"), (whole, 50))
        self.assertEqual(self.live("elsewhere/given.mp"), (whole, 50))
        self.assertEqual(self.live("elsewhere/given.2.mp"), (whole + 77 * 4 - 4000, 50))
        self.assertEqual(self.live("run.mp")[0], 0)
        self.assertIn("given.mp is already there", said)
        self.assertIn("nosuch/x.mp", said)
        peak = harness.answer("peak", other / "given.mp")
        self.assertIn("script.py", str(peak["sites"][0]["stack"]))  # symbols and stacks are whole

    def test_memory_runs_out(self):
        for end in ("", "os._exit(0)"):  # also where nothing comes after it
            for path in self.folder.glob("*.mp"):
                path.unlink()
            said = self.record(OUT_OF_MEMORY.format(end))
            self.assertIn("OUT OF MEMORY on cpu/torch: asked for 256 TiB at script.py:8", said)
            self.assertIn("allocated 195 KiB in 50 blocks", said)
            self.assertIn("run.oom.mp", said)
            self.assertFalse((self.folder / "run.oom.2.mp").exists())  # once is enough
            self.assertEqual(self.live("run.oom.mp"), (50 * 4000, 50))
        (self.folder / "run.oom.mp").unlink()
        said = self.record(OUT_OF_MEMORY.format(""), options=("--on-oom", "none", "--force"))
        self.assertNotIn("OUT OF MEMORY", said)
        self.assertFalse((self.folder / "run.oom.mp").exists())

    def test_memory_runs_out_again(self):
        """The out-of-memory that ends the program is reported even if it follows soon after one that the program
        survived."""
        said = self.record(OUT_OF_MEMORY.format("more = torch.zeros(3000)\ntorch.zeros(1 << 48)"), status=1)
        self.assertEqual(said.count("OUT OF MEMORY"), 2, said)
        self.assertIn("asked for 1.00 PiB at script.py:12", said)
        # the program does not wait for the file, so its next block may be in it
        self.assertIn(self.live("run.oom.mp"), ((50 * 4000, 50), (50 * 4000 + 12000, 51)))
        self.assertTrue((self.folder / "run.oom.2.mp").exists())
        self.assertFalse((self.folder / "run.oom.3.mp").exists())

    def test_outside_of_a_schedule_what_is_live_is_there(self):
        self.record(OUTSIDE, options=("--schedule", "active=1,repeat=1"))
        self.assertEqual(self.live("run.now.mp")[0], 5000 * 4)
        self.assertEqual(len(harness.answer("steps", self.folder / "run.now.mp")["steps"]), 1)


class ClosingLines(harness.TestCase):
    """The last lines of `memprof snapshot`."""

    def said(self, name, *options):
        folder = self.folder / "it's here"
        folder.mkdir(exist_ok=True)
        result = harness.memprof("snapshot", "--force", "-o", name, *options, "--", harness.program("churn"), "counters", 1, 200, 0,
                                 cwd=folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder, result.stderr.splitlines()

    def test_three_lines(self):
        _, lines = self.said("run.mp")
        self.assertRegex(lines[0], r"^memprof: run\.mp  \d[\d ]* events in ")
        self.assertRegex(lines[1], r"^memprof: cpu/app/churn  peak ")
        self.assertEqual(lines[2:], ["memprof: complete; 0 dropped.   Next: memprof report run.mp"])
        self.assertRegex(self.said("run.mp", "--verbose")[1][2], r"^memprof: it took .* shared with the program and .* own: ")

    def test_what_comes_next_can_be_pasted(self):
        for name in ("of two words.mp", "it's.mp", "a;b&c.mp", "$HOME.mp", "plain-1_2.mp"):
            folder, lines = self.said(name)
            self.assertTrue((folder / name).exists(), name)
            command = lines[-1].partition("Next: ")[2]
            self.assertEqual("'" in command, name != "plain-1_2.mp", command)
            result = subprocess.run(["sh", "-c", command.replace("memprof", harness.MEMPROF, 1)], cwd=folder, capture_output=True,
                                    text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)


if __name__ == "__main__":
    harness.main()
