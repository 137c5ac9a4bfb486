"""Containers that bounds in code keep finite, recorded before they are full, and containers that are not. The names of
parts begin with the right answer: bounded, unsure or leak. One part runs: its name is the argument."""
import collections
import os
import sys

import torch

MOST = 90
layer = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)


def steps():
    for step in range(60):
        yield step, torch.rand(2000)
        optimizer.zero_grad()
        layer(torch.ones(3, 10)).sum().backward()
        optimizer.step()


class Buffer:
    def __init__(self, size):
        self.items, self.size = collections.OrderedDict(), size

    def add(self, key, value):
        self.items[key] = value
        while len(self.items) > self.size:
            self.items.popitem(last=False)


def bounded_pop():
    ring = []
    for _, value in steps():
        ring.append(value)
        if len(ring) > 80:
            ring.pop(0)


def bounded_del():
    ring = []
    for _, value in steps():
        if len(ring) >= MOST:
            del ring[0]
        ring.append(value)


def bounded_remainder():
    ring = {}
    for step, value in steps():
        ring[step % 75] = value


def bounded_slice():
    ring = []
    for _, value in steps():
        ring.append(value)
        ring = ring[-70:]


def bounded_attribute():
    buffer = Buffer(100)
    for step, value in steps():
        buffer.add(step, value)


def bounded_deque():
    ring = collections.deque(maxlen=200)
    for _, value in steps():
        ring.append(value)


def unsure_number():
    ring = []
    for _, value in steps():
        ring.append(value)
        if len(ring) > int("100"):
            ring.pop(0)


def leak_plain():
    ring = []
    for _, value in steps():
        ring.append(value)


def leak_told():
    ring = []
    for _, value in steps():
        ring.append(value)
        if len(ring) > 50:
            os.environ["MANY"] = "1"


def leak_beside():
    ring, numbers = [], []
    for step, value in steps():
        ring.append(value)
        numbers.append(step)
        if len(numbers) > 30:
            numbers.pop(0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
