#!/usr/bin/env python3
"""Files that remain after the program, the collector or both were killed, and the result of `memprof recover`, in
selected cases. The matrix of all kills at all moments is tests/faults/check_matrix.py."""

import os
import signal
import subprocess
import sys
import time

import harness


class Kills(harness.Churning):
    def check_counts(self, path, in_flight, status=(0, 4)):
        allocs, frees = self.handed_over()
        info = harness.answer("info", path, status=status)
        track = next(track for track in info["tracks"] if track["id"] == self.track_id)
        dropped = info["coverage"]["dropped"]
        recorded = track["allocs"] + track["frees"]
        self.assertGreaterEqual(recorded + dropped, allocs + frees)
        self.assertLessEqual(recorded + dropped, allocs + frees + in_flight)
        return info, dropped

    def test_killed_before_the_first_write(self):
        early = 0
        for _ in range(20):
            self.start(pause_us=50)
            self.collector.kill()
            os.kill(self.program, signal.SIGKILL)
            self.collector.wait()
            self.wait_for(lambda: harness.is_gone(self.program), "the program did not outlive its collector in time")
            is_early = not self.file.exists() or not self.file.stat().st_size
            early += is_early
            for make_file in (False, True):  # killed before the file was made, and between that and its first byte
                if not is_early or (self.file.exists() and not make_file):
                    continue
                if make_file:
                    self.file.touch()
                self.assertIn("memprof recover", harness.memprof("report", self.file).stderr)
            whole = self.folder / "whole.mp"
            whole.unlink(missing_ok=True)
            result = harness.memprof("recover", self.file, "-o", whole)
            _, dropped = self.check_counts(whole, self.threads)
            self.assertEqual(result.returncode, 4 if dropped else 0, result.stderr)
            self.assertEqual("were dropped" in result.stderr, dropped > 0)
        if not early:
            self.skipTest("the collector was always faster than the kill")

    def test_recover_waits_for_the_program(self):
        self.start()
        self.collector.kill()
        self.collector.wait()
        result = harness.memprof("recover", self.file, "-o", self.folder / "whole.mp")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"process {self.program} is still running", result.stderr)
        said = harness.memprof("report", self.file).stderr
        self.assertIn(f"process {self.program} is still running", said)
        os.kill(self.program, signal.SIGKILL)
        self.wait_for(lambda: harness.is_gone(self.program), "the program did not outlive its collector in time")
        self.assertIn(f"memprof recover {self.file} -o", harness.memprof("report", self.file).stderr)
        result = harness.memprof("recover", self.file, "-o", self.folder / "whole.mp")
        self.assertIn(result.returncode, (0, 4), result.stderr)
        self.check_counts(self.folder / "whole.mp", self.threads)
        self.assertNotIn("memprof recover", harness.memprof("report", self.file).stderr)

    def test_a_schedule_goes_on_where_both_were_killed(self):
        kills = ("import libmemprof as mp, os, time\n"
                 "for i in range(600):\n"
                 "    mp.step()\n"
                 "    if i == {at} - 5 == 395: time.sleep(2.5)\n"  # by then the records that were read are released
                 "    if i == {at}: os.kill(os.getppid(), 9); time.sleep(0.1)\n"
                 "    if i % 50 == 49: time.sleep(0.03)\n"
                 "    if i == 570: os.kill(os.getpid(), 9)\n")
        for at in (100, 230, 250, 400, 541):  # before, between and in the windows, which are steps 240-259 and 540-559
            with self.subTest(at):
                script = self.folder / "steps.py"
                script.write_text(kills.replace("{at}", str(at)))
                file, whole = self.folder / f"run{at}.mp", self.folder / f"whole{at}.mp"
                result = harness.memprof("snapshot", "-o", file, "--schedule", "wait=240,active=20,every=300,repeat=0", "--quiet",
                                         "--", sys.executable, script)
                self.assertEqual(result.returncode, -signal.SIGKILL)
                deadline = time.monotonic() + 30
                while (result := harness.memprof("recover", file, "-o", whole, "--force")).returncode == 1:
                    self.assertLess(time.monotonic(), deadline, result.stderr)
                    time.sleep(0.05)
                # 40 steps in the windows, 280 between them, and one for the time after the last window
                self.assertEqual(harness.answer("info", whole)["steps"]["count"], 321, at)

    def test_a_killed_memprof_leaves_no_folder_for_ever(self):
        folder = self.folder / "run"
        folder.mkdir(mode=0o700)
        there = lambda: sorted(path.name for path in folder.glob("memprof-*"))
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder))
        killed = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", str(self.folder / "x.mp"), "--", "sleep", "600"],
                                  env=environment)
        sleeper = harness.first_child(killed.pid)  # memprof listens before it starts the program
        left = there()
        record = lambda: harness.memprof("snapshot", "-o", self.folder / "y.mp", "--", "true", env=environment)
        old = time.time() - 3600
        os.utime(folder / left[0], (old, old))
        record()
        self.assertEqual(there(), left)  # somebody listens
        killed.kill()
        killed.wait()
        os.kill(sleeper, signal.SIGKILL)
        self.wait_for(lambda: harness.is_gone(sleeper))
        (folder / "memprof-abcdef").mkdir(mode=0o700)
        (folder / "memprof-abcdef" / "precious").touch()
        os.utime(folder / "memprof-abcdef", (old, old))
        (folder / "memprof-ghijkl").mkdir(mode=0o700)
        record()
        # The first is not empty; somebody may soon listen in the second.
        self.assertEqual(there(), ["memprof-abcdef", "memprof-ghijkl"])


if __name__ == "__main__":
    harness.main()
