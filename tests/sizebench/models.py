#!/usr/bin/env python3
"""Small PyTorch trainings of many kinds, to be recorded at different batch sizes.

    models.py KIND --batch B [--length L] [--steps N]

The method was developed on the kinds of TUNING, and tested on those of TEST afterwards. Kinds of CHANCE differ from run
to run.
"""

import argparse
import queue
import random
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset


def fit(parameters, loss_of, steps, lr=1e-3):
    optimizer = torch.optim.Adam(list(parameters), lr=lr)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(step).backward()
        optimizer.step()



def mlp(batch, steps, length):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1),
                          nn.Linear(512, 10))
    rows = 16 * batch
    fit(model.parameters(), lambda step: F.cross_entropy(model(torch.randn(rows, 256)), torch.randint(10, (rows,))),
        steps)


def cnn(batch, steps, length):
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(32 * 8 * 8, 10))
    fit(model.parameters(), lambda step: F.cross_entropy(model(torch.randn(batch, 3, 32, 32)),
                                                         torch.randint(10, (batch,))), steps)


def encoder(batch, steps, length):
    tokens = nn.Embedding(100, 64)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    head = nn.Linear(64, 4)
    fit([*tokens.parameters(), *model.parameters(), *head.parameters()],
        lambda step: F.cross_entropy(head(model(tokens(torch.randint(100, (batch, length)))).mean(1)),
                                     torch.randint(4, (batch,))), steps)


def lstm(batch, steps, length):
    model, head = nn.LSTM(32, 64, num_layers=2, batch_first=True), nn.Linear(64, 8)

    def loss_of(step):
        out, _ = model(torch.randn(batch, length // 2, 32))
        return F.mse_loss(head(out[:, -1]), torch.randn(batch, 8))

    fit([*model.parameters(), *head.parameters()], loss_of, steps)


def gan(batch, steps, length):
    maker = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 256), nn.Tanh())
    judge = nn.Sequential(nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    of_maker, of_judge = torch.optim.Adam(maker.parameters()), torch.optim.RMSprop(judge.parameters())
    one, zero = torch.ones(batch, 1), torch.zeros(batch, 1)
    for _ in range(steps):
        made = maker(torch.randn(batch, 32))
        of_judge.zero_grad(set_to_none=True)
        (F.binary_cross_entropy_with_logits(judge(torch.rand(batch, 256)), one) +
         F.binary_cross_entropy_with_logits(judge(made.detach()), zero)).backward()
        of_judge.step()
        of_maker.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(judge(made), one).backward()
        of_maker.step()


def checkpointing(batch, steps, length):
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(4))

    def loss_of(step):
        x = torch.randn(batch, 8, 128, requires_grad=True)
        for block in blocks:
            x = x + checkpoint(block, x)
        return x.square().mean()

    fit(blocks.parameters(), loss_of, steps)


