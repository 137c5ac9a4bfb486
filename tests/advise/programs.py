"""Trainings whose owner could change something: programs.py NAME HABITS [CHANGES], each a comma-separated list.

Habits of the program as it is: `late`, gradients are freed between forward and backward; `zeroed`, they are set to zero;
`held`, variables of the loop hold the output and the loss; `foreach`, the optimizer works on lists of tensors; `validates`,
it evaluates after each step; `varies`, batches are of many lengths. Changes that are really made: `zero_grad`, `del`, `one_by_one`, `fused`,
`checkpoint:PATTERN[:COUNT]` (modules of those paths, with * for numbers; the first so many of them).
"""
import functools
import os
import random
import re
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DEVICE = os.environ.get("BENCH_DEVICE", "cpu")
SCALE = float(os.environ.get("BENCH_SCALE", "1"))  # of batches
length = 1.0
torch.manual_seed(0)
if DEVICE == "cuda":
    torch.backends.cudnn.enabled = False


def samples(count):
    return max(1, int(count * SCALE * length))


def rand(*shape):
    return torch.randn(samples(shape[0]), *shape[1:], device=DEVICE)


def ids(high, *shape):
    return torch.randint(0, high, (samples(shape[0]), *shape[1:]), device=DEVICE)


def mlp():
    model = nn.Sequential(*[layer for _ in range(5) for layer in (nn.Linear(256, 256), nn.GELU())], nn.Linear(256, 10))
    return model, lambda: (rand(128, 256), ids(10, 128)), F.cross_entropy


def wide():
    model = nn.Sequential(nn.Linear(128, 4096), nn.ReLU(), nn.Linear(4096, 128))
    return model, lambda: (rand(64, 128), rand(64, 128)), F.mse_loss


def deep():
    model = nn.Sequential(*[layer for _ in range(16) for layer in (nn.Linear(128, 128), nn.LayerNorm(128), nn.Tanh())])
    return model, lambda: (rand(512, 128), rand(512, 128)), F.mse_loss


def cnn():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
                          nn.Flatten(), nn.Linear(32 * 13 * 13, 10))
    return model, lambda: (rand(32, 3, 32, 32), ids(10, 32)), F.cross_entropy


def autoencoder():
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
                          nn.Conv2d(8, 1, 3, padding=1))
    return model, lambda: (lambda x: (x, x))(rand(16, 1, 64, 64)), F.mse_loss


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(4))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        for conv in self.convs:
            x = x + F.relu(conv(x))
        return self.head(x.mean((2, 3)))


def residual():
    return Residual(), lambda: (rand(16, 16, 32, 32), ids(10, 16)), F.cross_entropy


class Language(nn.Module):
    """Logits over a vocabulary are the largest thing that there is."""

    def __init__(self, vocabulary=4000, width=64, depth=2, kind="transformer"):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        if kind == "lstm":
            self.body = nn.LSTM(width, width, depth, batch_first=True)
        elif kind == "gru":
            self.body = nn.GRU(width, width, depth, batch_first=True)
        else:
            self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True), depth)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        x = self.body(self.embedding(x))
        return self.head(x[0] if isinstance(x, tuple) else x)


def loss_of_tokens(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def language(vocabulary=4000, kind="transformer", width=64, depth=2):
    return (Language(vocabulary, width, depth, kind), lambda: (ids(vocabulary, 4, 32), ids(vocabulary, 4, 32)), loss_of_tokens)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64)) for _ in range(4))

    def forward(self, x):
        weight = self.gate(x).softmax(-1)
        return sum(weight[:, i:i + 1] * expert(x) for i, expert in enumerate(self.experts))


def mixture():
    return Mixture(), lambda: (rand(256, 64), rand(256, 64)), F.mse_loss


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(8000, 32), nn.Embedding(8000, 32)
        self.top = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, pairs):
        return self.top(torch.cat((self.users(pairs[:, 0]), self.items(pairs[:, 1])), 1)).squeeze(1)


def recommender():
    return Recommender(), lambda: (ids(8000, 2048, 2), rand(2048)), F.mse_loss


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(784, 64), nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 784))

    def forward(self, x):
        mean, log = self.encode(x).chunk(2, 1)
        return self.decode(mean + torch.randn_like(mean) * (log / 2).exp())


def variational():
    return Variational(), lambda: (lambda x: (x, x))(rand(256, 784)), F.mse_loss


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))

    def forward(self, x):
        return F.cosine_similarity(self.body(x[:, 0]), self.body(x[:, 1]))


