#!/usr/bin/env python3
"""More programs as people write them, some of which leak: newcomers.py WHAT [--mended] [--steps N] [--batch N]

Each runs alone to its end. A JSON line says how many steps it made, which verdict is right, and how many bytes it kept
in all. Lines that allocate what stays end with `# LEAK WHAT`. `--batch`: rows of a batch, where there are batches.
"""

import argparse
import copy
import json
import random
import threading
import queue

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 32


def network(out=8, width=2 * WIDTH):
    return nn.Sequential(nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, out))


# ---- contrastive learning with a queue of keys ----------------------------------------------------------------------

def momentum_contrast(steps, mended):
    """The queue of keys is joined anew in each step; who forgets to cut it has it grow by a batch."""
    query, key = network(), network()
    key.load_state_dict(query.state_dict())
    optimizer = torch.optim.SGD(query.parameters(), lr=0.01, momentum=0.9)
    keys = F.normalize(torch.randn(options.batch, 8))
    for _ in range(steps):
        images = torch.randn(options.batch, WIDTH)
        q = F.normalize(query(images + 0.1 * torch.randn_like(images)))
        with torch.no_grad():
            for slow, fast in zip(key.parameters(), query.parameters()):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            k = F.normalize(key(images))
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ keys.T], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keys = torch.cat([k, keys])  # LEAK momentum_contrast
        if mended:
            keys = keys[:8 * options.batch].clone()
    return steps, options.batch * 8 * 4


# ---- diffusion: training with an average of the weights, pictures now and then --------------------------------------

# ---- an actor and a critic on episodes of uneven length -------------------------------------------------------------

# ---- graphs with sparse neighbours ----------------------------------------------------------------------------------

# ---- beam search ----------------------------------------------------------------------------------------------------

@torch.inference_mode()
def beams(steps, mended):
    """The best line of each search is kept for a report: as a view, which keeps all eight."""
    embed, cell, out = nn.Embedding(100, WIDTH), nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, 100)
    report = []
    for _ in range(steps):
        lines = torch.zeros(8, 1, dtype=torch.long)
        scores, state = torch.zeros(8), torch.zeros(8, WIDTH)
        for _ in range(12):
            state = cell(embed(lines[:, -1]), state)
            scores, best = (scores[:, None] + out(state).log_softmax(-1)).flatten().topk(8)
            rows = best // 100
            state = state[rows]
            lines = torch.cat([lines[rows], (best % 100)[:, None]], 1)  # LEAK beams
        if mended:
            report.append(lines[0].tolist())
        else:
            report.append(lines[0])
    return steps, 8 * 13 * 8


# ---- small matrices beside a frozen network, task after task --------------------------------------------------------

