"""A stand-in of vLLM: what memprof asks of its engine, over PyTorch on the CPU with a device that is a few numbers."""

__version__ = "0.19.0"
