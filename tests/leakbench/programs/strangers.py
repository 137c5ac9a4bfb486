#!/usr/bin/env python3
"""Twelve programs in the styles of other frameworks and fields than those of newcomers.py and users.py, of which most
have a form that leaks: strangers.py WHAT [--mended] [--steps N]

Each runs alone to its end. A JSON line says how many steps it made, which verdict is right, and how many bytes it kept in
all. Lines that allocate what stays, or that call for it, end with `# LEAK WHAT`.
"""

import argparse
import asyncio
import collections
import concurrent.futures
import copy
import dataclasses
import json
import random
import threading

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset

WIDTH = 32


def size_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def perceptron(outputs=8, width=WIDTH):
    return nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, outputs))


# ---- a trainer of arguments, states and evaluations -----------------------------------------------------------------

@dataclasses.dataclass
class Arguments:
    max_steps: int
    accumulate: int = 4
    eval_steps: int = 10
    batch: int = 8


class Trainer:
    def __init__(self, model, arguments, mended):
        self.model, self.arguments, self.mended = model, arguments, mended
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.01, total_steps=arguments.max_steps + 1)
        self.history, self.predictions = [], []

    def compute_loss(self, batch):
        return F.cross_entropy(self.model(batch["input"]), batch["label"])

    def batch(self):
        return {"input": torch.randn(self.arguments.batch, WIDTH), "label": torch.randint(8, (self.arguments.batch,))}

    def prediction_step(self, batch):
        with torch.no_grad():
            return self.model(batch["input"])  # LEAK hugging

    def evaluate(self):
        self.model.eval()
        logits = torch.cat([self.prediction_step(self.batch()) for _ in range(3)])  # LEAK hugging
        if not self.mended:
            self.predictions.append(logits)
        self.model.train()
        return {"eval_mean": logits.mean().item()}

    def train(self):
        step, running = 0, torch.zeros(())
        while step < self.arguments.max_steps:
            for _ in range(self.arguments.accumulate):
                loss = self.compute_loss(self.batch()) / self.arguments.accumulate
                loss.backward()
                running += loss.detach()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.model.zero_grad()
            step += 1
            if step % self.arguments.eval_steps == 0:
                self.history.append({"loss": running.item(), **self.evaluate()})
                running.zero_()


def hugging(steps, mended):
    trainer = Trainer(perceptron(), Arguments(steps), mended)
    trainer.train()
    return steps, size_of(trainer.predictions)


# ---- reinforcement learning -----------------------------------------------------------------------------------------

class Replay:
    """A ring that is filled one transition at a time."""

    def __init__(self, room):
        self.rows, self.room, self.at = [], room, 0

    def push(self, row):
        if len(self.rows) < self.room:
            self.rows.append(None)
        self.rows[self.at] = row
        self.at = (self.at + 1) % self.room

    def sample(self, count):
        return map(torch.stack, zip(*random.choices(self.rows, k=count)))


def actor_critic(steps, mended):
    """The ring is full at 85 % of the steps. Who forgets to detach the target of the critic keeps none of it."""
    actor, critic = perceptron(4), perceptron(1, WIDTH + 4)
    actors, critics = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
    replay, episode, values = Replay(int(steps * 0.85)), [], []
    state = torch.randn(WIDTH)
    for step in range(steps):
        with torch.no_grad():
            action = actor(state).tanh()
        after, reward = torch.randn(WIDTH), torch.rand(1)
        replay.push((state, action, reward, after))
        state = after
        states, actions, rewards, afters = replay.sample(8)
        with torch.no_grad():
            target = rewards + 0.9 * critic(torch.cat([afters, actor(afters).tanh()], 1))
        value = critic(torch.cat([states, actions], 1))
        loss = F.smooth_l1_loss(value, target)
        critics.zero_grad()
        loss.backward()
        critics.step()
        gain = -critic(torch.cat([states, actor(states).tanh()], 1)).mean()
        actors.zero_grad()
        gain.backward()
        actors.step()
        if not mended:
            values.append(value.detach() * 1.0)  # LEAK actor_critic
    return steps, size_of(values)


# ---- sampling of pictures -------------------------------------------------------------------------------------------

class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside, self.outside = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.time = nn.Embedding(64, 8)

    def forward(self, x, time):
        return self.outside(F.silu(self.inside(x) + self.time(time)[:, :, None, None]))


class Pipeline:
    def __init__(self):
        self.model, self.seen = Denoiser().eval(), []

    @torch.no_grad()
    def __call__(self, count, mended):
        x = torch.randn(1, 3, 16, 16)
        for time in reversed(range(count)):
            both = self.model(torch.cat([x, x]), torch.full((2,), time))
            with_words, without = both.chunk(2)
            guided = without + 3 * (with_words - without)  # LEAK guidance
            x = x - 0.05 * guided
            if not mended:
                self.seen.append(guided)
        return x


