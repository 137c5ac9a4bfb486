"""Workers of a DataLoader: each batch is a step of the worker's own. Newer versions of PyTorch forget a worker's dataset
before the process ends; the last look still has to find it, so it is kept until then.
"""

import threading

kept = []  # in a worker, its WorkerInfo
_steps = []  # once it has a batch, the function that ends a step


def end():
    """The worker's last look is over."""
    for step in _steps:
        step()
    del kept[:], _steps[:]


def start(api, torch, after_import):
    after_import("torch.utils.data.dataloader", lambda loader: _follow(api, loader._DatasetKind, loader._utils.worker))


def _follow(api, kind, worker):
    create, step, kinds = kind.create_fetcher, api["torch_step"], {}

    def create_fetcher(*arguments, **named):
        fetcher = create(*arguments, **named)
        info = worker._worker_info
        if info is not None and threading.current_thread() is threading.main_thread():  # no worker that is a thread
            kept[:] = [info]
            usual = type(fetcher)
            if usual not in kinds:
                kinds[usual] = _stepping(usual, step)
            fetcher.__class__ = kinds[usual]
        return fetcher

    kind.create_fetcher = staticmethod(create_fetcher)


def _stepping(usual, step):
    """The worker's loop reads the attribute once for each batch. No function of memprof is on the stack in the call."""
    def fetch(self):
        for end_of_last in _steps:
            end_of_last()
        _steps[:] = [step]
        return usual.fetch.__get__(self)

    return type(usual.__name__, (usual,), {"fetch": property(fetch), "__module__": usual.__module__})
