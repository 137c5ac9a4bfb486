"""Programs of many kinds with fixed seeds, for check_shim.py. Each prints digests of its results, so that runs with and
without the recorder can be compared.

    training.py [PROGRAM...]      default: all but ddp and compiled
"""

import copy
import hashlib
import io
import pickle
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import checkpoint


def digest(*things):
    """A digest of tensors, modules, optimizers and other values, exact to the bit."""
    total = hashlib.sha256()
    for thing in things:
        if isinstance(thing, torch.Tensor):
            total.update(repr((thing.shape, thing.dtype)).encode() + thing.detach().contiguous().numpy().tobytes())
        elif hasattr(thing, "state_dict"):
            total.update(digest(thing.state_dict()).encode())
        elif isinstance(thing, dict):
            total.update(digest(*(part for item in thing.items() for part in item)).encode())
        elif isinstance(thing, (list, tuple)):
            total.update(digest(*thing).encode())
        else:
            total.update(repr(thing).encode())
    return total.hexdigest()[:16]


def fit(model, optimizer, inputs, targets, steps=4):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return digest(model, optimizer, losses, torch.rand(3))


class Mlp(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 4))

    def forward(self, x):
        return self.layers(x)


def mlp():
    model = Mlp()
    return fit(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.randn(16, 8), torch.randn(16, 4))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.norm(self.stem(x))
        x = F.relu(x + self.body(x))
        return self.head(x.mean(dim=(2, 3)))


def cnn():
    model = Residual()
    return fit(model, torch.optim.Adam(model.parameters()), torch.randn(4, 3, 12, 12), torch.randn(4, 4))


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)  # makes copies of it
    return fit(model, torch.optim.AdamW(model.parameters()), torch.randn(4, 6, 16), torch.randn(4, 6, 16))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, num_layers=2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    model = Recurrent()
    return fit(model, torch.optim.RMSprop(model.parameters()), torch.randn(4, 7, 8), torch.randn(4, 4))


def gan():
    generator, critic = Mlp(), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    of_generator = torch.optim.Adam(generator.parameters())
    of_critic = torch.optim.Adam(critic.parameters())
    for step in range(6):
        of_critic.zero_grad()
        (critic(torch.randn(8, 4)).mean() - critic(generator(torch.randn(8, 8)).detach()).mean()).backward()
        of_critic.step()
        if step % 2:
            of_generator.zero_grad()
            critic(generator(torch.randn(8, 8))).mean().backward()
            of_generator.step()
    return digest(generator, critic, of_generator, of_critic)


def lbfgs():
    model = Mlp()
    inputs, targets = torch.randn(16, 8), torch.randn(16, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    return digest(model, losses)


def accumulation():
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for batch in range(8):
        F.mse_loss(model(torch.randn(4, 8)), torch.randn(4, 4)).backward()
        if batch % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=batch > 4)
            scheduler.step()
    return digest(model, optimizer, scheduler.get_last_lr())


def checkpointing():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Mlp() for _ in range(3))
            self.back = nn.Linear(4, 8)

        def forward(self, x):
            for block in self.blocks:
                x = x + self.back(checkpoint.checkpoint(block, x, **CHECKPOINT))
            return x

    model = Deep()
    inputs = torch.randn(6, 8, requires_grad=True)
    return fit(model, torch.optim.SGD(model.parameters(), lr=0.01), inputs, torch.randn(6, 8)) + digest(inputs.grad)


CHECKPOINT = {"use_reentrant": False} if torch.__version__ >= "2" else {}


