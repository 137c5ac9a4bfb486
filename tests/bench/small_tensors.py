"""A CPU PyTorch loop of small tensors, where recording costs most: a small network learns, every operation takes
microseconds. For tools/bench.

    small_tensors.py STEPS

Prints processor and wall time of the steps in ns, without the first ones.
"""

import json
import resource
import sys
import time

import torch
from torch import nn

WARM_UP = 20


def build():
    layers = []
    for _ in range(4):
        layers += [nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(32, 1))


def step(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = (model(batch) ** 2).mean()
    loss.backward()
    optimizer.step()


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    batch = torch.randn(8, 32)
    for i in range(WARM_UP + steps):
        if i == WARM_UP:
            processor, wall = time.process_time_ns(), time.perf_counter_ns()
        step(model, optimizer, batch)
    processor, wall = time.process_time_ns() - processor, time.perf_counter_ns() - wall
    print(json.dumps({"count": steps, "cpu_ns": processor, "wall_ns": wall,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
