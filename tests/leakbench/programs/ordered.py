#!/usr/bin/env python3
"""A training that follows the orders in the lines that it reads, and answers each with "done": `run N`: N steps; `run N
leak`: N steps that keep their validation loss."""

import sys

import libmemprof
import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
losses = []


def catch_up():
    """Waits until the collector has taken all events: its answer includes earlier ones. A busy machine therefore drops
    nothing."""
    while libmemprof.stats("cpu/torch") is None:
        pass


def train_step():
    inputs = torch.randn(8, 16)
    loss = model(inputs).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def validate(inputs):
    return model(inputs).abs().mean()  # LEAK


def run(steps, leaks):
    for step in range(steps):
        if step % 50 == 49:
            catch_up()
        train_step()
        inputs = torch.ones(8, 16)
        loss = validate(inputs)
        if leaks:
            losses.append(loss)


for line in sys.stdin:
    _, steps, *leak = line.split()
    run(int(steps), bool(leak))
    catch_up()
    print("done", flush=True)
