#!/usr/bin/env python3
"""`memprof advise` on lifetimes, checked by doing it: trainings on the CPU, each change really made, measured by a counter
that is not memprof's; what a change saves is told from a recording of the unchanged program alone.

    check_lifetimes.py [--all] [NAME...]       as a test: some of them; --all prints a table of all, with a sum
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True
import harness

PYTHON = harness.python_with_torch()
PROGRAMS = harness.SOURCE / "tests" / "advise" / "programs.py"
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
HABITS = ("late", "zeroed", "held", "foreach", "late,held,foreach", "zeroed,validates", "late,validates")
NAMES = ("mlp", "wide", "deep", "cnn", "autoencoder", "residual", "mixture", "recommender", "variational", "siamese",
         "attention", "transformer", "lstm", "gru", "large_vocabulary", "accumulating", "accumulating_language", "mixed",
         "clipped", "momentum", "scheduled")
MADE = {"late_zero_grad": "zero_grad", "gradients_kept": "zero_grad", "held_variables": "del", "one_by_one": "one_by_one",
        "fused": "fused"}
WITHIN = 0.02


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


def measure(folder, name, habits, changes=""):
    """The peak by the counter."""
    out = folder / "counts.json"
    subprocess.run([PYTHON, PROGRAMS, name, habits, changes], check=True, timeout=harness.TIMEOUT, cwd=folder,
                   env=environment(LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(out)))
    return max(device["peak_bytes"] for device in json.loads(out.read_text())["devices"])


def advise(folder, name, habits):
    path = folder / "run.mp"
    result = subprocess.run([harness.MEMPROF, "snapshot", "--force", "--quiet", "-o", path, "--", PYTHON, PROGRAMS, name,
                             habits], capture_output=True, text=True, timeout=harness.TIMEOUT, cwd=folder,
                            env=environment())
    assert not result.returncode, result.stderr
    return harness.answer("advise", path)


def compare(folder, name, habits):
    """For each change that is advised: its pattern, what it is said to save, and what it saves."""
    before = measure(folder, name, habits)
    found = advise(folder, name, habits)
    assert found["peak_bytes"] == before, (name, habits, found["peak_bytes"], before)
    rows = []
    for change in found["changes"]:
        after = measure(folder, name, habits, MADE[change["pattern"]])
        rows.append((change["pattern"], change["saved_bytes"], before - after, before))
    return rows


def is_within(said, real):
    return real > 0 and abs(said - real) <= WITHIN * real


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Lifetimes(harness.TestCase):
    def check(self, name, habits, patterns):
        rows = compare(self.folder, name, habits)
        self.assertEqual({row[0] for row in rows}, set(patterns), rows)
        for pattern, said, real, _ in rows:
            self.assertTrue(is_within(said, real), (name, habits, pattern, said, real))

    def test_gradients_over_forward(self):
        self.check("deep", "late", ["late_zero_grad"])

    def test_gradients_set_to_zero(self):
        self.check("transformer", "zeroed", ["gradients_kept"])

    def test_held_variables(self):
        self.check("deep", "held", ["held_variables"])

    def test_lists_of_tensors(self):
        self.check("recommender", "foreach", ["one_by_one"])

    def test_nothing_is_promised_where_the_peak_is_elsewhere(self):
        self.check("large_vocabulary", "late", [])


def table(names):
    import pathlib
    import tempfile
    rows = []
    for name in names:
        for habits in HABITS:
            with tempfile.TemporaryDirectory() as folder:
                for pattern, said, real, before in compare(pathlib.Path(folder), name, habits):
                    rows.append((said, real))
                    print(f"{name:22} {habits:18} {pattern:16} says {said:10}  saves {real:10}  "
                          f"of {before:10}  {(said / real - 1) * 100 if real else float('inf'):7.2f} %"
                          f"{'' if is_within(said, real) else '   MISS'}", flush=True)
    print(f"{len(rows)} changes; within {WITHIN:.0%}: {sum(is_within(*row) for row in rows)}; "
          f"promised and none: {sum(row[1] <= 0 for row in rows)}")


if __name__ == "__main__":
    if "--all" in sys.argv:
        table(sys.argv[2:] or NAMES)
    else:
        harness.main()
