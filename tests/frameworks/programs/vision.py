"""A ResNet of torchvision; workers of the loader augment images and pin them."""
import sys

import torch
import torchvision
from torchvision.transforms import v2

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv


class Images(torch.utils.data.Dataset):
    change = v2.Compose([v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return 8 * STEPS

    def __getitem__(self, index):
        return self.change(torch.zeros(3, 64, 64, dtype=torch.uint8)), index % 10


model = torchvision.models.resnet18(num_classes=10).to("cuda", memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
history = []
for images, labels in torch.utils.data.DataLoader(Images(), 8, num_workers=2, pin_memory=True):
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if LEAK:
        history.append(images)
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
