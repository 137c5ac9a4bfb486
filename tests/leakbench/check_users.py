#!/usr/bin/env python3
"""Programs in the style of people who do not know memprof (programs/users.py). The test compares the steps with the
program's own, the verdict, and the first finding: it must be the leaking line, with the program's own rate. Mended
programs are clean."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "users.py"


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Users(harness.TestCase):
    def record(self, *arguments):
        recording = self.folder / "run.mp"
        said = harness.record_whole(recording, (PYTHON, PROGRAM, *arguments))
        return recording, json.loads(said.splitlines()[-1])

    def judge(self, what, *arguments):
        recording, truth = self.record(what, *arguments)
        leaks = harness.answer("leaks", recording)
        self.assertEqual((leaks["steps"]["count"], leaks["verdict"]), (truth["steps"], truth["verdict"]), leaks["findings"])
        told = harness.memprof("report", recording).stdout
        self.assertIn(f"LEAKS  {'1 site keeps' if leaks['findings'] else truth['verdict']}", told)
        self.assertEqual(len(leaks["findings"]), truth["verdict"] == "leak")
        if truth["verdict"] != "leak":
            return
        finding = leaks["findings"][0]
        if truth["kept"]:
            self.assertLess(abs(finding["bytes_per_step"] - truth["kept"]), truth["kept"] / 100)
        guilty = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                  if line.endswith(f"# LEAK {what}")}
        lines = {frame["line"] for frame in finding["stack"] if frame["file"] == str(PROGRAM)}
        cells = {(frame["file"], frame["line"]) for frame in finding["stack"] if "ipykernel" in (frame["file"] or "")}
        self.assertEqual(finding["class"], "retention")
        self.assertTrue(guilty & lines or cells == {("/tmp/ipykernel_4711/1001.py", 8)}, finding["stack"])

    def test_the_trainer_s_callback(self):
        self.judge("trainer")
        self.judge("trainer", "--mended")

    def test_a_request_s_results_are_no_certain_leak(self):
        """Memory alone does not distinguish a request's results from a server's leak. Both are a probable leak,
        wherever the model is, with a sentence for both readings; and `leaks --fail` fails."""
        for what in ("answers", "generation"):
            for place in ("local", "global", "attribute"):
                with self.subTest(what=what, model=place):
                    self.judge(what, "--model", place)
                    recording = self.folder / "run.mp"
                    finding, = harness.answer("leaks", recording)["findings"]
                    self.assertEqual(finding["confidence"], "probable")
                    done = harness.memprof("leaks", "--fail", recording)
                    self.assertEqual(done.returncode, 3, done.stderr)
                    self.assertIn("; or results of one request, which are freed when it ends", done.stdout)
                    self.assertEqual("anew, larger, in round after round" in done.stdout, what == "generation")  # keys and values
        self.judge("answers", "--mended")

    def test_nothing_is_left_out_beside_a_smaller_leak(self):
        for place in ("local", "global"):
            with self.subTest(model=place):
                recording, truth = self.record("answers", "--model", place, "--beside")
                findings = harness.answer("leaks", recording)["findings"]
                self.assertEqual([(finding["bytes_per_step"], finding["confidence"]) for finding in findings],
                                 [(truth["kept"], "probable"), (16, "certain")])

    def test_a_cache_is_no_cycle(self):
        self.judge("cleared_seldom")
        self.judge("cleared_seldom", "--mended")

    def test_a_cache_that_several_lines_replace(self):
        for mended, verdict in (((), "unknown"), (("--mended",), "clean")):
            recording, _ = self.record("one_cache", "--steps", "400", *mended)
            leaks = harness.answer("leaks", recording)
            self.assertEqual(leaks["verdict"], verdict, leaks)
            # The heap keeps what was freed, so the process may have grown, too.
            grew = re.search("memory grew until the end|the process grew by", str(leaks["reason"]))
            self.assertEqual(bool(grew), not mended, leaks["reason"])

    def test_cells(self):
        self.judge("notebook")
        self.judge("notebook", "--mended")

    def test_a_search_before_training(self):
        self.judge("search_and_train")


if __name__ == "__main__":
    harness.main()
