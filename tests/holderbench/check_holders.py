#!/usr/bin/env python3
"""Holders of labelled leaks are named correctly (bench.py), and a look leaves the program unchanged (walk_rules.py),
with the installed torch. Lines that fill containers are found in the code of each CPython (fill_lines.py)."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
HERE = harness.SOURCE / "tests" / "holderbench"


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Walk(harness.TestCase):
    def run_alone(self, program):
        result = subprocess.run([PYTHON, HERE / program], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr[-4000:])
        return result.stdout

    def test_the_labelled_leaks(self):
        said = self.run_alone("bench.py")
        found = re.search(r"^(\d+) of (\d+) right .*, 0 wrong and sure", said, re.M)
        self.assertTrue(found, said)
        self.assertGreater(int(found[2]), 60)
        self.assertGreaterEqual(int(found[1]), 0.97 * int(found[2]), said)

    def test_the_rules_of_the_walk(self):
        self.assertGreater(self.run_alone("walk_rules.py").count("ok test_"), 6)


class Lines(harness.TestCase):
    def test_of_each_python(self):
        found = harness.interpreters()
        self.assertTrue(found)
        for version, python in found.items():
            with self.subTest(python=python):
                result = subprocess.run([python, HERE / "fill_lines.py"], capture_output=True, text=True, cwd=self.folder)
                self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])
                self.assertIn("read by Python {}.{}".format(*version), result.stdout)


if __name__ == "__main__":
    harness.main()
