#!/usr/bin/env python3
"""Programs of kinds that neither users.py, newcomers.py nor strangers.py have, most of which have a form that leaks:
guests.py [WHAT...] [--mended] [--steps N] [--batch N]

Each has a process of its own. A JSON line says its name and process, how many steps it made, and how many bytes it kept in
all (null where the machine's speed decides). Lines that allocate what stays, or that call for it, end with `# LEAK WHAT`.
"""

import argparse
import asyncio
import copy
import functools
import json
import os
import queue
import random
import threading

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

import forked

WIDTH = 24
BATCH = 8


def size_of(tensors):
    """Of their storages, each once."""
    storages = {tensor.storage().data_ptr(): tensor.storage().nbytes() for tensor in tensors}
    return sum(storages.values())


# ---- a GAN whose critic learns five times as often -------------------------------------------------------------------

class Wasserstein:
    def __init__(self):
        self.make = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, WIDTH))
        self.judge = nn.Sequential(nn.Linear(WIDTH, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
        self.of_make = torch.optim.RMSprop(self.make.parameters(), lr=5e-5)
        self.of_judge = torch.optim.RMSprop(self.judge.parameters(), lr=5e-5)

    def penalty(self, real, fake):
        at = torch.rand(len(real), 1)
        between = (at * real + (1 - at) * fake).requires_grad_()
        slope, = torch.autograd.grad(self.judge(between).sum(), between, create_graph=True)
        return (slope.norm(2, 1) - 1).square().mean()

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.make(torch.randn(len(real), 16))
        loss = self.judge(fake).mean() - self.judge(real).mean() + 10 * self.penalty(real, fake)
        self.of_judge.zero_grad()
        loss.backward()
        self.of_judge.step()
        return loss

    def generator_step(self, count):
        fake = self.make(torch.randn(count, 16))  # LEAK wasserstein
        self.of_make.zero_grad()
        (-self.judge(fake).mean()).backward()
        self.of_make.step()
        return fake


def wasserstein(steps, batch, mended):
    """A step is the critic's. The pictures of the other one's are kept for a film, or only the last ones."""
    gan, film = Wasserstein(), []
    for _ in range(steps // 5):
        for _ in range(5):
            gan.critic_step(torch.randn(batch, WIDTH))
        if mended:
            film.clear()
        film.append(gan.generator_step(batch).detach())
    return steps // 5 * 5, 0 if mended else size_of(film)


# ---- accumulation over a loader whose length it does not divide ------------------------------------------------------

def short_groups(steps, batch, mended):
    """Four batches a step; an epoch has ten, so its third step has two. A step is the optimizer's. Gradients of
    all steps are kept, to be compared."""
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.randn(10 * batch, WIDTH), torch.randint(4, (10 * batch,))), batch,
                        shuffle=True)
    done, lengths = 0, []
    while done < steps:
        for number, (rows, labels) in enumerate(loader):
            loss = F.cross_entropy(model(rows), labels) / 4
            loss.backward()
            if number % 4 == 3 or number == len(loader) - 1:
                flat = torch.cat([p.grad.flatten() for p in model.parameters()])  # LEAK short_groups
                lengths.append(flat.norm().item() if mended else flat)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                done += 1
    return done, 0 if mended else size_of(lengths)


# ---- a validation each third epoch, and an end when it gets no better ------------------------------------------------

class Patience:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.seen = patience, float("inf"), 0, []

    def should_stop(self, value):
        self.seen.append(value)
        if float(value) < self.best - 1e-9:
            self.best, self.bad = float(value), 0
        else:
            self.bad += 1
        return self.bad > self.patience


def patient(steps, batch, mended):
    """In validation alone: the loss of each is kept as a tensor, whose graph keeps that whole pass."""
    model = nn.Sequential(nn.Linear(WIDTH, 40), nn.ReLU(), nn.Linear(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    held_out, patience, done = torch.randn(6 * batch, WIDTH), Patience(10**6), 0

    def validate():
        if mended:
            with torch.no_grad():
                return model(held_out).square().mean().item()
        return model(held_out).square().mean()  # LEAK patient

    for epoch in range(steps // 4):
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(batch, WIDTH)).square().mean().backward()
            optimizer.step()
            done += 1
        if epoch % 3 == 2 and patience.should_stop(validate()):
            break
    saved = 6 * batch * (40 + 1) * 4 + 4  # by the two layers and the square; the loss
    return done, 0 if mended else len(patience.seen) * saved


# ---- batches that grow -----------------------------------------------------------------------------------------------

def growing_batch(steps, batch, mended):
    """It doubles at each quarter, as large-batch training has it; one number a step is kept as a tensor of the log."""
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    optimizer, log = torch.optim.SGD(model.parameters(), lr=0.1), []
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for step in range(steps):
        size = batch << (step * 4 // steps)
        logits = model(torch.randn(size, WIDTH))
        loss = F.cross_entropy(logits, torch.randint(10, (size,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        found = logits.detach().argmax(1).bincount(minlength=10)  # LEAK growing_batch
        log.append(found.tolist() if mended else found)
    return steps, 0 if mended else size_of(log)


# ---- policies, learned after each episode ----------------------------------------------------------------------------

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(WIDTH, 32), nn.Linear(32, 3), nn.Linear(32, 1)
        self.saved, self.rewards = [], []

    def forward(self, state):
        x = F.relu(self.body(state))
        return F.softmax(self.actor(x), -1), self.critic(x)


def reinforce(steps, batch, mended):
    """As in PyTorch's own examples; the saved actions are never dropped, so each episode is learned from again."""
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


# ---- experts, of whom each row asks two ------------------------------------------------------------------------------

class Experts(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.gate = nn.Linear(WIDTH, count)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
                                     for _ in range(count))
        self.loads = []

    def forward(self, x):
        gates = self.gate(x).softmax(-1)
        weights, chosen = gates.topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, which = (chosen == number).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, which, None])
        self.loads.append(gates.mean(0))  # LEAK experts
        return out


def experts(steps, batch, mended):
    """Blocks of other sizes in each step, since rows choose; the loads of all steps stay, with their graphs."""
    model, head = Experts(), nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for _ in range(steps):
        rows = torch.randn(4 * batch, WIDTH)
        loss = F.mse_loss(head(model(rows)), rows) + model.loads[-1].var()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if mended:
            model.loads.clear()
    return steps, size_of(model.loads)


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
    """Requests of random length, whose steps are their tokens. The state of the best beam is remembered for the next
    sentence of the same document, as a view of all beams', and documents are never closed."""
    model, documents, chance, made = Translator().eval(), {}, random.Random(5), 0
    for number in range(steps):
        source = torch.randint(60, (1, chance.randrange(4, 12)))
        tokens, state = model.translate(source, chance.randrange(6, 16))
        made += len(tokens) - 1
        documents[number] = len(tokens) if mended else state
    return made, 0 if mended else size_of(documents.values())


# ---- averages of weights ---------------------------------------------------------------------------------------------

def two_averages(steps, batch, mended):
    """One that follows each step, one of the last third's epochs; every epoch's is kept for a soup of them."""
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH))
    optimizer = torch.optim.Adam(model.parameters())
    follows = copy.deepcopy(model).requires_grad_(False)
    swa, rate = torch.optim.swa_utils.AveragedModel(model), torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.01)
    soup = []
    for step in range(steps):
        rows = torch.randn(batch, WIDTH)
        optimizer.zero_grad()
        F.mse_loss(model(rows), rows).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(follows.parameters(), model.parameters()):
                mine.lerp_(its, 0.01)
        if step % 5 == 4:
            if step > steps * 2 // 3:
                swa.update_parameters(model)
                rate.step()
            soup.append({name: value.clone() for name, value in follows.state_dict().items()})  # LEAK two_averages
            if mended:
                del soup[:-3]
    return steps, 0 if mended else size_of(value for state in soup for value in state.values())


# ---- batches that fail ----------------------------------------------------------------------------------------------

def failures(steps, batch, mended):
    """Bad batches are told by an error, which is kept for a report: and with it the frames that it came through."""
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer, errors, chance = torch.optim.Adagrad(model.parameters()), [], random.Random(2)

    def train(rows, labels):
        logits = model(rows)  # LEAK failures
        if labels.max() > 4:
            raise ValueError("a label beyond the last")
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(steps):
        labels = torch.randint(5, (batch,))  # LEAK failures
        if chance.random() < 0.3:
            labels[0] = 7
        try:
            train(torch.randn(batch, WIDTH), labels)  # LEAK failures
        except ValueError as error:
            errors.append(str(error) if mended else error)
    held = batch * ((WIDTH + 64 + 5) * 4 + 8)  # rows, what the layers saved, logits; labels
    return steps - len(errors), 0 if mended else len(errors) * held


# ---- what a loader joins ---------------------------------------------------------------------------------------------

class Sentences(Dataset):
    def __init__(self, count):
        self.rows = [torch.randint(50, (5 + number % 7,)) for number in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.rows[at]


class Collate:
    """Pads; keeps the masks, by mistake, since somebody wanted to look at them once."""

    def __init__(self, mended):
        self.masks, self.mended = [], mended

    def __call__(self, rows):
        joined = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.zeros(joined.shape, dtype=torch.bool)  # LEAK collated
        for number, row in enumerate(rows):
            mask[number, :len(row)] = True
        if not self.mended:
            self.masks.append(mask)
        return joined, mask


def collated(steps, batch, mended):
    collate, done = Collate(mended), 0
    loader = DataLoader(Sentences(12 * batch), batch, shuffle=True, collate_fn=collate)
    words, layer = nn.Embedding(50, WIDTH), nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
    optimizer = torch.optim.AdamW([*words.parameters(), *layer.parameters()])
    while done < steps:
        for rows, mask in loader:
            out = layer(words(rows), src_key_padding_mask=~mask)
            loss = out[mask].square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
    return done, size_of(collate.masks)


# ---- tables of which a batch touches few rows -------------------------------------------------------------------------

def sparse_tables(steps, batch, mended):
    """Sparse gradients; those of each fourth step are kept for a histogram."""
    users, items = nn.Embedding(400, WIDTH, sparse=True), nn.Embedding(300, WIDTH, sparse=True)
    optimizer = torch.optim.SparseAdam([*users.parameters(), *items.parameters()])
    kept = []
    for step in range(steps):
        who, what = torch.randint(400, (batch,)), torch.randint(300, (batch,))
        score = (users(who) * items(what)).sum(-1)
        loss = F.binary_cross_entropy_with_logits(score, torch.rand(batch).round())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            values = users.weight.grad.coalesce().values().clone()  # LEAK sparse_tables
            kept.append(values.norm().item() if mended else values)
    return steps, 0 if mended else size_of(kept)


# ---- checkpoints within a deep network -------------------------------------------------------------------------------

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 32)
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))

    def forward(self, x):
        x = self.first(x)
        for part in self.parts:
            x = x + checkpoint(part, x)  # LEAK recomputed
        return x


