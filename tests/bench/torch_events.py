"""Many allocs and many frees of tensors, apart, from a mixed stack of about 50 frames. For tools/bench.

    torch_events.py ROUNDS

Prints processor time of the allocs ("alloc_ns") and of the frees ("free_ns") of "count" tensors, and both with wall
time, without the first rounds.
"""

import json
import sys
import time

import torch

WARM_UP, TENSORS, DEPTH = 10, 1000, 26


def make(kept):
    for _ in range(TENSORS // 4):
        kept.append(torch.empty(16))
        kept.append(torch.empty(32))
        kept.append(torch.empty(64))
        kept.append(torch.empty(128))


def even(depth, kept):
    make(kept) if depth == 0 else odd(depth - 1, kept)


def odd(depth, kept):
    make(kept) if depth == 0 else even(depth - 1, kept)


def main():
    rounds = int(sys.argv[1])
    alloc = free = wall = 0
    for i in range(WARM_UP + rounds):
        kept = []
        times = [time.perf_counter_ns(), time.process_time_ns()]
        even(DEPTH, kept)
        times.append(time.process_time_ns())
        kept.clear()
        times += [time.process_time_ns(), time.perf_counter_ns()]
        if i >= WARM_UP:
            alloc += times[2] - times[1]
            free += times[3] - times[2]
            wall += times[4] - times[0]
    print(json.dumps({"count": rounds * TENSORS, "alloc_ns": alloc, "free_ns": free, "cpu_ns": alloc + free,
                      "wall_ns": wall}))


if __name__ == "__main__":
    main()
