"""Networks in usual wrappers. Each layer's blocks are noted with the layer's path in the network itself.

    wrappers.py RECORD.json WRAPPER...

Writes the right answers by address: a path, or a list of several right ones. Also writes the addresses of copies of
parameters and of sums of their gradients. Wrappers that this PyTorch lacks, or that need a GPU, are left out; the
record names the others.
"""

import json
import os
import sys
import tempfile
import threading

import torch
from torch import nn

record, kept, copies, sums = {}, [], [], []


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.path = nn.Linear(8, 8), None

    def forward(self, x):
        if self.path:
            kept.append(torch.empty(4096))
            record[kept[-1].data_ptr()] = self.path
        return self.line(x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = Layer(), nn.Sequential(Layer(), Layer())

    def forward(self, x):
        return self.rest(self.first(x))


def network(kind):
    """A model whose class is named after its wrapper, so that each class has a single model."""
    return type(kind, (Network,), {})()


def bare(kind):
    return network(kind)


def distributed(kind):
    return nn.parallel.DistributedDataParallel(network(kind))


class Broadcast(torch.autograd.Function):
    """The wrapper of torch.nn.parallel, without the devices that it needs."""

    @staticmethod
    def forward(context, devices, *tensors):
        context.count = len(tensors)
        made = tuple(tensor.clone() for _ in devices for tensor in tensors)
        kept.extend(made)
        copies.extend(tensor.data_ptr() for tensor in made)
        return made

    @staticmethod
    def backward(context, *gradients):
        made = [first + second for first, second in zip(gradients[:context.count], gradients[context.count:])]
        kept.extend(made)
        sums.extend(tensor.data_ptr() for tensor in made)
        return (None, *made)


class Replicating(nn.DataParallel):
    """Runs real replicas, on threads as torch.nn.parallel.parallel_apply() does."""

    def forward(self, x):
        replicas = nn.parallel.replicate(self.module, [0, 1])
        outputs = [None, None]

        def run(number):
            outputs[number] = replicas[number](x)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.cat(outputs)


def replicas(kind):
    nn.parallel._functions.Broadcast = Broadcast
    nn.parallel.comm.broadcast_coalesced = lambda buffers, devices: [list(buffers) for _ in devices]
    return Replicating(network(kind))


def sharded(kind):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    return FullyShardedDataParallel(network(kind), auto_wrap_policy=ModuleWrapPolicy({Layer}),
                                    device_id=torch.device("cpu"))


def sharded_anew(kind):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    made, mesh = network(kind), init_device_mesh("cpu", (1,))
    for module in [*made.rest, made]:
        fully_shard(module, mesh=mesh)
    return made


def checkpointed(kind):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    made = network(kind)
    made.rest[0] = checkpoint_wrapper(made.rest[0])
    return made


def parametrized(kind):
    made = network(kind)
    for module, name in ((made.first.line, "weight"), (made, "scale")):
        if not hasattr(module, name):
            module.register_parameter(name, nn.Parameter(torch.ones(1)))
        nn.utils.parametrize.register_parametrization(module, name, nn.Identity())
    return made


def compiled(kind):
    return torch.compile(network(kind), backend="eager")


def main():
    torch.distributed.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
    inputs, done = torch.ones(2, 8, requires_grad=True), []
    for kind in sys.argv[2:]:
        try:
            model = globals()[kind](kind)
            model(inputs).sum().backward()
        except (ImportError, AttributeError, ValueError) as trouble:
            print(kind, repr(trouble), file=sys.stderr)
            continue
        for name, module in model.named_modules():
            if isinstance(module, Layer):
                parts = [part for part in name.split(".") if not part.startswith("_") and part != "module"]
                path = ".".join([kind, *parts])
                # Dynamo may run all modules as one graph of the root
                module.path = path if kind != "compiled" else [path, kind]
        for _ in range(3):
            model(inputs).sum().backward()
        done.append(kind)
    with open(sys.argv[1], "w") as file:
        json.dump({"kinds": done, "modules": record, "copies": copies, "sums": sums}, file)
    sys.stdout.flush()
    os._exit(0)  # what is kept lives to the end


main()
