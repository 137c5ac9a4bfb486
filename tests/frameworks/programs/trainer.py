"""A Llama by transformers' Trainer: gradient checkpointing, accumulation, evaluation, a checkpoint at the end."""
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

STEPS, LEAK = int(sys.argv[1]), "leak" in sys.argv
kept = []


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        ids = torch.full((128,), index % 1000)
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


class Watch(TrainerCallback):
    def on_step_end(self, arguments, state, control, model=None, **named):
        if LEAK:
            kept.append(model.lm_head.weight.detach().clone())


config = LlamaConfig(vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=2)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        LlamaForCausalLM(config),
        TrainingArguments(folder, max_steps=STEPS, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                          per_device_eval_batch_size=2, gradient_checkpointing=True, bf16=True, eval_strategy="steps",
                          eval_steps=max(2, STEPS // 2), save_steps=STEPS, report_to="none", disable_tqdm=True),
        train_dataset=Samples(), eval_dataset=torch.utils.data.Subset(Samples(), range(8)), callbacks=[Watch()])
    trainer.train()
print("STEPS", trainer.state.global_step)
print("PEAK", torch.cuda.max_memory_allocated())
