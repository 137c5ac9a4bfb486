#!/usr/bin/env python3
"""Programs with a container that fills up and then stays full, such as a replay buffer: buffers.py [WHAT...] --fill
PERCENT

A line for each has its name, its process and -.
"""

import argparse
import collections
import random

import torch
from torch import nn

import forked


def play(steps, remember, sample):
    model = nn.Linear(12, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        seen = torch.randn(12)
        with torch.no_grad():
            done = model(seen)
        remember(seen, done)
        loss = model(sample()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def in_turn(steps, full):
    memory = collections.deque(maxlen=full)
    play(steps, lambda seen, done: memory.append((seen.clone(), done.clone())), lambda: random.choice(memory)[0])


def at_random(steps, full):
    memory = []

    def remember(seen, done):
        if len(memory) < full:
            memory.append((seen, done))
        else:
            memory[random.randrange(full)] = seen, done

    play(steps, remember, lambda: random.choice(memory)[0])


def rows_at_random(steps, full):
    """Three rows a step, each added alone."""
    memory = []

    def remember(seen, done):
        for row in seen.reshape(3, 4):
            if len(memory) < 3 * full:
                memory.append(row.clone())
            else:
                memory[random.randrange(3 * full)] = row.clone()

    play(steps, remember, lambda: torch.stack(random.choices(memory, k=3)).reshape(12))


FUNCTIONS = {function.__name__: function for function in (in_turn, at_random, rows_at_random)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--fill", type=int, default=80)
    options = parser.parse_args()
    random.seed(1)
    forked.run(FUNCTIONS, options.what, options.steps, options.steps * options.fill // 100)
