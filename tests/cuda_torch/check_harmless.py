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
    "a compilation that succeeds": """
import torch
model = torch.nn.Linear(16, 16).cuda()
run = torch.compile(model, backend="aot_eager")
for n in (3, 4, 7):
    run(torch.ones(n, 16, device="cuda")).sum().backward()
print("done")
""",
    # Their address must not be asked for: PyTorch warns of it.
    "tensors without memory": """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    kept = torch.empty(1024, 1024)
storages = [kept.untyped_storage(), torch.empty(3, device="meta").untyped_storage(), torch.ones(3).untyped_storage()]
print("done")
""",
    "an error without a line": """
import sys, torch
sys.excepthook = lambda kind, error, trace: print(kind.__name__)
kept = torch.ones(1000)
exec(compile("raise ValueError(kept)", "<made>", "exec"))
""",
}


class Harmless(bed.TestCase):
    def ends(self, text, *before):
        program = self.folder / "program.py"
        program.write_text(text)
        result = subprocess.run([*before, "python3", program], capture_output=True, text=True, cwd=self.folder,
                                timeout=harness.TIMEOUT, env=bed.settings())
        said = [line for line in result.stderr.splitlines() if not line.startswith("memprof: ")]
        return result.returncode, result.stdout, [line for line in said if "program.py" in line or "Warning" in line or "Error" in line]

    def compare(self, name):
        alone = self.ends(PROGRAMS[name])
        recorded = self.ends(PROGRAMS[name], harness.MEMPROF, "snapshot", "--holders", "--force", "-o", "run.mp", "--")
        self.assertEqual(recorded, alone)


for name_ in PROGRAMS:
    setattr(Harmless, "test_" + name_.replace(" ", "_"), lambda self, name=name_: self.compare(name))

if __name__ == "__main__":
    bed.main()
