#!/usr/bin/env python3
"""Training programs that look like leaks in places, but are not: clean.py [WHAT...] [--steps N]"""

import argparse
import collections
import copy

import torch
from torch import nn

import forked

WIDTH = 32


def transformer(steps):
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 64), 3)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        layers(torch.randn(4 + step * 7 % 13, 2, WIDTH)).pow(2).mean().backward()
        optimizer.step()


def evaluated(steps):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters())
    best = None
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).pow(2).mean().backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                losses = [model(torch.randn(16, WIDTH)).pow(2).mean() for _ in range(5)]
            torch.stack(losses).mean().item()
            best = copy.deepcopy(model.state_dict())
    return best


def replay(steps):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    memory, recent = collections.deque(maxlen=steps // 4), collections.deque(maxlen=20)
    for step in range(steps):
        memory.append(torch.randn(4))
        sample = torch.stack([memory[step * 31 * k % len(memory)] for k in range(8)])
        optimizer.zero_grad()
        loss = model(sample).pow(2).mean()
        loss.backward()
        optimizer.step()
        recent.append(loss.detach())


def adversarial(steps):
    maker, judge = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 1)
    making, judging = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(steps):
        judging.zero_grad()
        (judge(torch.randn(8, WIDTH)).mean() - judge(maker(torch.randn(8, 8)).detach()).mean()).backward()
        judging.step()
        making.zero_grad()
        judge(maker(torch.randn(8, 8))).mean().backward()
        making.step()


def curriculum(steps):
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam(model.parameters())
    kept = None
    for step in range(steps):
        kept = torch.randn(4 + step, WIDTH)
        optimizer.zero_grad()
        model(kept).pow(2).mean().backward()
        optimizer.step()


WHAT = {f.__name__: f for f in (transformer, evaluated, replay, adversarial, curriculum)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    forked.run(WHAT, options.what, options.steps)


if __name__ == "__main__":
    main()
