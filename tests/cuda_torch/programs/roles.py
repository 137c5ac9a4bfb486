"""roles.py FOLDER NAME: runs one of the programs below, of which PyTorch's memory history has only the later part.
Writes FOLDER/NAME.pickle (the snapshot) and FOLDER/NAME.json: bytes by role at the peak, as requested (the snapshot
has these) and as the allocator's blocks have them. The program itself gives each storage's role, from its modules,
optimizers and autograd's saved tensors. The moment is the peak: a block of BALLAST bytes is allocated and freed then."""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

BALLAST = 1 << 30


class Weak:
    """A tensor's storage, as long as something else holds it."""

    def __init__(self, tensor):
        storage = tensor.untyped_storage()
        self.address, self.size, self.reference = storage.data_ptr(), storage.nbytes(), StorageWeakRef(storage)


class Watch:
    """A program's facts about its tensors."""

    def __init__(self, path, stacks):
        self.path, self.stacks, self.models, self.optimizers = path, stacks, [], []
        self.saved, self.others, self.counted = [[]], {}, None

    def begin(self):
        torch.cuda.memory._record_memory_history(stacks=self.stacks)

    def passing(self):
        """A forward pass from here on, with the tensors that autograd saves in it."""
        self.saved.append([])
        saved = self.saved[-1]
        return torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(Weak(t)), t.detach())[1], lambda t: t)

    def keeps(self, *tensors):
        """Notes results of forward that the program holds, although autograd does not save them."""
        self.saved[-1].extend(map(Weak, tensors))

    def look(self):
        tensors = {
            "parameters": [t for model in self.models for t in (*model.parameters(), *model.buffers())],
            "gradients": [p.grad for model in self.models for p in model.parameters() if p.grad is not None],
            "optimizer state": [t for optimizer in self.optimizers for state in optimizer.state.values()
                                for t in state.values() if isinstance(t, torch.Tensor) and t.is_cuda],
            **self.others,
            "activations": self.saved[-1],
            "previous graph": [weak for saved in self.saved[:-1] for weak in saved]}
        seen = {}
        blocks = {block["address"]: block["size"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]}
        for role, some in tensors.items():
            for tensor in some:
                weak = tensor if isinstance(tensor, Weak) else Weak(tensor)
                if not weak.reference.expired():
                    seen.setdefault(weak.address, (role, weak.size))
        self.counted = {role: sum(size for other, size in seen.values() if other == role) for role in tensors}
        self.blocks = {role: sum(blocks.get(address, 0) for address, (other, _) in seen.items() if other == role)
                       for role in tensors}
        ballast = torch.empty(BALLAST, dtype=torch.uint8, device="cuda")
        del ballast

    def end(self):
        torch.cuda.memory._dump_snapshot(str(self.path.with_suffix(".pickle")))
        self.path.with_suffix(".json").write_text(json.dumps([self.counted, self.blocks]))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in self.attend(self.first(x)).split(width, dim=2))
        if cache is not None:
            if cache:
                key, value = torch.cat([cache["key"], key], 2), torch.cat([cache["value"], value], 2)
            cache.update(key=key, value=value)
        scores = torch.softmax(query @ key.transpose(2, 3) / 8, -1)
        mixed = (scores @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.project(mixed)
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Language(nn.Module):
    def __init__(self, words=3000, width=256, heads=4, layers=6, longest=256):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, caches=None, start=0):
        x = self.words(tokens) + self.places(torch.arange(start, start + tokens.shape[1], device="cuda"))
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches is not None else None)
        return self.head(self.norm(x))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
                                   nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(128 * 64, 1000))

    def forward(self, x):
        return self.parts(x)


