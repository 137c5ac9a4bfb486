"""A Llama writes text with a KV cache, by transformers' generate()."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
config = LlamaConfig(vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                     num_attention_heads=8, num_key_value_heads=4)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
kept = []
for request in range(STEPS):
    prompt = torch.randint(3, 2000, (4, 64)).cuda()
    answer = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, do_sample=True,
                            return_dict_in_generate=True)
    if LEAK:
        kept.append(answer.past_key_values)
print("TOKENS", answer.sequences.shape[1])
print("PEAK", torch.cuda.max_memory_allocated())
