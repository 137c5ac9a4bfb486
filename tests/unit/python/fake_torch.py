"""The part of torch that the shim uses, in plain Python. `make()` returns a new one, which shares nothing with
others."""

import contextlib
import sys
import types


def make():
    torch = types.ModuleType("torch")
    torch.distributed = types.ModuleType("torch.distributed")
    torch.__version__ = "9.9"
    torch._C = types.SimpleNamespace()
    torch.mode = None  # of __torch_function__
    torch.within = []  # how many DisableTorchFunction are entered

    class DisableTorchFunction:
        def __enter__(self):
            torch.within.append(True)

        def __exit__(self, *trouble):
            torch.within.pop()

    class Tensor:
        def __init__(self, address):
            self.address, self._version, self.grad = address, 0, None

        def data_ptr(self):
            return self.address

    class Parameter(Tensor):
        pass

    def data_address(tensor):
        assert torch.within, "an address is asked for where the program's overrides are on"
        return tensor.address

    torch._C.DisableTorchFunction = DisableTorchFunction
    torch._C._get_torch_function_mode = lambda: torch.mode
    torch._C._data_address = data_address
    torch._C.TensorBase = Tensor
    torch.Tensor = Tensor
    torch.compiling = False
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: torch.compiling)

    class Module:
        def __init__(self, **parts):
            vars(self).update(_parameters={}, _buffers={}, _modules={})
            for name, part in parts.items():
                kind = "_modules" if isinstance(part, Module) or part is None else \
                    "_parameters" if isinstance(part, Parameter) else "_buffers"
                vars(self)[kind][name] = part

        def __setstate__(self, state):
            vars(self).update(state)

        def __call__(self, *arguments):
            return arguments

        def _replicate_for_data_parallel(self):
            replica = type(self).__new__(type(self))
            vars(replica).update(vars(self), _modules={})
            return replica

    torch.nn = types.SimpleNamespace(Module=Module, Parameter=Parameter)

    class record_function:
        left = []

        def __init__(self, name):
            self.name = name

        def __enter__(self):
            return self

        def __exit__(self, exc_type, exc_value, traceback):
            self.left.append((exc_type, exc_value, traceback))

    torch.autograd = types.SimpleNamespace(profiler=types.SimpleNamespace(record_function=record_function))

    class Optimizer:
        def __init__(self, parameters):
            self.param_groups, self.state = [{"params": list(parameters)}], {}
            self._patch_step_function()

        def _patch_step_function(self):
            pass

        def change(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter._version += 1

        def step(self):
            def wrapper(*args):
                with record_function("Optimizer.step#Own.step"):
                    args[0].change()
            wrapper(self)

    torch.optim = types.SimpleNamespace(Optimizer=Optimizer)
    return torch


def add_cuda(torch, snapshot, parameters=("skip_actions", "clear_history", "global_record_annotations")):
    """With an allocator that answers snapshot() and writes down what is recorded: torch.asked."""
    torch.asked, torch.recording = [], False
    torch.cuda = types.SimpleNamespace(_queued_calls=[], initialized=True)
    torch.cuda.is_initialized = lambda: torch.cuda.initialized

    def record(enabled="all", **named):
        torch.asked.append((enabled, named))
        torch.recording = bool(enabled)

    def look(*arguments):
        torch.asked.append("snapshot")
        return snapshot()

    torch._C._cuda_record_memory_history = record
    torch._C._cuda_isHistoryEnabled = lambda: torch.recording
    torch._C._cuda_memorySnapshot = look
    body = "".join(f", {name}=None" for name in parameters)
    known = {"torch": torch}
    exec(f"def _record_memory_history(enabled='all', context='all', stacks='all', max_entries=1{body}):\n"  # noqa: S102
         "    named = dict(locals())\n"
         "    return torch._C._cuda_record_memory_history(named.pop('enabled'), **named)\n", known)
    torch.cuda.memory = types.SimpleNamespace(_record_memory_history=known["_record_memory_history"])
    return torch


@contextlib.contextmanager
def imported(torch, **others):
    """Puts torch into sys.modules, as if the program had imported it."""
    names = {"torch": torch, "torch.optim.optimizer": types.SimpleNamespace(Optimizer=torch.optim.Optimizer), **others}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
