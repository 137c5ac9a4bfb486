#!/usr/bin/env python3
"""Random hostile programs print the same with memprof as without, and each event is recorded or counted as dropped.

A fourth of them run with a full disk, and a fourth with a collector that is stopped now and then.
MEMPROF_RANDOM_PROGRAMS is the number of programs (2 000 in the long form); MEMPROF_RANDOM_FIRST is the first seed.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

PROGRAM = harness.BUILD / "tests/faults/random_hostile"
FIRST = int(os.environ.get("MEMPROF_RANDOM_FIRST", "1"))
PROGRAMS = int(os.environ.get("MEMPROF_RANDOM_PROGRAMS", "40"))


def stop_now_and_then(process, seed):
    """Stops the process for up to 0.3 s each time, less than a program waits for an answer when it attaches."""
    chance = random.Random(seed)
    while process.poll() is None:
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGSTOP)
        time.sleep(chance.choice((0, 0.001, 0.02, 0.3)))
        process.send_signal(signal.SIGCONT)


class Random(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.small = self.folder / "small"
        self.small.mkdir()

    def fill_disk(self, seed):
        """Mounts a disk with little or no room; False if that is not possible here."""
        size = (4, 16, 40, 100)[seed // 4 % 4]
        made = os.geteuid() == 0 and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", self.small], capture_output=True).returncode
        if made:
            self.addCleanup(subprocess.run, ["umount", "-l", self.small], capture_output=True)
        return made

    def recorded(self, files):
        """Recorded and dropped events of all files."""
        coverages = [harness.answer("info", file, status=(0, 4))["coverage"] for file in files]
        return sum(coverage["events"] + coverage["dropped"] for coverage in coverages)

    def recovered(self, folder):
        """The same number, with the events that are still in shared memory."""
        files = []
        for file in sorted(folder.glob("*.mp")):
            whole = self.folder / f"whole-{file.name}"
            result = harness.memprof("recover", file, "-o", whole, "--force")
            files.append(whole if whole.exists() else file)
            self.assertIn(result.returncode, (0, 2, 4), result.stderr)
        total = self.recorded(files)
        for file in self.folder.glob("whole-*"):
            file.unlink()
        return total

    def run_stopped(self, arguments, seed):
        running = subprocess.Popen([harness.MEMPROF, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        stopper = threading.Thread(target=stop_now_and_then, args=(running, seed))
        stopper.start()
        out, said = running.communicate(timeout=harness.TIMEOUT)
        stopper.join()
        return subprocess.CompletedProcess(arguments, running.returncode, out, said)

    def try_one(self, seed):
        way = ("plain", "full", "stopped", "plain")[seed % 4]
        scale = 40 if seed % 8 == 2 else 1  # more than the rings hold
        command = [PROGRAM, str(seed), str(scale)]
        alone = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        full = way == "full" and self.fill_disk(seed)
        run = (self.small if full else self.folder) / f"{seed}"
        options = ("--on-full", "drop") if seed % 3 == 0 else ()
        arguments = ("snapshot", "--quiet", "--follow", "all", *options, "-o", f"{run}/", "--", *command)
        result = self.run_stopped(arguments, seed) if way == "stopped" else harness.memprof(*arguments)
        self.assertEqual((result.returncode, result.stdout), (alone.returncode, alone.stdout))
        own = int(alone.stdout.split()[-1])
        found = self.recovered(run) if full else self.recorded(sorted(run.glob("*.mp")))
        self.assertEqual(found, own, (way, result.stderr))
        if full:
            subprocess.run(["umount", "-l", self.small], check=True)

    def test_programs(self):
        for seed in range(FIRST, FIRST + PROGRAMS):
            with self.subTest(seed=seed):
                self.try_one(seed)


if __name__ == "__main__":
    harness.main()
