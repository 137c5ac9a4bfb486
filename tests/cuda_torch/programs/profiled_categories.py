"""Small programs as in PyTorch's tests of its memory profiler, each under that profiler: profiled_categories.py OUT

OUT gets, for each block that the profiler saw made: in order: the program, its bytes, and the profiler's category. The recording
has a mark with the name of each program where it begins.
"""
import json
import sys

import libmemprof
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler._memory_profiler import Action

DEVICE = "cuda"
torch.manual_seed(0)
rows = []


def ones(*sizes, **more):
    return torch.ones(sizes, device=DEVICE, **more)


def linears(*widths, act=nn.ReLU, last=None):
    parts = []
    for i in range(len(widths) - 1):
        parts += [nn.Linear(widths[i], widths[i + 1]), act()]
    return nn.Sequential(*parts[:-1], *([last] if last else [])).to(DEVICE)


def profiled(name, step):
    step()  # libraries' own memory
    libmemprof.mark(name)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        step()
    libmemprof.mark("over")
    memory = profiler._memory_profile()
    for _, action, (key, version), size in memory.timeline:
        if action == Action.CREATE and key.device.type == DEVICE:
            category = memory._categories.get(key, version)
            rows.append((name, size, category.name if category else None))


def trained(name, model, batch, loss_of, make=None):
    optimizer = make(model.parameters()) if make else None
    kept = []  # as a test that looks at them later

    def step():
        data = batch()
        kept.append(data)
        loss_of(model, *data).backward()
        if optimizer:
            optimizer.step()
        for one in model.parameters():
            one.grad = None
    profiled(name, step)


def simple():
    weights = [ones(300, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step():
        x, targets = ones(200, 300), ones(200, 600)
        y = torch.cat([x * weights[0], x * weights[1]], dim=1)
        F.binary_cross_entropy_with_logits(y, targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    profiled("simple", step)


def pair(wide, narrow):
    return lambda: (ones(128, wide), ones(128, narrow))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        x = x + self.out((q @ k.transpose(-1, -2)).softmax(-1).matmul(v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(x)


def squares(model, x, targets):
    return F.mse_loss(model(x), targets)


if __name__ == "__main__":
    simple()
    trained("module", nn.Linear(200, 100).to(DEVICE), pair(200, 100), lambda model, x, _: model(x).sum(),
            lambda some: torch.optim.SGD(some, lr=0.1, momentum=0.9))
    trained("sequential", linears(200, 400, 300, last=nn.Softmax(1)), pair(200, 300),
            lambda model, x, y: torch.sum((model(x) - y) ** 2).mean())
    trained("timeline", linears(64, 512, 512, last=nn.Softmax(1)), pair(64, 512), squares,
            lambda some: torch.optim.Adam(some, lr=0.1))
    trained("attention", nn.Sequential(Block(128), Block(128)).to(DEVICE), lambda: (ones(4, 64, 128), ones(4, 64, 128)),
            squares, torch.optim.AdamW)
    trained("convolution", nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)).to(DEVICE),
            lambda: (ones(4, 3, 32, 32), ones(4, 8, 28, 28)), squares, lambda some: torch.optim.SGD(some, lr=0.1))
    with open(sys.argv[1], "w") as file:
        json.dump(rows, file)