def guidance(steps, mended):
    """Six pictures of a sixth of the steps each."""
    pipeline = Pipeline()
    for _ in range(6):
        pipeline(steps // 6, mended)
    return steps // 6 * 6, size_of(pipeline.seen)


# ---- servers --------------------------------------------------------------------------------------------------------

def least_recently_used(steps, mended):
    """Four threads of a pool; most questions come again. Its bound is 20 answers, or none."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(3))).eval()
    cache, lock, calls = collections.OrderedDict(), threading.Lock(), []

    def answer(question):
        """A number: a future keeps what it is given until somebody asks for it."""
        with lock:
            if question in cache:
                return 0
            cache[question] = None
        with torch.inference_mode():
            found = model(torch.randn(4, WIDTH))  # LEAK least_recently_used
        calls.append(question)
        with lock:
            cache[question] = found
            while mended and len(cache) > 20:
                cache.popitem(last=False)
        return float(found[0, 0])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        sum(pool.map(answer, random.choices(range(steps), k=3 * steps)))
    return len(calls), size_of(cache.values())


def awaited(steps, mended):
    """Requests as coroutines, the network in an executor; sessions keep their last answer, and who forgets to close them
    keeps all."""
    model, sessions = perceptron().eval(), {}

    def run(inputs):
        with torch.no_grad():
            return model(inputs).softmax(-1)  # LEAK awaited

    async def handle(number, loop, pool):
        sessions[number] = await loop.run_in_executor(pool, run, torch.randn(16, WIDTH))
        await asyncio.sleep(0)
        if mended:
            del sessions[number]

    async def main():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for first in range(0, steps, 4):
                await asyncio.gather(*(handle(first + at, loop, pool) for at in range(4)))

    asyncio.run(main())
    return steps // 4 * 4, size_of(sessions.values())


# ---- what grows for a while, and is no leak -------------------------------------------------------------------------

def curriculum(steps, mended):
    """Sequences become longer all the time, and so does what a step takes; nothing of it stays."""
    model, head = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for step in range(steps):
        rows = torch.randn(4, 8 + step // 4, WIDTH)
        loss = F.mse_loss(head(model(rows)[0]), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return steps, 0


def averaged_late(steps, mended):
    """From three quarters on the weights are averaged."""
    model = perceptron()
    optimizer, averaged = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), None
    for step in range(steps):
        loss = model(torch.randn(16, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == steps * 3 // 4:
            averaged = torch.optim.swa_utils.AveragedModel(model)
        elif averaged is not None and step % 5 == 0:
            averaged.update_parameters(model)
    return steps, 0


class Decoded(Dataset):
    """Rows are made when they are first asked for, and kept."""

    def __init__(self, count, room):
        self.count, self.room, self.made = count, room, {}

    def __len__(self):
        return self.count

    def __getitem__(self, at):
        if at not in self.made:
            row = torch.randn(WIDTH)
            if len(self.made) == self.room:
                return row
            self.made[at] = row
        return self.made[at]


def cached_rows(steps, mended):
    """The first of three epochs fills the cache."""
    loader = DataLoader(Decoded(steps // 3 * 8, steps * 8), batch_size=8, shuffle=True)
    model = perceptron(WIDTH)
    optimizer = torch.optim.RMSprop(model.parameters())
    for _ in range(3):
        for rows in loader:
            optimizer.zero_grad()
            F.mse_loss(model(rows), rows).backward()
            optimizer.step()
    return steps // 3 * 3, 0


def stopped_early(steps, mended):
    """Each epoch that is better than all before leaves a copy: of the best one, or of each."""
    model, copies, best = perceptron(), [], None
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(steps // 5):
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(16, WIDTH)).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            model(torch.randn(64, WIDTH)).square().mean().item()
        best = copy.deepcopy(model.state_dict())  # LEAK stopped_early
        if not mended:
            copies.append(best)
    return steps // 5 * 5, sum(size_of(state.values()) for state in copies)


# ---- data that streams in -------------------------------------------------------------------------------------------

class Lines(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for _ in range(self.count // (worker.num_workers if worker else 1)):
            yield torch.randint(100, (8,))


def streamed(steps, mended):
    """Two workers; the tokens of each batch are kept for a count of the words at the end."""
    model = nn.Sequential(nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100))
    optimizer, words, made = torch.optim.SGD(model.parameters(), lr=0.1), [], 0
    for rows in DataLoader(Lines(steps * 4), batch_size=4, num_workers=2):
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        made += 1
        words.append(rows.clone() if not mended else len(rows))  # LEAK streamed
    return made, 0 if mended else size_of(words)


# ---- meta-learning --------------------------------------------------------------------------------------------------

def inner_optimizers(steps, mended):
    """An outer optimizer, and for each task a copy of the network with one of its own, of which all stay, or none."""
    model, tasks = perceptron(1), []
    outer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        learner = copy.deepcopy(model)  # LEAK inner_optimizers
        inner = torch.optim.SGD(learner.parameters(), lr=0.1)
        for _ in range(3):
            inner.zero_grad()
            learner(torch.randn(8, WIDTH)).square().mean().backward()
            inner.step()
        outer.zero_grad()
        for mine, its in zip(model.parameters(), learner.parameters()):
            mine.grad = mine.detach() - its.detach()
        outer.step()
        if not mended:
            tasks.append(learner.requires_grad_(False).state_dict())
            for parameter in learner.parameters():
                parameter.grad = None
    return steps, sum(size_of(task.values()) for task in tasks)


# ---- no network at all ----------------------------------------------------------------------------------------------

def heat(steps, mended):
    """An equation in time; every tenth field is kept, or only the last ones."""
    field = torch.rand(40, 40)
    kept = collections.deque(maxlen=5 if mended else None)
    for step in range(steps):
        around = (field.roll(1, 0) + field.roll(-1, 0) + field.roll(1, 1) + field.roll(-1, 1)) / 4
        field = field + 0.2 * (around - field)
        field[0] = field[-1] = 0
        if step % 10 == 9:
            kept.append(field.clone())  # LEAK heat
    return steps, 0 if mended else size_of(kept)


WHAT = {function.__name__: function for function in (
    hugging, actor_critic, guidance, least_recently_used, awaited, curriculum, averaged_late, cached_rows, stopped_early,
    streamed, inner_optimizers, heat)}
NO_LEAK = {"curriculum", "averaged_late", "cached_rows"}  # in either form

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    made, kept = WHAT[options.what](options.steps, options.mended)
    right = "clean" if options.mended or options.what in NO_LEAK else "leak"
    print(json.dumps({"steps": made, "verdict": right, "kept": kept if right == "leak" else 0}))