def exceptions():
    """Exceptions in forward, with the program's own hooks: some only observe, some change values."""
    seen = []

    class Picky(Mlp):
        def forward(self, x):
            if x.shape[0] == 3:
                raise KeyError("three")
            return super().forward(x)

    model = nn.Sequential(Mlp(), nn.Linear(4, 8), Picky())
    for number, part in enumerate(model):
        part.register_forward_pre_hook(lambda module, inputs, number=number: seen.append(("pre", number)))
        part.register_forward_hook(lambda module, inputs, output, number=number: output * 1.5)
    model[0].layers[0].weight.register_hook(lambda gradient: gradient * 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in (2, 3, 4, 3, 5):
        try:
            optimizer.zero_grad()
            model(torch.randn(rows, 8)).sum().backward()
            optimizer.step()
        except KeyError as error:
            frames, trace = [], error.__traceback__
            while trace:
                frames.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
                trace = trace.tb_next
            seen.append((str(error), frames))
    return digest(model, seen)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((8,), float(index)) + torch.rand(8), torch.tensor([random.random(), index, 0.0, 1.0])


def workers():
    digests = []
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context=context,
                                             generator=torch.Generator().manual_seed(5))
        model = Mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        digests.append(digest(model))
    return digests


def copies():
    """Saved files and copies of modules, and a class's representation."""
    model = nn.Sequential(Mlp(), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    fit(model, optimizer, torch.randn(16, 8), torch.randn(16, 4))
    saved = io.BytesIO()
    torch.save((model, optimizer), saved)
    again = pickle.loads(pickle.dumps(model))
    twin, scripted = copy.deepcopy(model), torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.ReLU()))
    inputs = torch.randn(5, 8)
    outputs = [each.eval()(inputs) for each in (model, again, twin)]
    attributes = sorted(vars(model)) + sorted(vars(optimizer)) + sorted(vars(nn.Module)) + sorted(vars(nn.Linear))
    return digest(model, again, twin, outputs, attributes, scripted(inputs), spanned(inputs), saved.getvalue())


@torch.jit.script
def spanned(x: torch.Tensor):
    with torch.autograd.profiler.record_function("scripted"):
        return x * 2


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Mlp()

    def forward(self, x):
        fresh = nn.Linear(4, 4)  # Dynamo follows the making of a module
        with torch.profiler.record_function("inside"):
            x = self.inner(x)
        return x + fresh.weight.detach().sum() * 0 + fresh.bias.detach().sum() * 0


def compiled():
    digests = []
    for model, whole in ((Mlp(), True), (Compiled(), False)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        explained = torch._dynamo.explain(model)(torch.randn(16, 8))
        compiled_model = torch.compile(model, backend="eager", fullgraph=whole)
        torch._dynamo.utils.counters.clear()
        done = fit(compiled_model, optimizer, torch.randn(16, 8), torch.randn(16, 4))
        counters = torch._dynamo.utils.counters
        digests.append((done, explained.graph_count, explained.graph_break_count, dict(counters["stats"]),
                        sum(counters["graph_break"].values()), sum(counters["unimplemented"].values())))
    step = torch.optim.SGD(Mlp().parameters(), lr=0.1)
    for parameter in step.param_groups[0]["params"]:
        parameter.grad = torch.ones_like(parameter)
    torch.compile(step.step, backend="eager")()
    return digests, digest(step)


def reduce_in(rank, path):
    torch.manual_seed(7)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}.store", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(Mlp())
    inputs = torch.randn(2, 16, 8)[rank]
    done = fit(model, torch.optim.SGD(model.parameters(), lr=0.1), inputs, torch.randn(16, 4))
    torch.distributed.destroy_process_group()
    with open(f"{path}.{rank}", "w") as out:
        out.write(done)


def ddp():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(reduce_in, (folder + "/done",), nprocs=2)
        return [open(f"{folder}/done.{rank}").read() for rank in range(2)]


PROGRAMS = (mlp, cnn, transformer, lstm, gan, lbfgs, accumulation, checkpointing, exceptions, workers, copies)


def main():
    named = sys.argv[1:] or [program.__name__ for program in PROGRAMS]
    for name in named:
        torch.manual_seed(3)
        random.seed(3)
        print(name, globals()[name](), flush=True)


if __name__ == "__main__":
    main()
