"""LoRA of a Llama by peft, with a loop of its own."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
config = LlamaConfig(vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=4)
model = get_peft_model(LlamaForCausalLM(config).to(torch.bfloat16),
                       LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=1e-4)
kept = []
for step in range(STEPS):
    tokens = torch.randint(0, 2000, (4, 128), device="cuda")
    result = model(input_ids=tokens, labels=tokens)
    result.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if LEAK:
        kept.append(result.logits)
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
