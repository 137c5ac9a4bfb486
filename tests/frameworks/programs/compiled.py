"""A compiled Transformer block, trained."""
import sys

import torch

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024),
                            torch.nn.Linear(1024, 256)).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = []
for step in range(STEPS):
    output = compiled(torch.randn(64, 256, device="cuda"))
    output.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if LEAK:
        kept.append(output)
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
