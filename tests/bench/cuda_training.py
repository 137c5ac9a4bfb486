"""A training on CUDA, for tools/bench: cuda_training.py MODE STEPS FILE. On the stand-in GPU kernels take no time, so
that all of a step is what the processor does for it: the worst case for whoever records.

MODE: "-", or what PyTorch's own history of its allocator is to record: "python" or "all" stacks. FILE is written at the
end: by PyTorch's _dump_snapshot(), or by memprof where it records.

Prints processor and wall time of the steps ("cpu_ns", "wall_ns") and of writing ("write_cpu_ns", "write_ns", "bytes").
Also "events" (allocations and frees in the steps), and the highest resident bytes before writing and at the end.
"""

import json
import os
import resource
import sys
import time

import torch
from torch import nn

WARM_UP = 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, values):
        normed = self.norm(values)
        values = values + self.attention(normed, normed, normed, need_weights=False)[0]
        return values + self.shrink(nn.functional.gelu(self.grow(values)))


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def count():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]


def main():
    mode, steps, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.backends.cudnn.enabled = False
    if mode != "-":
        torch.cuda.memory._record_memory_history(stacks=mode)
    model = nn.Sequential(*[Block(128) for _ in range(12)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    answer = {}
    for index in range(WARM_UP + steps):
        if index == WARM_UP:
            events, wall, cpu = count(), time.perf_counter_ns(), time.process_time_ns()
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(4, 64, 128, device="cuda")).square().mean().backward()
        optimizer.step()
    answer["cpu_ns"], answer["wall_ns"] = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    answer["events"], answer["peak_bytes"] = count() - events, peak_bytes()
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    if mode != "-":
        torch.cuda.memory._dump_snapshot(path)
    elif "libmemprof" in sys.modules:
        sys.modules["libmemprof"].snapshot(path)
    answer["write_cpu_ns"], answer["write_ns"] = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    answer["end_peak_bytes"] = peak_bytes()
    answer["bytes"] = os.path.getsize(path) if os.path.exists(path) else 0
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
