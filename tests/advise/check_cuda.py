#!/usr/bin/env python3
"""`memprof advise` checked by doing it on PyTorch's real CUDA allocator, on the stand-in GPU. Predictions come from a
recording of the unchanged program. PyTorch's own statistics measure trainings with each change made, or with the
variable set.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "cuda_torch"), HERE]
sys.dont_write_bytecode = True
import bed
import asserted
import bench
import harness

PROGRAM = f"""import runpy, sys
sys.argv[0] = {str(bed.SOURCE / 'tests' / 'advise' / 'programs.py')!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CONF = "PYTORCH_CUDA_ALLOC_CONF"
TRAININGS = (("wide", "foreach"), ("deep", "late"), ("attention", "varies"), ("decoder", ""),
         ("variational", ""), ("variational", "held,late"))


# The first is in the short form.
CHECKPOINTED = (("results", "", 4), ("gpt", "", 8), ("resnet", "", 8), ("unet", "", 8), ("decoder", "", 8),
                ("pairs", "", 4), ("twins", "", 4))


class Advice(bed.TestCase):
    def peaks(self, name, habits, changes="", how="snapshot", **variables):
        """Allocated and reserved bytes, by PyTorch."""
        run = self.execute(PROGRAM, name, habits, changes, how=how, BENCH_DEVICE="cuda",
                           **{"BENCH_SCALE": 16, **variables})
        stats = run.truth["devices"][0]["stats"]
        return run, stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]

    def compare(self, name, habits, **variables):
        """For each advised change: the change, its predicted and its real saving. Savings are in allocated bytes, or in
        reserved ones if only these are saved."""
        run, allocated, reserved = self.peaks(name, habits, **variables)
        path = run.path.rename(self.folder / "unchanged.mp")
        found = bench.answer(path, "--track", "cuda:0/torch")
        self.assertEqual((found["peak_bytes"], found["reserved_peak_bytes"]), (allocated, reserved), (name, habits))
        rows = []
        for change in found["changes"]:
            if change["pattern"] == "phase_settings":  # these settings change during the run
                continue
            setting = change["kind"] == "allocator"
            what = change["setting"] if setting else bench.change_of(change)
            _, allocates, reserves = self.peaks(name, habits, **({CONF: what} if setting else {"changes": what}), **variables)
            if change["saved_bytes"]:
                rows.append((what, change["saved_bytes"], allocated - allocates, allocated))
            else:
                rows.append((what, change["saved_reserved_bytes"], reserved - reserves, reserved))
        return rows

    def check(self, name, habits):
        rows = self.compare(name, habits)
        self.assertTrue(rows, (name, habits))
        for what, said, real, _ in rows:
            within = 0.05 if what == "chunked" else bench.WITHIN  # chunks of a small vocabulary: at most 5 % more is saved
            self.assertTrue(bench.is_within(said, real, within), (name, habits, what, said, real))

    def flops(self, name, habits, changes, scale):
        """[FLOPs of forward, FLOPs of the whole run], by PyTorch's own counter."""
        out = self.folder / "flops.json"
        self.execute(PROGRAM, name, habits, changes, recorded=False, BENCH_DEVICE="cuda", BENCH_SCALE=scale, BENCH_FLOPS=out)
        return json.loads(out.read_text())

    def test_checkpoints_of_a_plan_to_the_byte(self):
        """torch.utils.checkpoint on the named modules, planned. In both its forms, the peak and the share that is
        computed twice are as stated. The peak with saved tensors on the CPU is as stated, too."""
        for name, habits, scale in CHECKPOINTED if asserted.LONG else CHECKPOINTED[:1]:
            run, allocated, _ = self.peaks(name, habits, how="plan", BENCH_SCALE=scale)
            found = bench.answer(run.path, "--track", "cuda:0/torch", "--kind", "checkpoint")
            rows = [row for row in found["changes"] if row["pattern"] == "checkpoint"]
            forward, plain = self.flops(name, habits, "", scale)
            self.assertEqual(found["peak_bytes"], allocated, name)
            self.assertTrue(rows, name)
            for row in rows:
                change = bench.change_of(row)
                forms = [(change, row["peak_bytes"]),
                         (change.replace("checkpoint", "offloaded"), row["offloaded_peak_bytes"])]
                if name not in ("results", "pairs", "twins"):  # their first modules get no input with a gradient
                    forms.append((change.replace("checkpoint", "reentrant"), row["reentrant_peak_bytes"]))
                for form, peak in forms:
                    self.assertEqual(self.peaks(name, habits, form, how="plan", BENCH_SCALE=scale)[1], peak, (name, form))
                again = (self.flops(name, habits, change, scale)[1] - plain) / forward
                print(f"{name} {change}: {again:.4f} of forward's FLOPs twice, {row['forward_flops_share']:.4f} said; "
                      f"{row['forward_share']:.4f} of its bytes", flush=True)
                self.assertTrue(bench.is_within(row["forward_flops_share"], again, 0.01), (name, change, again))
                self.assertTrue(0 < row["forward_share"] <= 1, name)

    def test_an_optimizer_of_one_kernel(self):
        """With small batches and workspaces, the peak is in the optimizer's step, where lists have their temporaries.
        "wide" has two large parameters of the same size. One by one, they need as much as in lists, as lists divide in
        place."""
        for name, wanted in (("wide", {"fused"}), ("deep", {"fused", "one_by_one"})):
            rows = [row for row in self.compare(name, "foreach", BENCH_SCALE=1 if name == "wide" else 0.01,
                                                CUBLAS_WORKSPACE_CONFIG=":16:8")
                    if row[0] in ("fused", "one_by_one")]
            self.assertEqual({row[0] for row in rows}, wanted, rows)
            for what, said, real, _ in rows:
                self.assertTrue(bench.is_within(said, real), (what, said, real))


for name_, habits_ in TRAININGS:
    setattr(Advice, f"test_{name_}_{habits_}".replace(",", "_"),
            lambda self, name=name_, habits=habits_: self.check(name, habits))

if __name__ == "__main__":
    bed.main()
