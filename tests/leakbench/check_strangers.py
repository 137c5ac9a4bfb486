#!/usr/bin/env python3
"""Six programs in the style of other frameworks and fields (programs/strangers.py), recorded as the README says. The
test compares the number of steps, the verdict, the leaking line, and its kept bytes by the program's count. The words
must also fit a program without autograd."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "strangers.py"

SHORT_LOOP = """import torch, tables
kept = []

def read(number):
    kept.append(torch.ones(1000))
    return torch.ones(number)

def main():
    for number in range(1, 41):
        value = read(number)

main()
"""


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Strangers(harness.TestCase):
    def record(self, *arguments):
        recording = self.folder / f"run{len(list(self.folder.iterdir()))}.mp"
        said = harness.record_whole(recording, (PYTHON, PROGRAM, *arguments))
        return recording, json.loads(said.splitlines()[-1])

    def judge(self, what, *arguments):
        """What was recorded."""
        recording, truth = self.record(what, *arguments)
        leaks = harness.answer("leaks", recording)
        self.assertEqual(leaks["verdict"], truth["verdict"], leaks["findings"])
        self.assertEqual(leaks["steps"]["count"], truth["steps"])
        told = harness.memprof("report", recording).stdout
        self.assertNotIn("GROWING", told)
        if truth["verdict"] == "clean":
            self.assertIn("LEAKS  clean", told)
            self.assertEqual(leaks["findings"], [])
            return recording
        finding, = leaks["findings"]
        kept = finding["bytes_per_step"] * leaks["steps"]["count"]
        self.assertLess(abs(kept - truth["kept"]), truth["kept"] / 100)
        guilty = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                  if line.endswith(f"# LEAK {what}")}
        self.assertTrue(guilty & {frame["line"] for frame in finding["stack"] if frame["file"] == str(PROGRAM)}, finding)
        self.assertEqual(finding["class"], "retention")
        return recording

    def both(self, what):
        self.judge(what, "--mended")
        return self.judge(what)

    def assert_inference(self, recording):
        categories = {row["category"]: row["bytes"] for row in harness.answer("peak", recording)["categories"]}
        self.assertGreater(categories["kept over calls"], 0)
        self.assertFalse({"activations", "temporary", "gradients"} & categories.keys(), categories)

    def test_a_trainer_that_evaluates(self):
        self.both("hugging")

    def test_a_ring_that_fills_late(self):
        self.both("actor_critic")

    def test_a_bounded_cache(self):
        self.assert_inference(self.both("least_recently_used"))

    def test_coroutines(self):
        self.assert_inference(self.both("awaited"))

    def test_what_grows_for_a_while(self):
        self.judge("curriculum")

    def test_imports_that_allocate_more_than_the_loop(self):
        (self.folder / "tables.py").write_text("import torch\nfor size in range(1, 400):\n    torch.ones(size)\n")
        program = self.folder / "serve.py"
        program.write_text(SHORT_LOOP)
        recording = self.folder / "run.mp"
        harness.record_whole(recording, (PYTHON, program))
        leaks = harness.answer("leaks", recording)
        self.assertEqual((leaks["verdict"], leaks["steps"]["count"]), ("leak", 40), leaks)

    def test_no_network(self):
        self.both("heat")


if __name__ == "__main__":
    harness.main()
