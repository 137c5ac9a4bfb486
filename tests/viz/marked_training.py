"""examples/train.py with its steps and regions marked, and a tensor that every step keeps.

    marked_training.py EXAMPLES_FOLDER
"""

import sys

import libmemprof as mp
import torch

sys.path.insert(0, sys.argv[1])
import train  # noqa: E402

KEPT = []


def train_step(model, optimizer, batch):
    mp.step()
    optimizer.zero_grad(set_to_none=True)
    with mp.region("forward"):
        loss = train.compute_loss(model, batch)
    with mp.region("backward"):
        loss.backward()
    with mp.region("optimizer"):
        optimizer.step()
    KEPT.append(torch.zeros(2048))
    return loss.item()


train.train_step = train_step
sys.argv = ["train.py", "--batch-size", "4", "--steps", "12"]
train.main()
