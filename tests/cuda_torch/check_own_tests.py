#!/usr/bin/env python3
"""PyTorch's own tests about memory, from the test_cuda.py in $MEMPROF_TORCH_TESTS. Tests that pass on the stand-in GPU
also pass under memprof; after each, PyTorch and memprof count the same live bytes and blocks. No wheel has that file;
Debian's source of PyTorch 2.6 does, and it runs on 2.7: MEMPROF_TORCH=2.7.1. tools/test --long."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

TESTS = os.environ.get("MEMPROF_TORCH_TESTS")
NEEDS = ["psutil", "expecttest", "hypothesis", "numpy", "packaging", "pytest"]
ENDS_MOST = 20  # tests that may end their process


@unittest.skipUnless(harness.asserted.LONG and TESTS, "tools/test --long with MEMPROF_TORCH_TESTS=FOLDER")
class OwnTests(bed.TestCase):
    def outcomes(self, name, *before):
        """By test: its last line."""
        out = self.folder / name
        for _ in range(ENDS_MOST):
            done = subprocess.run([*before, "python3", bed.HERE / "programs" / "own_tests.py", out, TESTS],
                                  capture_output=True, text=True,
                                  env=dict(os.environ, PYTHONPATH=str(self.folder / "needs")))
            if not done.returncode:
                break
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return {row["name"]: row for row in map(json.loads, out.read_text().splitlines())}

    def test_they_pass_as_without(self):
        subprocess.run(["python3", "-m", "pip", "install", "--quiet", "--target", self.folder / "needs", *NEEDS], check=True)
        bare = self.outcomes("bare.jsonl")
        recorded = self.outcomes("recorded.jsonl", harness.MEMPROF, "snapshot", "--quiet", "--force", "-o",
                                 self.folder / "run.mp", "--")
        self.assertGreater(len(bare), 90)
        passed = {name for name, row in bare.items() if row.get("ended") == "passed"}
        self.assertGreater(len(passed), 55)
        self.assertLessEqual(passed, {name for name, row in recorded.items() if row.get("ended") == "passed"})
        for name, row in recorded.items():
            if row.get("ended") in ("passed", "failed") and row["recorded"]:
                self.assertEqual(row["recorded"], row["counted"], name)
        print(f"{len(bare)} tests, {len(passed)} pass with and without memprof")


if __name__ == "__main__":
    bed.main()
