#!/usr/bin/env python3
"""category_oracle.py FILE before|inside: trains networks, and counts the bytes of tensors by role, right before a
backward of each network or in the middle of it. The roles come from the program itself. Its modules have
parameters, gradients and buffers, and its optimizers have the optimizer state. Input is noted where it is made.
Activations are the tensors that autograd has saved. The moment of the count is the peak of a marked step, since a block
of BALLAST bytes is allocated and freed then. Writes the counts
to FILE as JSON."""
import json
import sys

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import libmemprof

BALLAST = 96 << 20
INSIDE = sys.argv[2] == "inside"
checkpoints = []  # what checkpointed parts were called with, and hold


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


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.second = perceptron(256, 400, 256), perceptron(400, 300, 256)
        self.head, self.reentrant = nn.Linear(300, 10), reentrant

    def forward(self, x):
        x.requires_grad_()  # or the first part's parameters get no gradients
        for part in (self.first, self.second):
            checkpoints.append(Weak(x))
            x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=self.reentrant)
        return self.head(x)


def perceptron(inside, outside, width=512):
    return nn.Sequential(nn.Linear(inside, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, outside))


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


class Weak:
    """A weak reference to a tensor's storage."""

    def __init__(self, tensor):
        storage = storage_of(tensor)
        self.address, self.size, self.reference = storage.data_ptr(), storage.nbytes(), StorageWeakRef(storage)


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
            weak = tensor if isinstance(tensor, Weak) else Weak(tensor)
            if not weak.reference.expired():
                seen.setdefault(weak.address, (role, weak.size))
    return {role: sum(size for other, size in seen.values() if other == role) for role in tensors}


def outputs_of(models, keep):
    """Collects the outputs of modules, also of modules that run again within backward."""
    return [module.register_forward_hook(lambda module, given, output: keep.append(Weak(output)) if
                                         isinstance(output, torch.Tensor) else None)
            for model in models for module in model.modules()]


def train(models, middle, batch, loss_of, parts=1):
    """Trains a network. `middle`: the count inside of backward is taken when the gradient of this module's output is
    made. `parts`: batches whose gradients are added up before each step; the count is in the last one."""
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    for step in range(6):
        saved, result = [], {}
        if step >= 4:
            libmemprof.step()  # one that is counted, and one behind it: of the last batch nobody sees when it goes
        batch_now = batch()

        def look(_=None):
            if result:
                return
            result.update(count(models, optimizers, {"input": [*batch_now, *inputs],
                                                     "activations": saved + kept + checkpoints}))
            ballast = torch.empty(BALLAST, dtype=torch.uint8)
            del ballast

        def watch(module, given, output):
            output = output if isinstance(output, torch.Tensor) else output[0]
            if output.requires_grad:  # in what is checkpointed it does only when it is made again
                output.register_hook(look)
        if INSIDE or not step:
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=INSIDE)
        for part in range(1, parts):
            loss_of(*batch())[1][-1].backward()
        hooks = [middle.register_forward_hook(watch), *outputs_of(models, saved)] if step == 4 and INSIDE else []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(Weak(t)), t)[1], lambda t: t):
            inputs, kept = loss_of(*batch_now)
        if not INSIDE and parts == 1:
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=False)
        if step == 4 and not INSIDE:
            look()
        kept[-1].backward()
        for hook in hooks:
            hook.remove()
        for optimizer in optimizers:
            optimizer.step()
        if step == 4:
            counted = result
    return counted


def classify(model, middle, batch, parts=1, half=False):
    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(x)
            logits = logits.view(-1, logits.shape[-1])
            return [], [logits, F.cross_entropy(logits, y)]
    return train([model], middle(model), batch, loss_of, parts)


def compete():
    generator, judge = perceptron(64, 784), perceptron(784, 1)

    def loss_of(noise, real):
        fake = generator(noise)
        both = torch.cat([real, fake])  # what the other network is called with
        verdict = judge(both)
        return [both], [fake, verdict, F.softplus(verdict).mean()]
    return train([generator, judge], generator[4], lambda: (torch.randn(64, 64), torch.randn(64, 784)), loss_of)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    labels = torch.randint
    def images():
        return torch.randn(128, 256), labels(0, 10, (128,))

    def words(lines=4):
        return labels(0, 2000, (lines, 64)), labels(0, 2000, (lines * 64,))
    counts = [
        classify(perceptron(256, 10), lambda model: model[2], images),
        classify(Transformer(), lambda model: model.encoder.layers[0], words),
        classify(Residual(), lambda model: model.second, lambda: (torch.randn(8, 3, 32, 32), labels(0, 500, (8,)))),
        classify(Recurrent(), lambda model: model.recurrent, lambda: (torch.randn(8, 50, 64), labels(0, 100, (400,)))),
        compete(),
        classify(Checkpointed(True), lambda model: model.second[2], images),
        classify(Checkpointed(False), lambda model: model.second[2], images),
        classify(perceptron(256, 10), lambda model: model[2], images, parts=3),
        classify(Transformer(), lambda model: model.encoder.layers[0], lambda: words(16), half=True),
    ]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(counts, file)


if __name__ == "__main__":
    main()
