"""A model of 8 B parameters in bfloat16: 32 layers, 4096 wide. FSDP 2 wraps each layer. AdamW makes 2 steps of 4096
tokens."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from common_layers import Layer, tell

WORDS, WIDTH = 128256, 4096


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer(WIDTH, 32, 8, 14336) for _ in range(32))

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
torch.set_default_dtype(torch.bfloat16)
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
with torch.device("meta"):
    model = Model()
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh).to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    ids = torch.randint(WORDS, (1, 4096), device="cuda")
    F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
tell(f"rank {dist.get_rank()} of {dist.get_world_size()}")
dist.destroy_process_group()
