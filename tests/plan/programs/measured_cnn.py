"""A residual network of 18 layers, batches of 64 images of 224 by 224, 3 steps of SGD."""
import torch
import torch.nn.functional as F
from torch import nn

from common_layers import tell


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.second = nn.Sequential(nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.around = nn.Identity() if i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.around(x))


widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                      *[Block(i, o, 1 if i == o else 2) for i, o in zip(widths, widths[1:])],
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    images, labels = torch.randn(64, 3, 224, 224).cuda(), torch.randint(1000, (64,)).cuda()
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
tell("18 layers")
