#!/usr/bin/env python3
"""`memprof advise` on changes that are only estimated, checked by doing them on the CPU: autocast, optimizer state of 8 bits
(by a stand-in that holds as much), micro-batches of half the size, state divided among two ranks; measured by a counter that is not
memprof's.

    check_estimates.py [--all] [NAME...]       as a test: some of them; --all prints a table of all, with a sum
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness

NAMES = ("wide", "mlp", "deep", "cnn", "decoder", "mixture", "recommender", "variational", "siamese", "attention", "transformer",
         "lstm", "large_vocabulary", "patches", "residuals", "unet", "experts", "mixer", "highway", "twins", "pairs", "momentum", "scheduled")
OPTIONS = ("--kind", "optimizer,shard", "--ranks", "2")
PRECISION = ("--kind", "precision")
WITHIN = 0.10


@harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
class Estimates(harness.TestCase):
    def check(self, name, changes, *options):
        rows = bench.compare(self.folder, name, "", *(options or OPTIONS), estimates=True)
        self.assertEqual({row[0] for row in rows}, set(changes), rows)
        for change, said, real, _ in rows:
            self.assertTrue(bench.is_within(said, real, WITHIN), (name, change, said, real))

    def test_autocast_of_a_transformer(self):
        self.check("decoder", ["autocast"], *PRECISION)

    def test_autocast_of_experts(self):
        self.check("mixture", ["autocast"], *PRECISION)

    def test_autocast_where_it_saves_nothing(self):
        """The peak lies in the step; convolutions of CPUs unfold; 1.13 fails at a norm; there is autocast already."""
        for name in ("wide", "unet", "deep", "mixed_decoder"):
            found = harness.answer("advise", bench.record(self.folder, name, ""), *PRECISION)
            self.assertEqual(found["changes"], [], name)

    def test_temporaries_of_the_step_are_most_of_it(self):
        self.check("wide", ["quantized", "zero"])

    def test_state_beside_activations(self):
        self.check("highway", ["quantized", "zero"])

    def test_halves(self):
        self.check("cnn", ["halves", "quantized"])

    def test_halves_that_are_known_to_save_more_than_is_said(self):
        """Networks whose peak lies in backward of attention: a miss, on the careful side (docs/MEASURED.md)."""
        rows = {row[0]: row for row in bench.compare(self.folder, "attention", "", *OPTIONS, estimates=True)}
        _, said, real, _ = rows["halves"]
        self.assertLess(said, real)

    def test_state_of_other_optimizers_is_no_promise(self):
        """SGD's momentum, and state of 16 bits: the stand-in of 8 bits would save none of it, or half."""
        self.check("momentum", ["zero"])
        found = harness.answer("advise", bench.record(self.folder, "bfloat16", ""), "--kind", "optimizer")
        self.assertEqual(found["changes"], [])
        self.check("scheduled", ["halves"])

    def test_micro_batches_count_on_more_than_one_sample(self):
        """A recording does not say how many samples a batch has: the cost does."""
        found = harness.answer("advise", bench.record(self.folder, "lone", ""), "--kind", "optimizer")
        halves = [change for change in found["changes"] if change["pattern"] == "micro_batch"]
        self.assertTrue(halves)
        for change in halves:
            self.assertIn("counts on a batch of two or more", change["cost"])

    def test_nothing_is_divided_without_ranks(self):
        found = harness.answer("advise", bench.record(self.folder, "wide", ""), "--kind", "shard")
        self.assertEqual(found["changes"], [])


if __name__ == "__main__":
    if "--all" in sys.argv:
        bench.table([(name, "") for name in sys.argv[2:] or NAMES], "--kind", "precision,optimizer,shard", "--ranks", "2",
                    estimates=True, within=WITHIN)
    else:
        harness.main()
