"""A few steps of a training, `train.py WHAT [STEPS]`; WHAT is one of MODELS or of the kinds below."""
import sys
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.backends.cudnn.enabled = False
what, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4
MODELS = {
    "mlp": lambda: nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.GELU())]),
    "transformer": lambda: nn.Sequential(nn.Embedding(1000, 64),
                                         nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, 0.1, batch_first=True), 2)),
    "conv": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                  nn.Linear(8 * 15 * 15, 10)),
}
DATA = {"transformer": lambda: torch.randint(0, 1000, (4, 32), device="cuda"),
        "conv": lambda: torch.randn(8, 3, 32, 32, device="cuda")}
model = MODELS.get(what, MODELS["mlp"])().cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=what != "transformer")
scaler = torch.amp.GradScaler("cuda", enabled=what == "amp")


def loss_of(inputs):
    if what == "checkpoint":
        for layer in model:
            inputs = checkpoint(layer, inputs, use_reentrant=False)
        return inputs.square().mean()
    with torch.autocast("cuda", dtype=torch.float16, enabled=what == "amp"):
        return model(inputs).float().square().mean()


def step():
    inputs = DATA.get(what, lambda: torch.randn(32, 256, device="cuda"))()
    optimizer.zero_grad(set_to_none=True)
    if what == "double":
        inputs.requires_grad_()
        gradient, = torch.autograd.grad(loss_of(inputs), inputs, create_graph=True)
        loss = gradient.square().sum()
    else:
        loss = loss_of(inputs)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


for index in range(steps):
    if what == "threads":
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    elif what == "streams":
        with torch.cuda.stream(torch.cuda.Stream()):
            step()
    else:
        step()
    if what == "emptied":
        torch.cuda.empty_cache()
