#!/usr/bin/env python3
"""A small transformer learns to continue repeating sequences. Plain PyTorch: nothing here knows of memprof.

    memprof snapshot -o train.mp -- python3 examples/train.py --batch-size 8
    memprof report train.mp
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 32


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.project_in(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return self.project_out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.contract(F.gelu(self.expand(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Model(nn.Module):
    def __init__(self, length, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        return self.head(self.norm(self.layers(x)))


def make_batch(batch_size, length, device):
    """Sequences that repeat a random period of 3 to 8 tokens."""
    rows = []
    for _ in range(batch_size):
        period = torch.randint(VOCABULARY, (int(torch.randint(3, 9, ())),))
        rows.append(period.repeat(length // len(period) + 2)[: length + 1])
    return torch.stack(rows).to(device)


def compute_loss(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))


def train_step(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = compute_loss(model, batch)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--length", type=int, default=64, help="tokens of a sequence")
    parser.add_argument("--width", type=int, default=64, help="of the model's hidden state")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model = Model(options.length, options.width, heads=4, layers=options.layers).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(options.steps):
        batch = make_batch(options.batch_size, options.length, options.device)
        loss = train_step(model, optimizer, batch)
        if step % 5 == 0 or step == options.steps - 1:
            print(f"step {step:3}  loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