def siamese():
    return Siamese(), lambda: (rand(128, 2, 256), rand(128)), F.mse_loss


class Attention(nn.Module):
    """Written by hand: scores are kept for backward."""

    def __init__(self, width=64, heads=4, depth=3):
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
                                                   "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                                                        nn.Linear(4 * width, width)),
                                                   "norm": nn.LayerNorm(width)}) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in layer["qkv"](layer["norm"](x)).chunk(3, 2))
            scores = (q @ k.transpose(2, 3) / 4).softmax(-1)
            x = x + layer["out"]((scores @ v).transpose(1, 2).flatten(2))
            x = x + layer["mlp"](x)
        return x


def attention():
    return Attention(), lambda: (rand(4, 64, 64), rand(4, 64, 64)), F.mse_loss


class Block(nn.Module):
    """As in GPT-2: attention and a multilayer perceptron, each behind a norm."""

    def __init__(self, width, heads=4, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, 2))
        x = x + self.out(((q @ k.transpose(2, 3) / 4).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary=500, width=64, depth=6, dropout=0.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, dropout=dropout) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def decoder(dropout=0.0):
    return Decoder(dropout=dropout), lambda: (ids(500, 4, 64), ids(500, 4, 64)), loss_of_tokens


class Patches(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(5)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


def patches():
    return Patches(), lambda: (rand(8, 3, 64, 64), ids(10, 8)), F.cross_entropy


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm_1, self.norm_2, self.relu = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(x + self.norm_2(self.conv_2(self.relu(self.norm_1(self.conv_1(x))))))


class Residuals(nn.Module):
    """As ResNet is written: stages of blocks, and ReLU in place."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.stage_1 = nn.Sequential(Bottleneck(16), Bottleneck(16), Bottleneck(16))
        self.down = nn.Conv2d(16, 32, 3, 2, 1)
        self.stage_2 = nn.Sequential(Bottleneck(32), Bottleneck(32))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.stage_2(self.down(self.stage_1(self.stem(x)))).mean((2, 3)))


def residuals():
    return Residuals(), lambda: (rand(8, 3, 32, 32), ids(10, 8)), F.cross_entropy


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        pair = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU())
        self.downs = nn.ModuleList([pair(1, 8), pair(8, 16), pair(16, 32)])
        self.ups = nn.ModuleList([pair(32 + 16, 16), pair(16 + 8, 8)])
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        kept = []
        for down in self.downs:
            x = down(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, skip in zip(self.ups, kept[-2::-1]):
            x = up(torch.cat((F.interpolate(x, scale_factor=2.0), skip), 1))
        return self.last(x)


def unet():
    return Unet(), lambda: (lambda x: (x, x))(rand(8, 1, 32, 32)), F.mse_loss


class Experts(nn.Module):
    """Each token goes through one expert of four, in each of three layers."""

    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.ModuleList(Router(width) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Router(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                     for _ in range(4))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        outputs = [expert(x) for expert in self.experts]
        return sum(weights[:, i:i + 1] * output for i, output in enumerate(outputs))


def experts():
    return Experts(), lambda: (rand(256, 64), rand(256, 64)), F.mse_loss


class Recurrent(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)[0]
        return x


def recurrent():
    return Recurrent(), lambda: (rand(8, 32, 64), rand(8, 32, 64)), F.mse_loss


class Mixer(nn.Module):
    def __init__(self, tokens=64, width=32):
        super().__init__()
        self.across = nn.ModuleList(nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
                                    for _ in range(4))
        self.within = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                                  nn.Linear(4 * width, width)) for _ in range(4))

    def forward(self, x):
        for across, within in zip(self.across, self.within):
            x = x + across(x.transpose(1, 2)).transpose(1, 2)
            x = x + within(x)
        return x


def mixer():
    return Mixer(), lambda: (rand(8, 64, 32), rand(8, 64, 32)), F.mse_loss


class Highway(nn.Module):
    """Blocks that end with an activation, one behind the other."""

    def __init__(self, width=128, depth=6):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width),
                                                    nn.Sigmoid()) for _ in range(depth)])
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.layers(x))


def highway():
    return Highway(), lambda: (rand(256, 128), rand(256, 128)), F.mse_loss


class Twins(nn.Module):
    """One body, called twice in a step."""

    def __init__(self, width=96):
        super().__init__()
        self.body = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                                nn.Linear(4 * width, width)) for _ in range(3))

    def encode(self, x):
        for layer in self.body:
            x = x + layer(x)
        return x

    def forward(self, pair):
        return F.cosine_similarity(self.encode(pair[:, 0]), self.encode(pair[:, 1]))


def twins():
    return Twins(), lambda: (rand(128, 2, 96), rand(128)), F.mse_loss


class Adversaries(nn.Module):
    def __init__(self):
        super().__init__()
        layers = lambda *sizes: nn.ModuleList(nn.Sequential(nn.Linear(a, 2 * b), nn.LeakyReLU(0.2), nn.Linear(2 * b, b),
                                                            nn.LeakyReLU(0.2)) for a, b in zip(sizes, sizes[1:]))
        self.makes, self.judges, self.verdict = layers(32, 128, 256, 784), layers(784, 256, 128), nn.Linear(128, 1)

    def forward(self, x):
        for layer in self.makes:
            x = layer(x)
        for layer in self.judges:
            x = layer(x)
        return self.verdict(x).squeeze(1)


def adversaries():
    return Adversaries(), lambda: (rand(128, 32), rand(128)), F.mse_loss


class Pairs(nn.Module):
    """What is largest in a block is not kept for backward, and made again with it: the sums of all pairs."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2048), nn.Linear(2048, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x))) + (x[:, :, None] + x[:, None, :]).sum(2)


def pairs():
    return (nn.Sequential(*[Pairs(96) for _ in range(4)], nn.Linear(96, 10)), lambda: (rand(128, 96), ids(10, 128)),
            F.cross_entropy)


class Lump(nn.Module):
    """What is largest in a block is made once in forward and once in backward, there before its own gradients."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2048), nn.Linear(2048, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x))) + (x[:, :, None] * torch.ones(1, 1, 8192, device=DEVICE)).sum(2)


class Lumps(nn.Module):
    """A module that no number has, and four that have."""

    def __init__(self, width=96):
        super().__init__()
        self.first, self.body = nn.Linear(width, width), nn.Sequential(*[Lump(width) for _ in range(4)])

    def forward(self, x):
        return self.body(self.first(x))


def lumps():
    return Lumps(), lambda: (rand(4, 96), rand(4, 96)), F.mse_loss


class Sums(nn.Module):
    """A parameter whose gradient is a copy, as more comes to it, in front of others' that autograd takes as they are."""

    def __init__(self, width=256, ways=4):
        super().__init__()
        self.first = nn.Parameter(torch.randn(width, width))
        self.others = nn.ParameterList(nn.Parameter(torch.randn(width, width)) for _ in range(ways))

    def forward(self, x):
        x = ((x + self.first)[:, :, None] * torch.ones(1, 1, 16, device=DEVICE)).sum(2)
        for other in self.others:
            x = 1.5 * x + other
        return x


def sums():
    return Sums(), lambda: (rand(256, 256), rand(256, 256)), F.mse_loss


class Results(nn.Module):
    """Blocks whose result is kept by their own backward, and by what comes behind them."""

    def __init__(self, width=128, depth=8):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
                                    for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def results():
    return Results(), lambda: (rand(2048, 128), rand(2048, 128)), F.mse_loss


class Random(nn.Module):
    """A few statements by chance over parameters of one size, so that gradients are shared, copied, added and passed on."""

    STATEMENTS = {
        "add": lambda x, p, a: x + p,
        "scale": lambda x, p, a: 1.5 * x + p,
        "product": lambda x, p, a: x * p,
        "matrix": lambda x, p, a: x @ p,
        "less": lambda x, p, a: p - x,
        "linear": lambda x, p, a: F.relu(x) + p,
        "tanh": lambda x, p, a: torch.tanh(x + p),
        "lump": lambda x, p, a: ((x + p)[:, :, None] * torch.ones(1, 1, 16, device=DEVICE)).sum(2),
        "turned": lambda x, p, a: (x + p).t(),
        "turned_parameter": lambda x, p, a: x + p.t(),
        "back": lambda x, p, a: x + a,
        "both": lambda x, p, a: a * p + x,
        "twice": lambda x, p, a: (x + p) * p,
        "part": lambda x, p, a: x + torch.cat([p[:96], p[96:] * 2]),
        "row": lambda x, p, a: x + p[0],
        "sum": lambda x, p, a: x * p.sum(),
    }

    def __init__(self, seed, width=192):
        super().__init__()
        pick = random.Random(seed)
        count = pick.randrange(2, 9)
        ways = pick.choice((count, count, max(1, count - 2)))
        self.parameters_ = nn.ParameterList(nn.Parameter(torch.randn(width, width)) for _ in range(ways))
        self.plan = [(pick.choice(list(self.STATEMENTS)), pick.randrange(ways) if pick.random() < 0.3 else i % ways)
                     for i in range(count)]

    def forward(self, x):
        before = x
        for statement, number in self.plan:
            x, before = self.STATEMENTS[statement](x, self.parameters_[number], before), x
        return x


def by_chance(seed):
    return Random(seed), lambda: (rand(192, 192), rand(192, 192)), F.mse_loss


BLOCKS = {"decoder": decoder, "decoder_dropout": lambda: decoder(0.1), "patches": patches, "residuals": residuals, "unet": unet,
          "experts": experts, "recurrent": recurrent, "mixer": mixer, "highway": highway, "twins": twins,
          "adversaries": adversaries, "pairs": pairs, "accumulating_decoder": decoder, "mixed_decoder": decoder}
MODELS = {
    **BLOCKS,
    "mlp": mlp, "wide": wide, "deep": deep, "cnn": cnn, "autoencoder": autoencoder, "residual": residual,
    "mixture": mixture, "recommender": recommender, "variational": variational, "siamese": siamese, "attention": attention,
    "transformer": language, "lstm": lambda: language(3000, "lstm"), "gru": lambda: language(2000, "gru", 128, 1),
    "large_vocabulary": lambda: language(20000, "transformer", 32, 1), "accumulating": mlp, "mixed": wide,
    "accumulating_language": lambda: language(3000), "clipped": deep, "momentum": wide, "scheduled": cnn,
    "lumps": lumps, "sums": sums, "results": results,
}


def make_optimizer(name, parameters, habits, changes):
    kind, options = torch.optim.AdamW, {"foreach": "foreach" in habits and "one_by_one" not in changes}
    if name in ("momentum", "scheduled"):
        kind, options = torch.optim.SGD, {**options, "lr": 0.01, "momentum": 0.9}
    elif "fused" in changes:
        options = {"fused": True}
    return kind(parameters, **options)


def forward(name, model, loss_of, batch):
    mixed = name.startswith("mixed")
    with torch.autocast(DEVICE, torch.bfloat16, enabled=mixed):
        output = model(batch[0])
        return output, loss_of(output.float() if mixed else output, batch[1])


def checkpoint_modules(model, changes):
    for change in changes:
        if not change.startswith("checkpoint:"):
            continue
        _, wanted, *count = change.split(":")
        modules = [module for path, module in model.named_modules() if re.sub(r"(?<![^.])\d+(?![^.])", "*", path) == wanted]
        assert modules, wanted
        for module in modules[:int(count[0]) if count else None]:
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)


def train(name, habits, changes):
    global length
    steps = 12 if "varies" in habits else 4
    model, data, loss_of = by_chance(int(name[len("chance"):])) if name.startswith("chance") else MODELS[name]()
    model = model.to(DEVICE)
    checkpoint_modules(model, changes)
    optimizer = make_optimizer(name, model.parameters(), habits, changes)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2) if name == "scheduled" else None
    parts = 3 if name.startswith("accumulating") else 1
    batches = [data() for _ in range(2)]

    def step_of(batch):
        """A function: what it holds is gone with it."""
        output, loss = forward(name, model, loss_of, batch)
        prepare()
        loss.backward()

    def prepare():
        if "late" in habits and part == 0:
            optimizer.zero_grad(set_to_none=True)

    for step in range(steps):
        if "zeroed" in habits and "zero_grad" not in changes:
            optimizer.zero_grad(set_to_none=False)
        for part in range(parts):
            if "varies" in habits:
                length = (0.4, 1.0, 0.7, 1.3, 0.55, 0.85)[(step * 5 + part) % 6]
                batches[(step + part) % 2] = data()
            batch = batches[(step + part) % 2]
            if "held" in habits:
                output, loss = forward(name, model, loss_of, batch)
                prepare()
                loss.backward()
                if "del" in changes:
                    del output, loss
            else:
                step_of(batch)
        if name == "clipped":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if schedule:
            schedule.step()
        if "zero_grad" in changes or not {"late", "zeroed"} & set(habits):
            optimizer.zero_grad(set_to_none=True)
        if "validates" in habits:
            with torch.no_grad():
                forward(name, model, loss_of, batches[0])
    if "evaluates" in habits:
        with torch.no_grad():
            forward(name, model, loss_of, [torch.cat([part] * 4) for part in batches[0]])


if __name__ == "__main__":
    changes_ = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    train(sys.argv[1], sys.argv[2].split(","), changes_)
