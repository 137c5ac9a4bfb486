"""A stand-in of SGLang: the parts of its scheduler that memprof uses, over PyTorch on the CPU with a device that
consists of a few numbers."""

__version__ = "0.5.23"