def collate(batch, steps, length):
    """Samples made one by one and stacked, as a data loader does: the number of allocations grows with the batch."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 64), nn.ReLU(), nn.Linear(64, 10))

    def loss_of(step):
        samples = [(torch.rand(3, 24, 24) - 0.5, torch.randint(10, ())) for _ in range(batch)]
        images, labels = torch.stack([s[0] for s in samples]), torch.stack([s[1] for s in samples])
        return F.cross_entropy(model(images), labels)

    fit(model.parameters(), loss_of, steps)



class Residual(nn.Module):
    def __init__(self, come, go, stride):
        super().__init__()
        self.path = nn.Sequential(nn.Conv2d(come, go, 3, stride, 1, bias=False), nn.BatchNorm2d(go), nn.ReLU(True),
                                  nn.Conv2d(go, go, 3, 1, 1, bias=False), nn.BatchNorm2d(go))
        self.short = nn.Conv2d(come, go, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.path(x) + self.short(x), True)


def resnet(batch, steps, length):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(torch.randn(batch, 3, 32, 32)), torch.randint(10, (batch,))).backward()
        optimizer.step()


def unet(batch, steps, length):
    down1, down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
    up1, up2 = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 3, padding=1)

    def loss_of(step):
        first = F.relu(down1(torch.randn(batch, 1, 32, 32)))
        second = F.relu(down2(F.max_pool2d(first, 2)))
        out = up2(torch.cat([first, F.relu(up1(second))], 1))
        return F.binary_cross_entropy_with_logits(out, torch.rand(batch, 1, 32, 32))

    fit([p for part in (down1, down2, up1, up2) for p in part.parameters()], loss_of, steps)


class Decoder(nn.Module):
    """A causal language model whose attention is written out: memory is quadratic in the length."""

    def __init__(self, width=64, heads=4, layers=2, words=200):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm1": nn.LayerNorm(width), "in": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
        }) for _ in range(layers))
        self.head, self.heads, self.words = nn.Linear(width, words), heads, words

    def forward(self, ids):
        x, length = self.tokens(ids), ids.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        for layer in self.layers:
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                       for part in layer["in"](layer["norm1"](x)).chunk(3, -1))
            weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + mask).softmax(-1)
            x = x + layer["out"]((weights @ v).transpose(1, 2).flatten(2))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return self.head(x)


def decoder(batch, steps, length):
    model = Decoder()
    ids = torch.randint(200, (batch, length + 1))
    fit(model.parameters(), lambda step: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()),
        steps)


def embeddings(batch, steps, length):
    tables = nn.ModuleList(nn.EmbeddingBag(5000, 16, mode="sum") for _ in range(4))
    head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def loss_of(step):
        parts = [table(torch.randint(5000, (64 * batch, 10))) for table in tables]
        return F.binary_cross_entropy_with_logits(head(torch.cat(parts, 1)), torch.rand(64 * batch, 1))

    fit([*tables.parameters(), *head.parameters()], loss_of, steps)


def accumulation(batch, steps, length):
    model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 128))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(3):
            x = torch.randn(batch, 128)
            (F.mse_loss(model(x), x) / 3).backward()
        optimizer.step()


def mixed(batch, steps, length):
    model = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Dropout(0.1),
                          nn.Linear(512, 32))

    def loss_of(step):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(torch.randn(batch, 16, 128))
        return out.float().square().mean()

    fit(model.parameters(), loss_of, steps)


def multiscale(batch, steps, length):
    """Images of another size at every step."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))
    scales = (24, 32, 16, 28, 20)
    fit(model.parameters(), lambda step: F.cross_entropy(
        model(torch.randn(batch, 3, scales[step % 5], scales[step % 5])), torch.randint(5, (batch,))), steps + 2)


