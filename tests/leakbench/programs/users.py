#!/usr/bin/env python3
"""Programs in the style of people who do not know memprof, some of which leak: users.py WHAT [--mended] [--steps N]

Each runs alone to its end. A JSON line has its number of steps, the right verdict, and the bytes that it kept per step.
Lines that allocate the leaked blocks end with `# LEAK WHAT`.
"""

import argparse
import json
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 32


# ---- a trainer with callbacks, accumulation, evaluation and averaged weights ----------------------------------------

class Callback:
    def on_train_begin(self, trainer):
        pass

    def on_step_end(self, trainer, outputs):
        pass


class Average(Callback):
    def on_train_begin(self, trainer):
        self.shadow = {name: value.clone() for name, value in trainer.model.state_dict().items()}

    def on_step_end(self, trainer, outputs):
        with torch.no_grad():
            for name, value in trainer.model.state_dict().items():
                self.shadow[name].mul_(0.9).add_(value, alpha=0.1)


class Metrics(Callback):
    def __init__(self, mended):
        self.predictions, self.mended = [], mended

    def on_step_end(self, trainer, outputs):
        self.predictions.append(outputs["loss"].item() if self.mended else outputs["logits"])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.LayerNorm(2 * WIDTH))
        self.head = nn.Linear(2 * WIDTH, 10)

    def forward(self, inputs, labels):
        logits = self.head(self.body(inputs))  # LEAK trainer
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Trainer:
    def __init__(self, model, callbacks, steps):
        self.model, self.callbacks, self.steps, self.accumulate = model, callbacks, steps, 2
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (step + 1))

    def batches(self):
        while True:
            yield {"inputs": torch.randn(16, WIDTH), "labels": torch.randint(10, (16,))}

    def training_step(self, batch):
        outputs = self.model(**batch)
        (outputs["loss"] / self.accumulate).backward()
        return outputs

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            found = [self.model(torch.randn(8, WIDTH), torch.randint(10, (8,)))["loss"] for _ in range(4)]
        self.model.train()
        return torch.stack(found).mean().item()

    def train(self):
        batches = self.batches()
        for callback in self.callbacks:
            callback.on_train_begin(self)
        for step in range(self.steps):
            for _ in range(self.accumulate):
                outputs = self.training_step(next(batches))
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            for callback in self.callbacks:
                callback.on_step_end(self, outputs)
            if step % 20 == 19:
                self.evaluate()


def trainer(steps, mended):
    Trainer(Classifier(), [Metrics(mended), Average()], steps).train()
    return steps, 16 * 10 * 4


# ---- diffusion, generation ------------------------------------------------------------------------------------------

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.out = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 50)

    def forward(self, token, past):
        query, key, value = self.mix(self.embed(token)).chunk(3, -1)
        if past is not None:
            key, value = torch.cat([past[0], key], 1), torch.cat([past[1], value], 1)
        else:
            key, value = key.clone(), value.clone()
        return self.out((query @ key.transpose(1, 2)).softmax(-1) @ value)[:, -1], (key, value)


class Held:
    pass


def place(make, where):
    """The model is a local of the caller, a global of the module or an attribute of a lasting object."""
    if where == "local":
        return make().eval()
    owner = sys.modules[__name__] if where == "global" else Held
    owner.model = make().eval()
    return owner.model


def generate(decoder, count):
    with torch.inference_mode():
        token, past, text = torch.zeros(2, 1, dtype=torch.long), None, []
        for _ in range(count):
            logits, past = decoder(token, past)
            token = logits.argmax(-1, keepdim=True)  # LEAK generation
            text.append(token)
    return torch.cat(text, 1)


def generation(steps, mended):
    """One request: tokens and cache grow while it lasts. In memory alone, this looks like `answers`."""
    decoder = place(Decoder, options.model)
    print("#", generate(decoder, steps).shape)
    return steps, 2 * 8


@torch.no_grad()
def answer_all(model, steps, mended):
    answers = {}
    for number in range(steps):
        answers[number] = model(torch.randn(16, WIDTH))  # LEAK answers
        if options.beside:
            beside.append(torch.zeros(4))
        if mended:
            del answers[number]
    return len(answers)


beside = []


def answers(steps, mended):
    """A server whose loop keeps each answer in a local dict."""
    model = place(lambda: nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 16)), options.model)
    answer_all(model, steps, mended)
    return steps, 16 * 16 * 4


# ---- cells of a notebook --------------------------------------------------------------------------------------------

CELLS = ("""
import torch
from torch import nn
model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5))
optimizer = torch.optim.RMSprop(model.parameters())
inputs, labels = torch.randn(400, 20), torch.randint(5, (400,))
losses = []
""", """
for step in range(steps):
    rows = torch.randperm(400)[:32]
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item() if mended else loss.detach().repeat(64))
""", "scores = model(inputs).softmax(-1)\nbest = scores.argmax(1)\n")


def notebook(steps, mended):
    space = {"steps": steps, "mended": mended}
    for number, cell in enumerate(CELLS):
        exec(compile(cell, f"/tmp/ipykernel_4711/{1000 + number}.py", "exec"), space)
    return steps, 64 * 4


# ---- a search for the learning rate, then training with accumulation, evaluation between epochs ---------------------

def search_and_train(steps, mended):
    rows, kept = torch.randn(steps * 8, WIDTH), []
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def one(optimizer, batch, parts=1):
        for part in batch.chunk(parts):
            loss = model(part).square().mean() / parts
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step in range(steps // 3):
        optimizer.param_groups[0]["lr"] *= 1.2
        one(optimizer, rows[step * 8:step * 8 + 8])
    model.load_state_dict(before)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    each = steps // 6
    for epoch in range(4):
        for step in range(each):
            one(optimizer, rows[step * 8:step * 8 + 8], 4)
        with torch.no_grad():
            outputs = [model(rows[i * 8:i * 8 + 8]) for i in range(5)]
        kept.append(torch.cat(outputs).mean().item())
    return steps // 3 + 4 * each, 0


# ---- memory that is freed now and then ------------------------------------------------------------------------------

seen = {}


def cleared_seldom(steps, mended):
    """A cache from which every tenth step drops most or all entries."""
    model = nn.Linear(WIDTH, WIDTH).eval()
    with torch.no_grad():
        for step in range(steps):
            made = model(torch.randn(16, WIDTH))  # LEAK cleared_seldom
            seen[step] = made
            if step % 10 == 9:
                for key in list(seen)[-10:] if mended else list(seen)[-8:]:
                    del seen[key]
    return steps, None


def one_cache(steps, mended):
    """A cache of keys that all prompts share: two lines in turn replace it by a larger one."""
    model, cache = nn.Linear(WIDTH, WIDTH).eval(), torch.empty(0, WIDTH)
    with torch.no_grad():
        for _ in range(steps // 8):
            cache = torch.cat((cache[:0] if mended else cache, model(torch.randn(2000, WIDTH))))
            for _ in range(7):
                cache = torch.cat((cache, model(torch.randn(10, WIDTH))))
    return steps, None


WHAT = {function.__name__: function for function in (
    trainer, generation, answers, notebook, search_and_train, cleared_seldom, one_cache)}
NO_LEAK = {"search_and_train"}  # in either form

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--model", choices=("local", "global", "attribute"), default="global")
    parser.add_argument("--beside", action="store_true", help="keep 16 bytes a step in a global list, too")
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    made, kept = WHAT[options.what](options.steps, options.mended)
    right = "clean" if options.mended or options.what in NO_LEAK else "leak"
    print(json.dumps({"steps": made, "verdict": right, "kept": kept if right == "leak" else 0}))
