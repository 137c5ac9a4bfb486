"""Many nodes of autograd made and run that allocate nothing: views of views, from a stack of about 30 Python frames. For
tools/bench.

    torch_nodes.py ROUNDS

Prints processor time of the making ("make_ns") and of the running ("run_ns") of "count" nodes, each in the quickest
round, without the first ones.
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
    leaf, gradient = torch.ones(16, requires_grad=True), torch.ones(16)
    made, run = [], []
    for _ in range(WARM_UP + int(sys.argv[1])):
        times = [time.process_time_ns()]
        result = even(DEPTH, leaf)
        times.append(time.process_time_ns())
        result.backward(gradient)
        times.append(time.process_time_ns())
        made.append(times[1] - times[0])
        run.append(times[2] - times[1])
    print(json.dumps({"count": NODES, "make_ns": min(made[WARM_UP:]), "run_ns": min(run[WARM_UP:])}))


if __name__ == "__main__":
    main()
