"""Supervised fine tuning, and with "dpo" preference tuning, by trl; the tokenizer is made of forty words."""
import copy
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

STEPS, LEAK, DPO = int(sys.argv[1]), "leak" in sys.argv, "dpo" in sys.argv
WORDS = ["<pad>", "<eos>", "<unk>"] + [f"w{number}" for number in range(37)]
words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = LlamaForCausalLM(LlamaConfig(vocab_size=40, hidden_size=256, intermediate_size=512, num_hidden_layers=3,
                                     num_attention_heads=4, num_key_value_heads=4, pad_token_id=0, eos_token_id=1))
kept = []


class Watch(TrainerCallback):
    def on_step_end(self, arguments, state, control, model=None, **named):
        if LEAK:
            kept.append([one.detach().clone() for one in model.model.layers[0].mlp.parameters()])


def sentence(first):
    return " ".join(f"w{(first + number) % 37}" for number in range(20 + first % 9))


common = dict(max_steps=STEPS, per_device_train_batch_size=4, report_to="none", disable_tqdm=True, bf16=True,
              save_strategy="no")
with tempfile.TemporaryDirectory() as folder:
    if DPO:
        data = Dataset.from_list([{"prompt": sentence(one), "chosen": " " + sentence(one + 1),
                                   "rejected": " " + sentence(one + 2)} for one in range(400)])
        trainer = DPOTrainer(model, copy.deepcopy(model), args=DPOConfig(folder, **common), train_dataset=data,
                             processing_class=tokenizer, callbacks=[Watch()])
    else:
        data = Dataset.from_list([{"text": sentence(one)} for one in range(400)])
        trainer = SFTTrainer(model, args=SFTConfig(folder, **common), train_dataset=data, processing_class=tokenizer,
                             callbacks=[Watch()])
    trainer.train()
print("STEPS", trainer.state.global_step)
print("PEAK", torch.cuda.max_memory_allocated())
