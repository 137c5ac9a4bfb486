#!/usr/bin/env python3
"""Programs of kinds that users.py and strangers.py lack, mostly with a leaking form: guests.py [WHAT...] [--mended]
[--steps N] [--batch N]

Each has a process of its own. A JSON line has its name and process, its number of steps, and the bytes that it kept in
all (null: the machine's speed decides). Lines that allocate leaked blocks, or call for them, end with `# LEAK WHAT`.
"""

import argparse
import copy
import json
import os
import queue
import random
import threading

import torch
from torch import nn
from torch.nn import functional as F

import forked

WIDTH = 24
BATCH = 8


def size_of(tensors):
    """The bytes of their storages, each counted once."""
    storages = {tensor.storage().data_ptr(): tensor.storage().nbytes() for tensor in tensors}
    return sum(storages.values())


# ---- policies, trained after each episode ---------------------------------------------------------------------------

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(WIDTH, 32), nn.Linear(32, 3), nn.Linear(32, 1)
        self.saved, self.rewards = [], []

    def forward(self, state):
        x = F.relu(self.body(state))
        return F.softmax(self.actor(x), -1), self.critic(x)


def reinforce(steps, batch, mended):
    """As in PyTorch's own examples. The saved actions are never dropped, so each episode is used again."""
    policy, chance = Policy(), random.Random(3)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.003)

    def act(state):
        chances, value = policy(state)  # LEAK reinforce
        choice = torch.distributions.Categorical(chances)
        action = choice.sample()
        policy.saved.append((choice.log_prob(action), value))  # LEAK reinforce
        return action.item()

    def finish(begin):
        total, losses = 0.0, []
        for (chosen, value), reward in zip(reversed(policy.saved[begin:]), reversed(policy.rewards)):
            total = reward + 0.99 * total
            losses.append(-chosen * (total - value.item()) + F.smooth_l1_loss(value, torch.tensor([total])))
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()

    for _ in range(steps):
        begin = len(policy.saved)
        for _ in range(chance.randrange(5, 25)):
            act(torch.randn(WIDTH))
            policy.rewards.append(1.0)
        finish(begin)
        del policy.rewards[:]
        if mended:
            del policy.saved[:]
    return steps, size_of(part for pair in policy.saved for part in pair)


# ---- a translator that serves ---------------------------------------------------------------------------------------

class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.encode = nn.Embedding(60, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decode, self.out = nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, 60)

    @torch.inference_mode()
    def translate(self, source, length, beams=4):
        states = self.encode(self.words(source))[1][0].expand(beams, WIDTH).contiguous()
        tokens, scores = torch.zeros(beams, 1, dtype=torch.long), torch.zeros(beams)
        for _ in range(length):
            states = self.decode(self.words(tokens[:, -1]), states)
            found = (scores[:, None] + self.out(states).log_softmax(-1)).flatten().topk(beams)
            parents, scores = found.indices // 60, found.values
            tokens = torch.cat([tokens[parents], (found.indices % 60)[:, None]], 1)
            states = states[parents]  # LEAK translator
        return tokens[0], states[0]


def translator(steps, batch, mended):
    """Requests of random length, whose steps are their tokens. The best beam's state is kept for the document's next
    sentence, as a view of all beams' states, and documents are never closed."""
    model, documents, chance, made = Translator().eval(), {}, random.Random(5), 0
    for number in range(steps):
        source = torch.randint(60, (1, chance.randrange(4, 12)))
        tokens, state = model.translate(source, chance.randrange(6, 16))
        made += len(tokens) - 1
        documents[number] = len(tokens) if mended else state
    return made, 0 if mended else size_of(documents.values())


# ---- threads with different work ------------------------------------------------------------------------------------

def staged(steps, batch, mended):
    """A pipeline: one thread makes rows, one encodes and one judges them; the judge keeps its input. It makes four
    times as many steps as the others. Up to 8 batches are under way (two queues of 3, two in work); their number would
    change the rate by an eighth at 120 steps."""
    steps *= 4
    encoder = nn.Sequential(nn.Linear(WIDTH, 48), nn.ReLU(), nn.Linear(48, 16)).eval()
    judge = nn.Linear(16, 2).eval()
    made, encoded, verdicts = queue.Queue(3), queue.Queue(3), []

    def prepare():
        for _ in range(steps):
            made.put(torch.randn(batch, WIDTH) / 2)
        made.put(None)

    def encode():
        with torch.no_grad():
            for rows in iter(made.get, None):
                encoded.put(encoder(rows))
        encoded.put(None)

    def decide():
        with torch.no_grad():
            for rows in iter(encoded.get, None):
                verdict = judge(rows).sigmoid()  # LEAK staged
                verdicts.append(verdict.mean().item() if mended else verdict)

    threads = [threading.Thread(target=target) for target in (prepare, encode, decide)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return steps, 0 if mended else size_of(verdicts)


# ---- meta-learning ---------------------------------------------------------------------------------------------------

def few_shots(steps, batch, mended):
    """Four tasks per outer step, each with its own head and optimizer, which trains for five steps."""
    body, outer_head = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU()), nn.Linear(32, 4)
    outer, log = torch.optim.Adam([*body.parameters(), *outer_head.parameters()]), []
    for _ in range(steps):
        total = torch.zeros(())
        for _ in range(4):
            head = copy.deepcopy(outer_head)
            inner = torch.optim.SGD(head.parameters(), lr=0.1)
            with torch.no_grad():
                seen = body(torch.randn(batch, WIDTH))
            for _ in range(5):
                inner.zero_grad()
                F.cross_entropy(head(seen), torch.randint(4, (batch,))).backward()
                inner.step()
            asked = F.linear(body(torch.randn(batch, WIDTH)), head.weight.detach(), head.bias.detach())
            total = total + F.cross_entropy(asked, torch.randint(4, (batch,)))
            if not mended:
                log.append(asked.detach().softmax(-1))  # LEAK few_shots
        outer.zero_grad()
        total.backward()
        outer.step()
    return steps, size_of(log)


FUNCTIONS = (reinforce, translator, staged, few_shots)


def telling(function):
    def run(*arguments):
        made, kept = function(*arguments)
        print(json.dumps({"what": function.__name__, "pid": os.getpid(), "steps": made, "kept": kept}), flush=True)
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*")
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=BATCH)
    options = parser.parse_args()
    random.seed(0)
    forked.run({function.__name__: telling(function) for function in FUNCTIONS}, options.what, options.steps,
               options.batch, options.mended)
