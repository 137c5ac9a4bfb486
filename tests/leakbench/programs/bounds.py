"""Containers that bounds in code keep finite, recorded before they are full, and containers that are not. The names of
parts begin with the right answer: bounded, unsure or leak. One part runs: its name is the argument."""
import collections
import heapq
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


class Window:
    """`trim` and `flush` drop entries that `add` stores; `reset` is never called."""

    def __init__(self, size):
        self.kept, self.size = [], size

    def add(self, value, then):
        self.kept.append(value)
        if then:
            then()

    def trim(self):
        while len(self.kept) > self.size:
            self.kept.pop(0)


class Flushed(Window):
    def trim(self):
        if len(self.kept) >= self.size:
            self.kept.clear()


class Series:
    def __init__(self):
        self.rows = []

    def add(self, value):
        self.rows.append(value)

    def last(self):
        return self.rows[-1] if len(self.rows) > 2 else None

    def reset(self):
        self.rows.clear()


class Sessions:
    """Bounded by what its entries weigh, not by their number."""

    def __init__(self, budget):
        self.budget, self.tokens, self.open = budget, 0, {}

    def keep(self, name, state):
        self.open[name] = state
        self.tokens += len(state)
        self.limit()

    def limit(self):
        while self.tokens > self.budget:
            oldest = next(iter(self.open))
            self.tokens -= len(self.open.pop(oldest))


class Counted(Sessions):
    """Only counts."""

    def __init__(self):
        self.budget, self.tokens, self.told = 0, 0, {}

    def keep(self, name, state):
        self.told[name] = state
        self.tokens += len(state)
        if self.tokens > self.budget:
            os.environ["MANY"] = name


class Log:
    def __init__(self):
        self.lines = []

    def add(self, value):
        self.lines.append(value)


def shorten(log):
    if len(log.lines) > 100:
        del log.lines[0]


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


def bounded_elsewhere():
    window = Window(100)
    for _, value in steps():
        window.add(value, window.trim)


def bounded_flush():
    window = Flushed(90)
    for _, value in steps():
        window.add(value, window.trim)


def bounded_heap(most=100):
    hardest = []
    for step, value in steps():
        heapq.heappush(hardest, (step, value))
        if len(hardest) > most:
            heapq.heappop(hardest)


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


def unsure_function():
    log = Log()
    for _, value in steps():
        log.add(value)
        shorten(log)


def unsure_weight():
    sessions = Sessions(500_000)
    for step, value in steps():
        sessions.keep(f"session {step}", value)


def leak_counted():
    counted = Counted()
    for step, value in steps():
        counted.keep(f"session {step}", value)


class Replay:
    """As in PyTorch's tutorial: fills its list up to the capacity, then goes round."""

    def __init__(self, capacity):
        self.capacity, self.memory, self.at = capacity, [], 0

    def push(self, *values):
        if len(self.memory) < self.capacity:
            self.memory.append(None)
        self.memory[self.at] = values
        self.at = (self.at + 1) % self.capacity


def bounded_replay():
    """Sampled batches give some of the blocks a second name."""
    replay, old = Replay(100), torch.rand(2000)
    for step, value in steps():
        old = torch.rand(2000) if step % 4 == 3 else old
        replay.push(old, value)
        batch = list(zip(*replay.memory[-3:]))
    return batch


def bounded_reservoir():
    kept, seen = [], 0
    for step, value in steps():
        seen += 1
        if len(kept) < MOST:
            kept.append(value)
        elif step % seen < MOST:
            kept[step % seen] = value


def bounded_admitting():
    cache = {}
    for step, value in steps():
        if len(cache) >= MOST:
            continue
        cache[step] = value


def leak_refilled():
    ring = []
    for step, value in steps():
        if len(ring) < MOST:
            ring.append(value)
        if step % 2:
            ring.append(value + 1)


class Follower:
    def __init__(self):
        self.kept, self.most = [], 0

    def add(self, value):
        self.most += 1
        if len(self.kept) < self.most:
            self.kept.append(value)


def leak_raised():
    follower = Follower()
    for _, value in steps():
        follower.add(value)


def leak_followed():
    kept = []
    for step, value in steps():
        if len(kept) <= step:
            kept.append(value)


def leak_divided():
    """Some of the blocks lie in a list without a bound."""
    ring, kept = collections.deque(maxlen=1000), []
    for step, value in steps():
        ring.append(torch.rand(100))
        (ring if step % 20 < 11 else kept).append(value)


def leak_uncalled():
    series = Series()
    for _, value in steps():
        series.add(value)


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
