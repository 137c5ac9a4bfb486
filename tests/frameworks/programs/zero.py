"""DeepSpeed: ZeRO 1, 2 or 3, by "stage3", and with "offload" the optimizer on the CPU."""
import sys

import deepspeed
import torch

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
stage = next(int(one[5:]) for one in sys.argv if one.startswith("stage"))
model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())])
zero = {"stage": stage, "contiguous_gradients": True, "overlap_comm": True, "stage3_param_persistence_threshold": 1024}
if "offload" in sys.argv:
    zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
engine, _, _, _ = deepspeed.initialize(
    model=model, optimizer=optimizer,
    config={"train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": True}, "zero_optimization": zero,
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False})
kept = []
for step in range(STEPS):
    output = engine(torch.randn(8, 512, device=engine.device, dtype=torch.bfloat16))
    engine.backward(output.float().pow(2).mean())
    engine.step()
    if LEAK:
        kept.append(output)
print("STEPS", engine.global_steps)
print("PEAK", torch.cuda.max_memory_allocated())
deepspeed.comm.destroy_process_group()
