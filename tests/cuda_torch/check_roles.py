#!/usr/bin/env python3
"""Likely categories of blocks without stacks, because PyTorch's history began late (programs/roles.py). Each category
is within 2 % of the peak by the program's own count, with Python stacks alone, and in the long form (tools/test --long)
with native ones. Bytes beyond the program's own count are libraries' workspaces. A held graph is named.
programs/roles_unseen.py has programs on which the rules were not made: as memprof records them, only older blocks are
guessed. The long form runs all of them."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

PROGRAMS = ("language", "language_by_tensor", "momentum", "plain", "adapted", "added_up",
            "evaluated_language", "evaluated_images", "held_in_training", "generated", "served")
UNSEEN = ("recurrent", "competing", "frozen", "corrected", "factored", "mixture", "variational", "found")
SHORT = ("frozen",)
# Not guessed: the owner of the state of an optimizer's step without lists, and the loss's blocks in an evaluation with
# a graph.
UNGUESSED = ("language_by_tensor", "evaluated_language", "evaluated_images")
HOLD = ("evaluated_language", "evaluated_images", "held_in_training")
BALLAST = 1 << 30
WITHIN = 0.02


class Roles(bed.TestCase):
    def run_program(self, program, name, stacks, *before):
        """The program's counts: of requested bytes, and of the allocator's blocks."""
        done = subprocess.run([*before, "python3", bed.HERE / "programs" / program, self.folder, name, stacks],
                              capture_output=True, text=True, timeout=harness.TIMEOUT,
                              env=bed.settings(SOFTGPU_STATE=self.folder / "state"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / f"{name}.json").read_text())

    def agree(self, peak, want):
        """Categories without the ballast, and bytes at the peak."""
        found = {row["category"]: row["bytes"] for row in peak["categories"]}
        whole = peak["peak_bytes"] - BALLAST
        largest = max((role for role in found if found[role] >= BALLAST), key=lambda role: role not in want)
        found[largest] -= BALLAST
        self.assertGreater(whole, 30 << 20)
        workspace = whole - sum(want.values())
        self.assertLess(abs(found.pop("workspace", 0) - workspace), WITHIN * whole, (found, want))
        for role in {*found, *want}:
            with self.subTest(role=role, found=found, want=want):
                self.assertLess(abs(found.get(role, 0) - want.get(role, 0)), WITHIN * whole)
        return found, whole

    def unseen(self, name):
        recording = self.folder / "run.mp"
        requested, blocks = self.run_program("roles_unseen.py", name, "python", harness.MEMPROF, "snapshot", "-o",
                                             recording, "--")
        self.agree(harness.answer("peak", recording), blocks)
        self.agree(harness.answer("peak", self.folder / f"{name}.pickle"), requested)

    def compare(self, name, stacks):
        want, _ = self.run_program("roles.py", name, stacks)
        snapshot = self.folder / f"{name}.pickle"
        peak = harness.answer("peak", snapshot)
        found, whole = self.agree(peak, want)
        guessed = {row["category"]: row["guessed_bytes"] for row in peak["categories"] if row["bytes"]}
        self.assertEqual(guessed["parameters"], found["parameters"])
        self.hold(name, peak, want, whole, harness.memprof("report", snapshot).stdout)

    def hold(self, name, peak, want, whole, text):
        told = name in HOLD and 50 * want["previous graph"] > peak["peak_bytes"]
        self.assertEqual("a previous graph" in text, told, text)
        if name not in HOLD:
            self.assertIsNone(peak["previous_graph"])
            return
        previous = peak["previous_graph"]
        self.assertLess(abs(previous["bytes"] - want["previous graph"]), WITHIN * whole)
        lines = [line["function"] for line in previous["freed_at"][0]["stack"] if (line["file"] or "").endswith("roles.py")]
        self.assertEqual(lines[0], name.replace("_language", "").replace("_images", ""))


for name_ in set(PROGRAMS) - set(UNGUESSED):
    for stacks_ in ("python", "all") if harness.asserted.LONG else ("python",):
        setattr(Roles, f"test_{name_}_{stacks_}", lambda self, name=name_, stacks=stacks_: self.compare(name, stacks))

for name_ in UNSEEN if harness.asserted.LONG else SHORT:
    setattr(Roles, f"test_unseen_{name_}", lambda self, name=name_: self.unseen(name))

if __name__ == "__main__":
    bed.main()
