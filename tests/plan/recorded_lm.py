"""Programs whose memory others recorded on real GPUs, rewritten: transformer language models in plain PyTorch.

    recorded_lm.py CASE OUTPUT.pickle

Runs a case and dumps PyTorch's own memory history, which begins at the same place as in the recording. Everything that
decides memory is kept: the order of operations, lifetimes, settings. Names and sources are those of compare.py's table.
"""
import contextlib
import math
import sys

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, inputs, outputs, device=None):
        super().__init__()
        weight = torch.empty(outputs, inputs, device=device)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight))

    def forward(self, x):
        return torch.einsum("...a,ba->...b", x, self.weight)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        given = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(given)


class Rotation(nn.Module):
    """`gathers`: cosines are looked up by positions (the course's older form); otherwise they are a slice."""

    def __init__(self, context, dim, gathers):
        super().__init__()
        self.gathers = gathers
        power = torch.arange(0, dim, 2) / dim
        angles = torch.outer(torch.arange(context).float(), torch.tensor(10000.0) ** -power)
        self.register_buffer("table", torch.stack((torch.cos(angles), torch.sin(angles))), persistent=False)

    def forward(self, x, positions):
        pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        first, second = pairs.permute(-1, *range(pairs.dim() - 1)).unbind(0)
        if self.gathers:
            cos, sin = self.table[:, positions].unbind(0)
        else:
            cos, sin = self.table[:, :x.size(-2), :].unbind(0)
        a = cos * first - sin * second
        b = sin * first + cos * second
        return torch.concat((a, b), dim=-1) if not self.gathers else torch.stack((a, b), dim=-1).flatten(-2)


def softmax(x):
    x = x - torch.max(x, dim=-1, keepdim=True)[0]
    powers = torch.exp(x)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self, width, heads, rotation):
        super().__init__()
        self.heads, self.rotation = heads, rotation
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.reshape(*x.shape[:-1], self.heads, x.shape[-1] // self.heads).transpose(-3, -2)

    def forward(self, x):
        length = x.size(-2)
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        q, k, v = (self.split(each) for each in (q, k, v))
        positions = torch.arange(length, device=x.device) if self.rotation.gathers else None
        q = self.rotation(q, positions)
        k = self.rotation(k, positions)
        order = torch.arange(length, device=x.device)
        rows, columns = order.reshape(-1, 1), order.reshape(1, -1)
        mask = rows >= columns
        mask = mask[(None,) * (x.dim() - 2) + (...,)]
        result = self.attend(q, k, v, mask)
        result = result.transpose(-3, -2).reshape(*x.shape).contiguous()
        return self.out(result)

    def attend(self, q, k, v, mask):
        scores = torch.einsum("...ac,...bc->...ab", q, k) / math.sqrt(k.shape[-1])
        scores = torch.where(mask, scores, float("-inf"))
        weights = softmax(scores)
        return torch.einsum("...ab,...bc->...ac", weights, v)


class Gate(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, inner), Linear(inner, width), Linear(width, inner)

    @staticmethod
    def silu(x):
        return x * torch.sigmoid(x)

    def forward(self, x):
        return self.w2(self.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, heads, inner, rotation):
        super().__init__()
        self.attention, self.gate = Attention(width, heads, rotation), Gate(width, inner)
        self.before, self.between = Norm(width), Norm(width)

    def forward(self, x):
        attended = self.attention(self.before(x))
        middle = x + attended
        gated = self.gate(self.between(middle))
        return middle + gated


class Model(nn.Module):
    def __init__(self, context, width, layers, heads, inner, vocabulary=10000, gathers=False):
        super().__init__()
        self.embedding = nn.Parameter(nn.init.trunc_normal_(torch.empty(vocabulary, width)))
        rotation = Rotation(context, width // heads, gathers)
        self.rotation = rotation
        self.blocks = nn.ModuleList(Block(width, heads, inner, rotation) for _ in range(layers))
        self.last, self.head = Norm(width), Linear(width, vocabulary)

    def forward(self, ids):
        embedded = self.embedding[ids, :]
        x = embedded
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return self.head(x)


def loss_of(logits, targets):
    def log_softmax(x):
        highest = torch.max(x, dim=-1, keepdim=True)[0]
        x = x - highest
        return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))

    negative = -log_softmax(logits)
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


