"""Two ranks on two devices, `ranks.py ddp|fsdp1|fsdp2`: each prints PyTorch's counts as a line of JSON.
They are forked, so PyTorch is imported once."""
import importlib
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def work(rank, kind, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2", USE_LIBUV="0")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    if kind != "ddp":
        importlib.import_module("torch.distributed.fsdp")
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank], init_sync=False)
    elif kind == "fsdp1":
        model = dist.fsdp.FullyShardedDataParallel(model)
    else:
        dist.fsdp.fully_shard(model[0])
        dist.fsdp.fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.randn(16, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    stats = torch.cuda.memory_stats()
    told = {"pid": os.getpid(), "device": rank, "allocs": stats["allocation.all.allocated"],
            "peak_bytes": stats["allocated_bytes.all.peak"], "reserved_peak_bytes": stats["reserved_bytes.all.peak"]}
    sys.stdout.write(json.dumps(told) + "\n")  # in one write: two ranks share the pipe
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=False)
    port, store = str(store.port), None  # a free one
    multiprocessing.start_processes(work, (sys.argv[1], port), nprocs=2, start_method="fork")
