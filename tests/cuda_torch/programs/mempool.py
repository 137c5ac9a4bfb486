"""Blocks in MemPools, kept and freed, next to ordinary ones."""
import torch

kept = []
for size in (1000, 300_000, 5 << 20):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(size, dtype=torch.uint8, device="cuda")
        kept.append(torch.empty(size + 1, dtype=torch.uint8, device="cuda"))
    outside = torch.empty(size + 2, dtype=torch.uint8, device="cuda")
    del inside, outside
    if size > 1000:
        kept.pop()
    del pool
