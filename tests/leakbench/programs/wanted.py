"""Lists that grow in each step. Code behind the loop reads their entries, so they are kept on purpose, or nothing reads
them. The names of parts begin with the right answer: wanted, leak (certain), or doubt (a leak; not certain). One part
runs: its name is the argument, and the size of an entry, in numbers, may follow."""
import sys

import torch

SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else 128
EPOCHS, STEPS = 4, 20
layer = torch.nn.Linear(10, SIZE)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
history = []


def train():
    optimizer.zero_grad()
    result = layer(torch.ones(1, 10))
    result.sum().backward()
    optimizer.step()
    return result


def result():
    return train().detach().clone()


def wanted_stacked():
    losses = []
    for _ in range(80):
        with torch.no_grad():
            pass
        losses.append(result())
    print(torch.stack(losses).mean().item())


def evaluate():
    outputs = []
    for _ in range(80):
        outputs.append(result())
    return outputs


def wanted_returned():
    first, last = evaluate()[0], 1
    print(first.shape, last)


class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def average(self):
        return sum(each.mean().item() for each in self.values)


def wanted_of_a_meter():
    meter = Meter()
    for _ in range(80):
        meter.add(result())
    print(meter.average())


def report():
    for each in history:
        each.sum()


def wanted_global():
    for _ in range(80):
        history.append(result())
    report()


def wanted_by_key():
    found = {}
    for step in range(80):
        found[step] = result()
    for step, value in found.items():
        print(step, value.shape, file=sys.stderr)


def wanted_of_a_hook():
    seen = []
    handle = layer.register_forward_hook(lambda module, given, output: seen.append(output.detach().clone()))
    for _ in range(80):
        train()
    handle.remove()
    print(torch.cat(seen).shape)


def wanted_of_epochs():
    losses = []
    for _ in range(EPOCHS):
        for step in range(STEPS):
            try:
                losses.append(result())
            except ValueError:
                continue
        print(len(losses))
    return torch.stack(losses)


def collect(into, value):
    into.append(value)


def wanted_passed():
    into = []
    step = 0
    while True:
        collect(into, result())
        step += 1
        if step == 80:
            break
    print([each.sum().item() for each in into][:1])


class Trainer:
    def __init__(self):
        self.seen = []

    def fit(self):
        for _ in range(80):
            self.seen.append(result())

    def summary(self):
        return torch.cat(self.seen)


def wanted_of_a_trainer():
    trainer = Trainer()
    trainer.fit()
    print(trainer.summary().shape)


def leak_unread():
    kept = []
    for _ in range(80):
        kept.append(result())


def doubt_counted():
    kept = []
    for _ in range(80):
        kept.append(result())
    print(len(kept))


def doubt_last():
    kept = []
    for _ in range(80):
        kept.append(result())
    if kept:
        print(kept[-1].shape)


def leak_of_epochs():
    """Each epoch reads the list, and none clears it."""
    losses = []
    for _ in range(EPOCHS):
        for _ in range(STEPS):
            losses.append(result())
        print(torch.stack(losses).mean().item())
    print("done")


def leak_of_graphs():
    losses = []
    for _ in range(80):
        train()
        losses.append(torch.tanh(layer(torch.ones(1, 10))).sum())
    print(sum(losses).item() / len(losses))


def leak_in_total():
    total = 0
    for _ in range(80):
        train()
        total = total + torch.tanh(layer(torch.ones(1, 10))).sum()
    print(total.item())


class Validation:
    def __init__(self):
        self.predictions = []

    def validate(self):
        for _ in range(STEPS):
            self.predictions.append(result())
        return torch.cat(self.predictions).mean()


def leak_of_validations():
    validation = Validation()
    for _ in range(EPOCHS):
        print(validation.validate().item())


class Server:
    def __init__(self):
        self.log = []

    def answer(self):
        self.log.append(result())

    def statistics(self):
        return torch.stack(self.log).mean()


def leak_of_a_server():
    server = Server()
    for _ in range(80):
        server.answer()


class Kept:
    def __init__(self):
        self.all = []

    def add(self, value):
        self.all.append(value)

    def copy(self):
        return [each.clone() for each in self.all]


def doubt_namesake():
    """Nothing calls copy() of this class."""
    kept = Kept()
    for _ in range(80):
        kept.add(result())
    print(len({}.copy()))


def leak_cleared_late():
    kept = []
    for _ in range(80):
        kept.append(result())
    kept.clear()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
