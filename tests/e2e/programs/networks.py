"""Trainings for backward_oracle.py: features of autograd, and two usual networks."""

import threading

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Bottleneck(nn.Module):
    def __init__(self, come, width, stride=1):
        super().__init__()
        go = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(come, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, go, 1, bias=False), nn.BatchNorm2d(go)
        self.short = None
        if stride > 1 or come != go:
            self.short = nn.Sequential(nn.Conv2d(come, go, 1, stride, bias=False), nn.BatchNorm2d(go))

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        out = F.relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        short = x if self.short is None else self.short(x)
        return F.relu(out + short)


def resnet50():
    """The layers of ResNet-50, a quarter as wide."""
    layers, come = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 16
    for width, count, stride in ((16, 3, 1), (32, 4, 2), (64, 6, 2), (128, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(come, width, stride if not i else 1))
            come = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(come, 100))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(torch.randn(2, 3, 64, 64)), torch.randint(100, (2,))).backward()
        optimizer.step()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        weights = weights + torch.full((length, length), float("-inf")).triu(1)
        weights = F.dropout(weights.softmax(-1), 0.1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    """A model of the GPT kind; the first and the last layer share their weights."""

    def __init__(self, words=500, width=64, heads=4, layers=6, length=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.places[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words.weight)


def transformer():
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        ids = torch.randint(500, (4, 33))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 3 * x * x


def custom():
    """Functions of the program's own, hooks of tensors and nodes, in-place operations."""
    weight = torch.randn(64, 64, requires_grad=True)
    for _ in range(3):
        x = torch.randn(32, 64) @ weight
        x.register_hook(lambda grad: grad * 2 + 0)
        y = Cube.apply(x)
        y = y.clone().mul_(2).add_(1)
        y[:, ::2] = y[:, 1::2]
        y.tanh().sum().backward()


def twice():
    """Double backward, and one graph that is run twice."""
    weight = torch.randn(64, 64, requires_grad=True)
    for _ in range(2):
        x = torch.randn(32, 64, requires_grad=True)
        score = (x @ weight).sigmoid().sum()
        slope, = torch.autograd.grad(score, x, create_graph=True)
        ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()
        loss = (x @ weight).exp().mean()
        loss.backward(retain_graph=True)
        loss.backward()


def several():
    """Graphs that are run later, in another order, and in parts."""
    weights = [torch.randn(48, 48, requires_grad=True) for _ in range(3)]
    losses = []
    for weight in weights:
        hidden = (torch.randn(16, 48) @ weight).relu()
        losses += [hidden.square().mean(), hidden.abs().sum()]
    torch.autograd.backward(losses[:2])
    torch.autograd.backward([losses[4], losses[3]], retain_graph=True)
    losses[5].backward()
    losses[2].backward()


def checkpointed():
    """Checkpointing that recomputes in backward, with a nested pass of autograd and without."""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48)) for _ in range(3))
    for reentrant in (True, False):
        x = torch.randn(8, 48, requires_grad=True)
        for block in blocks:
            x = x + checkpoint(block, x, use_reentrant=reentrant)
        x.square().mean().backward()


def threads():
    """Forward and backward in several threads at a time, and a graph that outlives the thread which made it."""
    weight = torch.randn(64, 64, requires_grad=True)
    made = []

    def forward():
        made.append((torch.randn(32, 64) @ weight).softmax(1).log().mean())

    def train():
        model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        for _ in range(3):
            model(torch.randn(16, 64)).square().mean().backward()

    for work in (forward, train):
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for loss in made:
        loss.backward()


def failing():
    """Exceptions in backward, at several depths, and passes after them."""
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, inner):
            ctx.inner = inner
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if ctx.inner:
                with torch.enable_grad():
                    again = grad.detach().requires_grad_()
                    Fails.apply(again.exp(), ctx.inner - 1).sum().backward()
            raise ValueError("not today")

    weight = torch.randn(64, 64, requires_grad=True)
    for inner in range(3):
        x = torch.randn(16, 64) @ weight
        try:
            Fails.apply(x.sin(), inner).sum().backward()
        except (ValueError, RuntimeError) as error:
            assert "not today" in str(error)
        else:
            raise AssertionError("nothing was raised")
        kept = torch.randn(16, 64)
        (kept @ weight).cos().sum().backward()
