#!/usr/bin/env python3
"""Notebooks, run cell by cell under the names that a notebook's kernel or IPython gives them: cells.py WHAT kernel|input.
Lines "bytes place" name the place, in the user's code, that makes blocks of that size."""

import sys

import torch

KERNEL, INPUT = "/tmp/ipykernel_811/{}.py", "<ipython-input-{}-0c1d2e3f4a5b>"

# A function of one cell that another cell calls. Its blocks are made inside of torch's own Python code.
FUNCTIONS = ("""
from torch import nn
def build(width):
    return nn.Sequential(
        nn.Linear(width, 3 * width), nn.ReLU(),
        nn.Linear(3 * width, 5))
""", """
models = [
    build(16),
    build(20)]
""", """
kept = []
for model, width in zip(models, (16, 20)):
    with torch.no_grad():
        kept.append(model(torch.ones(width - 9, width)))
""")

# Classes with a hook, in a loop of a later cell.
CLASSES = ("""
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(33, 6)
    def forward(self, words):
        return self.table(words).sum(1).exp()
block = Block()
""", """
seen = []
block.register_forward_hook(
    lambda module, given, made: seen.append(made.detach().repeat(1, 4)))
""", """
for _ in range(3):
    block(torch.randint(33, (11, 2)))
""")

# A generator expression, a comprehension and a decorated function.
EXPRESSIONS = ("""
def counted(function):
    def call(*given):
        call.times = getattr(call, "times", 0) + 1
        return function(*given)
    return call
@counted
def noise(rows):
    return torch.randn(rows, 5)
""", """
parts = [noise(rows) for rows in (10, 10)]
joined = torch.cat(
    tuple(part[:, :3].tanh() for part in parts))
""")

WHAT = {
    # By argument: by bytes, the cell and line that a user would name.
    "functions": (FUNCTIONS, {16 * 48 * 4: (0, 5), 20 * 60 * 4: (0, 5), 48 * 5 * 4: (0, 6), 60 * 5 * 4: (0, 6),
                              11 * 60 * 4: (2, 5)}),
    "classes": (CLASSES, {33 * 6 * 4: (0, 5), 11 * 24 * 4: (1, 4)}),
    "expressions": (EXPRESSIONS, {10 * 5 * 4: (0, 9), 20 * 3 * 4: (1, 3), 10 * 3 * 4: (1, 4)}),
}

if __name__ == "__main__":
    cells, made = WHAT[sys.argv[1]]
    names = sys.argv[2]
    space = {"torch": torch}
    for number, cell in enumerate(cells):
        name = KERNEL.format(4100 + number) if names == "kernel" else INPUT.format(1 + number)
        exec(compile(cell, name, "exec"), space)
    for size, (cell, line) in made.items():
        text = f"cell {4100 + cell}" if names == "kernel" else f"Cell In[{1 + cell}]"
        print(size, f"{text}, line {line}")
