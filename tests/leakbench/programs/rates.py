#!/usr/bin/env python3
"""Programs that keep the same bytes in each step, at lines that also make lasting blocks: rates.py [WHAT...]

A line for each has its name, its process and the bytes that it kept per step.
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
    """Threads answer requests in turn, in one line each."""
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
    """Each run has four steps, and its model stays with its gradients; the optimizer's state goes. Both are made by the
    line of one function."""
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


FUNCTIONS = {function.__name__: function for function in (two_sizes, a_pool, runs_of_training)}

if __name__ == "__main__":
    forked.main(FUNCTIONS, __doc__)
