"""Trainings with wasteful habits: programs.py NAME HABITS [CHANGES], with lists separated by commas.

Habits of the unchanged program:

* `late`: gradients are freed between forward and backward.
* `zeroed`: gradients are set to zero.
* `held`: variables of the loop hold output and loss.
* `foreach`: the optimizer works on lists.
* `evaluates`: an evaluation of four batches at the end.
* `between`: an evaluation after each step, and a variable holds the result.
* `graph`: the evaluation makes a graph.
* `summed`: losses of four micro-batches share one backward.
* `varies`: batches have many lengths.
* `frozen`: the optimizer gets only the second half of the parameters.

Changes that are made. Others are `zero_grad`, `del`, `no_grad` and `backward_sooner`, named as the advice names them:

* `one_by_one`, `fused`: how the optimizer works.
* `no_idle`: frozen parameters get no gradients.
* `checkpoint:PATTERN[:COUNT]`: checkpoints the first COUNT modules with these paths, which have * for numbers.
* `reentrant:`: as `checkpoint:`, in PyTorch's other form.
* `offloaded:`: as `checkpoint:`, but saved tensors are on the CPU instead.
* `eight_bit`: the optimizer's state in 8 bits.
* `sparse`: gradients of embeddings are sparse.
* `chunked`: head and loss in 8 chunks of tokens.
* `half`: half of the evaluation's batch.
"""
import functools
import json
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


def wide():
    model = nn.Sequential(nn.Linear(128, 4096), nn.ReLU(), nn.Linear(4096, 128))
    return model, lambda: (rand(64, 128), rand(64, 128)), F.mse_loss


def deep():
    model = nn.Sequential(*[layer for _ in range(16) for layer in (nn.Linear(128, 128), nn.LayerNorm(128), nn.Tanh())])
    return model, lambda: (rand(512, 128), rand(512, 128)), F.mse_loss


class Language(nn.Module):
    """A model whose largest tensors are the logits over a vocabulary."""

    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True), depth)

    def forward(self, x):
        return self.head(self.body(self.embedding(x)))


