"""A stand-in for PyTorch with CUDA: the part that memprof's shim uses. Its caching allocator is
tests/unit/analysis/naive_allocator.py, and reports blocks through a stand-in of libc10. $STAND_IN_TORCH is the version
whose signatures it has. For check_torch_history.py."""
import os

__version__ = os.environ["STAND_IN_TORCH"]

from torch import _C, autograd, cuda  # noqa: E402, F401

if "early" in os.environ.get("STAND_IN_SETTINGS", ""):
    cuda._lazy_init()
