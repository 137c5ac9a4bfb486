#!/usr/bin/env python3
"""Four further kinds of programs (programs/guests.py), leaking and mended. The test compares the number of steps, the
verdict, the leaking lines, and their kept bytes by the program's own count."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "guests.py"
# Additional steps: an inner optimizer's first round counts until the outer optimizer returns, and a translator works
# after its last step.
MORE_STEPS = {"few_shots": 25, "translator": 1}
# Tolerances for kept bytes: episodes have random lengths, and threads run ahead of each other.
WITHIN = {"reinforce": 0.02, "staged": 0.04, "few_shots": 0.04}
PLACES = {"reinforce": 2}


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Guests(harness.TestCase):
    def record(self, *arguments):
        """By program: its recording and its output."""
        folder = self.folder / ("-".join(arguments) or "as they are")
        folder.mkdir()
        said = harness.record_whole(folder / "%p.mp", (PYTHON, PROGRAM, *arguments))
        told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        self.assertEqual(len(told), 4)
        return {truth["what"]: (folder / f"{truth['pid']}.mp", truth) for truth in told}

    def leaks_of(self, recording, truth):
        leaks = harness.answer("leaks", recording)
        told = range(truth["steps"], truth["steps"] + MORE_STEPS.get(truth["what"], 0) + 1)
        self.assertIn(leaks["steps"]["count"], told)
        return leaks

    def judge(self, what, recording, truth):
        leaks = self.leaks_of(recording, truth)
        self.assertEqual(leaks["verdict"], "leak", leaks)
        # No block explains the memory of graphs' nodes.
        findings = [finding for finding in leaks["findings"] if finding["class"] != "hidden"]
        self.assertEqual([finding["class"] for finding in findings], ["retention"] * PLACES.get(what, 1), findings)
        guilty = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                  if line.endswith(f"# LEAK {what}")}
        for finding in findings:
            self.assertTrue(guilty & {frame["line"] for frame in finding["stack"] if frame["file"] == str(PROGRAM)})
        if truth["kept"] is not None:
            kept = sum(finding["bytes_per_step"] for finding in findings) * leaks["steps"]["count"]
            self.assertLess(abs(kept - truth["kept"]), truth["kept"] * WITHIN.get(what, 0.01))

    def test_leaks(self):
        for what, (recording, truth) in self.record().items():
            with self.subTest(what=what):
                self.judge(what, recording, truth)

    def test_mended(self):
        for what, (recording, truth) in self.record("--mended").items():
            with self.subTest(what=what):
                leaks = self.leaks_of(recording, truth)
                self.assertEqual((leaks["verdict"], leaks["findings"]), ("clean", []))


if __name__ == "__main__":
    harness.main()
