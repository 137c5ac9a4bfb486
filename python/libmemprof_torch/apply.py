"""One change, made in a program from outside: for `memprof plan --advise` and `memprof advise --try`.

MEMPROF_APPLY has the change as JSON. `pattern` is as in memprof.advise/1. Some patterns need `module`, a path with *
for numbers, and `modules`, the number of these modules. Others need `file` and `line` of the code that calls the
network. When the change first takes effect, the recording gets a mark. Without it, memprof does not count the run.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import re
import sys
import weakref

MARK = "memprof applied"
_said = []


def start(torch, after_import):
    change = json.loads(os.environ["MEMPROF_APPLY"])
    make = CHANGES.get(change["pattern"])
    if make:
        make(torch, change, after_import)


def _applied():
    if not _said:
        import libmemprof
        _said.append(libmemprof.mark(MARK))


# ---- optimizers

def _each_optimizer(torch, then):
    init = torch.optim.Optimizer.__init__

    @functools.wraps(init)
    def instead(self, *arguments, **options):
        init(self, *arguments, **options)
        then(self)

    torch.optim.Optimizer.__init__ = instead


def _after_steps(torch, then):
    """Calls then(optimizer) after each step."""
    changed = set()

    def change(optimizer):
        cls = type(optimizer)
        if cls in changed:
            return
        changed.add(cls)
        step = cls.step

        @functools.wraps(step)
        def instead(self, *arguments, **options):
            result = step(self, *arguments, **options)
            then(self)
            _applied()
            return result

        cls.step = instead

    _each_optimizer(torch, change)


def _drop_gradients(torch, change, after_import):
    zero_grad = torch.optim.Optimizer.zero_grad
    torch.optim.Optimizer.zero_grad = lambda self, set_to_none=True: zero_grad(self, set_to_none=True)
    _after_steps(torch, lambda optimizer: zero_grad(optimizer, set_to_none=True))


def _collect(torch, change, after_import):
    _after_steps(torch, lambda optimizer: gc.collect())


def _options(**options):
    def make(torch, change, after_import):
        def then(optimizer):
            if not all(name in optimizer.defaults for name in options):
                return
            for group in (optimizer.defaults, *optimizer.param_groups):
                group.update(options)
            _applied()

        _each_optimizer(torch, then)
    return make


def _eight_bit(torch, change, after_import):
    """Adam and AdamW become those of bitsandbytes, else of torchao. Without either, the change is not made."""
    for name in ("Adam", "AdamW"):
        def instead(cls, params=(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=None, *_, name=name, **__):
            if cls is not getattr(torch.optim, name):
                return object.__new__(cls)
            for library in ("bitsandbytes.optim", "torchao.optim"):
                with contextlib.suppress(ImportError):
                    eight_bit = getattr(importlib.import_module(library), name + "8bit")
                    _applied()
                    decays = {} if weight_decay is None else {"weight_decay": weight_decay}
                    return eight_bit(params, lr=lr, betas=betas, eps=eps, **decays)
            return object.__new__(cls)

        getattr(torch.optim, name).__new__ = instead


def _sparse(torch, change, after_import):
    """Embeddings whose parameter is at least change["bytes"] long and no other module's. Adam leaves them to a
    SparseAdam."""
    modules, made = weakref.WeakSet(), weakref.WeakKeyDictionary()
    init, zero_grad = torch.nn.Module.__init__, torch.optim.Optimizer.zero_grad

    def remember(self, *arguments, **options):
        init(self, *arguments, **options)
        modules.add(self)

    def is_sparse(parameter):
        owners = [module for module in modules if any(own is parameter for own in module._parameters.values())]
        if len(owners) != 1 or type(owners[0]) is not torch.nn.Embedding:
            return False
        if parameter.numel() * parameter.element_size() < change["bytes"]:
            return False
        owners[0].sparse = True
        _applied()
        return True

    def split(optimizer):
        if isinstance(optimizer, torch.optim.SparseAdam):
            return
        taken = []
        for group in optimizer.param_groups:
            found = [parameter for parameter in group["params"] if is_sparse(parameter)]
            if found and isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
                group["params"] = [each for each in group["params"] if not any(each is other for other in found)]
                taken.append({"params": found, **{key: group[key] for key in ("lr", "betas", "eps")}})
        if taken:
            made[optimizer] = torch.optim.SparseAdam(taken)

    def zero_both(self, set_to_none=True):
        for optimizer in filter(None, (self, made.get(self))):
            zero_grad(optimizer, set_to_none)

    torch.nn.Module.__init__, torch.optim.Optimizer.zero_grad = remember, zero_both
    _each_optimizer(torch, split)
    _after_steps(torch, lambda optimizer: optimizer in made and made[optimizer].step())


# ---- modules

def _around_calls(torch, picks, context):
    """Calls modules inside of context() if picks(the caller's frame)."""
    call, own = torch.nn.Module.__call__, torch.nn.modules.module.__file__

    def instead(self, *arguments, **options):
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename in (own, __file__):
            frame = frame.f_back
        if not picks(frame):
            return call(self, *arguments, **options)
        _applied()
        with context():
            return call(self, *arguments, **options)

    torch.nn.Module.__call__ = instead


def _no_grad(torch, change, after_import):
    name = os.path.basename(change["file"] or "")  # a script's own code has the path that the user gave

    def picks(frame):
        return frame.f_lineno == change["line"] and os.path.basename(frame.f_code.co_filename) == name

    _around_calls(torch, picks, torch.no_grad)


def _autocast(torch, change, after_import):
    device = "cuda" if torch.version.cuda else "cpu"
    _around_calls(torch, lambda frame: True, lambda: torch.autocast(device, torch.bfloat16))


def _each_module(torch, change, wrap):
    """Wraps the forward of the named modules at the first call of an outermost module that has them."""
    call, seen, depth = torch.nn.Module.__call__, set(), [0]

    def find(root):
        found = []
        for name, module in root.named_modules():
            path = re.sub(r"(?<![^.])\d+(?![^.])", "*", name)
            if change["module"] in (path, ".".join(filter(None, (type(root).__name__, path)))):
                found.append(module)
        for module in found[:change.get("modules") or None]:
            module.forward = wrap(module.forward)
            _applied()

    def instead(self, *arguments, **options):
        if not depth[0] and id(self) not in seen:
            seen.add(id(self))
            find(self)
        depth[0] += 1
        try:
            return call(self, *arguments, **options)
        finally:
            depth[0] -= 1

    torch.nn.Module.__call__ = instead


def _checkpoint(torch, change, after_import):
    from torch.utils.checkpoint import checkpoint
    _each_module(torch, change, lambda forward: functools.partial(checkpoint, forward, use_reentrant=False))


def _freeze(torch, change, after_import):
    _each_module(torch, change, lambda forward: torch.no_grad()(forward))


def _liger(torch, change, after_import):
    """Only for transformers' Trainer."""
    def follow(module):
        arguments = module.TrainingArguments
        init = arguments.__post_init__

        def instead(self):
            self.use_liger_kernel = True
            _applied()
            init(self)

        arguments.__post_init__ = instead

    after_import("transformers.training_args", follow)


CHANGES = {"late_zero_grad": _drop_gradients, "gradients_kept": _drop_gradients, "gradients_idle": _freeze,
           "fused": _options(fused=True, foreach=False), "one_by_one": _options(foreach=False), "no_grad": _no_grad,
           "checkpoint": _checkpoint, "chunked_loss": _liger, "collect": _collect, "autocast": _autocast,
           "eight_bit": _eight_bit, "sparse": _sparse}
