"""roles_unseen.py FOLDER NAME [STACKS]: as roles.py, with programs on which the rules of categories were not made."""
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

from roles import Block, Images, Language, Watch, lines, pictures, train


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(4000, 256)
        self.recurrent = nn.LSTM(256, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 4000)

    def forward(self, x):
        return self.head(self.recurrent(self.words(x))[0])


def recurrent(watch):
    model = Recurrent().cuda()

    def batch():
        x = torch.randint(0, 4000, (16, 64), device="cuda")
        return x, x.view(-1)
    train(watch, model, torch.optim.Adam(model.parameters()), batch)


def perceptron(*widths):
    parts = []
    for inside, outside in zip(widths, widths[1:]):
        parts += [nn.Linear(inside, outside), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts[:-1])


def competing(watch):
    """Two networks with an optimizer each, examined in the second one's turn."""
    maker, judge = perceptron(128, 1024, 2048, 3072).cuda(), perceptron(3072, 1024, 512, 1).cuda()
    makes = torch.optim.Adam(maker.parameters(), betas=(0.5, 0.99))
    judges = torch.optim.Adam(judge.parameters(), betas=(0.5, 0.99))
    watch.models, watch.optimizers = [maker, judge], [makes, judges]
    for step in range(7):
        if step == 3:
            watch.begin()
        real, noise = torch.randn(256, 3072, device="cuda"), torch.randn(256, 128, device="cuda")
        watch.others = {"input": [real, noise]}
        with watch.passing():
            fake = maker(noise)
            right, wrong = judge(real), judge(fake.detach())
            loss = (F.softplus(-right) + F.softplus(wrong)).mean()
        watch.keeps(fake, right, wrong)
        judges.zero_grad()
        loss.backward()
        judges.step()
        del right, wrong, loss
        saved = watch.saved[-1]
        with watch.passing():
            verdict = judge(fake)
            loss = F.softplus(-verdict).mean()
        watch.saved[-1] += saved  # of one pass through both
        watch.keeps(verdict, loss)
        if step == 5:
            watch.look()
        makes.zero_grad()
        loss.backward()
        makes.step()


class Patches(nn.Module):
    def __init__(self, width=384, layers=6):
        super().__init__()
        self.cut = nn.Conv2d(3, width, 16, stride=16)
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.Sequential(*(Block(width, 6) for _ in range(layers)))

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.blocks(x)[:, 0]


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Patches().requires_grad_(False)
        self.head = perceptron(384, 2048, 1000)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


def frozen(watch):
    model = Frozen().cuda()
    train(watch, model, torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9, nesterov=True),
          lambda: (torch.randn(16, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (16,), device="cuda")))


class Low(nn.Module):
    """A constant layer, and a small correction that is trained."""

    def __init__(self, layer, rank=8):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def corrected(watch):
    model = Language().requires_grad_(False)
    for block in model.blocks:
        for name in ("attend", "project", "wide", "narrow"):
            setattr(block, name, Low(getattr(block, name)))
    model.cuda()
    train(watch, model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]), lines)


def factored(watch):
    model = Language().cuda()
    train(watch, model, torch.optim.Adafactor(model.parameters()), lines)


class Experts(nn.Module):
    def __init__(self, width=256, experts=8, room=128):
        super().__init__()
        self.gate, self.room = nn.Linear(width, experts, bias=False), room
        self.experts = nn.ModuleList(perceptron(width, 4 * width, width) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights = self.gate(flat).softmax(-1)
        result = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            weight, chosen = weights[:, i].topk(self.room)
            result = result.index_add(0, chosen, expert(flat[chosen]) * weight[:, None])
        return x + result.view_as(x)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(3000, 256)
        self.blocks = nn.ModuleList(nn.Sequential(Block(256, 4), Experts()) for _ in range(3))
        self.head = nn.Linear(256, 3000, bias=False)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def mixture(watch):
    model = Mixture().cuda()
    train(watch, model, torch.optim.AdamW(model.parameters()), lines)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = perceptron(3072, 1024, 512), perceptron(256, 1024, 3072)

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, -1)
        return self.decode(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


def variational(watch):
    model = Variational().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    watch.models, watch.optimizers = [model], [optimizer]
    for step in range(7):
        if step == 3:
            watch.begin()
        x = torch.randn(512, 3072, device="cuda")
        watch.others = {"input": [x]}
        with watch.passing():
            again, mean, spread = model(x)
            loss = F.mse_loss(again, x) - 0.5 * (1 + spread - mean.pow(2) - spread.exp()).mean()
        watch.keeps(again, mean, spread, loss)
        if step == 5:
            watch.look()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 64, 7, stride=4, padding=3), nn.BatchNorm2d(64), nn.ReLU(),
                                   nn.Conv2d(64, 256, 3, stride=2, padding=1), nn.BatchNorm2d(256), nn.ReLU(),
                                   nn.Conv2d(256, 512, 3, stride=2, padding=1), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(512, 91 * 3, 3, padding=1), nn.Conv2d(512, 12, 3, padding=1)

    def forward(self, x):
        x = self.trunk(x)
        return self.classes(x), self.boxes(x)


def found(watch):
    """Images of a different size in each step."""
    model = Finder().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    watch.models, watch.optimizers = [model], [optimizer]
    for step in range(8):
        if step == 3:
            watch.begin()
        images = torch.randn(2, 3, 320 + 64 * (step * 5 % 7), 400 + 32 * (step * 3 % 5), device="cuda")
        watch.others = {"input": [images]}
        with watch.passing():
            classes, boxes = model(images)
            loss = F.softplus(classes).mean() + boxes.abs().mean()
        watch.keeps(classes, boxes, loss)
        if step == 6:
            watch.look()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    torch.backends.cudnn.enabled = False
    watch = Watch(folder / name, sys.argv[3] if len(sys.argv) > 3 else "python")
    globals()[name](watch)
    watch.end()


if __name__ == "__main__":
    main()
