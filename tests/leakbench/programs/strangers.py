#!/usr/bin/env python3
"""Six programs in the style of frameworks and fields that users.py lacks, mostly with a leaking form: strangers.py WHAT
[--mended] [--steps N]

Each runs alone to its end. A JSON line has its number of steps, the right verdict, and the bytes that it kept in all.
Lines that allocate leaked blocks, or call for them, end with `# LEAK WHAT`.
"""

import argparse
import asyncio
import collections
import concurrent.futures
import dataclasses
import json
import random
import threading

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 32


def size_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def perceptron(outputs=8, width=WIDTH):
    return nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, outputs))


# ---- a trainer with arguments, states and evaluations ---------------------------------------------------------------

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
    """The ring is full at 85 % of the steps. Even without a detach, the critic's target is not kept."""
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


# ---- servers --------------------------------------------------------------------------------------------------------

def least_recently_used(steps, mended):
    """Four threads of a pool; most questions are repeated. Its bound is 20 answers; leaking, it has none."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(3))).eval()
    cache, lock, calls = collections.OrderedDict(), threading.Lock(), []

    def answer(question):
        """Returns a number, because a future keeps its result until somebody asks for it."""
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
    """Requests are coroutines, the network runs in an executor, and sessions keep their last answer. If sessions are
    not closed, all answers stay."""
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


# ---- memory that grows for a while, and is no leak ------------------------------------------------------------------

def curriculum(steps, mended):
    """Sequences become longer all the time, and steps need more; nothing stays."""
    model, head = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for step in range(steps):
        rows = torch.randn(4, 8 + step // 4, WIDTH)
        loss = F.mse_loss(head(model(rows)[0]), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return steps, 0


# ---- no network at all ----------------------------------------------------------------------------------------------

def heat(steps, mended):
    """An equation over time; every tenth field is kept, or only the last ones."""
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
    hugging, actor_critic, least_recently_used, awaited, curriculum, heat)}
NO_LEAK = {"curriculum"}  # in either form

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
