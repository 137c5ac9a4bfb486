#!/usr/bin/env python3
"""category_oracle.py FILE: trains five networks and counts, right before a backward of each, what its tensors take by
their role: parameters, gradients and buffers out of its modules, optimizer state out of its optimizers, input as it was
made, activations by what autograd saved for backward. That moment is the peak of a step that is marked for it: a block
of BALLAST bytes comes and goes there. Writes the counts to FILE as JSON."""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

import libmemprof

BALLAST = 96 << 20


class Transformer(nn.Module):
    def __init__(self, width=128, heads=4, layers=2, words=2000):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, words)
        self.register_buffer("scale", torch.ones(300, 300))

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)))


class Residual(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.head = nn.Linear(width * 64, 500)

    def forward(self, x):
        x = F.relu(self.first_norm(self.first(x)))
        x = F.relu(self.second_norm(self.second(x)) + x)
        return self.head(F.avg_pool2d(x, 4).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.LSTM(64, 256, batch_first=True), nn.Linear(256, 100)

    def forward(self, x):
        return self.head(self.recurrent(x)[0])


def perceptron(inside, outside):
    return nn.Sequential(nn.Linear(inside, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, outside))


def storage_of(tensor):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr(), storage.nbytes()


def count(models, optimizers, tensors):
    """Bytes by role; a storage belongs to the first role that holds it."""
    tensors = {
        "parameters": [p for model in models for p in model.parameters()],
        "gradients": [p.grad for model in models for p in model.parameters() if p.grad is not None],
        "buffers": [buffer for model in models for buffer in model.buffers()],
        "optimizer state": [value for optimizer in optimizers for state in optimizer.state.values()
                            for value in state.values() if isinstance(value, torch.Tensor)],
        **tensors}
    seen = {}
    for role, some in tensors.items():
        for tensor in some:
            pointer, size = storage_of(tensor)
            seen.setdefault(pointer, (role, size))
    return {role: sum(size for other, size in seen.values() if other == role) for role in tensors}


def train(models, batch, loss_of):
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    for step in range(6):
        saved = []
        if step >= 4:
            libmemprof.step()  # one that is counted, and one behind it: of the last batch nobody sees when it goes
        batch_now = batch()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t.detach()), t)[1], lambda t: t):
            inputs, kept = loss_of(*batch_now)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=False)
        if step == 4:
            result = count(models, optimizers, {"input": [*batch_now, *inputs], "activations": saved + kept})
            ballast = torch.empty(BALLAST, dtype=torch.uint8)
            del ballast
        saved.clear()
        kept[-1].backward()
        for optimizer in optimizers:
            optimizer.step()
    return result


def classify(model, batch):
    def loss_of(x, y):
        logits = model(x)
        logits = logits.view(-1, logits.shape[-1])
        return [], [logits, F.cross_entropy(logits, y)]
    return train([model], batch, loss_of)


def compete():
    generator, judge = perceptron(64, 784), perceptron(784, 1)

    def loss_of(noise, real):
        fake = generator(noise)
        both = torch.cat([real, fake])  # what the other network is called with
        verdict = judge(both)
        return [both], [fake, verdict, F.softplus(verdict).mean()]
    return train([generator, judge], lambda: (torch.randn(256, 64), torch.randn(256, 784)), loss_of)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    labels = torch.randint
    counts = [
        classify(perceptron(256, 10), lambda: (torch.randn(512, 256), labels(0, 10, (512,)))),
        classify(Transformer(), lambda: (labels(0, 2000, (8, 64)), labels(0, 2000, (512,)))),
        classify(Residual(), lambda: (torch.randn(8, 3, 32, 32), labels(0, 500, (8,)))),
        classify(Recurrent(), lambda: (torch.randn(16, 50, 64), labels(0, 100, (800,)))),
        compete(),
    ]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(counts, file)


if __name__ == "__main__":
    main()
