#!/usr/bin/env python3
"""`memprof advise` on activation checkpointing, checked by doing it. Modules of networks on the CPU are really wrapped
in torch.utils.checkpoint, and another counter measures.
"""
import os
import sys
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness


@harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
class Checkpointing(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        bench.OPTIONS[:] = ["--operators"]

    def check(self, name, habits, modules):
        rows = [row for row in bench.compare(self.folder, name, habits, "--kind", "checkpoint") if row[0] != "chunked"]
        self.assertEqual({row[0] for row in rows}, {f"checkpoint:{module}" for module in modules}, rows)
        for change, said, real, _ in rows:
            self.assertTrue(bench.is_within(said, real), (name, habits, change, said, real))

    def test_blocks_of_a_transformer(self):
        self.check("decoder", "held,late", ["blocks.*:6", "blocks.*.mlp:6"])

    def test_modules_that_are_called_twice(self):
        self.check("twins", "", ["body.*:3"])

    def test_an_input_that_nothing_else_keeps(self):
        self.check("transformer", "", ["body:1", "body.layers.*.self_attn:2"])

    def test_copies_that_autocast_makes(self):
        self.check("mixed_decoder", "", ["blocks.*:6", "blocks.*.mlp:6"])

    def test_what_the_recomputation_alone_needs(self):
        self.check("pairs", "", ["*:5"])

    def test_results_that_what_comes_behind_them_keeps(self):
        self.check("results", "", ["blocks.*:8"])

    def test_modules_that_several_batches_call_before_one_backward(self):
        self.check("attention", "summed", ["layers.*.mlp:3"])

    def test_no_more_modules_than_a_capacity_needs(self):
        recording = bench.record(self.folder, "results", "")
        found = harness.answer("advise", recording, "--kind", "checkpoint")
        capacity = found["peak_bytes"] - found["changes"][0]["saved_bytes"] // 2
        fits = harness.answer("advise", recording, "--kind", "checkpoint", "--capacity", capacity)
        chosen, = (fits["changes"][number - 1] for number in fits["fit"]["changes"])
        self.assertTrue(fits["fit"]["fits"])
        self.assertEqual(fits["fit"]["peak_bytes"], chosen["peak_bytes"])
        self.assertLess(chosen["forward_share"], found["changes"][0]["forward_share"])
        self.assertLessEqual(bench.measure(self.folder, "results", "", bench.change_of(chosen)), capacity)
        fewer = bench.change_of({**chosen, "modules": chosen["modules"] - 1})
        self.assertGreater(bench.measure(self.folder, "results", "", fewer), capacity)

    def test_size_tells_the_best_of_the_last_probe(self):
        """The advice that `report` and `advise` give for that recording; none if it is not requested."""
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
        self.assertIn("Changes that would lower the peak of the probe at 8:", text)
        self.assertIn(wanted[0][0], text)


if __name__ == "__main__":
    harness.main()
