"""A stand-in of vLLM: the parts of its engine that memprof uses, over PyTorch on the CPU with a device that consists of
a few numbers."""

__version__ = "0.19.0"
