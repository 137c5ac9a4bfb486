"""QLoRA: a Llama in four bits (bitsandbytes), adapters by peft, its paged eight-bit AdamW."""
import sys

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
config = LlamaConfig(vocab_size=2000, hidden_size=512, intermediate_size=1024, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=4)
model = LlamaForCausalLM(config).to(torch.bfloat16)
for name, module in list(model.named_modules()):
    if isinstance(module, torch.nn.Linear) and name != "lm_head":
        quantized = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=False,
                                               compute_dtype=torch.bfloat16, quant_type="nf4")
        quantized.weight = bitsandbytes.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4")
        model.set_submodule(name, quantized)
model = get_peft_model(model.cuda(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
optimizer = bitsandbytes.optim.AdamW8bit((one for one in model.parameters() if one.requires_grad), lr=1e-4)
kept = []
for step in range(STEPS):
    tokens = torch.randint(0, 2000, (2, 128), device="cuda")
    result = model(input_ids=tokens, labels=tokens)
    result.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if LEAK:
        kept.append(result.logits)
print("STEPS", STEPS)
print("PEAK", torch.cuda.max_memory_allocated())
