#!/usr/bin/env python3
"""A disk runs full: each event is in the file, in shared memory, or counted as dropped, and a message names the
cause."""

import os
import subprocess
import unittest

import harness


@unittest.skipUnless(os.geteuid() == 0, "only root can make a small file system")
class FullDisk(harness.Churning):
    def setUp(self):
        super().setUp()
        self.small = self.folder / "small"
        self.small.mkdir()
        # This is too small even for the 16 384 events of one full ring; a slow collector may get no more than these.
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", self.small], capture_output=True).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.small])

    def check(self, threads, *options):
        file, counters, whole = self.small / "run.mp", self.folder / "counters", self.folder / "whole.mp"
        self.counters = counters
        counters.unlink(missing_ok=True)
        result = harness.memprof("snapshot", "-o", file, "--force", *options, "--", harness.program("churn"), counters,
                                 threads, 400000 // threads, 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        total = sum(self.handed_over())
        self.assertIn("No space left on device", result.stderr)
        self.assertNotIn("complete", result.stderr)
        self.assertEqual(harness.memprof("recover", file, "-o", whole, "--force").returncode, 4)
        coverage = harness.answer("info", whole, status=4)["coverage"]
        self.assertEqual(coverage["events"] + coverage["dropped"], total)
        self.assertGreater(coverage["dropped"], 0)
        notes = " ".join(coverage["notes"])
        self.assertIn("No space left on device", notes)
        self.assertNotIn("killed collector", notes)
        file.unlink()

    def test_the_counts_add_up(self):
        for threads in (1, 4):
            for options in ((), ("--on-full", "drop")):
                with self.subTest(threads=threads, options=options):
                    self.check(threads, *options)

    def test_shared_memory_that_the_program_fills(self):
        """Neither program nor counts are harmed."""
        script = ('mount -t tmpfs -o size=64m none /dev/shm && unset XDG_RUNTIME_DIR && exec "$@"', "sh", harness.MEMPROF,
                  "snapshot", "-o", self.folder / "run.mp", "--force", "--", "sh", "-c",
                  '"$@" & until ls /dev/shm/*.spool || ! kill -0 $!; do sleep 0.01; done; dd if=/dev/zero of=/dev/shm/filler bs=64k; wait $!',
                  "sh", harness.program("churn"))
        self.counters = self.folder / "counters"
        for threads, each in ((1, 200000), (40, 5000)):
            with self.subTest(threads=threads):
                self.counters.unlink(missing_ok=True)
                words = ["unshare", "-m", "sh", "-c", *map(str, (*script, self.counters, threads, each, 0))]
                result = subprocess.run(words, capture_output=True, text=True, timeout=harness.TIMEOUT)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("No space left on device", result.stderr)  # dd
                coverage = harness.answer("info", self.folder / "run.mp", status=(0, 4))["coverage"]
                self.assertEqual(coverage["events"] + coverage["dropped"], sum(self.handed_over()))


if __name__ == "__main__":
    harness.main()
