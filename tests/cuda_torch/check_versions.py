#!/usr/bin/env python3
"""The exact results of docs/manual/pytorch.md: small programs on each version of PyTorch, recorded and planned. A
recording's counts and totals equal PyTorch's memory_stats() in that run. Each block's requested size and stream equal
PyTorch's history. A plan's totals equal the run's, except with several ranks."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

OOM = """
import torch
kept, caught = [torch.empty(300 << 20, dtype=torch.uint8, device="cuda")], 0
for size in (900, 1000, 100, 1100):
    try:
        kept.append(torch.empty(size << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        caught += 1
print(caught, "caught")
"""
COMPILED = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64)).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    compiled(torch.randn(32, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
PROGRAMS = {
    "train": ("train", ("transformer",), {}),
    "expandable": ("train", ("transformer",), EXPANDABLE),
    "graphs": ("graph", (), {}),
    "graphs_expandable": ("graph", (), EXPANDABLE),
    "pools": ("mempool", (), {}),
}
SHORT = ("train", "graphs")
DEVICE = "[as the stand-in]\ntotal = {}MiB\ncontext = 64MiB\ncc = 86\nsms = 80\nl2 = 6291456\n"
RANKS = ("ddp", "fsdp1", "fsdp2")
TOTALS = ("allocs", "peak_bytes", "reserved_peak_bytes", "ooms")


class Versions(bed.TestCase):
    def check(self, run, plan, keys=TOTALS):
        for each in (run, plan):
            self.assert_totals(each)
        self.assert_requests(run)
        totals, planned = ({key: each.tracks()["cuda:0/torch"][key] for key in TOTALS} for each in (run, plan))
        self.assertEqual({key: planned[key] for key in keys}, {key: totals[key] for key in keys})
        self.assertEqual(plan.output, run.output)
        times = f"memory ran out {totals['ooms']} times"
        self.assertEqual(times in plan.told, totals["ooms"] > 0, plan.told)

    def planned_on(self, mib):
        """Options of a plan on the stand-in's GPU."""
        (self.folder / "device").write_text(DEVICE.format(mib))
        return {"how": "plan", "options": ["--device", self.folder / "device"]}

    def test_programs(self):
        names = SHORT if not harness.asserted.LONG else list(PROGRAMS)
        rows = [PROGRAMS[name] for name in names]
        for name, run, plan in zip(names, self.execute_each(*rows), self.execute_each(*rows, **self.planned_on(8 << 10))):
            with self.subTest(name):
                self.check(run, plan)

    def test_oom(self):
        run = self.execute(OOM, SOFTGPU_MEMORY=1 << 30)
        run.path = run.path.rename(self.folder / "own.mp")
        self.check(run, self.execute(OOM, **self.planned_on(1 << 10)))

    def test_compile(self):
        """What inductor allocates to measure kernels goes to the first run, which fills its cache. A plan's device has
        another name, for which inductor measures its kernels anew."""
        variables = {"TORCHINDUCTOR_CACHE_DIR": self.folder / "cache"}
        self.execute(COMPILED, recorded=False, **variables)
        run = self.execute(COMPILED, **variables)
        run.path = run.path.rename(self.folder / "own.mp")
        self.check(run, self.execute(COMPILED, **self.planned_on(8 << 10), **variables), TOTALS[1:])

    def ranks(self, kind, how, *options):
        """Compares each of two ranks with its own statistics."""
        command = [harness.MEMPROF, how, "--force", *options, "-o", self.folder / "run.mp", "--", "python3",
                   bed.HERE / "programs" / "ranks.py", kind]
        result = subprocess.run(command, capture_output=True, text=True, timeout=harness.TIMEOUT,
                                env=bed.settings(**({} if options else {"SOFTGPU_DEVICES": 2})), cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {rank.pop("pid"): rank for rank in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(len(told), 2)
        found = {}
        for path in self.folder.glob("run*.mp"):
            info = harness.answer("info", path, status=(0, 4))
            for track in info["tracks"]:
                name, _, layer = track["id"].partition("/")
                if layer == "torch" and name.startswith("cuda:"):
                    self.assertNotIn(info["process"]["pid"], found)
                    found[info["process"]["pid"]] = {"device": int(name[5:]), **{key: track[key] for key in TOTALS[:3]}}
            path.unlink()
        self.assertEqual(found, told)

    def check_ranks(self, kind):
        """A plan differs from the run in some bytes: DDP's threads race."""
        self.ranks(kind, "snapshot")
        (self.folder / "device").write_text(DEVICE.format(8 << 10))
        self.ranks(kind, "plan", "--device", self.folder / "device", "--devices", "2")


for kind_ in RANKS:
    setattr(Versions, f"test_{kind_}", lambda self, kind=kind_: self.check_ranks(kind))

if __name__ == "__main__":
    bed.main()
