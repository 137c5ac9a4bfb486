#!/usr/bin/env python3
"""Six classic leaks of PyTorch programs, each with a mended twin:

    classic.py [WHAT...] [--mended] [--steps N]

Lines that allocate the leaked blocks end with `# LEAK WHAT`.
"""

import torch
from torch import nn

import forked

WIDTH = 32


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def batch(size=16):
    inputs = torch.randn(size, WIDTH)
    return inputs, inputs.sum(dim=1, keepdim=True)


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


def loss_kept(steps, mended):
    """The sum of validation losses keeps every loss with its graph."""
    model, optimizer = make()
    total = 0
    for _ in range(steps):
        train_step(model, optimizer, *batch())
        inputs, targets = batch()
        loss = ((model(inputs) - targets) ** 2).mean()  # LEAK loss_kept
        total += loss.item() if mended else loss


def outputs_kept(steps, mended):
    """Predictions are collected for a metric that nobody reads."""
    model, optimizer = make()
    outputs = []
    for _ in range(steps):
        train_step(model, optimizer, *batch())
        with torch.no_grad():
            output = model(batch()[0])  # LEAK outputs_kept
        outputs.append(output.mean().item() if mended else output)


def hook_captures(steps, mended):
    """A forward hook keeps the tensors that pass."""
    model, optimizer = make()
    seen = []
    model[1].register_forward_hook(lambda module, arguments, output: seen.append(
        float(output.mean()) if mended else output.detach()))
    for _ in range(steps):
        inputs, targets = batch()
        optimizer.zero_grad()
        prediction = model(inputs)  # LEAK hook_captures
        nn.functional.mse_loss(prediction, targets).backward()
        optimizer.step()


def exception_pins(steps, mended):
    """A kept exception keeps its traceback, and the traceback the frames with their locals."""
    model, optimizer = make()
    errors = []

    def check(inputs):
        scaled = inputs * 2  # LEAK exception_pins
        if scaled.sum() == scaled.sum():
            raise ValueError("bad batch")

    for _ in range(steps):
        train_step(model, optimizer, *batch())
        try:
            check(batch()[0])  # LEAK exception_pins
        except ValueError as error:
            errors.append(str(error) if mended else error)


def shape_cache(steps, mended):
    """Masks are cached by length, and lengths never end."""
    model, optimizer = make()
    masks = {}
    for step in range(steps):
        train_step(model, optimizer, *batch())
        length = 16 + (step % 4 if mended else step)
        if length not in masks:
            masks[length] = torch.ones(length, length)  # LEAK shape_cache
        masks[length].sum()


def graph_retained(steps, mended):
    """Gradients of gradients, made with create_graph, make a cycle of parameters and graph."""
    model, optimizer = make()
    penalties = []
    for _ in range(steps):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)  # LEAK graph_retained
        penalty = sum((gradient ** 2).sum() for gradient in gradients)  # LEAK graph_retained
        (loss + 0.01 * penalty).backward()
        optimizer.step()
        penalties.append(penalty.item() if mended else penalty)


WHAT = {f.__name__: f for f in (loss_kept, outputs_kept, hook_captures, exception_pins, shape_cache, graph_retained)}


if __name__ == "__main__":
    forked.main(WHAT, __doc__)
