"""Reports record_function as regions. PyTorch itself uses it for ProfilerStep#N, steps of optimizers, DataLoader and
DistributedDataParallel. Dynamo and TorchScript recognise the class itself, so they never see these functions. A
framework's evaluation, saving and generation are regions, too: no step has them."""

import sys

from libmemprof_torch import replace
from libmemprof_torch.servers import is_installed

# (module, class, method, region)
PHASES = (
    ("transformers.trainer", "Trainer", "evaluation_loop", b"evaluate"),
    ("transformers.trainer", "Trainer", "prediction_loop", b"evaluate"),
    ("transformers.trainer", "Trainer", "_save_checkpoint", b"save"),
    ("transformers.trainer", "Trainer", "save_model", b"save"),
    ("transformers.generation.utils", "GenerationMixin", "generate", b"generate"),
    ("lightning.pytorch.loops.evaluation_loop", "_EvaluationLoop", "run", b"evaluate"),
    ("lightning.pytorch.loops.prediction_loop", "_PredictionLoop", "run", b"evaluate"),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint", b"save"),
    ("pytorch_lightning.loops.evaluation_loop", "_EvaluationLoop", "run", b"evaluate"),
    ("pytorch_lightning.loops.prediction_loop", "_PredictionLoop", "run", b"evaluate"),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint", b"save"),
    ("accelerate.accelerator", "Accelerator", "save_state", b"save"),
    ("accelerate.accelerator", "Accelerator", "save_model", b"save"),
)


def follow_frameworks(api, after_import):
    """`after_import(name, then)` calls then(module) once it is imported."""
    push, pop = api["region_push"], api["region_pop"]

    def follow(name, module):
        for of, kind, method, region in PHASES:
            owner = getattr(module, kind, None) if of == name else None
            if method in getattr(owner, "__dict__", ()):
                replace(owner, method, lambda run, region=region: make_run(run, region))

    def make_run(run, region):
        def within(self, *arguments, **named):
            push(region)
            try:
                return run(self, *arguments, **named)
            finally:
                pop()
        return within

    for name in dict.fromkeys(of for of, *_ in PHASES):
        if is_installed(name.partition(".")[0]):
            after_import(name, lambda module, name=name: follow(name, module))


def follow_ranks(api, torch, after_import):
    """Marks the rank in the default process group, which workers of torch.multiprocessing.spawn know as an argument
    alone (src/base/member.h reads it)."""
    mark, name = api["mark"], "_update_default_pg"  # called by that name wherever the group changes

    def make(update):
        def update_default_pg(group):
            updated = update(group)
            try:
                mark(b"torch.distributed: rank %d of %d" % (group.rank(), group.size()))
            except (AttributeError, TypeError, RuntimeError):  # there is no group any more
                pass
            return updated
        return update_default_pg

    if hasattr(torch, "distributed"):  # otherwise a finder would wait for ever
        after_import("torch.distributed.distributed_c10d",
                     lambda module: replace(module, name, make) if name in vars(module) else None)


def start(api, torch, optimizers, history):
    # The functions below may only use names from here: their globals are the class's own module.
    push, pop = api["region_push"], api["region_pop"]
    caller = sys._getframe
    look = None if history is None else history.look
    optimizer_step = "Optimizer.step#"  # how torch.optim.Optimizer names the region around each step

    def make_enter(enter):
        def __enter__(self):
            entered = enter(self)
            name = self.name
            if type(name) is str:
                push(name.encode("utf-8", "replace"))
            return entered
        return __enter__

    def make_exit(leave):
        def __exit__(self, exc_type, exc_value, traceback):
            name = self.name
            if type(name) is str:
                if optimizers is not None and exc_type is None and name.startswith(optimizer_step):
                    optimizers.stepped(caller(1))
                pop()
                if look is not None:
                    look()
            return leave(self, exc_type, exc_value, traceback)
        return __exit__

    record_function = torch.autograd.profiler.record_function
    replace(record_function, "__enter__", make_enter)
    replace(record_function, "__exit__", make_exit)
