#!/usr/bin/env python3
"""Advice on programs that were not written for this test, carried out by carry.py: the real saving is within 5 % of the
advised one."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness

CARRY = harness.SOURCE / "tests" / "advise" / "carry.py"
TEACHER = """
import contextlib, gc, sys, torch
from torch import nn
gc.disable()
def network(width):
    return nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(width, width), nn.LayerNorm(width), nn.Tanh())])
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.student = nn.Sequential(*network(256), nn.Linear(256, 32)), network(32)
        self.into = nn.Linear(32, 256)
    def forward(self, x):
        made = self.student(x)
        with torch.no_grad():
            wide = self.into(x)
        with torch.no_grad() if "no_grad" in sys.argv else contextlib.nullcontext():
            wanted = self.teacher(wide)
        return (made - wanted).square().mean()
class Cycle:
    def __init__(self):
        self.own, self.held = self, torch.zeros(1 << 18)
both = Both()
optimizer = torch.optim.SGD(both.student.parameters(), 0.1)
for step in range(6):
    Cycle()
    both(torch.randn(512, 32)).backward()
    optimizer.step()
    if "collect" in sys.argv:
        gc.collect()
    optimizer.zero_grad(set_to_none=True)
"""
# More gradients stay than the optimizer's steps free: the log says which ones a step uses.
PROBE = """
import contextlib, sys, torch
from torch import nn
class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.Tanh())])
        self.head = nn.Linear(256, 10)
    def forward(self, x):
        with torch.no_grad() if "no_grad" in sys.argv else contextlib.nullcontext():
            features = self.encoder(x)
        return self.head(features)
probe = Probe()
optimizer = torch.optim.SGD(probe.head.parameters(), 0.1)
for step in range(3):
    probe(torch.randn(512, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
"""
MADE = {"gradients_kept", "late_zero_grad", "one_by_one", "checkpoint"}


@harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
class Carried(harness.TestCase):
    def peak(self, *command):
        path = self.folder / "run.mp"
        harness.record_whole(path, (bench.PYTHON, *command), "--operators")
        return harness.answer("peak", path, "--track", "cpu/torch")["peak_bytes"], path

    def check(self, patterns, *command):
        """`patterns`: the advice's. The number of modules worth a checkpoint depends on their measured times."""
        before, path = self.peak(harness.SOURCE / command[0], *command[1:])
        found = [change for change in harness.answer("advise", path, "-n", "0")["changes"] if change["pattern"] in MADE]
        self.assertEqual({change["pattern"] for change in found}, patterns)
        for change in found:
            after, _ = self.peak(CARRY, json.dumps(change), harness.SOURCE / command[0], *command[1:])
            self.assertTrue(bench.is_within(change["saved_bytes"], before - after, 0.05), (change, before - after))

    def test_memprof_carries_them_out(self):
        """--try makes the changes itself: what it measured is what the estimate says, and what another counter says of
        the program with the change. Garbage in cycles is one row: a look found it, or only a run did."""
        program = self.folder / "program.py"
        program.write_text(TEACHER)
        counts = {}
        for fix in ("", "no_grad", "collect"):
            out = self.folder / "counts.json"
            subprocess.run([bench.PYTHON, program, fix], check=True, timeout=harness.TIMEOUT,
                           env=bench.environment(LD_PRELOAD=str(bench.COUNTER), TORCH_COUNTER_OUT=str(out)))
            counts[fix] = max(device["peak_bytes"] for device in json.loads(out.read_text())["devices"])
        result = harness.memprof("advise", "--try", "--json", "--", bench.PYTHON, program)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {change["pattern"]: change for change in json.loads(result.stdout)["changes"]}
        cycles, = {"garbage", "collect"} & rows.keys()
        for pattern, fix in (("gradients_idle", "no_grad"), (cycles, "collect")):
            real, row = counts[""] - counts[fix], rows[pattern]
            self.assertEqual(row["run"], "done")
            self.assertTrue(bench.is_within(row["measured_bytes"], real, 0.02), (row, real))
        idle = rows["gradients_idle"]
        self.assertTrue(bench.is_within(idle["saved_bytes"], idle["measured_bytes"], 0.05), idle)
        self.assertEqual(rows[cycles]["saved_bytes"] is None, cycles == "collect")
        for row in rows.values():
            if row["run"] == "done":
                self.assertGreater(row["measured_bytes"], 0, row)

    def test_an_encoder_that_no_optimizer_trains(self):
        program = self.folder / "program.py"
        program.write_text(PROBE)
        before, path = self.peak(program)
        change = harness.answer("advise", path)["changes"][0]
        after, _ = self.peak(program, "no_grad")
        self.assertEqual(change["pattern"], "gradients_idle")
        self.assertIn("encoder", change["text"])
        # In their first call, modules have no names yet.
        self.assertTrue(bench.is_within(change["saved_bytes"], before - after, 0.1), (change, before - after))

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
