#!/usr/bin/env python3
"""Programs that keep the same number of bytes in each step, at lines that make lasting things, too: rates.py [WHAT...]

For each a line says its name, its process and how many bytes it kept a step.
"""

import queue
import threading

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


def a_pool(steps, _):
    """Threads answer requests in one line each, in turn."""
    model, requests, answers, kept = network()[0].eval(), queue.Queue(), queue.Queue(), []

    def answer():
        with torch.no_grad():
            while (request := requests.get()) is not None:
                kept.append(model(request))
                answers.put(True)

    threads = [threading.Thread(target=answer) for _ in range(3)]
    for thread in threads:
        thread.start()
    steps = max(steps, 60)  # fewer that no line shows are no proof
    for _ in range(steps):
        requests.put(torch.randn(16, 48))
        answers.get()
    for _ in threads:
        requests.put(None)
    for thread in threads:
        thread.join()
    return bytes_of(kept) // steps


def runs_of_training(steps, _):
    """Each of four steps, whose model is kept, with its gradients; the optimizer's state goes with the run. Both are made
    by the line of one function."""
    kept = []

    def run():
        model, optimizer = network()
        for _ in range(4):
            loss = model(torch.randn(32, 48)).pow(2).mean()
            optimizer.zero_grad(set_to_none=False), loss.backward(), optimizer.step()
        kept.append(model)

    for _ in range(max(steps // 4, 12)):
        run()
    tensors = [part for model in kept for p in model.parameters() for part in (p, p.grad)]
    return bytes_of(tensors) // len(kept) // 4


FUNCTIONS = {function.__name__: function for function in (gradients_of_a_hook, outputs_of_a_hook, a_logger, two_sizes,
                                                          a_pool, runs_of_training)}

if __name__ == "__main__":
    forked.main(FUNCTIONS, __doc__)