class AdamW(torch.optim.Optimizer):
    """The first step makes states, each result in a tensor of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01))

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, (first, second) = self.state[p], group["betas"]
                t = state.get("t", 1)
                m_before = state.get("m", torch.zeros_like(p))
                v_before = state.get("v", torch.zeros_like(p))
                m = first * m_before + ((1 - first) * p.grad)
                v = second * v_before + ((1 - second) * torch.square(p.grad))
                rate = group["lr"] * (math.sqrt(1 - (second**t)) / (1 - (first**t)))
                p.data -= rate * m / (torch.sqrt(v) + group["eps"])
                p.data -= group["lr"] * group["weight_decay"] * p.data
                state["m"], state["v"], state["t"] = m, v, t + 1


MEDIUM = dict(width=1024, layers=24, heads=16, inner=4096)
XL = dict(width=2560, layers=32, heads=32, inner=10240)
BATCH = 4


def begin():
    torch.cuda.memory._record_memory_history(max_entries=1000000)


def inference(context, autocast=False, **shape):
    """With autocast: casts of weights are not kept. PyTorch before 2.9 keeps them under inference_mode
    (pytorch#165068), which takes 40 % more; the recording is of a newer version."""
    model = Model(context, **shape).to("cuda")
    optimizer = AdamW(model.parameters())
    warm = torch.randint(0, 10000, (5, BATCH, context), device="cuda")
    ids = torch.randint(0, 10000, (1, BATCH, context), device="cuda")
    model.eval()
    with torch.inference_mode():
        for each in warm:
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast, cache_enabled=False):
                model(each)
        torch.cuda.synchronize()
        begin()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast, cache_enabled=False):
            model(ids[0])
            torch.cuda.synchronize()
    return model, optimizer, warm, ids


def forward_without_gradients(context, **shape):
    model = Model(context, **shape).to("cuda")
    data = torch.randint(0, 10000, (BATCH, context + 1))
    ids = data[:, :-1].contiguous().to("cuda")
    with torch.no_grad():
        for step in range(6):
            if step == 5:
                begin()
            model(ids)
            torch.cuda.synchronize()
    return model, ids