def contrastive(batch, steps, length):
    """The loss compares each view of a sample (16 of them) with each other: memory is quadratic in the batch."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    views = 16 * batch

    def loss_of(step):
        left, right = F.normalize(model(torch.randn(views, 64))), F.normalize(model(torch.randn(views, 64)))
        alike = left @ right.T / 0.1
        return F.cross_entropy(alike, torch.arange(views)) + F.cross_entropy(alike.T, torch.arange(views))

    fit(model.parameters(), loss_of, steps)


def padded(batch, steps, length):
    """Sentences of random lengths, padded to the longest of their batch: sizes depend on the data."""
    tokens, model, head = nn.Embedding(500, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 2)
    generator = torch.Generator().manual_seed(7)

    def loss_of(step):
        lengths = torch.randint(4, length + 1, (batch,), generator=generator).tolist()
        ids = nn.utils.rnn.pad_sequence([torch.randint(500, (n,)) for n in lengths], batch_first=True)
        out, _ = model(tokens(ids))
        return F.cross_entropy(head(out.mean(1)), torch.randint(2, (batch,)))

    fit([*tokens.parameters(), *model.parameters(), *head.parameters()], loss_of, steps)


def validated(batch, steps, length):
    """A validation on twice the batch after every step, without gradients."""
    model = nn.Sequential(nn.Conv1d(4, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(),
                          nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model.train()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(torch.randn(batch, 4, 128)), torch.randint(3, (batch,))).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(2 * batch, 4, 128)).argmax(1)


def autoencoder(batch, steps, length):
    encode = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 32))
    decode = nn.Sequential(nn.Linear(16, 8 * 14 * 14), nn.ReLU(), nn.Unflatten(1, (8, 14, 14)),
                           nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def loss_of(step):
        x = torch.rand(batch, 1, 28, 28)
        mean, log = encode(x).chunk(2, 1)
        out = decode(mean + torch.randn_like(mean) * (log / 2).exp())
        return F.binary_cross_entropy_with_logits(out, x, reduction="sum") - (1 + log - mean ** 2 - log.exp()).sum()

    fit([*encode.parameters(), *decode.parameters()], loss_of, steps)


def epochs(batch, steps, length):
    """Epochs over 1000 samples: the number of steps falls as the batch grows, and the last one is partial."""
    data = torch.utils.data.TensorDataset(torch.randn(1000, 64), torch.randn(1000, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def seq2seq(batch, steps, length):
    model = nn.Transformer(32, 2, 1, 1, 64, batch_first=True)
    fit(model.parameters(), lambda step: model(torch.randn(batch, length, 32),
                                               torch.randn(batch, length // 2, 32)).square().mean(), steps)


def experts(batch, steps, length):
    """A mixture of experts: how much each gets depends on the data."""
    router = nn.Linear(64, 4)
    parts = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4))

    def loss_of(step):
        x = torch.randn(batch * 8, 64)
        weight, chosen = router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, part in enumerate(parts):
            rows = (chosen == i).nonzero().squeeze(1)
            out = out.index_add(0, rows, part(x[rows]) * weight[rows, None])
        return (out - x).square().mean()

    fit([*router.parameters(), *parts.parameters()], loss_of, steps)


def vit(batch, steps, length):
    """Patches of an image with one more token in front."""
    patch, token = nn.Conv2d(3, 48, 8, 8), nn.Parameter(torch.zeros(1, 1, 48))
    layer, head = nn.TransformerEncoderLayer(48, 3, 96, batch_first=True, norm_first=True), nn.Linear(48, 10)

    def loss_of(step):
        x = patch(torch.randn(batch, 3, 32, 32)).flatten(2).transpose(1, 2)
        x = layer(torch.cat([token.expand(batch, -1, -1), x], 1))
        return F.cross_entropy(head(x[:, 0]), torch.randint(10, (batch,)))

    fit([token, *patch.parameters(), *layer.parameters(), *head.parameters()], loss_of, steps)


def graph(batch, steps, length):
    """Messages along the edges of a graph that has 20 nodes and 60 edges for each sample."""
    message, update = nn.Linear(64, 32), nn.GRUCell(32, 32)

    def loss_of(step):
        x = torch.randn(20 * batch, 32)
        come, go = torch.randint(20 * batch, (2, 60 * batch))
        for _ in range(3):
            sums = torch.zeros_like(x).index_add(0, go, F.relu(message(torch.cat([x[come], x[go]], 1))))
            x = update(sums, x)
        return x.square().mean()

    fit([*message.parameters(), *update.parameters()], loss_of, steps)


def generate(batch, steps, length):
    """Inference that appends to a cache of keys and values, token by token."""
    make, out = nn.Linear(32, 96), nn.Linear(32, 32)
    with torch.no_grad():
        x, keys, values = torch.randn(batch, 1, 32), torch.empty(batch, 0, 32), torch.empty(batch, 0, 32)
        for _ in range(length):
            q, k, v = make(x).chunk(3, -1)
            keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
            x = out((q @ keys.transpose(1, 2)).softmax(-1) @ values)


def siamese(batch, steps, length):
    """Three views through one network, the hardest of all negatives: distances between all pairs."""
    model = nn.Sequential(nn.Linear(128, 256), nn.BatchNorm1d(256), nn.SiLU(), nn.Linear(256, 64))

    def loss_of(step):
        anchor, same, other = (model(torch.randn(4 * batch, 128)) for _ in range(3))
        near, far = (anchor - same).norm(dim=1), torch.cdist(anchor, other).min(1).values
        return F.relu(near - far + 1).mean()

    fit(model.parameters(), loss_of, steps)


class Pictures(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.randn(3, 32, 32), index % 10


def workers(batch, steps, length):
    """Batches come from the processes of a DataLoader, in whatever order those end them."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 32 * 32, 10))
    batches = iter(DataLoader(Pictures(), batch_size=batch, num_workers=4, shuffle=True))

    def loss_of(step):
        x, y = next(batches)
        return F.cross_entropy(model(x), y)

    fit(model.parameters(), loss_of, 3 * steps)


def fetcher(batch, steps, length):
    """A thread makes batches, as fast as it happens to be, and up to four wait."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 32 * 32, 10))
    ready = queue.Queue(4)

    def fetch():
        for step in range(4 * steps):
            time.sleep(0.02 * random.random())
            ready.put((torch.randn(batch, 3, 32, 32) * 2, torch.arange(batch) % 10))

    def loss_of(step):
        x, y = ready.get()
        return F.cross_entropy(model(x), y)

    threading.Thread(target=fetch, daemon=True).start()
    fit(model.parameters(), loss_of, 4 * steps)


TUNING = (mlp, cnn, encoder, lstm, gan, checkpointing, collate, contrastive, padded, epochs, experts)
TEST = (resnet, unet, decoder, embeddings, accumulation, mixed, multiscale, validated, autoencoder, seq2seq, vit, graph,
        generate, siamese)
CHANCE = (workers, fetcher)  # take more or less from run to run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=[kind.__name__ for kind in TUNING + TEST + CHANCE])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    globals()[options.kind](options.batch, options.steps, options.length)


if __name__ == "__main__":
    main()
