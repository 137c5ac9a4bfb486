"""Three trainings by many ranks: FSDP 2, ZeRO (a sharded optimizer under DDP), tensor parallel; rank 0 prints its
peaks."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
world, rank = dist.get_world_size(), dist.get_rank()


def layers():
    return nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()


def train(model, optimizer):
    for _ in range(2):
        model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def fsdp():
    model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(model, torch.optim.AdamW(model.parameters()))


def zero():
    model = nn.parallel.DistributedDataParallel(layers())
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW))


def tensor_parallel():
    model = layers()
    ways = {str(i): RowwiseParallel() if i % 2 else ColwiseParallel() for i in range(6)}
    model = parallelize_module(model, init_device_mesh("cuda", (world,)), ways)
    train(model, torch.optim.AdamW(model.parameters()))


for way in (fsdp, zero, tensor_parallel):
    torch.cuda.reset_peak_memory_stats()
    way()
    dist.barrier()
    if not rank:
        print(way.__name__, world, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
dist.destroy_process_group()