def step_after_forward(context, **shape):
    """One forward, then the step whose memory is recorded."""
    torch.set_default_device("cuda:0")
    model = Model(context, gathers=True, **shape).to("cuda:0")
    optimizer = AdamW(model.parameters())
    data = torch.randint(0, 10000, (BATCH, context + 1), device="cpu")
    ids = data[:, :-1].contiguous().pin_memory().to("cuda:0", non_blocking=True)
    targets = data[:, 1:].contiguous().pin_memory().to("cuda:0", non_blocking=True)
    with contextlib.nullcontext():
        logits = model(ids)
    begin()
    logits = model(ids)
    loss = loss_of(logits.view(-1, logits.size(-1)), targets.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer, ids, targets, logits, loss


def attention_alone():
    begin()
    q, k, v = (torch.randn(8, 4096, 16, device="cuda", requires_grad=True) for _ in range(3))
    scores = torch.einsum("...ac,...bc->...ab", q, k)
    scores = scores / (q.shape[-1] ** 0.5)

    def softmax_of(x):
        highest = x.max(dim=-1, keepdim=True).values
        above = torch.exp(x - highest)
        below = torch.sum(above, dim=-1, keepdim=True)
        return above / below

    weights = softmax_of(scores)
    output = torch.einsum("...ab,...bc->...ac", weights, v)
    del scores, weights
    loss = output.sum()
    loss.backward()
    return q, k, v, output, loss


class PlainNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        square = torch.einsum("...a,...a->...", x, x)
        square = square / x.shape[-1] + 1e-5
        root = torch.sqrt(square)
        return x / root.unsqueeze(-1) * self.weight


class HalfRotation(nn.Module):
    def __init__(self, context, dim):
        super().__init__()
        angles = torch.outer(torch.arange(context).float(), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("cos", torch.cos(angles).repeat_interleave(2, -1), persistent=False)
        self.register_buffer("sin", torch.sin(angles).repeat_interleave(2, -1), persistent=False)

    def turned(self, x):
        pairs = x.unflatten(-1, (-1, 2))
        return torch.stack((-pairs[..., 1], pairs[..., 0]), dim=-1).flatten(-2)

    def forward(self, x, positions):
        cos = self.cos[positions]
        sin = self.sin[positions]
        return x * cos + self.turned(x) * sin


class PlainAttention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))
        self.rotation = HalfRotation(context, width // heads)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x, positions):
        q = self.split(self.q(x))
        k = self.split(self.k(x))
        v = self.split(self.v(x))
        q = self.rotation(q, positions)
        k = self.rotation(k, positions)
        length = x.shape[-2]
        mask = torch.tril(torch.ones(length, length, device=x.device)).bool()
        attended = self.attend(q, k, v, mask)
        joined = attended.transpose(-3, -2).flatten(-2)
        return self.out(joined)

    def softmax(self, x):
        highest = torch.max(x, dim=-1, keepdim=True)[0]
        powers = torch.exp(x - highest)
        total = torch.sum(powers, dim=-1, keepdim=True)
        return powers / total

    def attend(self, q, k, v, mask):
        scores = torch.einsum("...ac,...bc->...ab", q, k)
        scores = scores / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(mask == False, torch.finfo(scores.dtype).min)  # noqa: E712
        weights = self.softmax(scores)
        return torch.einsum("...ab,...bc->...ac", weights, v)


class PlainGate(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Parameter(torch.empty(*shape)) for shape in
                                     ((inner, width), (width, inner), (inner, width)))

    def forward(self, x):
        given = x.dtype
        a = torch.einsum("ba,...a->...b", self.w1, x)
        b = torch.einsum("ba,...a->...b", self.w3, x)
        result = torch.einsum("ba,...a->...b", self.w2, Gate.silu(a) * b)
        return result.to(given)


class PlainBlock(nn.Module):
    def __init__(self, width, heads, inner, context):
        super().__init__()
        self.before, self.between = PlainNorm(width), PlainNorm(width)
        self.attention, self.gate = PlainAttention(width, heads, context), PlainGate(width, inner)

    def forward(self, x, positions):
        normed = self.before(x)
        attended = self.attention(normed, positions)
        middle = x + attended
        normed_again = self.between(middle)
        gated = self.gate(normed_again)
        return middle + gated


# The model's source was not found: it is rebuilt from the lines that the recording names.
def forward_in_bfloat16(context, width, layers, heads, inner):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Parameter(torch.empty(10000, width))
            self.blocks = nn.ModuleList(PlainBlock(width, heads, inner, context) for _ in range(layers))
            self.last, self.head = PlainNorm(width), Linear(width, 10000)

        def forward(self, ids):
            x = self.embedding[ids]
            positions = torch.arange(ids.shape[-1], device=ids.device)
            for block in self.blocks:
                x = block(x, positions)
            normed = self.last(x)
            return self.head(normed)

    model = Whole().to("cuda")
    ids = torch.randint(0, 10000, (BATCH, context), device="cuda")
    for step in range(2):
        if step:
            begin()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            logits = model(ids)
        del logits
    return model, ids


CASES = {
    "ctx128_inference": lambda: inference(128, **MEDIUM),
    "ctx256_inference": lambda: inference(256, **MEDIUM),
    "ctx512_inference": lambda: inference(512, autocast=True, **MEDIUM),
    "ctx1024_inference": lambda: inference(1024, **MEDIUM),
    "bolong_cl128": lambda: forward_without_gradients(128, **XL),
    "sidsoc_train": lambda: step_after_forward(128, **XL),
    "silmont_small": attention_alone,
    "silmont_fwd_bf16": lambda: forward_in_bfloat16(128, 768, 12, 12, 3072),
}

if __name__ == "__main__":
    kept = CASES[sys.argv[1]]()
    torch.cuda.memory._dump_snapshot(sys.argv[2])
    del kept
