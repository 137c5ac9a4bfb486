"""Snapshots by PyTorch itself, each of another way to record or of something else that its own tests of _snapshot() touch
(test/test_cuda.py): snapshots.py FOLDER writes FOLDER/NAME.pickle."""
import inspect
import os
import pathlib
import random
import sys

import torch
from torch.utils.checkpoint import checkpoint

folder = pathlib.Path(sys.argv[1])
memory = torch.cuda.memory
known = inspect.signature(memory._record_memory_history).parameters


def begin(**named):
    """Recording begins; None where this PyTorch knows less."""
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    if any(name not in known for name in named):
        return None
    memory._record_memory_history(**named)
    return True


def dump(name):
    memory._dump_snapshot(str(folder / f"{name}.pickle"))
    memory._record_memory_history(None)


def the_alloc():
    return torch.rand(128, 128, device="cuda")


def the_free(kept):
    kept.clear()


def work():
    """Blocks that tile a segment, freed in another order; one that stays; one that is not freed by whom it was made."""
    unused, stays = torch.rand(310, 410, device="cuda"), torch.rand(311, 411, device="cuda")
    tiles = [torch.rand(128, device="cuda") for _ in range(200)]
    order = random.Random(1)
    while tiles:
        del tiles[order.randrange(len(tiles))]
    kept = [the_alloc(), stays]
    del unused, stays
    return kept


@torch.jit.script
def scripted():
    return torch.rand(311, 411, device="cuda")


for context in (None, "state", "alloc", "all"):
    for stacks in ("python", "all"):
        if begin(context=context, stacks=stacks):
            kept = work()
            the_free(kept)
            kept = [scripted()]
            dump(f"context-{context}-{stacks}")
            the_free(kept)
            torch.cuda.empty_cache()

if begin(enabled="state"):
    kept = work()
    dump("state")
    the_free(kept)

# Frames come and go; segments are given back.
begin(context="all", stacks="python")
first = the_alloc()
memory._record_memory_history(context=None)
second = the_alloc()
memory._record_memory_history(context="all", stacks="python")
third = the_alloc()
del first, second, third
torch.cuda.empty_cache()
torch.cuda.memory._snapshot()
dump("history-context")

# More than the ring holds.
begin(context="all", stacks="python", max_entries=100)
kept = work()
dump("overflow")
the_free(kept)

# Pending frees, other streams, a graph's pool, a pool of the program.
begin(context="all", stacks="python")
stream, pool, graph = torch.cuda.Stream(), torch.cuda.MemPool(), torch.cuda.CUDAGraph()
shared = the_alloc()
with torch.cuda.stream(stream):
    other = the_alloc()
shared.record_stream(stream)
shared = None
with torch.cuda.use_mem_pool(pool):
    pooled = the_alloc()
static = the_alloc()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    captured = static * 2 + 1
graph.replay()
dump("pools-and-streams")
del other, pooled, static, captured, graph, pool

# What the profiler marks.
begin(context="all", stacks="python")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for _ in range(2):
        with torch.profiler.record_function("a region"):
            kept = work()
        profiler.step()
dump("annotations")
the_free(kept)

# A training: backward on a thread of its own, with and without what it recomputes.
begin(context="all", stacks="all")
layer = torch.nn.Linear(64, 64, device="cuda")
for _ in range(2):
    checkpoint(layer, torch.rand(8, 64, device="cuda", requires_grad=True), use_reentrant=False).sum().backward()
dump("training")
del layer

# Out of memory, and what is left then.
begin(context="all", stacks="python")
kept = work()
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
dump("out-of-memory")
the_free(kept)

# Other settings while it runs.
begin(context="all", stacks="python")
for settings in ("expandable_segments:True", "expandable_segments:False,max_split_size_mb:40",
                 "roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]", "garbage_collection_threshold:0.5"):
    memory._set_allocator_settings(settings)
    kept = work()
    kept.append(torch.empty(21 << 20, dtype=torch.uint8, device="cuda"))
    name = settings.split(":")[0] + ("-off" if "False" in settings else "")
    memory._dump_snapshot(str(folder / f"settings-{name}.pickle"))
    the_free(kept)
memory._set_allocator_settings("")
memory._record_memory_history(None)

if torch.cuda.device_count() > 1:
    begin(context="alloc", stacks="python")
    kept = [torch.rand(100, device=f"cuda:{number}") for number in (1, 0, 1)]
    dump("two-devices")
print(len(os.listdir(folder)))
