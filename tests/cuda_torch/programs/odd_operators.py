"""Calls that a log of operators may fail at: odd_operators.py OUT. OUT gets what each part computed, or its error's name.

Some operators have no schema, or raise. Others are the program's own or Triton's, or run in hooks and threads. Tensors
are of odd kinds: subclasses, nested, sparse, quantized or without storage. Others are functorch's, fake or DTensors.
"""
import json
import sys
import threading

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

DEVICE = "cuda"
torch.manual_seed(0)
results, kept = {}, []


def part(function):
    try:
        results[function.__name__] = function()
    except Exception as error:
        results[function.__name__] = type(error).__name__


def shape(tensor):
    return f"{tuple(tensor.shape)} {tensor.dtype} {tensor.device.type}"


@part
def raises():
    found = []
    for call in (lambda: torch.mm(torch.ones(3, 4, device=DEVICE), torch.ones(3, 4, device=DEVICE)),
                 lambda: torch.ones(3, device=DEVICE).view(7), lambda: torch.ones(2).to("meta").item(),
                 lambda: F.embedding(torch.ones(2, device=DEVICE), torch.ones(3, 3, device=DEVICE))):
        try:
            call()
        except (RuntimeError, NotImplementedError) as error:
            found.append(type(error).__name__)
    return found


@part
def raises_in_backward():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            torch.ones(1000, device=DEVICE) + gradient.sum()
            raise ValueError("no")
    x = torch.ones(500, device=DEVICE, requires_grad=True)
    try:
        Bad.apply(x).sum().backward()
    except ValueError as error:
        return str(error)


@part
def kernel_of_triton():
    @triton.jit
    def doubled(read, written, count: tl.constexpr):
        places = tl.arange(0, count)
        tl.store(written + places, tl.load(read + places) * 2)
    x, y = torch.ones(1024, device=DEVICE), torch.empty(1024, device=DEVICE)
    doubled[(1,)](x, y, 1024)
    return [shape(x), shape(y)]


@part
def own_operators():
    library = torch.library.Library("odd", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.define("split(Tensor x, Tensor[] others, Tensor? none=None) -> (Tensor, Tensor[])")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("split", lambda x, others, none=None: (x + 1, [one + 1 for one in others]), "CompositeExplicitAutograd")
    kept.append(library)
    x = torch.ones(3000, device=DEVICE)
    one, more = torch.ops.odd.split(torch.ops.odd.twice(x), [x, x])
    return [shape(each) for each in (one, *more)]


def scripted(x: torch.Tensor):
    return x.relu() + 1


@part
def without_a_schema():
    with torch.autograd.profiler.record_function("a name of the program"):
        return [shape(torch._C._VariableFunctions.ones((2000,), device=DEVICE)),
                shape(torch.jit.script(scripted)(torch.ones(100, device=DEVICE)))]


@part
def subclasses():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), named=None):
            return super().__torch_function__(function, types, arguments, named or {})

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), named=None):
            def unwrap(one):
                return [unwrap(each) for each in one] if isinstance(one, list) else getattr(one, "inner", one)
            out = function(*[unwrap(one) for one in arguments], **(named or {}))
            return Wrapper(out) if isinstance(out, torch.Tensor) else out
    wrapped = Wrapper(torch.ones(70, 30, device=DEVICE))
    return [shape(torch.ones(900, device=DEVICE).as_subclass(Logged) * 3), shape((wrapped + wrapped).inner),
            shape(torch.cat([wrapped, wrapped]).inner)]


@part
def without_storage():
    meta = torch.ones(1 << 20, device="meta") * 2
    empty = torch.empty(0, device=DEVICE)
    return [shape(meta), shape(empty + empty), shape(torch._efficientzerotensor((4,), device="cpu") + 1)]


@part
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return shape(torch.mm(torch.ones(400, 500, device=DEVICE), torch.ones(500, 600, device=DEVICE)))


@part
def nested():
    jagged = torch.nested.nested_tensor([torch.ones(5, 20), torch.ones(9, 20)], device=DEVICE, layout=torch.jagged)
    return [shape((jagged * 2).values()), str((jagged + jagged).layout)]


@part
def sparse():
    eye = torch.eye(60, device=DEVICE).to_sparse()
    return [str(eye.layout), shape((eye * 2).to_dense()), str(torch.eye(60, device=DEVICE).to_sparse_csr().layout)]


@part
def quantized():
    return shape(torch.quantize_per_tensor(torch.ones(4000), 0.1, 0, torch.qint8).dequantize())


@part
def torchao():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    layer = torch.nn.Sequential(torch.nn.Linear(128, 64)).to(DEVICE)
    quantize_(layer, Int8WeightOnlyConfig())
    return shape(layer(torch.ones(8, 128, device=DEVICE)))


@part
def functorch():
    x = torch.ones(20, 30, device=DEVICE)
    mapped = torch.func.vmap(torch.func.grad(lambda row: (row * row).sum()))(x)
    hessian = torch.func.hessian(lambda row: (row ** 3).sum())(torch.ones(12, device=DEVICE))
    return [shape(mapped), shape(hessian), shape(torch.func.jvp(torch.sin, (x,), (x,))[1])]


@part
def threads():
    found = []

    def work(number):
        x = torch.ones(50 + number, 40, device=DEVICE, requires_grad=True)
        for _ in range(20):
            (x @ x.T).relu().sum().backward()
        found.append(shape(x.grad))
    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return sorted(found)


@part
def hooks_and_modes():
    from torch.overrides import BaseTorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            Counting.calls += 1
            return function(*arguments, **(named or {}))
    x = torch.ones(2000, device=DEVICE, requires_grad=True)
    x.register_hook(lambda gradient: gradient * 2 + torch.ones_like(gradient))
    with Counting(), BaseTorchFunctionMode(), torch.autograd.graph.save_on_cpu():
        (x * x).exp().sum().backward()
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as profiler:
        (x * x).sum().backward()
    return [Counting.calls > 4, shape(x.grad), len(profiler.events()) > 5]


@part
def many_arguments():
    parts = [torch.ones(1 + i % 5, device=DEVICE) for i in range(9000)]
    deep = torch.ones(10, device=DEVICE)
    for _ in range(500):
        deep = deep + 1
    return [shape(torch.cat(parts)), len(torch._foreach_add(parts, 1)), shape(deep.view(*[1] * 20, 10))]


@part
def distributed():
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    one = distribute_tensor(torch.ones(80, 90), mesh, [Shard(0)])
    found = [shape((one @ one.T).to_local()), type(one + one) is DTensor, shape(one.redistribute(mesh, [Replicate()]).to_local())]
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    for each in kept:
        each._destroy()
    with open(sys.argv[1], "w") as file:
        json.dump(results, file)
