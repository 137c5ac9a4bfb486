"""A model of 70 B parameters in bfloat16: 80 layers, 8192 wide, checkpointed. LoRA of rank 16 trains queries and values
in 2 steps of 2048 tokens."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from common_layers import Layer, tell

WORDS, WIDTH = 32000, 8192


class Lora(nn.Module):
    def __init__(self, i, o, rank=16):
        super().__init__()
        self.base = nn.Linear(i, o, bias=False)
        self.lora_a, self.lora_b = nn.Linear(i, rank, bias=False), nn.Linear(rank, o, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    embedding, head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    layers = nn.ModuleList(Layer(WIDTH, 64, 8, 28672, Lora) for _ in range(80))
model = nn.ModuleList([embedding, layers, head])
for name, parameter in model.named_parameters():
    parameter.requires_grad_("lora_" in name)
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])
for _ in range(2):
    ids = torch.randint(WORDS, (1, 2048), device="cuda")
    x = embedding(ids).requires_grad_()
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)
    F.cross_entropy(head(x).flatten(0, 1).float(), ids.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
tell(f"{sum(one.numel() for one in model.parameters()) / 1e9:.1f} B parameters")
