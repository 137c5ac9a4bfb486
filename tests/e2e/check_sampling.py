#!/usr/bin/env python3
"""Recordings of a sample (--sample). Their bytes equal those of a full recording, or computed ones, within the stated
error. The file contains nothing about blocks that were left out. Commands that need all blocks say so."""

import os
import select
import signal
import subprocess

import harness

PYTHON = harness.python_with_torch()
EXAMPLES = harness.SOURCE / "examples"
STAND_IN = harness.program("c10_stand_in.so")


class Sampling(harness.Churning):
    def record(self, name, *options, command, status=0):
        path = self.folder / name
        result = harness.memprof("snapshot", "-o", path, *options, "--", *command)
        self.assertEqual(result.returncode, status, result.stderr)
        return path, result.stderr

    def check_coverage(self, coverage):
        self.assertFalse(coverage["complete"])
        self.assertTrue(any(note.startswith("sampled, one in") for note in coverage["notes"]), coverage["notes"])
        for key in ("unknown_frees", "missed_frees", "totals_wrong", "dropped"):
            self.assertEqual(coverage[key], 0, key)

    def check_guest(self, path, blocks):
        """Checks with blocks of 100 bytes that are never freed. The peak is then at the end, and not a maximum over
        varying estimates."""
        peak = harness.answer("peak", path)
        self.assertLess(abs(peak["peak_bytes"] - 100 * blocks), 5 * peak["standard_error_bytes"])
        self.assertLess(peak["standard_error_bytes"], 100 * blocks / 4)
        self.assertEqual(harness.answer("leaks", path)["outstanding"]["bytes"], peak["peak_bytes"])
        self.check_coverage(peak["coverage"])
        return peak

    def test_blocks_that_stay(self):
        command = [harness.program("guest"), "plain", "100000"]
        path, told = self.record("plain.mp", "--sample", "10KiB", command=command)
        peak = self.check_guest(path, 100000)
        self.assertIn("a sample of the blocks", told)
        self.assertLess(peak["blocks"], 2000)
        self.assertEqual(peak["coverage"]["events"], peak["blocks"])
        site = peak["sites"][0]
        self.assertEqual((site["bytes"], site["standard_error_bytes"]),
                         (peak["peak_bytes"], peak["standard_error_bytes"]))
        self.assertIn(" ± ", harness.memprof("peak", path).stdout)
        self.assertIn(" ± ", harness.memprof("report", path).stdout)
        hidden = self.folder / "hidden.mp"
        self.assertEqual(harness.memprof("anonymize", path, "-o", hidden).returncode, 0)
        self.assertEqual(harness.answer("peak", hidden)["standard_error_bytes"], peak["standard_error_bytes"])

    def test_a_pattern_for_steps_is_hidden_and_the_sample_stays(self):
        command = [harness.program("guest"), "plain", "5000"]
        path, _ = self.record("steps.mp", "--sample", "10KiB", "--step-range", "^secret", command=command)
        hidden = self.folder / "hidden.mp"
        self.assertEqual(harness.memprof("anonymize", path, "-o", hidden).returncode, 0)
        self.assertNotIn(b"secret", hidden.read_bytes())
        self.assertEqual(harness.answer("peak", hidden)["standard_error_bytes"],
                         harness.answer("peak", path)["standard_error_bytes"])

    def test_one_byte_is_all(self):
        path, _ = self.record("all.mp", "--sample", "1", command=[harness.program("guest"), "plain", "1000"])
        peak = harness.answer("peak", path)
        self.assertEqual((peak["peak_bytes"], peak["blocks"], peak["standard_error_bytes"]), (100000, 1000, 0))

    def test_an_older_peak_has_no_known_error(self):
        path, _ = self.record("kept.mp", "--sample", "1KiB", "--max-events", "10",
                              command=[harness.program("guest"), "waves", "200"])
        peak = harness.answer("peak", path)
        self.assertIsNone(peak["standard_error_bytes"])
        self.assertIsNone(peak["sites"][0]["standard_error_bytes"])
        self.assertNotIn(" ± ", harness.memprof("peak", path).stdout)

    def test_children(self):
        self.record("run.mp", "--sample", "2KiB", command=[harness.program("guest"), "children", "6", "20000"])
        # the sample may leave out all ten blocks of the parent: then a child's file has the given name
        files = [file for file in self.folder.glob("run*.mp")
                 if harness.answer("info", file)["coverage"]["events"] > 100]
        self.assertEqual(len(files), 6)
        kept = [self.check_guest(file, 20000)["blocks"] for file in files]
        # Each process draws its own sample, of 950 blocks with a standard deviation of 31.
        self.assertGreater(max(kept) - min(kept), 5)

    def test_threads_and_frees(self):
        path, _ = self.record("churn.mp", "--sample", "1KiB",
                              command=[harness.program("churn"), self.folder / "counters", "4", "20000", "0"])
        info = harness.answer("info", path)
        self.check_coverage(info["coverage"])
        track = self.track(path, "cpu/app/churn")
        self.assertLess(track["allocs"], 4 * 20000)
        self.assertLess(track["frees"], track["allocs"])
        self.assertGreater(track["frees"], 0)

    def test_what_a_kill_left(self):
        path, self.counters = self.folder / "cut.mp", self.folder / "counters"
        memprof = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", path, "--sample", "1KiB", "--",
                                    harness.program("churn"), self.counters, "2", "-1", "20"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # One block in 16 is drawn.
        self.wait_for(lambda: path.exists() and self.handed_over()[0] > 1000)
        child = os.pidfd_open(harness.first_child(memprof.pid))
        memprof.kill()
        memprof.wait()
        signal.pidfd_send_signal(child, signal.SIGKILL)
        self.assertTrue(select.select([child], [], [], 60)[0])
        os.close(child)
        whole = self.folder / "whole.mp"
        result = harness.memprof("recover", path, "-o", whole)
        self.assertIn(result.returncode, (0, 4), result.stderr)
        peak = harness.answer("peak", whole, status=(0, 4))
        self.assertGreater(peak["standard_error_bytes"], 0)
        self.assertGreaterEqual(peak["sites"][0]["bytes"], 1024)
        for key in ("unknown_frees", "missed_frees", "totals_wrong"):
            self.assertEqual(peak["coverage"][key], 0, key)

    def test_totals_of_an_allocator_are_not_doubted(self):
        """The stand-in reports its device totals with the events. Its blocks are of 1 MiB."""
        for mean in ("20KiB", "4MiB"):
            path, _ = self.record(f"c10-{mean}.mp", "--sample", mean, "--capture", "torch",
                                  command=[harness.program("c10_program"), STAND_IN, "0", "0"])
            for command in ("info", "peak", "report", "leaks", "steps"):
                coverage = harness.answer(command, path)["coverage"]
                self.check_coverage(coverage)
                self.assertEqual(coverage["totals_checked"], 0)

    def test_what_needs_all_blocks_says_so(self):
        path, _ = self.record("some.mp", "--sample", "1KiB", command=[harness.program("guest"), "plain", "1000"])
        for command in (["frag", path], ["size", f"4={path}", f"8={path}"],
                        ["export", path, "--format", "pytorch", "-o", self.folder / "x.pickle"]):
            result = harness.memprof(*command)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("a sample of its blocks", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_wrong_means(self):
        for wrong in ("0", "-1", "many", "4GiB", ""):
            result = harness.memprof("snapshot", "--sample", wrong, "-o", self.folder / "no.mp", "--", "true")
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn("give an amount", result.stderr)

    @harness.unittest.skipUnless(PYTHON, "no Python here has torch")
    def test_training(self):
        command = [PYTHON, EXAMPLES / "train.py", "--steps", "8"]
        full, _ = self.record("full.mp", command=command)
        path, _ = self.record("sample.mp", "--sample", "64KiB", command=command)
        whole, peak = harness.answer("peak", full), harness.answer("peak", path)
        self.assertLess(abs(peak["peak_bytes"] - whole["peak_bytes"]), 5 * peak["standard_error_bytes"])
        self.assertLess(peak["standard_error_bytes"], whole["peak_bytes"] / 10)
        self.check_coverage(peak["coverage"])
        self.assertLess(peak["coverage"]["events"], whole["coverage"]["events"] / 2)
        self.assertEqual(harness.answer("info", path)["steps"], harness.answer("info", full)["steps"])
        sums = [sum(step["allocated_bytes"] for step in harness.answer("steps", file)["steps"]) for file in (full, path)]
        self.assertLess(abs(sums[1] - sums[0]), sums[0] / 10)


if __name__ == "__main__":
    harness.main()
