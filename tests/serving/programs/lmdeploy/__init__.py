"""A stand-in of lmdeploy: the parts of its own engine that memprof uses, over PyTorch on the CPU with a device that
consists of a few numbers."""

__version__ = "0.18.0"
