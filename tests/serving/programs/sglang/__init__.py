"""A stand-in of SGLang: what memprof asks of its scheduler, over PyTorch on the CPU with a device that is a few numbers."""

__version__ = "0.5.23"
