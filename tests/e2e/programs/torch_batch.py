"""A loop whose blocks grow with the batch, on a stand-in of PyTorch's CUDA allocator: torch_batch.py BATCH. Prints the
peaks of allocated and reserved bytes."""
import sys

import torch
from torch import _C

batch = int(sys.argv[1])
weights = [_C.malloc(1_000_003 * (1 + i)) for i in range(3)]
allocated = 0
for step in range(4):
    with torch.autograd.record_function(f"step {step}"):
        inputs = _C.malloc(40_001 * batch)
        first = _C.malloc(333_337 * batch + 77)
        second = _C.malloc(1_234_567 * batch)
        _C.free(first)
        third = _C.malloc(501 * batch * batch + 13 * batch)
        for block in (inputs, second, third):
            _C.free(block)
device = _C._devices[0].allocator
print(device.peak_allocated, device.peak_reserved)
