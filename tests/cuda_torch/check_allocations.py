#!/usr/bin/env python3
"""PyTorch's real CUDA allocator, allocation by allocation: compares memprof's recording with PyTorch's own history,
statistics and segments (bed.py)."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed

GIB = {"SOFTGPU_MEMORY": 1 << 30}
EXPANDABLE = {**GIB, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# Each program alone, as other tests run it: its file, its arguments, its variables.
PROGRAMS = {
    **{what: ("train", (what,), GIB) for what in ("mlp", "transformer", "conv", "amp", "checkpoint", "double", "streams",
                                                  "threads", "emptied")},
    "graph": ("graph", (), GIB),
    "stress": ("stress", (1, 1, 2000), GIB),
    "mempool": ("mempool", (), GIB),
    "expandable": ("train", ("transformer",), EXPANDABLE),
    "expandable_graph": ("graph", (), EXPANDABLE),
    "stress_expandable": ("stress", (2, 1, 1500), EXPANDABLE),
    "roundup": ("stress", (3, 1, 800), {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:4"}),
    "max_split": ("stress", (4, 1, 800), {**GIB, "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:32"}),
}
# Programs with the same variables, in order, are one process here.
PROCESSES = {}
for name_, (file_, arguments_, variables_) in PROGRAMS.items():
    PROCESSES.setdefault(tuple(variables_.items()), []).append((name_, [file_, *arguments_]))


class Allocations(bed.TestCase):
    def compare(self, key):
        programs, variables = [program for _, program in PROCESSES[key]], dict(key)
        own = self.execute(bed.together(*programs[:-1], then=programs[-1]), history=True, **variables)
        self.assert_totals(own)
        self.assert_trace(own)
        self.assert_segments(own)
        shim = self.execute(bed.together(*programs[:-1], then=programs[-1]), **variables)
        self.assert_totals(shim)
        self.assert_requests(shim)

    def assert_segments(self, run):
        """The driver's blocks are those that PyTorch's trace allocated and freed, in that order."""
        conf = run.truth["devices"][0]
        if any(segment["is_expandable"] for segment in conf["segments"]):
            return
        allocs = [(entry["addr"], entry["size"]) for entry in conf["trace"] if entry["action"] == "segment_alloc"]
        blocks = run.blocks("cuda:0/driver")
        self.assertEqual([(block["address"], block["bytes"]) for block in blocks], allocs)
        self.assertEqual(sum(block["free_ns"] is not None for block in blocks),
                         sum(entry["action"] == "segment_free" for entry in conf["trace"]))


for key_, programs_ in PROCESSES.items():
    setattr(Allocations, f"test_{programs_[0][0]}", lambda self, key=key_: self.compare(key))

if __name__ == "__main__":
    bed.main()
