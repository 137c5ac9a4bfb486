"""A ViT of timm in float16 with a scaler, its own optimizer and an averaged copy of the weights."""
import sys

import timm
import timm.optim
import timm.utils
import torch

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
model = timm.create_model("vit_tiny_patch16_224", depth=4, num_classes=10, img_size=64).cuda()
ema = timm.utils.ModelEmaV3(model, decay=0.999)
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
scaler, loss_of = timm.utils.NativeScaler(), torch.nn.CrossEntropyLoss(label_smoothing=0.1)
kept = []
for step in range(STEPS):
    images, labels = torch.randn(16, 3, 64, 64, device="cuda"), torch.randint(0, 10, (16,), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = loss_of(model(images), labels)
    scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
    optimizer.zero_grad()
    ema.update(model)
    if LEAK:
        kept.append(model.forward_features(images))
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
