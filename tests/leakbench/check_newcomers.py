#!/usr/bin/env python3
"""Seven programs of other kinds than those that memprof was made with (programs/newcomers.py): the line that leaks, and
what it keeps in all as the program counts it; clean where mended; what `compare`, `peak` and `size` say of them."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "newcomers.py"
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
ONE_THREAD = dict(os.environ, OMP_NUM_THREADS="1")
# In these what the leak makes larger grows, too.
SEVERAL = {"momentum_contrast", "adapters", "inner_loops"}
# The steps that are found of one of the program's: a beam search's are its tokens.
FOUND_OF_ONE = {"beams": 12}


def lines_of(what):
    lines = PROGRAM.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(f"# LEAK {what}")}


def own_lines(stack):
    return {frame["line"] for frame in stack if frame["file"] == str(PROGRAM)}


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Newcomers(harness.TestCase):
    def record(self, *arguments):
        recording = self.folder / f"run{len(list(self.folder.iterdir()))}.mp"
        said = harness.record_whole(recording, (PYTHON, PROGRAM, *arguments))
        return recording, json.loads(said.splitlines()[-1])

    def judge(self, what, *arguments):
        """The recording of the form that leaks, if one does."""
        recording, truth = self.record(what, *arguments)
        leaks = harness.answer("leaks", recording)
        self.assertEqual(leaks["verdict"], truth["verdict"], leaks["findings"])
        self.assertEqual(leaks["steps"]["count"], truth["steps"] * FOUND_OF_ONE.get(what, 1))
        if truth["verdict"] == "clean":
            self.assertEqual(leaks["findings"], [])
            return recording
        guilty = [finding for finding in leaks["findings"] if own_lines(finding["stack"]) & lines_of(what)]
        self.assertTrue(guilty, leaks["findings"])
        self.assertEqual({finding["class"] for finding in guilty}, {"retention"})
        if what not in SEVERAL:
            self.assertEqual(len(leaks["findings"]), 1, leaks["findings"])
        if truth["kept"]:
            kept = sum(finding["bytes_per_step"] for finding in guilty) * leaks["steps"]["count"]
            self.assertLess(abs(kept - truth["kept"]), truth["kept"] / 100)
        clean, _ = self.record(what, "--mended", *arguments)
        mended = harness.answer("leaks", clean)
        self.assertEqual((mended["verdict"], mended["findings"]), ("clean", []))
        growth = harness.answer("compare", clean, recording)["sites"][0]
        self.assertGreater(growth["delta_bytes"], 0)
        self.assertTrue(own_lines(growth["stack"]) & {line for finding in leaks["findings"]
                                                      for line in own_lines(finding["stack"])})
        return recording

    def test_keys_of_other_batches(self):
        self.judge("momentum_contrast")

    def test_lines_of_a_search_beside_the_network(self):
        """What is made between calls, outside of modules, and stays is kept over calls."""
        peak = harness.answer("peak", self.judge("beams"))
        found = {row["category"]: row["bytes"] for row in peak["categories"]}
        self.assertGreaterEqual(found["kept over calls"], 119 * 8 * 13 * 8)
        self.assertLess(found["kept over calls"], 122 * 8 * 13 * 8)

    def test_optimizers_of_past_tasks(self):
        self.judge("adapters")

    def test_folds(self):
        self.judge("folds")

    def test_trials_of_other_sizes(self):
        self.judge("trials")

    def test_requests_that_are_joined(self):
        self.judge("batching", "--steps", "900")

    def test_losses_with_graphs_of_graphs(self):
        self.judge("inner_loops")

    def test_sizes(self):
        for what in ("momentum_contrast", "adapters", "folds", "trials", "inner_loops"):
            with self.subTest(what=what):
                command = [PYTHON, PROGRAM, what, "--mended", "--steps", "30", "--batch"]
                said = harness.memprof("size", "--json", "--capacity", "1GiB", "--probe", "4,8,12", "--predict", "40",
                                       "--", *command, "{batch}", env=ONE_THREAD)
                answer = json.loads(said.stdout)
                counts = self.folder / "counts.json"
                subprocess.run([*command, "40"], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               env=dict(ONE_THREAD, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(counts)))
                need = next(need for need in answer["predictions"] if need["batch"] == 40)
                self.assertEqual(need["allocated_bytes"], json.loads(counts.read_text())["devices"][0]["peak_bytes"])


if __name__ == "__main__":
    harness.main()
