#!/usr/bin/env python3
"""Loops of PyTorch programs as people write them, without any mark: loops.py [WHAT...]

A line for each has its name, its process and its number of steps.
"""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import forked

WIDTH = 16


def mlp(layers=2, inputs=WIDTH, outputs=1):
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(inputs, WIDTH), nn.Tanh()]
        inputs = WIDTH
    return nn.Sequential(*parts, nn.Linear(WIDTH, outputs))


def accumulation():
    """Every fourth micro-batch is followed by the optimizer."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(80):
        loss = F.mse_loss(model(torch.randn(4, WIDTH)), torch.randn(4, 1)) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return 20


def evaluation():
    model, best = mlp(), None
    optimizer = torch.optim.Adam(model.parameters())
    held_out = [torch.randn(8, WIDTH) for _ in range(6)]
    for step in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).pow(2).mean().backward()
        optimizer.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                losses = []
                for inputs in held_out:
                    output = model(inputs)
                    losses.append(output.pow(2).mean().item())
            best = copy.deepcopy(model.state_dict()) if best is None else best
            model.train()
    return 40


def train_epoch(model, optimizer, loader):
    model.train()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()


def test_epoch(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, targets in loader:
            output = model(inputs)
            loss = F.cross_entropy(output, targets, reduction="sum").item()
            correct += output.argmax(dim=1).eq(targets).sum().item()
    return correct, loss


def epochs():
    """As in PyTorch's own examples."""
    model = mlp(outputs=4)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    train = DataLoader(TensorDataset(torch.randn(120, WIDTH), torch.randint(0, 4, (120,))), batch_size=8, shuffle=True)
    test = DataLoader(TensorDataset(torch.randn(60, WIDTH), torch.randint(0, 4, (60,))), batch_size=20)
    for _ in range(4):
        train_epoch(model, optimizer, train)
        test_epoch(model, test)
        scheduler.step()
    return 60


def gan():
    generator, critic = mlp(outputs=WIDTH), mlp(3)
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(30):
        critic.zero_grad()
        real = torch.randn(8, WIDTH) + 2
        label = torch.ones(8, 1)
        output = critic(real)
        real_error = criterion(output, label)
        real_error.backward()
        fake = generator(torch.randn(8, WIDTH))
        label.fill_(0)
        output = critic(fake.detach())
        fake_error = criterion(output, label)
        fake_error.backward()
        of_critic.step()
        generator.zero_grad()
        label.fill_(1)
        output = critic(fake)
        error = criterion(output, label)
        error.backward()
        of_generator.step()
    return 30


def inference():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 32), 6).eval()
    with torch.no_grad():
        for length in range(5, 45):
            inputs = torch.randn(length, 2, WIDTH)
            output = model(inputs)
            best = output.softmax(dim=-1).argmax(dim=-1)
    return 40


class Trainer:
    """As frameworks are built: the loop, the step and the hooks are in different methods."""

    def __init__(self):
        self.model = mlp(4)
        self.optimizer = torch.optim.NAdam(self.model.parameters())
        self.seen = torch.zeros(())

    def fit(self, epochs, batches):
        for _ in range(epochs):
            self.run_epoch(batches)

    def run_epoch(self, batches):
        for i in range(batches):
            self.run_batch(i)

    def run_batch(self, i):
        batch = self.make_batch(i)
        loss = self.training_step(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.after_step(loss)

    def make_batch(self, i):
        return torch.randn(8, WIDTH) * (1 + i)

    def training_step(self, batch):
        prediction = self.model(batch)
        return (prediction - batch.mean(dim=1, keepdim=True)).pow(2).mean()

    def after_step(self, loss):
        self.seen = self.seen * 0.9 + loss.detach() * 0.1


def framework():
    Trainer().fit(3, 15)
    return 45


def lbfgs():
    """The optimizer calls the closure several times in a step."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=5)
    for _ in range(16):
        inputs = torch.randn(8, WIDTH)

        def closure():
            optimizer.zero_grad()
            loss = model(inputs).pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    return 16


class Attention(nn.Module):
    """Attention of one token to all earlier ones, whose keys are appended to a cache."""

    def __init__(self):
        super().__init__()
        self.key, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cache):
        cache = self.key(x) if cache is None else torch.cat([cache, self.key(x)])
        return self.out(torch.softmax(x @ cache.T, -1) @ cache), cache


class Generator(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(30, WIDTH), nn.Linear(WIDTH, 30)
        self.layers = nn.ModuleList(Attention() for _ in range(layers))

    def forward(self, token, caches):
        x = self.embed(token)
        for i, layer in enumerate(self.layers):
            x, caches[i] = layer(x, caches[i])
        return self.head(x)

    @torch.no_grad()
    def generate(self, tokens):
        token, caches = torch.zeros(1, dtype=torch.long), [None] * len(self.layers)
        for _ in range(tokens):
            output = self(token, caches)
            token = output.argmax(-1)
        return token


def one_request():
    Generator(2).eval().generate(120)
    return 120


def requests():
    generator = Generator(6).eval()
    for _ in range(5):
        generator.generate(30)
    return 150


def one_line():
    model, x = mlp(4, outputs=WIDTH).eval(), torch.randn(4, WIDTH)
    with torch.no_grad():
        for _ in range(50):
            x = model(x)
    return 50


def one_line_that_trains():
    model = mlp(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def closure():
        optimizer.zero_grad(); loss = model(torch.randn(8, WIDTH)).pow(2).mean(); loss.backward(); return loss

    for _ in range(40): optimizer.step(closure)
    return 40


WHAT = {f.__name__: f for f in (
    accumulation, evaluation, epochs, gan, inference, framework, lbfgs, one_request, requests, one_line,
    one_line_that_trains)}


if __name__ == "__main__":
    forked.run(WHAT, sys.argv[1:])
