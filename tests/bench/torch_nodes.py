"""Many nodes of autograd made and run that allocate nothing: views of views, from a stack of about 30 Python frames. For
tools/bench.

    torch_nodes.py ROUNDS

Prints processor time of the making ("make_ns") and of the running ("run_ns") of "count" nodes, and both with wall time,
without the first rounds.
"""

import json
import sys
import time

import torch

WARM_UP, NODES, DEPTH = 10, 1000, 26


def make(x):
    for _ in range(NODES // 2):
        x = x.view(4, 4)
        x = x.view(16)
    return x


def even(depth, x):
    return make(x) if depth == 0 else odd(depth - 1, x)


def odd(depth, x):
    return make(x) if depth == 0 else even(depth - 1, x)


def main():
    rounds = int(sys.argv[1])
    leaf, gradient = torch.ones(16, requires_grad=True), torch.ones(16)
    made = run = wall = 0
    for i in range(WARM_UP + rounds):
        times = [time.perf_counter_ns(), time.process_time_ns()]
        result = even(DEPTH, leaf)
        times.append(time.process_time_ns())
        result.backward(gradient)
        times += [time.process_time_ns(), time.perf_counter_ns()]
        if i >= WARM_UP:
            made += times[2] - times[1]
            run += times[3] - times[2]
            wall += times[4] - times[0]
    print(json.dumps({"count": rounds * NODES, "make_ns": made, "run_ns": run, "cpu_ns": made + run, "wall_ns": wall}))


if __name__ == "__main__":
    main()
