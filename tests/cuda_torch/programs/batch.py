"""A training at a batch size, `batch.py BATCH WHAT`."""
import sys

import torch
from torch import nn

torch.backends.cudnn.enabled = False
torch.manual_seed(0)
batch, what = int(sys.argv[1]), sys.argv[2]
if what == "conv":
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(64 * 8 * 8, 10)).cuda()
elif what == "mlp":
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]).cuda()
else:
    layer = nn.TransformerEncoderLayer(128, 4, 256, 0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 2)).cuda()


def inputs():
    if what == "conv":
        return torch.randn(batch, 3, 32, 32, device="cuda")
    if what == "mlp":
        return torch.randn(batch, 512, device="cuda")
    return torch.randint(0, 1000, (batch, 64), device="cuda")


optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    optimizer.zero_grad(set_to_none=True)
    model(inputs()).float().square().mean().backward()
    optimizer.step()