class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, WIDTH, bias=False)  # LEAK adapters
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapters(steps, mended):
    """A task of ten steps each; the optimizers of past tasks stay in a list, with parameters, gradients and state."""
    base, past = nn.Linear(WIDTH, WIDTH).requires_grad_(False), []
    for _ in range(steps // 10):
        model = Adapted(base)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
        past.append(optimizer)
        if mended:
            del past[:-1]
        for _ in range(10):
            loss = model(torch.randn(options.batch, WIDTH)).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()  # LEAK adapters
        optimizer.zero_grad(set_to_none=True)
    return steps // 10 * 10, (3 * 2 * 4 * WIDTH + 2) * 4 / 10  # two counts of Adam's are numbers


# ---- a teacher ------------------------------------------------------------------------------------------------------

# ---- folds ----------------------------------------------------------------------------------------------------------

def folds(steps, mended):
    """One network for all folds, put back to how it was; predictions of each fold are kept with their graph."""
    rows, wanted = torch.randn(6 * 32, WIDTH), torch.randint(3, (6 * 32,))
    model, scores = network(3), []
    fresh = copy.deepcopy(model.state_dict())
    for fold in range(6):
        model.load_state_dict(fresh)
        optimizer = torch.optim.Adam(model.parameters())
        learn = torch.arange(6 * 32) // 32 != fold
        for _ in range(steps // 6):
            some = torch.randperm(int(learn.sum()))[:options.batch]
            loss = F.cross_entropy(model(rows[learn][some]), wanted[learn][some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = model(rows[~learn]).argmax(1) == wanted[~learn]
        scores.append(right.float().mean().item())
    return steps // 6 * 6, 0


# ---- evolution ------------------------------------------------------------------------------------------------------

# ---- trials of other sizes ------------------------------------------------------------------------------------------

def trials(steps, mended):
    """A search over widths and rates, 15 steps a trial; the study keeps the best one's weights."""
    best, study = None, []
    for trial in range(steps // 15):
        model = network(4, random.choice((32, 48, 64, 96, 128)))
        make = random.choice((torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop))
        optimizer = make(model.parameters(), lr=10 ** random.uniform(-4, -1))
        for _ in range(15):
            loss = F.mse_loss(model(torch.randn(options.batch, WIDTH)), torch.zeros(options.batch, 4))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        study.append(loss.item())
        if best is None or loss.item() < best[0]:
            best = loss.item(), copy.deepcopy(model.state_dict())
    return steps // 15 * 15, 0


# ---- a server that joins requests -----------------------------------------------------------------------------------

def batching(steps, mended):
    """One thread joins what three clients ask for into batches of up to eight; a dict of all answers by number is never
    emptied, and each entry is a view of its batch."""
    model, asked, answers, made = network(16).eval(), queue.Queue(), {}, []
    done = {number: threading.Event() for number in range(steps)}

    @torch.inference_mode()
    def serve():
        left = steps
        while left:
            batch = [asked.get()]
            while len(batch) < 8 and not asked.empty():
                batch.append(asked.get())
            out = model(torch.stack([x for _, x in batch]))  # LEAK batching
            made.append(len(batch))
            for (number, _), row in zip(batch, out):
                answers[number] = row
                done[number].set()
            left -= len(batch)

    def ask(client):
        for number in range(client, steps, 3):
            asked.put((number, torch.randn(WIDTH)))
            done[number].wait()
            if mended:
                del answers[number]

    threads = [threading.Thread(target=serve), *(threading.Thread(target=ask, args=(i,)) for i in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(made), sum(made) * 16 * 4 / len(made)


# ---- an optimizer with a closure and meta learning -----------------------------------------------------------------

def inner_loops(steps, mended):
    """Three inner steps on copies of the weights with a graph through them, then one outer step; the outer losses are
    kept with all of their graphs."""
    slow = [torch.randn(WIDTH, 16, requires_grad=True), torch.zeros(16, requires_grad=True)]
    optimizer, losses = torch.optim.Adam(slow), []

    def loss_of(weights):
        return (torch.randn(options.batch, WIDTH) @ weights[0] + weights[1]).tanh().square().mean()

    for _ in range(steps):
        fast = slow
        for _ in range(3):
            slopes = torch.autograd.grad(loss_of(fast), fast, create_graph=True)
            fast = [weight - 0.1 * slope for weight, slope in zip(fast, slopes)]  # LEAK inner_loops
        outer = loss_of(fast)
        optimizer.zero_grad()
        outer.backward(retain_graph=not mended)
        optimizer.step()
        losses.append(outer.item() if mended else outer)
    return steps, None  # what a graph keeps is the operators' affair


WHAT = {function.__name__: function for function in (
    momentum_contrast, beams, adapters, folds, trials, batching, inner_loops)}
NO_LEAK = {"folds", "trials"}  # in either form

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    made, kept = WHAT[options.what](options.steps, options.mended)
    right = "clean" if options.mended or options.what in NO_LEAK else "leak"
    print(json.dumps({"steps": made, "verdict": right, "kept": made * (kept or 0) if right == "leak" else 0}))
