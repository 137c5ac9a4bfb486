#!/usr/bin/env python3
"""`snapshot --unwind libunwind`: libunwind and memprof's own rules see the same frames of each block of a training. The
program's own libunwind is left alone. Each method checks the other."""

import csv
import os
import subprocess
import sys
import unittest

import harness

csv.field_size_limit(1 << 30)
TRAIN = """
import os, threading, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
optimizer = torch.optim.Adam(model.parameters())
kept = []
def train():
    for i in range(int(os.environ.get("ROUNDS", 40))):
        loss = model(torch.randn(4 + i % 3, 16)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 9 == 0:
            kept.append(loss.detach().clone())
thread = threading.Thread(target=train)
thread.start()
thread.join()
begun = time.thread_time()
train()
print(time.thread_time() - begun)
"""


class Unwind(harness.TestCase):
    def record(self, how):
        script, path = self.folder / "train.py", self.folder / f"{how}.mp"
        script.write_text(TRAIN)
        done = harness.memprof("snapshot", "--force", "--quiet", "--unwind", how, "-o", path, "--",
                               harness.python_with_torch(), script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path, float(done.stdout)

    def blocks(self, how):
        """(bytes, stack) of each block, in order of allocation."""
        table = self.folder / f"{how}.csv"
        harness.memprof("export", self.record(how)[0], "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["alloc_ns"]]
        return [(row["bytes"], row["stack"]) for row in sorted(rows, key=lambda row: int(row["alloc_ns"]))]

    def test_both_see_the_same_frames(self):
        own, theirs = self.blocks("own"), self.blocks("libunwind")
        self.assertGreater(len(own), 1000)
        self.assertEqual(len(own), len(theirs))
        for one, other in zip(own, theirs):
            self.assertEqual(one, other)
        self.assertTrue(all(";" in stack for _, stack in own))

    def test_the_library_is_there_only_if_it_is_wanted(self):
        for how in "own", "libunwind":
            done = harness.memprof("snapshot", "--unwind", how, "--", "cat", "/proc/self/maps", cwd=self.folder)
            self.assertEqual("libunwind.so" in done.stdout, how == "libunwind")

    def test_other_words_are_refused(self):
        done = harness.memprof("snapshot", "--unwind", "soon", "--", "true", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (2, "memprof: --unwind soon: give own or libunwind\n"))

    @unittest.skipUnless(os.environ.get("MEMPROF_TEST_LONG"), "it measures: a script for MEASURED, in tools/test --long")
    def test_cost(self):
        os.environ["ROUNDS"] = "1000"
        for _ in range(3):
            print(*[f"{how} {self.record(how)[1]:.2f} s" for how in ("own", "libunwind")], file=sys.stderr)


if __name__ == "__main__":
    said = subprocess.run([harness.MEMPROF, "snapshot", "--unwind", "libunwind", "--", "true"], capture_output=True, text=True,
                          cwd="/").stderr
    if harness.SANITIZED or "--unwind libunwind" in said:
        Unwind = unittest.skip(said.strip() or "a sanitized memprof")(Unwind)
    harness.main()
