import torch

_initialized = False
_queued_calls = []


def is_initialized():
    return _initialized


def _lazy_init():
    global _initialized
    if _initialized:
        return
    torch._C._cuda_init()
    for call, traceback in _queued_calls:
        call()
    _initialized = True


from torch.cuda import memory  # noqa: E402, F401
