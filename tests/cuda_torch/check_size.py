#!/usr/bin/env python3
"""`memprof size` from three small batches, compared with real runs at larger ones: the highest allocated and reserved
bytes of PyTorch's own allocator. If operations choose another algorithm at some size, scratch memory comes that no
probe had; the bounds hold all the same."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

ALL = harness.asserted.LONG
PROBES, BATCHES = (4, 8, 12), (64, 256, 1000) if ALL else (64, 256)
CAPACITY = 700 * bed.MIB
EXACT = ("conv", "mlp")  # at 64 and 256 they do what they did in the probes
# From tests/sizebench/models.py, written for the CPU. At 256, the backward of distances in "siamese" sums rows with 8
# MiB of scratch memory. PyTorch reserves 20 MiB for that, and would reserve 16 for a block of 16.
MODELS = ("unet", "decoder", "vit", "lstm", "siamese")
ON_CUDA = f"""import functools, runpy, sys, torch
sys.argv[0] = {str(bed.SOURCE / 'tests' / 'sizebench' / 'models.py')!r}
sys.path.insert(0, {str(bed.SOURCE / 'tests' / 'sizebench')!r})
torch.backends.cudnn.enabled = False
torch.set_default_device("cuda")
for name in ("Adam", "AdamW"):  # whose count of steps is on the default device
    setattr(torch.optim, name, functools.partial(getattr(torch.optim, name), capturable=True))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ANOTHER_WAY = {"transformer": 256, "language": 64, "transformer_half": 256, "language_half": 64, "whitened": 256,
               "pairwise": 256}


class Size(bed.TestCase):
    def program(self, batch, what):
        return "batch", (batch, what)

    def peaks(self, run):
        stats = run.truth["devices"][0]["stats"]
        return stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]

    def run_at(self, *batches, what, **variables):
        """A run of each batch, by batch; each is recorded."""
        return dict(zip(batches, self.execute_each(*((*self.program(batch, what), variables) for batch in batches))))

    def compare(self, what, **variables):
        runs = self.run_at(*PROBES, *BATCHES, what=what, **variables)
        probes = [f"{batch}={runs[batch].path}" for batch in PROBES]
        asked = ("--capacity", CAPACITY, "--margin", 0, "--predict", ",".join(map(str, BATCHES)))
        self.assertNotIn("Exact", harness.memprof("size", *probes, *asked).stdout)
        answer = harness.answer("size", *probes, *asked)
        outside = answer["outside_bytes"] or 0
        predictions = {row["batch"]: row for row in answer["predictions"]}
        for batch in BATCHES:
            allocated, reserved = self.peaks(runs[batch])
            row = predictions[batch]
            with self.subTest(batch=batch, row=row, allocated=allocated, reserved=reserved):
                self.assertLessEqual(row["low_bytes"], allocated + outside)
                self.assertLessEqual(reserved + outside, row["high_bytes"])
                if row["fits"] != "unsure":
                    self.assertEqual(row["fits"], "yes" if reserved + outside <= CAPACITY else "no")
                if batch <= 256 and what in EXACT:
                    self.assertEqual((row["allocated_bytes"], row["reserved_bytes"]), (allocated, reserved))
                if batch == ANOTHER_WAY.get(what):  # the real run takes scratch memory that no probe had
                    self.assertGreater(reserved, row["reserved_bytes"])
        self.assertLessEqual(answer["max_batch"], answer["about_batch"])
        (run,) = self.run_at(answer["max_batch"], what=what, **variables).values()
        self.assertLessEqual(self.peaks(run)[1] + outside, CAPACITY)


for what_ in (*EXACT, *ANOTHER_WAY, "ranked", "grouped", "recurrent", "hardest", "clouds", "whitened_half", "pairwise_half"):
    if ALL or what_ in ("conv", "transformer", "language", "whitened"):
        setattr(Size, f"test_{what_}", lambda self, what=what_: self.compare(what))


def test_expandable(self):
    self.compare("mlp", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


Size.test_expandable = test_expandable


class Probed(Size):
    """Runs that `size` makes itself, with PyTorch's own history and without."""

    def probe(self, what, option):
        command = ("size", option, "--no-verify", "--json", "--capacity", CAPACITY, "--margin", 0, "--probe", ",".join(map(str, PROBES)),
                   "--predict", ",".join(map(str, BATCHES)), "--", "python3", bed.HERE / "programs" / "batch.py",
                   "{batch}", what)
        result = harness.memprof(*command, env=bed.settings(SOFTGPU_STATE=self.folder / "state"))
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        return answer, {row["batch"]: row for row in answer["predictions"]}

    def compare(self, what):
        answers = {option: self.probe(what, option) for option in ("--torch-history", "--no-torch-history")}
        largest = [answer["max_batch"] for answer, _ in answers.values()]
        runs = self.run_at(*dict.fromkeys((*BATCHES, *largest)), what=what)
        for batch in BATCHES:
            allocated, reserved = self.peaks(runs[batch])
            for option, (answer, predictions) in answers.items():
                outside, row = answer["outside_bytes"] or 0, predictions[batch]
                with self.subTest(option=option, row=row, allocated=allocated, reserved=reserved):
                    self.assertLessEqual(row["low_bytes"], allocated + outside)
                    self.assertLessEqual(reserved + outside, row["high_bytes"])
                    if row["fits"] != "unsure":
                        self.assertEqual(row["fits"], "yes" if reserved + outside <= CAPACITY else "no")
            row, without = (predictions[batch] for _, predictions in answers.values())
            if what in EXACT and batch <= 256:
                self.assertEqual((row["allocated_bytes"], row["reserved_bytes"]), (allocated, reserved))
            self.assertLess(without["low_bytes"], row["low_bytes"])  # allocated sizes say less than requested ones
        for (answer, _), batch in zip(answers.values(), largest):
            self.assertLessEqual(self.peaks(runs[batch])[1] + (answer["outside_bytes"] or 0), CAPACITY)


class Models(Size):
    """Networks on which sizing was tried, on the CPU."""

    def program(self, batch, what):
        return ON_CUDA, (what, "--batch", batch)


for name_ in [name_ for name_ in dir(Size) if name_.startswith("test_")]:
    setattr(Probed, name_, None)  # they are of recordings
    setattr(Models, name_, None)
for what_ in MODELS if ALL else ("siamese",):
    setattr(Models, f"test_model_{what_}", lambda self, what=what_: self.compare(what))
for what_ in ("conv", "mlp", "transformer", "recurrent") if ALL else ("mlp",):
    setattr(Probed, f"test_probed_{what_}", lambda self, what=what_: self.compare(what))

if __name__ == "__main__":
    bed.main()
