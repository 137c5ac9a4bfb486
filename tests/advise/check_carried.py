#!/usr/bin/env python3
"""Advice on programs that were not written for this test, carried out by carry.py: the real saving is within 5 % of the
advised one."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness

CARRY = harness.SOURCE / "tests" / "advise" / "carry.py"
MADE = {"gradients_kept", "late_zero_grad", "one_by_one", "checkpoint"}


@harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
class Carried(harness.TestCase):
    def peak(self, *command):
        path = self.folder / "run.mp"
        harness.record_whole(path, (bench.PYTHON, *command))
        return harness.answer("peak", path, "--track", "cpu/torch")["peak_bytes"], path

    def check(self, patterns, *command):
        """`patterns`: the advice's. The number of modules worth a checkpoint depends on their measured times."""
        before, path = self.peak(harness.SOURCE / command[0], *command[1:])
        found = [change for change in harness.answer("advise", path, "-n", "0")["changes"] if change["pattern"] in MADE]
        self.assertEqual({change["pattern"] for change in found}, patterns)
        for change in found:
            after, _ = self.peak(CARRY, json.dumps(change), harness.SOURCE / command[0], *command[1:])
            self.assertTrue(bench.is_within(change["saved_bytes"], before - after, 0.05), (change, before - after))

    def test_a_loss_in_chunks(self):
        """Under autocast more may be saved, as it is unknown whether chunks cast the head's parameters again."""
        for name, within in (("large_vocabulary", 0.02), ("mixed_decoder", 0.08)):
            rows = {row[0]: row for row in bench.compare(self.folder, name, "", "--kind", "checkpoint")}
            change, said, real, _ = rows["chunked"]
            self.assertTrue(bench.is_within(said, real, within), (name, said, real))
            self.assertLessEqual(said, real)
        change, = (change for change in harness.answer("advise", self.folder / "run.mp")["changes"]
                   if change["pattern"] == "chunked_loss")
        self.assertIn("in loss_of_tokens)", change["code"])


PROGRAMS = {"example": ({"checkpoint"}, "examples/train.py"),
            "clean": ({"checkpoint"}, "tests/leakbench/programs/clean.py", "transformer"),
            "epochs": ({"gradients_kept"}, "tests/leakbench/programs/loops.py", "epochs"),
            "vit": ({"checkpoint"}, "tests/sizebench/models.py", "vit", "--batch", "8")}
for name_, command_ in PROGRAMS.items():
    setattr(Carried, f"test_{name_}", lambda self, command=command_: self.check(*command))

if __name__ == "__main__":
    harness.main()
