#!/usr/bin/env python3
"""Writes a PyTorch snapshot as its history with context "all" gives it: write_snapshot.py FILE ENTRIES [own]. Entries
share their stacks' frames, and whole stacks unless `own` says that each alloc has a list of its own."""
import pickle
import random
import sys

path, wanted, own = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["own"]
pick = random.Random(1)
frames = [{"name": f"function_{i}", "filename": f"/home/user/project/module_{i % 37}.py", "line": i} for i in range(300)]
stacks = [[frames[(s * 7 + k * 3) % 300] for k in range(40)] for s in range(200)]
trace, live, free, now, top = [], [], [], 1757044802340508, 0x7f0000000000


def entry(action, address, size, stack):
    trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": now, "frames": stack,
                  "compile_context": "N/A", "user_metadata": ""})


while len(trace) < wanted:
    now += pick.randrange(1, 30)
    stack = pick.choice(stacks)
    size = pick.randrange(1, 100000)
    if free and pick.random() < 0.8:
        address = free.pop()
    else:
        top += 1 << 20
        address = top
    entry("alloc", address, size, list(stack) if own else stack)
    live.append((address, size, stack))
    if len(live) > 500:
        address, size, stack = live.pop(pick.randrange(len(live)))
        stack = list(stack) if own else stack
        entry("free_requested", address, size, stack)
        entry("free_completed", address, size, stack)
        free.append(address)
with open(path, "wb") as file:
    pickle.dump({"segments": [], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}, file)
