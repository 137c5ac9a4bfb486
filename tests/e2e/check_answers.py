#!/usr/bin/env python3
"""Answers about small programs as users write them: what is live at the peak for nothing, who holds, what failed."""

import harness

HALVING = """
import torch
count = 1 << 40
while True:
    try:
        torch.empty(count, 64)
        break
    except RuntimeError:
        count //= 2
"""


class Answers(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.python = harness.python_with_torch()
        if not self.python:
            self.skipTest("no Python with PyTorch")

    def record(self, program, *options):
        script, file = self.folder / "program.py", self.folder / "run.mp"
        script.write_text(program)
        result = harness.memprof("snapshot", "--quiet", "-o", file, *options, "--", self.python, script)
        self.assertEqual(result.returncode, 0, result.stderr)
        return file

    def test_requests_that_fail_one_after_the_other(self):
        """Each is counted; one that is larger than the machine's memory has its cause in that."""
        oom = harness.answer("frag", self.record(HALVING))["oom"]
        self.assertEqual(oom["cause"], "capacity")
        self.assertEqual(oom["most_requested_bytes"], 256 << 40)
        self.assertEqual(oom["most_requested_bytes"] >> oom["times"] - 1, oom["requested_bytes"])


if __name__ == "__main__":
    harness.main()
