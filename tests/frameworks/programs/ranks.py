"""Two ranks under torchrun: DDP, or with "fsdp" FSDP2 with mixed precision, layer by layer."""
import sys

import torch
import torch.distributed as dist

STEPS, LEAK, FSDP = int(sys.argv[1]), "leak" in sys.argv, "fsdp" in sys.argv
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0)
                                          for _ in range(4))
        self.head = torch.nn.Linear(256, 100)

    def forward(self, hidden):
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


model = Model().cuda()
if FSDP:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
else:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
kept = []
for step in range(STEPS):
    output = model(torch.randn(4, 64, 256, device="cuda"))
    output.float().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if LEAK and rank == 0:
        kept.append(output)
sys.stdout.write(f"STEPS {STEPS}\nPEAK {torch.cuda.max_memory_allocated()}\n")
dist.destroy_process_group()