def recomputed(steps, batch, mended):
    """The sum of losses that nobody detached keeps the nodes of all steps. What they saved is free, since backward ran; but
    each checkpoint keeps the state of the random numbers that it began with."""
    model = Deep()
    optimizer, running = torch.optim.SGD(model.parameters(), lr=0.01), 0
    for _ in range(steps):
        loss = model(torch.randn(batch, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = running + (loss.item() if mended else loss)
    return steps, 0 if mended else steps * len(model.parts) * torch.get_rng_state().nelement()


# ---- a function of one's own -----------------------------------------------------------------------------------------

class Quantize(torch.autograd.Function):
    scales = []

    @staticmethod
    def forward(ctx, x, keep):
        ctx.scale = x.abs().amax(1, keepdim=True) / 7  # LEAK quantized
        ctx.x = x
        if keep:
            Quantize.scales.append(ctx.scale)
        return (x / ctx.scale).round() * ctx.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.x.abs() <= 7 * ctx.scale), None


def quantized(steps, batch, mended):
    first, last = nn.Linear(WIDTH, 32), nn.Linear(32, 1)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
    for _ in range(steps):
        out = last(Quantize.apply(first(torch.randn(batch, WIDTH)), not mended))
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
    return steps, size_of(Quantize.scales)


# ---- a state that goes on from window to window ----------------------------------------------------------------------

def windows(steps, batch, mended):
    """The state is detached, as it should be; a hook on it, new in each window, keeps what the window gave."""
    model, head = nn.LSTM(WIDTH, 16, batch_first=True), nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    state, weight = None, model.weight_hh_l0
    for _ in range(steps):
        out, state = model(torch.randn(batch, 10, WIDTH), state)  # LEAK windows
        state = tuple(part.detach() for part in state)
        loss = head(out).square().mean()
        seen = out.detach()
        if not mended:
            weight.register_hook(lambda gradient, seen=seen: None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    kept = [hook.__defaults__[0] for hook in (weight._backward_hooks or {}).values()]
    return steps, size_of(kept)


# ---- methods with a cache --------------------------------------------------------------------------------------------

class Positions:
    """Waves by length; a float among the arguments makes each key a new one."""

    @functools.lru_cache(maxsize=None)
    def waves(self, length, phase):
        at = torch.arange(length).float() + phase
        return torch.sin(at[:, None] / torch.arange(1, WIDTH + 1))  # LEAK cached_waves


def cached_waves(steps, batch, mended):
    positions, chance = Positions(), random.Random(7)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    kept = 0
    for _ in range(steps):
        length = chance.choice((8, 12, 16))
        waves = positions.waves(length, 0.0 if mended else chance.random())
        kept += waves.storage().nbytes()
        loss = layer(torch.randn(batch, length, WIDTH) + waves).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return steps, 0 if mended else kept


# ---- several networks behind one loop of events ----------------------------------------------------------------------

def several_models(steps, batch, mended):
    """Requests for three networks of other sizes, one executor each; a router counts what each sent as tensors."""
    models = {name: nn.Sequential(nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, 6)).eval()
              for name, width in (("small", 16), ("middle", 32), ("large", 64))}
    sent = {name: [] for name in models}
    chance = random.Random(11)

    async def ask(name):
        await asyncio.sleep(0)
        with torch.no_grad():
            answer = models[name](torch.randn(batch, WIDTH)).softmax(-1)  # LEAK several_models
        if not mended:
            sent[name].append(answer)
        return answer.argmax(-1).tolist()

    async def client(count):
        for _ in range(count):
            await ask(chance.choice(tuple(models)))

    async def serve():
        await asyncio.gather(*(client(steps // 3) for _ in range(3)))

    asyncio.run(serve())
    return steps // 3 * 3, size_of(answer for answers in sent.values() for answer in answers)


# ---- threads that do other things each -------------------------------------------------------------------------------

def staged(steps, batch, mended):
    """A pipeline: rows are made, encoded and judged by a thread each; the judge keeps what it was given. It makes four
    times the steps: 0 to 8 batches lie between the first and the last stage (two queues of 3, two in work), which were an
    eighth of the rate at 120 steps."""
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


def two_trainers(steps, batch, mended):
    """A thread and an optimizer each; they take turns, so that both make a step before the next of either."""
    kept, turn = [], threading.Barrier(2)

    def train(number):
        model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(steps):
            turn.wait()
            logits = model(torch.randn(batch, WIDTH))  # LEAK two_trainers
            optimizer.zero_grad()
            F.cross_entropy(logits, torch.randint(3, (batch,))).backward()
            optimizer.step()
            if number and not mended:
                kept.append(logits.detach())

    threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return steps, size_of(kept)


def train_and_serve(steps, batch, mended):
    """One thread trains, one answers with a copy of the weights, which it takes anew now and then, and a third looks at
    the answers; these stay."""
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Linear(32, 3))
    shown, answers, kept, done = copy.deepcopy(model).eval(), queue.Queue(4), [], threading.Event()

    def train():
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.randn(batch, WIDTH)).square().mean().backward()
            optimizer.step()
            if step % 10 == 9:
                shown.load_state_dict(model.state_dict())
        done.set()

    def answer():
        while not done.is_set():
            with torch.no_grad():
                answers.put(shown(torch.randn(2 * batch, WIDTH)))
        answers.put(None)

    def look():
        for logits in iter(answers.get, None):
            found = logits.softmax(-1)  # LEAK train_and_serve
            kept.append(found.max().item() if mended else found)  # as many as the machine has time for

    threads = [threading.Thread(target=target) for target in (train, answer, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return steps, None


# ---- meta-learning ---------------------------------------------------------------------------------------------------

def few_shots(steps, batch, mended):
    """Four tasks an outer step, each with a head of its own and an optimizer for it, which learns for five steps."""
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


FUNCTIONS = (wasserstein, short_groups, patient, growing_batch, reinforce, experts, translator, two_averages, failures,
             collated, sparse_tables, recomputed, quantized, windows, cached_waves, several_models, staged, two_trainers,
             train_and_serve, few_shots)


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
