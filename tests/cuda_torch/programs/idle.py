"""Twenty tensors that nothing reads after a moment, and twenty that are read later, held in two lists.

idle.py WHAT OUT: WHAT is "none", "never N" or "again N": tensor N of a list is deleted at the moment. OUT gets the result.
"""
import json
import sys

import libmemprof
import torch

what, number, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
x = torch.ones(64, 64, device="cuda")
total = torch.zeros((), device="cuda")
lists = {"never": [], "again": []}
for i in range(20):
    for name in lists:
        tensor = x * (i + 1) if i % 2 else torch.cat([x, x + i])
        total = total + tensor.sum()
        lists[name].append(tensor.repeat(1 + i % 3, 4))
        total = total + lists[name][-1].mean()
del x, tensor
libmemprof.mark("moment")
if what in lists:
    lists[what][number] = None
peak = torch.empty(1 << 20, device="cuda").fill_(1)
total = total + peak.sum()
del peak
try:
    for tensor in lists["again"]:
        total = total + tensor.mean()
    result = f"done {total.shape} {total.dtype}"
except Exception as error:
    result = type(error).__name__
with open(out, "w") as file:
    json.dump([result, torch.cuda.max_memory_allocated()], file)
