"""Reports PyTorch's knowledge to memprof's recorder: names of modules, regions, steps and roles of tensors.

Started by python/start/sitecustomize.py once torch is imported. It must never change the program's results, print, or
keep an object of the program alive. It has only weak references, addresses and names. Each part works alone. A part
that meets something unknown turns itself off, and the recording's coverage says so. Needs only the standard library.

The recorder leaves frames of these files out of stacks (src/capture/stack/stack.c).
"""

import sys
import types

# Any failure of a part of the shim. An exception from the program's own signal handler is passed on (is_of_signal()).
TROUBLE = Exception


def start(torch, after_import=lambda name, then: None):
    """Turns on the parts that this torch supports, once in a process; nothing without a recorder. `after_import(name,
    then)` calls then(module) once it is imported."""
    import libmemprof
    from libmemprof_torch import (compiled, history, holders_looks, loaders, modules, operators, optimizers, pools,
                                  regions, roles, servers)

    api = libmemprof._api
    if parts or "shim" not in api:
        return
    parts["api"] = api
    api["shim"](None)
    labels = parts["labels"] = _begin(api, "label", "roles of tensors", lambda: roles.Roles(api, torch))
    own = parts["history"] = _begin(api, "torch_history", "PyTorch's own history", lambda: history.start(api, torch))
    _begin(api, "torch_mark", "emptied caches and private pools", lambda: pools.start(api, torch, own))
    names = parts["names"] = _begin(api, "module_ask", "names of modules",
                                    lambda: modules.start(api, torch, labels, own))
    steps = _begin(api, "torch_step", "steps", lambda: optimizers.Optimizers(api, torch, labels, names))
    _begin(api, "region_push", "record_function", lambda: regions.start(api, torch, steps, own))
    _begin(api, "region_push", "phases of frameworks", lambda: regions.follow_frameworks(api, after_import))
    _begin(api, "torch_step", "compiled steps", lambda: compiled.start(torch, steps, after_import))
    _begin(api, "torch_step", "steps of a DataLoader's workers", lambda: loaders.start(api, torch, after_import))
    _begin(api, "mark", "ranks of process groups", lambda: regions.follow_ranks(api, torch, after_import))
    _begin(api, "mark", "facts of servers", lambda: servers.start(api, torch, after_import))
    _begin(api, "operators", "the log of operators", lambda: operators.start(api, torch, after_import))
    _begin(api, "holder_due", "what holds tensors", lambda: holders_looks.start(api, torch))
    _begin(api, "shim", "Dynamo", lambda: hide_from_dynamo(torch, __name__))


parts = {}


def _begin(api, call, part, begin):
    """`call`: the recorder's function; an older recorder lacks it."""
    try:
        return begin() if call in api else None
    except TROUBLE as trouble:
        if is_of_signal(trouble):
            raise
        complain(api, part, trouble)
        return None


def complain(api, part, trouble):
    """Adds a sentence about a part that is off to the recording's coverage."""
    text = f"memprof's PyTorch shim is without {part}: {type(trouble).__name__}: {trouble}"
    api["shim"](text.encode("utf-8", "replace"))


def is_of_signal(trouble):
    """True if the program's own signal handler raised the exception while Python ran the shim."""
    import signal

    handlers = []
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # functools.partial
        handlers.append(getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None))
    trace = trouble.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def replace(owner, name, make):
    """Replaces a class's function by make(original). TorchScript reads the source of __wrapped__ and looks names up in
    __globals__, so both are the original's."""
    import functools

    original = vars(owner)[name]
    made = make(original)
    wrapper = types.FunctionType(made.__code__, original.__globals__, original.__name__, original.__defaults__,
                                 made.__closure__)
    setattr(owner, name, functools.update_wrapper(wrapper, original))


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def hide_from_dynamo(torch, package):
    """torch.compile runs the functions of the package's imported modules without compiling them."""
    frames = torch._C._dynamo.eval_frame if hasattr(torch._C, "_dynamo") else None
    if hasattr(frames, "skip_code"):
        skip = frames.skip_code
    elif hasattr(frames, "set_code_exec_strategy"):
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)

        def skip(code):
            frames.set_code_exec_strategy(code, strategy)
    else:
        return
    for module in [module for name, module in list(sys.modules.items()) if name.split(".")[0] == package]:
        for found in list(vars(module).values()):
            functions = vars(found).values() if isinstance(found, type) else (found,)
            for function in functions:
                function = getattr(function, "__func__", function)  # of a static method
                while isinstance(function, types.FunctionType) and function.__code__.co_filename != module.__file__:
                    function = getattr(function, "__wrapped__", None)  # the wrapper is another module's
                if isinstance(function, types.FunctionType):
                    for code in _codes(function.__code__):
                        skip(code)
