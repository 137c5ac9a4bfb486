"""A model whose weights torchao keeps in eight bits, and the training of another one with its eight-bit AdamW."""
import sys

import torch
from torchao.optim import AdamW8bit
from torchao.quantization import Int8WeightOnlyConfig, quantize_

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv


def perceptron():
    return torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(3)]).cuda().bfloat16()


teacher, student = perceptron().eval(), perceptron()
quantize_(teacher, Int8WeightOnlyConfig())
optimizer = AdamW8bit(student.parameters(), lr=1e-3)
kept = []
for step in range(STEPS):
    inputs = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        wanted = teacher(inputs)
    torch.nn.functional.mse_loss(student(inputs), wanted).backward()
    optimizer.step()
    optimizer.zero_grad()
    if LEAK:
        kept.append(wanted)
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
