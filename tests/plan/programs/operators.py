"""Runs PyTorch's own lists of operators and modules on stand-in GPUs, forward and backward. It imports PyTorch once and
forks for each GPU, before CUDA begins. On stdout comes one JSON line for each GPU and kind of numbers.

    operators.py DEVICES SAMPLES [DTYPE...]

DEVICES: {name: {SOFTGPU_...: value}}, as JSON. SAMPLES: how many samples of each entry are run; 0: all. With "SIZES" or
"PROGRAMS" in place of SAMPLES it runs that table of sizes.py."""
import json
import os
import sys
import time
import types
import unittest
import warnings

warnings.simplefilter("ignore")
# PyTorch's lists need the base class of its tests, which is a package of its own.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = unittest.TestCase

import setuptools  # noqa: E402  (has the module packaging, which PyTorch's lists need)
sys.path.append(os.path.join(os.path.dirname(setuptools.__file__), "_vendor"))
import torch  # noqa: E402
import torch._dynamo.device_interface  # noqa: E402  (keeps PyTorch's own functions)

# The lists ask for the device's capability when they are imported. The answer here does not begin CUDA, so that each
# child may begin it on a GPU of its own.
answers = {"is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": (9, 0),
           "get_device_properties": types.SimpleNamespace(major=9, minor=0, gcnArchName="", name="NVIDIA H100")}
asked = {name: getattr(torch.cuda, name) for name in answers}
for name, answer in answers.items():
    setattr(torch.cuda, name, lambda *arguments, answer=answer, **named: answer)
import torch.testing._internal.common_cuda  # noqa: E402

torch.testing._internal.common_cuda.TEST_CUDNN = True
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402
for name, function in asked.items():
    setattr(torch.cuda, name, function)
torch._dynamo.device_interface.caching_worker_device_properties.clear()
ONLY = os.environ.get("ONLY", "").split()


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def go_back(result):
    """The backward pass of all outputs that have one."""
    outputs = [one if one.layout == torch.strided else one.to_dense() for one in tensors_in(result)
               if one.requires_grad and one.grad_fn is not None]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])


def samples_of_operators(dtype):
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if dtype in op.supported_dtypes("cuda"):
            backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cuda")
            def of(op=op, backward=backward):
                for one in op.sample_inputs("cuda:0", dtype, requires_grad=backward):
                    yield lambda one=one: go_back(op(one.input, *one.args, **one.kwargs))
            yield name, of


def samples_of_modules(dtype):
    for entry in module_db:
        if dtype not in entry.dtypes:
            continue
        for training in (True, False):
            def of(entry=entry, training=training):
                for one in entry.module_inputs_func(entry, device="cuda:0", dtype=dtype, requires_grad=True, training=training):
                    def run(one=one):
                        build, call = one.constructor_input, one.forward_input
                        module = entry.module_cls(*build.args, **build.kwargs).to("cuda", dtype).train(training)
                        go_back(module(*call.args, **call.kwargs))
                    if one.forward_input is not None:
                        yield run
            yield f"module {entry.name} {'train' if training else 'eval'}", of


def samples_of_optimizers(dtype):
    for entry in optim_db:
        def of(entry=entry):
            for one in entry.optim_inputs_func(device="cuda:0", dtype=dtype):
                def run(one=one):
                    if entry.optim_cls.__name__ == "SparseAdam":
                        layer = torch.nn.Embedding(40, 30, sparse=True, device="cuda:0", dtype=dtype)
                        data = torch.arange(9, device="cuda:0")
                    else:  # Muon is for matrices alone
                        layer = torch.nn.Linear(40, 30, entry.optim_cls.__name__ != "Muon", device="cuda:0", dtype=dtype)
                        data = torch.rand(5, 40, device="cuda:0", dtype=dtype)
                    optimizer = entry.optim_cls(layer.parameters(), **one.kwargs)
                    for _ in range(2):
                        def closure():
                            optimizer.zero_grad()
                            loss = layer(data).sum()
                            loss.backward()
                            return loss
                        optimizer.step(closure)
                yield run
        yield f"optimizer {entry.optim_cls.__name__}", of


def run(entries, most):
    """How many samples ran, and the errors: {name: message}."""
    ran, errors = 0, {}
    for name, samples in entries:
        if ONLY and name not in ONLY:
            continue
        try:
            for number, sample in enumerate(samples()):
                if most and number >= most:
                    break
                torch.manual_seed(0)
                sample()
                ran += 1
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            errors[name] = f"{type(error).__name__}: {str(error).strip()[:300]}"
        if torch.cuda.memory_allocated() > 1 << 30:
            torch.cuda.empty_cache()
    return ran, errors


def on_device(name, variables, most, dtypes):
    os.environ.update(variables)
    major, minor = torch.cuda.get_device_capability()
    if not any(int(arch[3:-1]) == major and int(arch[-1]) <= minor for arch in torch.cuda.get_arch_list() if arch[:2] == "sm"):
        try:
            torch.rand(9, device="cuda:0")
            print(json.dumps({"device": name, "errors": {"rand": "PyTorch lists no code for the device, and yet it ran"}}))
        except RuntimeError as error:
            print(json.dumps({"device": name, "no_code": str(error).splitlines()[0]}), flush=True)
        return
    for dtype in dtypes:
        begun = time.process_time()
        if dtype in ("SIZES", "PROGRAMS"):
            import sizes  # begins CUDA
            entries = [(key, lambda value=value: [lambda: go_back(value())]) for key, value in getattr(sizes, dtype).items()]
        else:
            kind = getattr(torch, dtype)
            entries = [*samples_of_operators(kind), *samples_of_modules(kind), *samples_of_optimizers(kind)]
        ran, errors = run(entries, most)
        print(json.dumps({"device": name, "dtype": dtype, "entries": len(entries), "ran": ran, "errors": errors,
                          "seconds": round(time.process_time() - begun, 1)}), flush=True)


def main():
    assert not torch.cuda.is_initialized()
    devices, table = json.loads(sys.argv[1]), sys.argv[2].isupper()
    most, dtypes = (0, sys.argv[2:]) if table else (int(sys.argv[2]), sys.argv[3:] or ["float32", "bfloat16"])
    for name, variables in devices.items():
        pid = os.fork()
        if not pid:
            on_device(name, variables, most, dtypes)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if status:
            print(json.dumps({"device": name, "died": status}), flush=True)


main()
