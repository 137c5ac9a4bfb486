#!/usr/bin/env python3
"""Training programs that do not leak, but look like it in places: clean.py [WHAT...] [--steps N]"""

import argparse
import collections
import copy

import torch
from torch import nn

import forked

WIDTH = 32


def plain(steps):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).pow(2).mean().backward()
        optimizer.step()


def transformer(steps):
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 64), 3)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        layers(torch.randn(4 + step * 7 % 13, 2, WIDTH)).pow(2).mean().backward()
        optimizer.step()


def convolution(steps):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


def recurrent(steps):
    model, head = nn.LSTM(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
    optimizer = torch.optim.RMSprop([*model.parameters(), *head.parameters()], lr=1e-3)
    state = None
    for _ in range(steps):
        output, state = model(torch.randn(5, 2, WIDTH), state)
        state = tuple(part.detach() for part in state)
        optimizer.zero_grad()
        head(output).pow(2).mean().backward()
        optimizer.step()


def accumulated(steps):
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        for _ in range(4):
            (model(torch.randn(8, WIDTH)).pow(2).mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


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


def averaged(steps):
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    average = None
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).pow(2).mean().backward()
        optimizer.step()
        if step == steps // 2:
            average = copy.deepcopy(model)
        if average is not None:
            with torch.no_grad():
                for mean, now in zip(average.parameters(), model.parameters()):
                    mean.mul_(0.99).add_(now, alpha=0.01)


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


WHAT = {f.__name__: f for f in (plain, transformer, convolution, recurrent, accumulated, evaluated, replay, averaged,
                                adversarial, curriculum)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    forked.run(WHAT, options.what, options.steps)


if __name__ == "__main__":
    main()
