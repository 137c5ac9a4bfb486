#!/usr/bin/env python3
"""owned_by_modules.py NAME FILE: trains a network. At the end writes the bytes of its modules' parameters, gradients
and optimizer state to FILE, by role and path."""
import json
import sys

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.attend(x).chunk(3, -1)
        return x + self.project(torch.softmax(query @ key.transpose(1, 2), -1) @ value)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.blocks = nn.ModuleList(nn.Sequential(Attention(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
                                    for _ in range(3))
        self.head = nn.Linear(64, 1000)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.LSTM(32, 64, num_layers=2, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.recurrent(x)[0])


PROGRAMS = {
    "language": (Language, lambda: torch.randint(0, 1000, (2, 16)), torch.optim.AdamW),
    "images": (lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 50)),
               lambda: torch.randn(4, 3, 16, 16), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "recurrent": (Recurrent, lambda: torch.randn(4, 12, 32), torch.optim.Adam),
}


def main():
    make, batch, optimizer_of = PROGRAMS[sys.argv[1]]
    model = make()
    optimizer = optimizer_of(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
    owned = {"parameter": {}, "gradient": {}, "optimizer_state": {}}
    for name, parameter in model.named_parameters():
        state = [value for value in optimizer.state[parameter].values() if isinstance(value, torch.Tensor)]
        for role, tensors in zip(owned, ([parameter], [parameter.grad], state)):
            of = owned[role]
            path = name.rpartition(".")[0]
            of[path] = of.get(path, 0) + sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(owned, file)
    import libmemprof
    libmemprof.mark("counted")
    torch.zeros(64 << 20, dtype=torch.uint8)


if __name__ == "__main__":
    main()
