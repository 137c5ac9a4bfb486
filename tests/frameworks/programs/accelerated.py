"""A classifier trained with accelerate: mixed precision, accumulation, clipping."""
import sys

import torch
from accelerate import Accelerator

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(128, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024), torch.nn.GELU(),
                            torch.nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(2048, 128), torch.randint(0, 10, (2048,)))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, 32, shuffle=True))
scheduler = accelerator.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 10))
losses, steps = [], 0
while steps < STEPS:
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                steps += 1
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if LEAK:
            losses.append(model(inputs))
        if steps == STEPS:
            break
print("STEPS", steps)
print("PEAK", torch.cuda.max_memory_allocated())
