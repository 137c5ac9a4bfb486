"""Models that count their own memory, for check_shim_counts.py. A dispatch mode sees every operation's new storages,
and the program's hooks say which module ran. At the end the program gives the role of each tensor.

    counted.py RECORD.json MODEL modules|roles

Writes its own count: the bytes of each module at the peak, and the tensors by role. `modules` keeps the activations of
two calls until the peak; `roles` only parameters, gradients and optimizer state.
"""

import json
import os
import sys

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import training


class Stack:
    """The stack of running modules, by hooks."""

    def __init__(self, model):
        self.at = []
        for name, module in model.named_modules():
            path = ".".join([type(model).__name__] + ([name] if name else []))
            module.register_forward_pre_hook(lambda _, inputs, path=path: self.at.append(path))
            module.register_forward_hook(lambda _, inputs, outputs: self.at.pop() and None)


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


class Count(TorchDispatchMode):
    """Live bytes by the module that made them."""

    def __init__(self, stack):
        super().__init__()
        self.stack, self.live, self.highest, self.at_highest = stack, {}, 0, {}

    def __torch_dispatch__(self, operation, kinds, arguments=(), named=None):
        given = {storage_of(each).data_ptr() for each in self.tensors([arguments, named])}
        results = operation(*arguments, **(named or {}))
        self.live = {at: entry for at, entry in self.live.items() if not entry[0].expired()}
        for tensor in self.tensors(results):
            storage = storage_of(tensor)
            address = storage.data_ptr()
            if address and address not in given and address not in self.live:
                module = self.stack.at[-1] if self.stack.at else None
                self.live[address] = (StorageWeakRef(storage), storage.nbytes(), module)
        total = sum(entry[1] for entry in self.live.values())
        if total > self.highest:
            self.highest, self.at_highest = total, {}
            for _, size, module in self.live.values():
                self.at_highest[module] = self.at_highest.get(module, 0) + size
        return results

    def tensors(self, value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for part in value:
                yield from self.tensors(part)
        elif isinstance(value, dict):
            yield from self.tensors(list(value.values()))


MODELS = {
    "cnn": lambda: (training.Residual(), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, (16, 3, 32, 32)),
    "transformer": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 3),
                            torch.optim.Adam, {}, (16, 32, 32)),
    "lstm": lambda: (training.Recurrent(), torch.optim.RMSprop, {"momentum": 0.5}, (32, 32, 8)),
}


def roles_of(model, optimizer):
    """By role: names and sizes of tensors, by address."""
    roles = {"parameter": {}, "gradient": {}, "optimizer_state": {}, "buffer": {}}

    def put(role, tensor, name):
        roles[role][tensor.data_ptr()] = (f"{type(model).__name__}.{name}", storage_of(tensor).nbytes())

    for name, parameter in model.named_parameters():
        put("parameter", parameter, name)
        put("gradient", parameter.grad, name)
        for key, state in optimizer.state[parameter].items():
            if isinstance(state, torch.Tensor):
                put("optimizer_state", state, f"{name}.{key}")
    for name, buffer in model.named_buffers():
        put("buffer", buffer, name)
    return roles


def main():
    torch.manual_seed(1)
    model, kind, settings, shape = MODELS[sys.argv[2]]()
    optimizer = kind(model.parameters(), **settings)
    inputs = torch.randn(shape)
    for step in range(3):
        optimizer.zero_grad(set_to_none=True)
        model(inputs).sum().backward()
        optimizer.step()
    roles = roles_of(model, optimizer)
    with Count(Stack(model)) as count:
        outputs = [model(inputs) for _ in range(2)] if sys.argv[3] == "modules" else []
        ballast = torch.zeros(1 << 24)  # so that nothing is live beside what lasts when most is
    with open(sys.argv[1], "w") as out:
        json.dump({"modules": list(count.at_highest.items()), "roles": roles}, out)
    del outputs, ballast
    os._exit(0)  # parameters and their kin stay to the end of the recording


if __name__ == "__main__":
    main()
