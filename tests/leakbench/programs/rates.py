#!/usr/bin/env python3
"""Programs that keep the same number of bytes in each step, at lines that make lasting things, too: rates.py [WHAT...]

For each a line says its name, its process and how many bytes it kept a step.
"""

import torch
from torch import nn

import forked


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def network():
    model = nn.Sequential(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 20))
    return model, torch.optim.Adam(model.parameters())


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=False)  # so gradients stay, made at the line of backward()
        model(torch.randn(32, 48)).pow(2).mean().backward()
        optimizer.step()


def gradients_of_a_hook(steps, _):
    """Made by backward(), whose line makes the parameters' gradients in the first step."""
    model, optimizer = network()
    kept = []
    model[2].register_full_backward_hook(lambda module, inputs, outputs: kept.append(inputs[0]))
    train(model, optimizer, steps)
    return bytes_of(kept) // steps


def outputs_of_a_hook(steps, _):
    model, optimizer = network()
    kept = []
    model[0].register_forward_hook(lambda module, inputs, output: kept.append(output.detach().clone()))
    train(model, optimizer, steps)
    return bytes_of(kept) // steps


class Logger:
    """Makes room for the first values where it keeps the others."""

    def __init__(self):
        self.kept = []

    def add(self, value):
        for copy in range(1 if self.kept else 30):
            self.kept.append(value.repeat(8))


def a_logger(steps, _):
    model, optimizer = network()
    logger = Logger()
    for _ in range(steps):
        loss = model(torch.randn(32, 48)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.add(loss.detach().reshape(1).repeat(100))
    return bytes_of(logger.kept[30:]) // (steps - 1)


def two_sizes(steps, _):
    model, optimizer = network()
    kept = []
    for _ in range(steps):
        inputs = torch.randn(24, 48)
        output = model(inputs)
        loss = output.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append([output.detach().clone(), inputs.mean(0), inputs.std(0)])
    return bytes_of(sum(kept, [])) // steps


FUNCTIONS = {function.__name__: function for function in (gradients_of_a_hook, outputs_of_a_hook, a_logger, two_sizes)}

if __name__ == "__main__":
    forked.main(FUNCTIONS, __doc__)