def loss_of_tokens(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def language(vocabulary=4000, width=64, depth=2):
    return Language(vocabulary, width, depth), lambda: (ids(vocabulary, 4, 32), ids(vocabulary, 4, 32)), loss_of_tokens


def convolutions():
    """Convolutions make scratch memory, and each ReLU keeps one block for backward."""
    layers = [layer for wide in (3, 16, 16) for layer in (nn.Conv2d(wide, 16, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers), lambda: (rand(4, 3, 24, 24), rand(4, 16, 24, 24)), F.mse_loss


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


class Attention(nn.Module):
    """Written by hand, so scores are kept for backward."""

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
    """As in GPT-2: attention and a multilayer perceptron, each after a norm."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, 2))
        x = x + self.out(((q @ k.transpose(2, 3) / 4).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary=500, width=64, depth=6):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def decoder():
    return Decoder(), lambda: (ids(500, 4, 64), ids(500, 4, 64)), loss_of_tokens


class Twins(nn.Module):
    """One block, called twice in a step."""

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


class Pairs(nn.Module):
    """A block's largest tensor, the sums of all pairs, is not kept for backward, and a checkpoint makes it again."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2048), nn.Linear(2048, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x))) + (x[:, :, None] + x[:, None, :]).sum(2)


def pairs():
    return (nn.Sequential(*[Pairs(96) for _ in range(4)], nn.Linear(96, 10)), lambda: (rand(128, 96), ids(10, 128)),
            F.cross_entropy)


class Lump(nn.Module):
    """A block's largest tensor is made once in forward, and once in backward before the block's own gradients."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2048), nn.Linear(2048, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x))) + (x[:, :, None] * torch.ones(1, 1, 8192, device=DEVICE)).sum(2)


class Lumps(nn.Module):
    """One module without a number, and four with one."""

    def __init__(self, width=96):
        super().__init__()
        self.first, self.body = nn.Linear(width, width), nn.Sequential(*[Lump(width) for _ in range(4)])

    def forward(self, x):
        return self.body(self.first(x))


def lumps():
    return Lumps(), lambda: (rand(4, 96), rand(4, 96)), F.mse_loss


class Sums(nn.Module):
    """A parameter's gradient is a copy, because more is added to it; autograd takes later parameters' gradients
    unchanged."""

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
    """Blocks whose result is kept by their own backward, and by the next block."""

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


class GPTBlock(nn.Module):
    """With PyTorch's own attention and dropout."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm_1, self.norm_2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.drop = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(0.1)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, 2))
        x = x + self.drop(self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=500, width=128, depth=6):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.blocks = nn.ModuleList(GPTBlock(width, 4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt():
    return GPT(), lambda: (ids(500, 4, 128), ids(500, 4, 128)), loss_of_tokens


class Residual(nn.Module):
    """As in ResNet: normalized over the batch, and ReLU in place."""

    def __init__(self, into, out, stride=1):
        super().__init__()
        self.first, self.second = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2, self.relu = nn.BatchNorm2d(out), nn.BatchNorm2d(out), nn.ReLU(inplace=True)
        self.down = (nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
                     if stride > 1 or into != out else None)

    def forward(self, x):
        made = self.norm_2(self.second(self.relu(self.norm_1(self.first(x)))))
        return self.relu(made + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.relu = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        self.layers = nn.ModuleList(Residual(into, out, stride) for into, out, stride in (
            (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.relu(self.norm(self.first(x)))
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


def resnet():
    return ResNet(), lambda: (rand(8, 3, 32, 32), ids(10, 8)), F.cross_entropy


class Wave(nn.Module):
    """As in a diffusion UNet: normalized over groups, with SiLU and the step's time."""

    def __init__(self, into, out, width=64):
        super().__init__()
        self.norm_1, self.first, self.time = nn.GroupNorm(8, into), nn.Conv2d(into, out, 3, 1, 1), nn.Linear(width, out)
        self.norm_2, self.second = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, 1, 1)
        self.skip = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        made = self.first(F.silu(self.norm_1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(F.silu(self.norm_2(made)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.first = nn.Linear(1, 64), nn.Conv2d(3, 32, 3, 1, 1)
        self.down = nn.ModuleList((Wave(32, 32), Wave(32, 64), Wave(64, 64)))
        self.middle = Wave(64, 64)
        self.up = nn.ModuleList((Wave(128, 64), Wave(128, 32), Wave(64, 32)))
        self.last = nn.Conv2d(32, 3, 3, 1, 1)

    def forward(self, x):
        time, x, kept = self.time(x[:, 0, 0, :1]), self.first(x), []
        for i, wave in enumerate(self.down):
            x = wave(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2) if i < 2 else x
        x = self.middle(x, time)
        for i, wave in enumerate(self.up):
            x = wave(torch.cat((x, kept.pop()), 1), time)
            x = F.interpolate(x, scale_factor=2.0) if i < 2 else x
        return self.last(x)


def unet():
    return UNet(), lambda: (rand(4, 3, 32, 32), rand(4, 3, 32, 32)), F.mse_loss


class Random(nn.Module):
    """A few random statements over parameters of one size, so that gradients are shared, copied, added and passed
    on."""

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


MODELS = {"decoder": decoder, "mixed_decoder": decoder, "twins": twins, "pairs": pairs, "wide": wide, "deep": deep,
          "recommender": recommender, "variational": variational, "attention": attention, "transformer": language,
          "large_vocabulary": lambda: language(20000, 32, 1), "lumps": lumps, "sums": sums, "results": results,
          "convolutions": convolutions, "gpt": gpt, "resnet": resnet, "unet": unet}


class EightBit(torch.optim.Optimizer):
    """State as in bitsandbytes' AdamW8bit: a byte for each element, a scale for each 256. The step is one kernel."""

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None and not self.state[parameter]:
                count = parameter.numel()
                kind = (torch.uint8,) if count >= 4096 else ()
                self.state[parameter] = {i: [torch.zeros_like(parameter, dtype=kind[0] if kind else torch.float32)] +
                                         [torch.zeros((count + 255) // 256, device=DEVICE) for _ in kind] for i in (1, 2)}


class Both:
    def __init__(self, *optimizers):
        self.step = lambda: [each.step() for each in optimizers]
        self.zero_grad = lambda set_to_none: [each.zero_grad(set_to_none) for each in optimizers]


def make_optimizer(parameters, habits, changes, model):
    if "eight_bit" in changes:
        return EightBit(parameters, {})
    if "sparse" in changes:
        embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        for module in embeddings:
            module.sparse = True
        tables = [module.weight for module in embeddings]
        rest = [each for each in parameters if not any(each is table for table in tables)]
        return Both(make_optimizer(rest, habits, (), model), torch.optim.SparseAdam(tables))
    fused = {"fused": True} if "fused" in changes else {"foreach": "foreach" in habits and "one_by_one" not in changes}
    return torch.optim.AdamW(parameters, **fused)


def chunked(model, batch):
    head, model.head = model.head, nn.Identity()
    hidden, tokens = model(batch[0]).flatten(0, 1), batch[1].flatten()
    model.head = head
    return None, sum(checkpoint(lambda h, y: F.cross_entropy(head(h).float(), y, reduction="sum"), *part, use_reentrant=False)
                     for part in zip(hidden.chunk(8), tokens.chunk(8))) / len(tokens)


def forward(name, model, loss_of, batch, changes=()):
    mixed = name.startswith("mixed")
    with torch.autocast(DEVICE, torch.bfloat16, enabled=mixed):
        if "chunked" in changes:
            return chunked(model, batch)
        output = model(batch[0])
        return output, loss_of(output.float() if mixed else output, batch[1])


def checkpoint_modules(model, changes):
    for change in changes:
        if not change.startswith(("checkpoint:", "reentrant:", "offloaded:")):
            continue
        form, wanted, *count = change.split(":")
        modules = [module for path, module in model.named_modules() if re.sub(r"(?<![^.])\d+(?![^.])", "*", path) == wanted]
        assert modules, wanted
        for module in modules[:int(count[0]) if count else None]:
            module.forward = (functools.partial(offloaded, module.forward) if form == "offloaded" else
                              functools.partial(checkpoint, module.forward, use_reentrant=form == "reentrant"))


def offloaded(forward, *arguments):
    with torch.autograd.graph.save_on_cpu():
        return forward(*arguments)


def train(name, habits, changes):
    global length
    steps = 12 if "varies" in habits else 4
    model, data, loss_of = by_chance(int(name[len("chance"):])) if name.startswith("chance") else MODELS[name]()
    model = model.to(DEVICE)
    checkpoint_modules(model, changes)
    parameters = list(model.parameters())
    if "frozen" in habits:
        for parameter in parameters[:len(parameters) // 2]:
            parameter.requires_grad_("no_idle" not in changes)
        parameters = parameters[len(parameters) // 2:]
    optimizer = make_optimizer(parameters, habits, changes, model)
    batches = [data() for _ in range(2)]

    def step_of(batch):
        """In a function, so that its objects are freed with it."""
        output, loss = forward(name, model, loss_of, batch, changes)
        prepare()
        loss.backward()

    def prepare():
        if "late" in habits:
            optimizer.zero_grad(set_to_none=True)

    def evaluate():
        with torch.set_grad_enabled("graph" in habits and "no_grad" not in changes):
            parts = [torch.cat([part] * (2 if "half" in changes else 4)) for part in batches[0]]
            return forward(name, model, loss_of, parts)

    def summed_step():
        losses = []
        for micro in range(4):
            batch = data()
            loss = loss_of(model(batch[0]), batch[1]) / 4
            if "backward_sooner" in changes:
                loss.backward()
                loss = loss.detach()
            losses.append(loss)
            del loss
        if "backward_sooner" not in changes:
            sum(losses).backward()

    for step in range(steps):
        if "zeroed" in habits and "zero_grad" not in changes:
            optimizer.zero_grad(set_to_none=False)
        if "varies" in habits:
            length = (0.4, 1.0, 0.7, 1.3, 0.55, 0.85)[step * 5 % 6]
            batches[step % 2] = data()
        batch = batches[step % 2]
        if "summed" in habits:
            summed_step()
        elif "held" in habits:
            output, loss = forward(name, model, loss_of, batch, changes)
            prepare()
            loss.backward()
            if "del" in changes:
                del output, loss
        else:
            step_of(batch)
        optimizer.step()
        if "zero_grad" in changes or not {"late", "zeroed"} & set(habits):
            optimizer.zero_grad(set_to_none=True)
        if "between" in habits:
            kept = evaluate()
            kept[0].argmax()
            if "del" in changes:
                del kept
    if "evaluates" in habits:
        evaluate()


def count_flops(out, *arguments):
    """Writes PyTorch's own counts of FLOPs: of forward, and of the whole run."""
    from torch.utils.flop_counter import FlopCounterMode
    global forward
    plain, whole, sums = forward, FlopCounterMode(display=False), []

    def counted(*arguments, **named):
        with FlopCounterMode(display=False) as within:
            result = plain(*arguments, **named)
        sums.append(within.get_total_flops())
        return result
    forward = counted
    with whole:
        train(*arguments)
    with open(out, "w") as file:
        json.dump([sum(sums), whole.get_total_flops()], file)


if __name__ == "__main__":
    changes_ = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    arguments_ = sys.argv[1], sys.argv[2].split(","), changes_
    if "BENCH_FLOPS" in os.environ:
        count_flops(os.environ["BENCH_FLOPS"], *arguments_)
    else:
        train(*arguments_)
