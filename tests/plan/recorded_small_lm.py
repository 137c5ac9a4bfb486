"""One more program whose memory somebody recorded on a real GPU, rewritten. It makes three steps of a small transformer
under bfloat16 autocast; every layer makes tensors on the host.

    recorded_small_lm.py CASE OUTPUT.pickle

Otherwise like recorded_lm.py. Everything that decides memory is kept: the order of operations, lifetimes, settings.
"""
import math
import sys

import torch
from torch import nn

VOCABULARY, LENGTH, WIDTH, LAYERS, HEADS, INNER = 10000, 200, 512, 4, 16, 1344
LONGEST, BATCH, STEPS = 256, 10, 3


def random_weight(*shape):
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape, device="cuda"), a=-3, b=3))


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = random_weight(outputs, inputs)

    def forward(self, x):
        return torch.einsum("...a,ba->...b", x, self.weight)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x):
        given = x.dtype
        x = x.to(torch.float32)
        root = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-5)
        result = x / root * self.weight
        return result.to(given)


class Rotation(nn.Module):
    """The table stays on the host: its rows go to the device at each use."""

    def __init__(self, dim):
        super().__init__()
        angles = torch.outer(torch.arange(LONGEST).float(), 10000.0 ** -(torch.arange(0, dim, 2) / dim))
        self.sin, self.cos = torch.sin(angles), torch.cos(angles)

    def forward(self, x):
        rows = torch.arange(x.shape[-2])
        sin = self.sin[rows].to("cuda")
        cos = self.cos[rows].to("cuda")
        sin, cos = sin.unsqueeze(-1), cos.unsqueeze(-1)
        x = x.unflatten(-1, (-1, 2))
        first = cos * x[..., :1] - sin * x[..., 1:]
        second = sin * x[..., :1] + cos * x[..., 1:]
        turned = torch.cat([first, second], dim=-1)
        return turned.flatten(-2)


def softmax(x):
    highest, _ = torch.max(x, dim=-1, keepdim=True)
    return torch.exp(x - highest) / torch.sum(torch.exp(x - highest), dim=-1, keepdim=True)


def attend(q, k, v, mask):
    mask = mask.to(q.device)
    products = torch.einsum("...ac,...bc->...ab", q, k)
    scores = products / torch.sqrt(torch.tensor(q.shape[-1], device=products.device))
    masked = scores.masked_fill_(~mask.bool(), -math.inf)
    weights = softmax(masked)
    return torch.einsum("...ab,...bc->...ac", weights, v)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotation = Rotation(WIDTH // HEADS)
        self.q, self.k, self.v, self.out = (Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(-3, -2) for each in (q, k, v))
        q = self.rotation(q)
        k = self.rotation(k)
        mask = torch.tril(torch.ones(x.shape[-2], x.shape[-2]))
        attended = attend(q, k, v, mask)
        attended = attended.transpose(-3, -2).reshape(*x.shape)
        attended = self.out(attended)
        return attended


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(WIDTH, INNER), Linear(INNER, WIDTH), Linear(WIDTH, INNER)

    @staticmethod
    def silu(x):
        return x * torch.sigmoid(x)

    def forward(self, x):
        a = self.w1(x)
        b = self.silu(a)
        c = self.w3(x)
        both = b * c
        return self.w2(both)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.attention = Attention()
        self.gate = Gate()

    def forward(self, x):
        normed = self.before(x)
        attended = self.attention(normed)
        middle = attended + x
        normed_again = self.between(middle)
        gated = self.gate(normed_again)
        return gated + middle


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = random_weight(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last, self.head = Norm(), Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding[ids]
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return self.head(x)


def loss_of(x, targets):
    highest, _ = torch.max(x, dim=-1, keepdim=True)
    logarithms = x - highest - torch.log(torch.sum(torch.exp(x - highest), dim=-1, keepdim=True))
    chosen = torch.zeros_like(logarithms)
    chosen.scatter_(-1, targets.unsqueeze(-1), 1)
    return -torch.sum(chosen * logarithms) / x.shape[0]


class Adam(torch.optim.Optimizer):
    """With states from the beginning, and each result in a tensor of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        for p in self.param_groups[0]["params"]:
            self.state[p] = {"m": torch.zeros_like(p.data), "v": torch.zeros_like(p.data), "t": 0}

    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            t = state["t"] + 1
            rate = 1e-3 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            gradient = p.grad.data
            m = state["m"]
            new_m = 0.9 * m + (1 - 0.9) * gradient
            state["m"] = new_m
            v = state["v"]
            new_v = 0.999 * v + (1 - 0.999) * gradient**2
            state["v"] = new_v
            state["t"] = t
            p.data = p.data - rate * (new_m / (torch.sqrt(new_v) + 1e-8))
            p.data = p.data - 1e-3 * 0.0 * p.data


def train():
    torch.cuda.memory._record_memory_history(max_entries=1000000)
    model = Model()
    optimizer = Adam(model.parameters())
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH)).to("cuda")
    targets = torch.randint(0, VOCABULARY, (BATCH,)).to("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(STEPS):
            optimizer.zero_grad()
            logits = model(ids)
            last = logits[:, -1, :]
            loss = loss_of(last, targets)
            loss.backward()
            optimizer.step()
        return model, optimizer, ids, targets, logits, last, loss


CASES = {"niu_fb_200_mixed": train}

if __name__ == "__main__":
    kept = CASES[sys.argv[1]]()
    torch.cuda.memory._dump_snapshot(sys.argv[2])
    del kept
