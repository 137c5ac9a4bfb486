"""A training with a given batch size, `batch.py BATCH WHAT`."""
import sys

import torch
from torch import nn
from torch.nn import functional

torch.backends.cudnn.enabled = False
torch.manual_seed(0)
batch, what = int(sys.argv[1]), sys.argv[2]


class Language(nn.Module):
    """Positions, layers whose Linears have biases, and a head with one over the whole vocabulary."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(3000, 96), nn.Embedding(48, 96)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(96, 3, 384, 0.0, "gelu", batch_first=True, norm_first=True)
                                    for _ in range(2))
        self.head = nn.Linear(96, 3000)

    def forward(self, tokens):
        out = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            out = layer(out)
        return functional.log_softmax(self.head(out).flatten(0, 1).float(), 1)


class Ranked(nn.Module):
    """Its operations sort, gather, and count."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(40, 200), nn.Linear(64, 10)

    def forward(self, inputs):
        scores = self.first(inputs)
        best, where = scores.topk(64, dim=1)
        ranks = scores.detach().flatten().argsort()
        weights = functional.one_hot(where % 64, 64).float().cumsum(1).amax(1) + ranks[:64]
        return self.second(best * weights) + scores.std(0).mean()


class Whitened(nn.Module):
    """Computes spread and extremes of each feature over all rows of the batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(40, 160), nn.Linear(160, 12)

    def forward(self, inputs):
        out = self.first(inputs).flatten(0, 1)
        out = (out - out.mean(0)) / (out.std(0) + 1e-5)
        high, where = out.max(0)
        return self.second(out.clamp(out.min(0).values, high)) + (where + out.argmin(0)).sum() * 0


class Hardest(nn.Module):
    """Keeps the quarter of the tokens with the highest loss, those above the median, and others in random order."""

    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(800, 64), nn.Linear(64, 64)

    def forward(self, tokens):
        out = self.tokens(tokens).flatten(0, 1)
        losses = (self.head(out) - out).square().mean(1)
        worst, order = losses.sort(descending=True)
        others = losses[torch.randperm(len(losses), device="cuda")]
        return worst[: len(worst) // 4] + (losses > losses.median()).float().mean() + others.std() + order[0] * 0


class Pairwise(nn.Module):
    """Two views of each sample, compared all with all."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 32))

    def forward(self, inputs):
        one, other = (functional.normalize(self.body(inputs.roll(shift, 1).flatten(0, 1)), dim=1) for shift in (1, 5))
        scores = one @ other.t() / 0.1
        return scores.logsumexp(0) + scores.logsumexp(1) - scores.diagonal() + scores.min(0).values


class Clouds(nn.Module):
    """A network on each point, the maximum of each feature, and the nearest point of another cloud."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(3, 48, 1), nn.BatchNorm1d(48), nn.ReLU(), nn.Conv1d(48, 64, 1))
        self.second = nn.Linear(64, 3 * 100)

    def forward(self, points):
        found = self.second(self.first(points).max(2).values).view(-1, 100, 3)
        apart = torch.cdist(found, points.transpose(1, 2))
        return apart.min(1).values.mean(1) + apart.min(2).values.mean(1) + found.amax((0, 1)).sum()


MODELS = {
    "conv": lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                  nn.Linear(64 * 8 * 8, 10)),
    "mlp": lambda: nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]),
    "transformer": lambda: nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoder(
        nn.TransformerEncoderLayer(128, 4, 256, 0.1, batch_first=True), 2)),
    "language": Language,
    "grouped": lambda: nn.Sequential(nn.Conv1d(8, 32, 5), nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv1d(32, 32, 5, groups=4),
                                     nn.InstanceNorm1d(32, affine=True), nn.AdaptiveAvgPool1d(7), nn.Flatten(),
                                     nn.Linear(224, 20), nn.PReLU(20)),
    "recurrent": lambda: nn.GRU(24, 80, batch_first=True),
    "ranked": Ranked,
    "whitened": Whitened,
    "hardest": Hardest,
    "pairwise": Pairwise,
    "clouds": Clouds,
}
DATA = {
    "conv": lambda: torch.randn(batch, 3, 32, 32, device="cuda"),
    "transformer": lambda: torch.randint(0, 1000, (batch, 64), device="cuda"),
    "language": lambda: torch.randint(0, 3000, (batch, 48), device="cuda"),
    "grouped": lambda: torch.randn(batch, 8, 300, device="cuda"),
    "recurrent": lambda: torch.randn(batch, 30, 24, device="cuda"),
    "ranked": lambda: torch.randn(batch, 40, device="cuda"),
    "whitened": lambda: torch.randn(batch, 24, 40, device="cuda"),
    "hardest": lambda: torch.randint(0, 800, (batch, 48), device="cuda"),
    "pairwise": lambda: torch.randn(batch, 5, 48, device="cuda"),
    "clouds": lambda: torch.randn(batch, 3, 120, device="cuda"),
}
half = what.endswith("_half")
what = what.removesuffix("_half")
model = MODELS[what]().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    inputs = DATA.get(what, lambda: torch.randn(batch, 512, device="cuda"))()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        out = model(inputs)
    (out[0] if what == "recurrent" else out).float().square().mean().backward()
    optimizer.step()
