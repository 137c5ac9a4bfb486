#!/usr/bin/env python3
"""`memprof advise` on changes that are only estimated, checked by doing them on the CPU: autocast, optimizer state of 8 bits
(by a stand-in that holds as much), micro-batches of half the size, state and gradients divided among two ranks, what is saved
for backward held elsewhere; measured by a counter that is not
memprof's.

    check_estimates.py [--all] [NAME...]       as a test: some of them; --all prints a table of all, with a sum
"""
import os
import sys
import unittest.mock

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
    def check(self, name, changes, *options, habits="", within=WITHIN):
        rows = bench.compare(self.folder, name, habits, *(options or OPTIONS), estimates=True)
        self.assertEqual({row[0] for row in rows}, set(changes), rows)
        for change, said, real, _ in rows:
            self.assertTrue(bench.is_within(said, real, within), (name, change, said, real))

    def test_autocast_of_a_transformer(self):
        self.check("decoder", ["autocast"], *PRECISION)

    def test_autocast_of_experts(self):
        self.check("mixture", ["autocast"], *PRECISION)

    def test_autocast_where_it_saves_nothing(self):
        """The peak lies in the step, or where gradients are made of halves; convolutions of CPUs unfold; 1.13 fails at a norm;
        there is autocast already."""
        for name in ("wide", "momentum", "unet", "deep", "mixed_decoder"):
            found = harness.answer("advise", bench.record(self.folder, name, ""), *PRECISION)
            self.assertEqual(found["changes"], [], name)

    def test_autocast_of_a_product_with_a_parameter(self):
        """It has 32 bits, and what follows, too: nothing is saved."""
        before, after = (bench.measure(self.folder, "scaled", "", change) for change in ("", "autocast"))
        self.assertGreater(after, 0.9 * before)
        found = harness.answer("advise", bench.record(self.folder, "scaled", ""), *PRECISION)
        self.assertLessEqual(sum(change["saved_bytes"] for change in found["changes"]), 0.02 * before, found["changes"])

    def test_temporaries_of_the_step_are_most_of_it(self):
        self.check("wide", ["quantized", "zero", "zero_2"])

    def test_temporaries_that_variables_hold_into_the_next_parameter(self):
        """In the program large parameters and small ones take turns; a rank takes the large ones one behind the other."""
        self.check("mlp", ["zero", "zero_2"], "--kind", "shard", "--ranks", "2", within=0.02)

    def test_temporaries_of_lists_are_divided(self):
        self.check("wide", ["zero", "zero_2"], "--kind", "shard", "--ranks", "2", habits="foreach", within=0.02)

    def test_state_beside_activations(self):
        self.check("highway", ["quantized", "zero", "zero_2"])

    def test_what_waits_elsewhere(self):
        self.check("decoder", ["offload"], "--kind", "offload", within=0.02)

    def test_parameters_are_brought_back(self):
        """The peak lies where backward reads the largest, beside its gradient."""
        self.check("last", ["offload"], "--kind", "offload")

    def test_a_gradient_is_whole_when_it_is_made(self):
        """The peak lies where backward makes the first, and no rank or half has less of that one then."""
        self.check("ends", ["quantized", "halves", "zero", "zero_2"], "--kind", "optimizer,shard", "--ranks", "2", within=0.02)

    def test_a_slow_link_leaves_out_what_it_would_delay(self):
        recording = bench.record(self.folder, "decoder", "")
        saved = [sum(change["saved_bytes"] for change in
                     harness.answer("advise", recording, "--kind", "offload", "--link", link)["changes"])
                 for link in ("1TB/s", "1kB/s")]
        self.assertGreater(saved[0], 0)
        self.assertEqual(saved[1], 0)
        change, = harness.answer("advise", recording, "--kind", "offload")["changes"]
        self.assertIn("not on the CPU that this was recorded on", change["cost"])
        self.assertEqual(harness.memprof("advise", recording, "--link", "fast").returncode, 2)

    def test_ranks_divide_more(self):
        """ZeRO-3 is checked on CUDA alone; here, that more of a network is divided than by ZeRO-1."""
        found = harness.answer("advise", bench.record(self.folder, "large_vocabulary", ""), "--kind", "shard", "--ranks", "8")
        saved = {change["pattern"]: change["saved_bytes"] for change in found["changes"]}
        self.assertEqual(set(saved), {"zero_1", "zero_2", "zero_3"})
        self.assertLess(saved["zero_1"], saved["zero_3"])

    def test_ranks_divide_a_network_of_many_units(self):
        """Half of parameters, gradients and state goes, but one of the hundred layers is gathered."""
        saved = self.saved_by_ranks("stack")
        layer, counters = 4 * (64 * 64 + 64), 4 * 200
        self.assertEqual(saved["zero_3"], (4 * 100 * layer + counters) // 2 - layer)

    def test_units_are_gathered_in_forward(self):
        """The peak lies in forward of the last of four blocks: its parameters are gathered, and the buffer that they came
        through is there until the next unit; half of all parameters, of two states of each and of their counters goes."""
        saved = self.saved_by_ranks("pairs")
        unit, last, counters = 4 * (96 * 2048 + 2048 + 2048 * 96 + 96), 4 * (96 * 10 + 10), 4 * 18
        self.assertEqual(saved["zero_3"], (3 * (4 * unit + last) + counters) // 2 - 2 * unit)

    def test_units_are_gathered_in_backward(self):
        """The peak lies where backward of the first of four blocks begins: gradients of the three behind it are halves, but
        those of the one behind it are whole in their buffer until the first block's next result (4 x 96, which was part of the
        peak); its own parameters are gathered, and all that has no number."""
        saved = self.saved_by_ranks("lumps")
        unit, outside, counters = 4 * (96 * 2048 + 2048 + 2048 * 96 + 96), 4 * (96 * 96 + 96), 4 * 18
        self.assertEqual(saved["zero_3"],
                         (3 * (4 * unit + outside) + 3 * unit + counters) // 2 - 2 * unit - outside + 4 * 4 * 96)

    def saved_by_ranks(self, name):
        found = bench.answer(bench.record(self.folder, name, ""), "--kind", "shard", "--ranks", "2")
        return {change["pattern"]: change["saved_bytes"] for change in found["changes"]}

    def test_size_tells_the_best_of_the_last_probe(self):
        """As `report` and `advise` have it of that recording alone; not where it is not asked for."""
        small = bench.record(self.folder, "decoder", "").rename(self.folder / "small.mp")
        with unittest.mock.patch.dict(os.environ, BENCH_SCALE="2"):
            path = bench.record(self.folder, "decoder", "")
        probes = ("--capacity", "1GiB", f"4={small}", f"8={path}")
        wanted = [(change["text"], change["saved_bytes"]) for change in harness.answer("report", path)["advice"]]
        found = harness.answer("size", "--advise", *probes)["advice"]
        self.assertEqual([(change["text"], change["saved_bytes"]) for change in found], wanted[:3])
        self.assertTrue(found)
        self.assertEqual(harness.answer("size", *probes)["advice"], [])
        text = harness.memprof("size", "--advise", *probes).stdout
        self.assertIn("What would lower the peak of the probe at 8:", text)
        self.assertIn(wanted[0][0], text)

    def test_halves(self):
        self.check("cnn", ["halves", "quantized"])

    def test_gradients_of_the_first_half_live_through_the_second(self):
        self.check("lumps", ["halves", "quantized"], "--kind", "optimizer")

    def test_halves_of_results_that_are_as_large_as_a_parameter(self):
        """And of what nothing names but its size."""
        self.check("decoder", ["halves", "quantized"], "--kind", "optimizer")
        self.check("attention", ["halves", "quantized"], "--kind", "optimizer")

    def test_halves_of_gradients_that_are_as_large_as_a_parameter(self):
        """Which the loss's backward makes, outside of any module."""
        self.check("variational", ["halves", "quantized"], "--kind", "optimizer")

    def test_state_of_other_optimizers_is_no_promise(self):
        """SGD's momentum, and state of 16 bits: the stand-in of 8 bits would save none of it, or half."""
        self.check("momentum", ["zero", "zero_2"])
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
        bench.table([(name, "") for name in sys.argv[2:] or NAMES], "--kind", "precision,optimizer,offload,shard", "--ranks", "2",
                    estimates=True, within=WITHIN)
    else:
        harness.main()
