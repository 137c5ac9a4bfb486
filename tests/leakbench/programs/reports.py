#!/usr/bin/env python3
"""Reported leaks: small programs in the form of the code in the reports that their docstrings name.

    reports.py [WHAT...] [--mended] [--steps N]

Lines that allocate the leaked blocks end with `# LEAK WHAT`.
"""

import functools
import gc

import torch
from torch import nn

import forked

WIDTH = 24


class Net(nn.Module):
    def __init__(self, outputs=1):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def data(rows=8):
    x = torch.randn(rows, WIDTH)
    return x, x.sum(dim=1, keepdim=True)


def hook_by_module(steps, mended):
    """opacus 176: activations are kept by module, and every step makes new modules."""
    seen = {}

    def keep(module, arguments, output):
        seen[id(module) if mended else module] = arguments[0].detach()

    for _ in range(steps):
        adapter = nn.Linear(WIDTH, WIDTH)  # LEAK hook_by_module
        adapter.register_forward_hook(keep)
        x = torch.randn(8, WIDTH)  # LEAK hook_by_module
        y = adapter(x)  # LEAK hook_by_module
        y.pow(2).mean().backward()  # LEAK hook_by_module
        if mended:
            seen.clear()


class Square(torch.autograd.Function):
    mended = False

    @staticmethod
    def forward(ctx, x):
        y = x * x  # LEAK context_cycle
        ctx.save_for_backward(x)
        if not Square.mended:
            ctx.y = y
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 2 * x * gradient


def context_cycle(steps, mended):
    """pytorch 25340: an output that is an attribute of its own context."""
    Square.mended = mended
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    gc.disable()
    for _ in range(steps):
        x, y = data()
        optimizer.zero_grad()
        loss = (Square.apply(net(x)) - y).pow(2).mean()  # LEAK context_cycle
        loss.backward()
        optimizer.step()


class Request:
    def __init__(self, rows, linked):
        self.state = torch.randn(rows, WIDTH)  # LEAK collector_off
        self.me = self if linked else None


def collector_off(steps, mended):
    """pytorch 20199: objects that refer to themselves, with Python's collector switched off for speed."""
    gc.disable()
    net = Net()
    for _ in range(steps):
        request = Request(8, linked=not mended)
        with torch.no_grad():
            answer = net(request.state)
            answer = answer.tanh()


@functools.lru_cache(maxsize=None)
def causal_mask(length):
    return torch.full((length, length), float("-inf")).triu(1)  # LEAK mask_by_length


def mask_by_length(steps, mended):
    """jax 10878, tensorflow 38598, rewritten for PyTorch: one entry for every length, and lengths never end."""
    net = nn.Linear(WIDTH, WIDTH)
    for step in range(steps):
        length = 8 + (step % 5 if mended else step)
        q, k = net(torch.randn(length, WIDTH)), net(torch.randn(length, WIDTH))
        weights = (q @ k.T + causal_mask(length)).softmax(dim=-1)
        weights.sum().backward()
        net.zero_grad()


def grown_optimizer(steps, mended):
    """A parameter group is added for every task, and their state is never dropped."""
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        prompt = nn.Parameter(torch.randn(4, WIDTH))  # LEAK grown_optimizer
        if mended:
            optimizer = torch.optim.Adam(net.parameters())
        optimizer.add_param_group({"params": [prompt]})
        optimizer.zero_grad(set_to_none=True)
        loss = net(prompt).pow(2).mean()
        loss.backward()  # LEAK grown_optimizer
        optimizer.step()  # LEAK grown_optimizer


def vocabulary_grows(steps, mended):
    """An embedding that grows by some rows for each batch."""
    table = torch.zeros(8, WIDTH)
    net = nn.Linear(WIDTH, 1)
    for _ in range(steps):
        fresh = torch.randn(2, WIDTH)
        if not mended or len(table) < 32:
            table = torch.vstack([table, fresh])  # LEAK vocabulary_grows
        picked = table[torch.randint(0, len(table), (16,))]
        net(picked).pow(2).mean().backward()
        net.zero_grad()


WHAT = {f.__name__: f for f in (
    hook_by_module, context_cycle, collector_off, mask_by_length, grown_optimizer, vocabulary_grows)}


if __name__ == "__main__":
    forked.main(WHAT, __doc__)
