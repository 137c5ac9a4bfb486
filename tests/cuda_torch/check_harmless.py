#!/usr/bin/env python3
"""Programs end as without memprof: status, output, and PyTorch's stderr."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

PROGRAMS = {
    # Dynamo leaves FakeTensors, and storages that only C++ keeps.
    "a compilation that fails": """
import torch
model = torch.nn.Linear(16, 16)
@torch.compile(backend="aot_eager")
def run(x):
    y = model(x).relu()
    if x.shape[0] == 7:
        raise ValueError("wanted")
    return y.sum()
for n in (3, 4, 7):
    run(torch.ones(n, 16)).backward()
""",
    # The address of a tensor without memory must not be asked for: PyTorch warns of it.
    "a compilation that succeeds and tensors without memory": """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    kept = torch.empty(1024, 1024)
storages = [kept.untyped_storage(), torch.empty(3, device="meta").untyped_storage(), torch.ones(3).untyped_storage()]
model = torch.nn.Linear(16, 16).cuda()
run = torch.compile(model, backend="aot_eager")
for n in (3, 4, 7):
    run(torch.ones(n, 16, device="cuda")).sum().backward()
print("done")
""",
    "an error without a line": """
import sys, torch
sys.excepthook = lambda kind, error, trace: print(kind.__name__)
kept = torch.ones(1000)
exec(compile("raise ValueError(kept)", "<made>", "exec"))
""",
}
# Dynamo compiles what is called behind a graph break: not memprof's own Python, of which 2.7 warned.
COMPILED = """
import os, torch
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
dist.init_process_group("nccl", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16).cuda())
run = torch.compile(model, backend="aot_eager")
for _ in range(2):  # the second one makes its buckets again, by a collective
    run(torch.ones(4, 16, device="cuda")).sum().backward()
dist.destroy_process_group()
print("done")
"""
# A cycle that only the interpreter's end frees.
CYCLE = """
import torch
class Model:
    pass
def main():
    model = Model()
    model.itself, model.kept = model, [torch.ones(16, 1024)[3].detach() for _ in range(50)]
    return model.kept
kept = main()
"""


class Harmless(bed.TestCase):
    def ends(self, text, *before):
        program = self.folder / "program.py"
        program.write_text(text)
        result = subprocess.run([*before, "python3", program], capture_output=True, text=True, cwd=self.folder,
                                timeout=harness.TIMEOUT, env=bed.settings())
        said = [line for line in result.stderr.splitlines() if not line.startswith("memprof: ")]
        return result.returncode, result.stdout, [line for line in said if "program.py" in line or "Warning" in line or "Error" in line]

    def compare(self, program, *before):
        """A program that ends well and prints no warning needs no second run."""
        found = self.ends(program, harness.MEMPROF, *before, "--force", "-o", "run.mp", "--")
        if found != (0, "done\n", []):
            self.assertEqual(found, self.ends(program))
        self.assertTrue((self.folder / "run.mp").exists())

    def test_a_look_keeps_nothing_alive(self):
        self.assertEqual(self.ends(CYCLE, harness.MEMPROF, "snapshot", "--holders", "--force", "-o", "run.mp", "--")[0], 0)
        self.assertIn("kept[*] (4 of 64 KiB used)", str(harness.answer("holders", self.folder / "run.mp")))
        track = self.track(self.folder / "run.mp", "cpu/torch")
        self.assertEqual((track["allocs"] > 49, track["end_bytes"]), (True, 0))

    def test_planned(self):
        self.compare(COMPILED, "plan")


for name_, program_ in PROGRAMS.items():
    setattr(Harmless, "test_" + name_.replace(" ", "_"), lambda self, program=program_: self.compare(program, "snapshot", "--holders"))

if __name__ == "__main__":
    bed.main()
