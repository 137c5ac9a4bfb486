"""Stages of a pipeline over the ranks with the same place in the data mesh; the last stage has a wide head. It uses
groups of the CPU, barriers and objects, as trainers do."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("nccl")
world, stages = dist.get_world_size(), 2
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (stages, world // stages), mesh_dim_names=("pp", "dp"))
host = dist.new_group(backend="gloo")
dist.barrier(group=host)
group, place = mesh["pp"].get_group(), mesh["pp"].get_local_rank()
names = [None] * world
dist.all_gather_object(names, f"stage {place}", group=host)
widths = [64, 256, 4096]
part = torch.nn.Sequential(torch.nn.Linear(widths[place], widths[place + 1]), torch.nn.ReLU()).cuda()
optimizer = torch.optim.AdamW(part.parameters())
stage = PipelineStage(part, place, stages, torch.device("cuda"), group=group)
schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=lambda output, target: output.float().pow(2).mean())
for step in range(2):
    arguments = [torch.randn(512, 64, device="cuda")] if place == 0 else []
    schedule.step(*arguments, **({"target": torch.zeros(512, device="cuda")} if place == stages - 1 else {}))
    optimizer.step()
    optimizer.zero_grad()
print("peak", dist.get_rank(), place, torch.cuda.max_memory_allocated(), flush=True)
dist.destroy_process_group()
