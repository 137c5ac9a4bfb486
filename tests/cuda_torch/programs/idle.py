"""Forty tensors that nothing reads after a moment, and forty that are read later, held in two lists.

idle.py WHAT OUT: WHAT is "none", "never N" or "again N": tensor N of a list is deleted at the moment; "never -1": each behind its last use. OUT gets the result.
"""
import json
import sys

import libmemprof
import torch

what, number, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
x = torch.ones(64, 64, device="cuda")
total = torch.zeros((), device="cuda")
never, again = [], []
for i in range(40):
    for held in (never, again):
        tensor = x * (i + 1) if i % 2 else torch.cat([x, x + i])
        total = total + tensor.sum()
        held.append(tensor.repeat(1 + i % 3, 4))
        total = total + held[-1].mean()
        if what == "never" and number < 0 and held is never:
            held.clear()
del x, tensor, held
libmemprof.mark("moment")
held = {"never": never, "again": again}.get(what)
if held:
    held[number] = None
del held
peak = torch.empty(1 << 20, device="cuda").fill_(1)
total = total + peak.sum()
del peak
for _ in range(1000):  # the lists have ended to grow
    total = total + 1
try:
    for tensor in again:
        total = total + tensor.mean()
    result = f"done {total.shape} {total.dtype}"
except Exception as error:
    result = type(error).__name__
with open(out, "w") as file:
    json.dump([result, torch.cuda.max_memory_allocated()], file)
