#!/usr/bin/env python3
"""Leaks of real PyTorch programs: the guilty line is the first finding, the mended twins are clean, and so are training
programs that only look as if they leaked. MEMPROF_LEAK_STEPS sets how many steps those make (120)."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "leakbench" / "programs"
STEPS = os.environ.get("MEMPROF_LEAK_STEPS", "120")


def names(program):
    return re.findall(r"\w+", re.search(r"for f in \(([^)]*)\)", (PROGRAMS / program).read_text()).group(1))


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Programs(harness.TestCase):
    def leaks_of(self, program, *arguments):
        snapshot = self.folder / "run.mp"
        result = harness.memprof("snapshot", "--force", "-o", snapshot, "--", PYTHON, PROGRAMS / program, *arguments,
                                 env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return harness.answer("leaks", snapshot)

    def test_the_guilty_line_comes_first(self):
        source = (PROGRAMS / "classic.py").read_text().splitlines()
        for what in names("classic.py"):
            with self.subTest(what=what):
                leaks = self.leaks_of("classic.py", what)
                self.assertEqual(leaks["verdict"], "leak", leaks.get("steps"))
                guilty = {number for number, line in enumerate(source, 1) if line.endswith(f"# LEAK {what}")}
                lines = {frame["line"] for frame in leaks["findings"][0]["stack"]
                         if (frame["file"] or "").endswith("classic.py")}
                self.assertTrue(guilty & lines, (guilty, lines))

    def test_mended_twins_are_clean(self):
        for what in names("classic.py"):
            with self.subTest(what=what):
                leaks = self.leaks_of("classic.py", what, "--mended")
                self.assertEqual(leaks["verdict"], "clean", leaks["findings"])

    def test_clean_programs_are_clean(self):
        for what in names("clean.py"):
            with self.subTest(what=what):
                leaks = self.leaks_of("clean.py", what, "--steps", STEPS)
                self.assertEqual(leaks["verdict"], "clean", leaks["findings"])


if __name__ == "__main__":
    harness.main()
