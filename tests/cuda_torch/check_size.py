#!/usr/bin/env python3
"""`memprof size` from three small batches against real runs at larger ones: what PyTorch's own allocator had allocated and
reserved at most."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

PROBES, BATCHES = (4, 8, 12), (64, 256)
CONDITION = "if nothing changes its way beyond the probes"


class Size(bed.TestCase):
    def predict(self, what, variables):
        """Of each batch (allocated, reserved) as predicted, and as it was."""
        probes = []
        for batch in PROBES:
            path = self.folder / f"{batch}.mp"
            self.execute("batch", batch, what, **variables).path.rename(path)
            probes.append(f"{batch}={path}")
        asked = ("--predict", ",".join(map(str, BATCHES)))
        # Whatever is said of batches beyond the probes is said on this condition.
        self.assertIn(CONDITION, harness.memprof("size", *probes, *asked).stdout)
        predictions = {row["batch"]: row for row in harness.answer("size", *probes, *asked)["predictions"]}
        found, real = {}, {}
        for batch in BATCHES:
            found[batch] = (predictions[batch]["allocated_bytes"], predictions[batch]["reserved_bytes"])
            stats = self.execute("batch", batch, what, recorded=False, **variables).truth["devices"][0]["stats"]
            real[batch] = (stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"])
        return found, real

    def compare(self, what, **variables):
        found, real = self.predict(what, variables)
        self.assertEqual(found, real)

    def test_conv(self):
        self.compare("conv")

    def test_mlp(self):
        self.compare("mlp")

    def test_another_way_beyond_the_probes(self):
        """At the batch asked for the program makes 160 allocations more than in the largest probe (by PyTorch's source, the
        sort of an embedding's indices above 3072 of them): what is allocated at most lies elsewhere and is exact, what
        is reserved is not."""
        found, real = self.predict("transformer", {})
        self.assertEqual({batch: row[0] for batch, row in found.items()},
                         {batch: row[0] for batch, row in real.items()})
        self.assertNotEqual(found, real)


if __name__ == "__main__":
    bed.main()
