"""Reports record_function as regions, and all that PyTorch itself runs under one: ProfilerStep#N, the steps of
optimizers, DataLoader, DistributedDataParallel. Dynamo and TorchScript recognise the class itself, so they never see
these functions."""

import sys

from libmemprof_torch import replace


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
