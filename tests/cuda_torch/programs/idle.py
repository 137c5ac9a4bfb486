"""Forty tensors that nothing reads after a moment, and forty that are read later, held in two lists.

idle.py OUT [KIND NUMBER]...: runs a changed program for each pair, in a child. The change deletes tensor NUMBER of the
list KIND ("never" or "again") at the moment; with "never -1", each tensor of "never" after its last use. OUT gets
[result, peak] of each program. Without a pair the program runs as it is.
"""
import json
import os
import sys

import torch


def run(what, number):
    torch.manual_seed(0)
    x = torch.ones(64, 64, device="cuda")
    total = torch.zeros((), device="cuda")
    module["never"], module["again"] = never, again = [], []
    for i in range(40):
        for held in (never, again):
            tensor = x * (i + 1) if i % 2 else torch.cat([x, x + i])
            total = total + tensor.sum()
            held.append(tensor.repeat(1 + i % 3, 4))
            total = total + held[-1].mean()
            if what == "never" and number < 0 and held is never:
                held.clear()
    del x, tensor, held
    if not what:
        import libmemprof  # only a recorded program has it
        libmemprof.mark("moment")
    if what and number >= 0:
        module[what][number] = None
    peak = torch.empty(1 << 20, device="cuda").fill_(1)
    total = total + peak.sum()
    del peak
    for _ in range(5000):  # the lists no longer grow; this takes longer than a look for holders
        total = total + 1
    try:
        for tensor in again:
            total = total + tensor.mean()
        result = f"done {total.shape} {total.dtype}"
    except Exception as error:
        result = type(error).__name__
    return [result, torch.cuda.max_memory_allocated()]


def in_child(what, number):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, json.dumps(run(what, number)).encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        found = json.load(pipe)
    assert os.waitpid(child, 0)[1] == 0
    return found


module = globals()
pairs = list(zip(sys.argv[2::2], map(int, sys.argv[3::2])))
results = [in_child(*pair) for pair in pairs] or [run(None, 0)]
with open(sys.argv[1], "w") as file:
    json.dump(results, file)
