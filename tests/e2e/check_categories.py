#!/usr/bin/env python3
"""What blocks at a peak are for, held against what the program itself counts by role: within 2 % of the peak for each
category, right before backward and in the midst of it, with what PyTorch says of its tensors and without (stacks and
lifetimes alone)."""

import json

import harness

PYTHON = harness.python_with_torch()
ORACLE = harness.SOURCE / "tests" / "e2e" / "programs" / "category_oracle.py"
OWNED = harness.SOURCE / "tests" / "e2e" / "programs" / "owned_by_modules.py"
NETWORKS = ("perceptron", "transformer", "residual", "recurrent", "competing", "checkpointed",
            "checkpointed without reentry", "adding gradients up", "half precision")
BALLAST = 96 << 20
WITHIN = 0.02


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Categories(harness.TestCase):
    def check(self, when, *options):
        recording, counts = self.folder / "run.mp", self.folder / "counts.json"
        done = harness.memprof("snapshot", "-o", recording, "--force", *options, "--", PYTHON, ORACLE, counts,
                                when)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i, want in enumerate(json.loads(counts.read_text(encoding="utf-8"))):
            step = f"step:{2 * i + 1}"
            peak = harness.answer("peak", recording, "--from", step, "--to", step)
            found = {row["category"]: row["bytes"] for row in peak["categories"]}
            temporary = found.pop("temporary") - BALLAST
            whole = peak["peak_bytes"] - BALLAST
            self.assertEqual(peak["phase"], "backward" if when == "inside" else None)
            if when == "before":
                want["temporary"], found["temporary"] = 0, temporary  # in backward, all that nobody counts
            self.assertGreater(whole, 4 << 20)
            for role in {*want, *found}:
                with self.subTest(NETWORKS[i], when=when, options=options, role=role, want=want, found=found):
                    self.assertLess(abs(found.get(role, 0) - want.get(role, 0)), WITHIN * whole)

    def test_as_recorded_by_default(self):
        self.check("before")
        self.check("inside")

    def test_by_stacks_and_lifetimes_alone(self):
        self.check("before", "--no-shim")
        self.check("inside", "--no-shim")


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Owned(harness.TestCase):
    """Parameters, gradients and optimizer state belong to modules: byte by byte what the program counts."""

    def check(self, name):
        recording, counts = self.folder / "run.mp", self.folder / "counts.json"
        done = harness.memprof("snapshot", "-o", recording, "--", PYTHON, OWNED, name, counts)
        self.assertEqual(done.returncode, 0, done.stderr)
        owned = json.loads(counts.read_text(encoding="utf-8"))
        for role, want in owned.items():
            found = harness.answer("peak", recording, "--group", "module", "-n", 0, "--filter", f"role={role}")["sites"]
            found = {row["group"]: row["bytes"] for row in found}
            self.assertEqual(found, want, role)

    def test_a_language_model(self):
        self.check("language")

    def test_a_convolution(self):
        self.check("images")

    def test_a_recurrent_network(self):
        self.check("recurrent")


if __name__ == "__main__":
    harness.main()
