#!/usr/bin/env python3
"""Writes a PyTorch snapshot of a long training with batches of many lengths: write_trace.py FILE ENTRIES. Addresses are
invented, each for a place of its own, as replays under other settings do not use them."""
import pickle
import random
import sys

path, wanted = sys.argv[1], int(sys.argv[2])
pick = random.Random(1)
trace, top = [], 1 << 40


def entry(action, address, size):
    trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 10**15 + len(trace),
                  "frames": []})


def take(size):
    global top
    top += 1 << 34
    entry("alloc", top, size)
    return top, size


def free(block):
    entry("free_requested", *block)
    entry("free_completed", *block)


kept = [take(pick.choice([768 * 768, 768 * 3072, 768 * 50257]) * 4) for _ in range(200)]
while len(trace) < wanted:
    length, batch = pick.randrange(64, 1024), 8
    held = []
    for layer in range(24):
        for width in (768, 2304, 768, 3072, 3072, 768):
            scratch = take(batch * length * width)
            held.append(take(batch * length * width * 2))
            free(scratch)
        held.append(take(batch * 12 * length * length * 2))
    held.append(take(batch * length * 50257 * 4))
    while held:
        gradient = take(held[-1][1])
        free(held.pop())
        free(gradient)
with open(path, "wb") as file:
    pickle.dump({"segments": [], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}, file)
