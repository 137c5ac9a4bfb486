#!/usr/bin/env python3
"""Leaks as they were reported: small programs in the shape of the code of the reports that their docstrings name.

    reports.py [WHAT...] [--mended] [--steps N]

Lines that allocate what stays end with `# LEAK WHAT`.
"""

import copy
import functools
import gc
import queue
import threading

import torch
from torch import nn
from torch.nn import functional as F

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


def learn(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def total_loss(steps, mended):
    """google/brax PR 152, labelmodels 4, SpareNet 12: the running loss is a tensor with the graphs of all losses."""
    net, running = Net(), 0.0
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        learn(net, optimizer, *data())
        x, y = data()  # LEAK total_loss
        loss = F.mse_loss(net(x), y)  # LEAK total_loss
        running += loss.item() if mended else loss


class Meter:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value)


def metric_outputs(steps, mended):
    """Lightning's epoch outputs: what every step returns is kept until an epoch's end that never comes."""
    net, meter = Net(10), Meter()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        x, _ = data()
        labels = torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        logits = net(x)  # LEAK metric_outputs
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
        meter.update(logits.argmax(1).float().mean().item() if mended else logits.detach())


def gradient_penalty(steps, mended):
    """pytorch 82528: the penalty that is logged holds the graph of the gradients."""
    critic, log = Net(), []
    optimizer = torch.optim.Adam(critic.parameters(), betas=(0.5, 0.9))
    for _ in range(steps):
        x = torch.randn(8, WIDTH, requires_grad=True)  # LEAK gradient_penalty
        score = critic(x)  # LEAK gradient_penalty
        slope, = torch.autograd.grad(score.sum(), x, create_graph=True)  # LEAK gradient_penalty
        penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()  # LEAK gradient_penalty
        optimizer.zero_grad()
        (score.mean() + 10 * penalty).backward(retain_graph=True)
        optimizer.step()
        log.append(penalty.item() if mended else penalty)


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
    """pytorch 20199: objects that point to themselves, and the collector of cycles switched off for speed."""
    gc.disable()
    net = Net()
    for _ in range(steps):
        request = Request(8, linked=not mended)
        with torch.no_grad():
            answer = net(request.state)
            answer = answer.tanh()


def traceback_kept(steps, mended):
    """pytorch 18853, 27600: the exceptions of bad batches are kept, and with them the frames."""
    net, failures = Net(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def train_on(x, y):
        wide = x.repeat(1, 4)  # LEAK traceback_kept
        if wide.shape[1] != WIDTH:
            raise RuntimeError("shape mismatch")

    for _ in range(steps):
        learn(net, optimizer, *data())
        try:
            x, y = data()  # LEAK traceback_kept
            train_on(x, y)
        except RuntimeError as error:
            failures.append(str(error) if mended else error)
            del x, y


@functools.lru_cache(maxsize=None)
def causal_mask(length):
    return torch.full((length, length), float("-inf")).triu(1)  # LEAK mask_by_length


def mask_by_length(steps, mended):
    """jax 10878, tensorflow 38598 in PyTorch's clothes: one entry for every length, and lengths go on."""
    net = nn.Linear(WIDTH, WIDTH)
    for step in range(steps):
        length = 8 + (step % 5 if mended else step)
        q, k = net(torch.randn(length, WIDTH)), net(torch.randn(length, WIDTH))
        weights = (q @ k.T + causal_mask(length)).softmax(dim=-1)
        weights.sum().backward()
        net.zero_grad()


def state_not_detached(steps, mended):
    """Truncated back-propagation without the truncation: the state drags all earlier steps along."""
    cell, state = nn.RNNCell(WIDTH, WIDTH), torch.zeros(2, WIDTH)
    for _ in range(steps):
        x = torch.randn(2, WIDTH)  # LEAK state_not_detached
        state = cell(x, state.detach() if mended else state)  # LEAK state_not_detached
        with torch.no_grad():
            norm = state.pow(2).mean()
            norm = norm.sqrt()


def checkpoints_in_memory(steps, mended):
    """The best weights are remembered, all of them."""
    net, best = Net(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(steps):
        learn(net, optimizer, *data())
        if mended:
            best.clear()
        best.append(copy.deepcopy(net.state_dict()))  # LEAK checkpoints_in_memory


def grown_optimizer(steps, mended):
    """A parameter group is added for every task; their state is never dropped."""
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


def unread_queue(steps, mended):
    """A thread puts every preview into a queue that nobody reads."""
    net, previews = Net(), queue.Queue(maxsize=4 if mended else 0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def preview(x):
        with torch.no_grad():
            picture = torch.sigmoid(net(x).expand(8, WIDTH) * 2)  # LEAK unread_queue
        if mended and previews.full():
            previews.get()
        previews.put(picture)

    for _ in range(steps):
        learn(net, optimizer, *data())
        worker = threading.Thread(target=preview, args=(torch.randn(8, WIDTH),))
        worker.start()
        worker.join()


def vocabulary_grows(steps, mended):
    """An embedding that is made larger by some rows for each batch."""
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
    total_loss, metric_outputs, gradient_penalty, hook_by_module, context_cycle, collector_off, traceback_kept,
    mask_by_length, state_not_detached, checkpoints_in_memory, grown_optimizer, unread_queue, vocabulary_grows)}


if __name__ == "__main__":
    forked.main(WHAT, __doc__)