def train(watch, model, optimizer, batch, *, late=4, steps=8, look_at=6, none=True, parts=1):
    watch.models, watch.optimizers = [model], [optimizer]
    for step in range(steps):
        if step == late:
            watch.begin()
        optimizer.zero_grad(set_to_none=none)
        for _ in range(parts):
            x, y = batch()
            watch.others = {"input": [x, y]}
            with watch.passing():
                logits = model(x)
                loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y)
            watch.keeps(logits, loss)
            if step == look_at:
                watch.look()
            loss.backward()
        optimizer.step()


def lines(count=8, length=128):
    tokens = torch.randint(0, 3000, (count, length), device="cuda")
    return tokens, tokens.view(-1)


def pictures():
    return torch.randn(32, 3, 16, 16, device="cuda"), torch.randint(0, 1000, (32,), device="cuda")


def language(watch):
    model = Language().cuda()
    train(watch, model, torch.optim.AdamW(model.parameters()), lines)


def language_by_tensor(watch):
    """Gradients stay from step to step, and the optimizer updates one tensor after the other."""
    model = Language().cuda()
    train(watch, model, torch.optim.Adam(model.parameters(), foreach=False), lines, none=False)


def momentum(watch):
    model = Images().cuda()
    train(watch, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), pictures)


def plain(watch):
    model = Images().cuda()
    train(watch, model, torch.optim.SGD(model.parameters(), lr=0.1), pictures)


def adapted(watch):
    """A frozen model and a few trained layers on top."""
    model = Language().cuda().requires_grad_(False)
    model.head = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 3000)).cuda()
    train(watch, model, torch.optim.AdamW(model.head.parameters()), lines)


def added_up(watch):
    model = Language().cuda()
    train(watch, model, torch.optim.AdamW(model.parameters()), lines, parts=3)


def evaluated(watch, model, batch):
    """One forward pass at a time with autograd on; its result is kept until the next one exists."""
    watch.models = [model]

    def one_pass(step):
        x, y = batch()
        watch.others = {"input": [x, y]}
        with watch.passing():
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y)
        watch.keeps(logits, loss)
        if step == 3:
            watch.look()
        return logits, loss

    for step in range(5):
        if step == 2:
            watch.begin()
        result = one_pass(step)
    del result


def evaluated_language(watch):
    evaluated(watch, Language().cuda(), lines)


def evaluated_images(watch):
    evaluated(watch, Images().cuda(), pictures)


def held_in_training(watch):
    """A check of the training data with autograd on keeps blocks, which still live in the next step."""
    model = Language().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    watch.models, watch.optimizers, shown = [model], [optimizer], None
    for step in range(6):
        if step == 4:
            watch.begin()
        x, y = lines()
        watch.others = {"input": [x, y]}
        optimizer.zero_grad()
        with watch.passing():
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y)
        watch.keeps(logits, loss)
        if step == 5:
            watch.look()
        loss.backward()
        optimizer.step()
        del logits, loss
        with watch.passing():
            shown = model(x[:4])
        watch.keeps(shown)


@torch.no_grad()
def generated(watch):
    model = Language().cuda()
    watch.models = [model]
    for request in range(3):
        if request == 1:
            watch.begin()
        caches = [{} for _ in model.blocks]
        tokens = lines(16, 64)[0]
        logits = model(tokens, caches)
        for place in range(64, 96):
            token = logits[:, -1:].argmax(-1)
            logits = model(token, caches, place)
            if request == 1 and place == 90:
                watch.others = {"kept over calls": [t for cache in caches for t in cache.values()]}
                watch.look()


@torch.no_grad()
def served(watch):
    """Requests without a state; some results stay."""
    model = Images().cuda()
    watch.models, results = [model], []
    for request in range(12):
        if request == 4:
            watch.begin()
        scores = model(pictures()[0])
        results.append(scores.max(1).values)
        if request == 9:
            watch.look()


def main():
    folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    torch.backends.cudnn.enabled = False
    watch = Watch(folder / name, sys.argv[3] if len(sys.argv) > 3 else "python")
    globals()[name](watch)
    watch.end()


if __name__ == "__main__":
    main()
