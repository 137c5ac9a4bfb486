#!/usr/bin/env python3
"""phases.py NAME: trains a network, and sometimes validates it without gradients, in larger batches; or only infers.
Its functions are named train_step(), validate() and answer()."""
import queue
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 16, 3), nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.head(torch.relu(self.second(x)).mean((2, 3)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(100, 32), nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, 100)

    def forward(self, words):
        return self.head(self.recurrent(self.embedding(words))[0])


def perceptron():
    """A network with too few blocks in a pass for a verdict by lifetimes alone."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train_step():
        loss = F.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def validate():
        right = 0
        with torch.no_grad():
            for _ in range(4):
                right += (model(torch.randn(512, 64)).argmax(1) == 1).sum().item()
        return right

    for _ in range(4):
        for _ in range(10):
            train_step()
        validate()


def images():
    """Validation keeps its predictions until its end."""
    model = Images()
    optimizer = torch.optim.Adam(model.parameters())

    def train_step():
        loss = F.cross_entropy(model(torch.randn(8, 1, 28, 28)), torch.randint(0, 5, (8,)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def validate():
        model.eval()
        logits = [model(torch.randn(48, 1, 28, 28)) for _ in range(5)]
        model.train()
        return torch.cat(logits).softmax(-1).max()

    for step in range(40):
        train_step()
        if step % 8 == 7:
            validate()


class Trainer:
    """A model of words that keeps losses while it validates."""

    def __init__(self):
        self.model = Words()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)

    def loss(self, words):
        return F.cross_entropy(self.model(words[:, :-1]).reshape(-1, 100), words[:, 1:].reshape(-1))

    def train_step(self):
        self.optimizer.zero_grad()
        self.loss(torch.randint(0, 100, (4, 17))).backward()
        self.optimizer.step()

    def validate(self):
        with torch.inference_mode():
            return torch.stack([self.loss(torch.randint(0, 100, (32, 17))) for _ in range(4)]).mean()


def words():
    trainer = Trainer()
    for _ in range(3):
        for _ in range(8):
            trainer.train_step()
        trainer.validate()


def serve(keep):
    """Threads answer requests of the main thread, and keep some answers to the end. Prints the bytes of the kept
    answers. The main thread waits for the first answer, so that the work has begun, and for each of the last ones."""
    model, requests, kept = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 96)).eval(), queue.Queue(), []

    def answer():
        with torch.no_grad():
            while (request := requests.get()) is not None:
                answer = model(request)
                if len(kept) < keep:
                    kept.append(answer)
                del answer, request
                requests.task_done()

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        requests.put(torch.randn(16, 64))
        if not 0 < number < 280:
            requests.join()
    for _ in threads:
        requests.put(None)
    for thread in threads:
        thread.join()
    print(sum(part.numel() * 4 for part in kept))


def server():
    serve(290)


def forgetful_server():
    serve(0)


def server_of_few():
    serve(60)


{f.__name__: f for f in (perceptron, images, words, server, forgetful_server, server_of_few)}[sys.argv[1]]()
