#!/usr/bin/env python3
"""A training that leaks: the validation losses are kept as tensors, and each keeps its computation graph alive. With
`--leak`, a default argument keeps a layer's outputs, or a cache without a bound keeps noise.

Plain PyTorch:

    memprof snapshot --holders -o leak.mp -- python3 examples/leak.py [--leak default|cache]
    memprof leaks leak.mp
"""

import argparse
import functools

import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))


def compute_loss(model, inputs):
    return nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))


def train_step(model, optimizer, inputs):
    optimizer.zero_grad(set_to_none=True)
    compute_loss(model, inputs).backward()
    optimizer.step()


def validate(model, inputs):
    return compute_loss(model, inputs)  # without torch.no_grad(): the loss remembers how it was computed


def remember(layer, inputs, output, outputs=[]):
    outputs.append(output.detach())  # all calls share one list


@functools.lru_cache(maxsize=None)  # no step comes twice, so each call adds an entry
def noise_of(step):
    return torch.randn(32, 64, generator=torch.Generator().manual_seed(step))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--leak", choices=("losses", "default", "cache"), default="losses",
                        help="what keeps tensors (default: %(default)s)")
    parser.add_argument("--fixed", action="store_true", help="do not leak: keep numbers instead of tensors")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model = make_model().to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held_out = torch.randn(32, 64, device=options.device)
    losses = []
    if options.leak == "default" and not options.fixed:
        model[1].register_forward_hook(remember)
    for step in range(options.steps):
        inputs = torch.randn(32, 64, device=options.device)
        if options.leak == "cache" and not options.fixed:
            inputs = inputs + 0.01 * noise_of(step).to(options.device)
        train_step(model, optimizer, inputs)
        loss = validate(model, held_out)
        if options.fixed or options.leak != "losses":
            loss = loss.item()
        losses.append(loss)  # the leak: a tensor keeps all activations of its validation
    first, last = (float(value.detach()) if torch.is_tensor(value) else value for value in (losses[0], losses[-1]))
    print(f"validation loss {first:.3f} -> {last:.3f} after {len(losses)} steps")


if __name__ == "__main__":
    main()
