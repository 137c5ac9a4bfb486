"""A device that consists of a few numbers, for engines over PyTorch on the CPU."""

import torch

BOOK = dict(reserved=0, allocated=0, peak=0, total=80 << 20, others=6 << 20)


def take(size, reserved=None):
    BOOK["allocated"] += size
    BOOK["peak"] = max(BOOK["peak"], BOOK["allocated"])
    BOOK["reserved"] = max(BOOK["reserved"], reserved or BOOK["allocated"])


torch.cuda.is_available = torch.cuda.is_initialized = lambda: bool(BOOK["reserved"])
torch.cuda.memory_reserved, torch.cuda.memory_allocated = lambda: BOOK["reserved"], lambda: BOOK["allocated"]
torch.cuda.max_memory_allocated = lambda: BOOK["peak"]
torch.cuda.mem_get_info = lambda: (BOOK["total"] - BOOK["reserved"] - BOOK["others"], BOOK["total"])
