"""Programs whose memory others measured on real GPUs and published, written anew: published.py NAME. Each prints
PyTorch's number in bytes, at the moment when its author read it. The names are those of check_published.py."""
import os
import sys

import torch
from torch import nn

GPT2 = {"blocks": 12, "width": 768, "heads": 12, "context": 1024, "dropout": 0.1}


def report(number):
    print("MEASURED", number, flush=True)


# ---- the recipe of ZeroRedundancyOptimizer: two ranks, gloo ----

def replicated(rank, is_sharded):
    import torch.distributed as dist
    from torch.distributed.optim import ZeroRedundancyOptimizer
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getppid() % 20000))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = nn.Sequential(*[nn.Linear(2000, 2000).to(rank) for _ in range(20)])
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    if is_sharded:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01,
                                            foreach=False)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    output = model(torch.randn(20, 2000).to(rank))
    nn.functional.mse_loss(output, torch.randn(20, 2000).to(rank)).backward()
    optimizer.step()
    if rank == 0:
        report(torch.cuda.max_memory_allocated(rank))


def zero_redundancy(is_sharded):
    torch.multiprocessing.spawn(replicated, args=(is_sharded,), nprocs=2)


# ---- transformers ----

def mosaic(is_checkpointed):
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config())
    if is_checkpointed:
        model.gradient_checkpointing_enable()
    model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(5):
        tokens = torch.randint(0, 50257, (4, 512)).to("cuda")
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens.clone()).loss.backward()
        optimizer.step()
    report(torch.cuda.max_memory_allocated())


def bert(batch=4, **settings):
    import tempfile
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    samples = [{"input_ids": torch.randint(100, 30000, (512,)), "labels": torch.tensor(0)} for _ in range(6 * 4)]
    model = BertForSequenceClassification(BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        attn_implementation="eager")).to("cuda")
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=batch, max_steps=3, report_to="none",
                                      save_strategy="no", **settings)
        Trainer(model, arguments, train_dataset=samples).train()
    report(torch.cuda.max_memory_reserved())


# ---- Liger Kernel's benchmarks, in PyTorch's own form ----

def ten_times(function):
    for _ in range(10):
        torch.cuda.reset_peak_memory_stats()
        function()
    report(torch.cuda.max_memory_allocated())


def cross_entropy(words):
    logits = torch.randn(8 * 2048, words, requires_grad=True, device="cuda")
    target = torch.randint(words, (8 * 2048, 1), device="cuda").squeeze(1)
    ten_times(lambda: nn.functional.cross_entropy(logits, target).backward())


def head(tokens):
    layer = nn.Linear(4096, 128256, bias=False, dtype=torch.bfloat16).to("cuda")
    theirs = nn.Linear(4096, 128256, bias=False, dtype=torch.bfloat16).to("cuda")
    assert theirs.weight.is_cuda  # their benchmark keeps it and does not use it
    hidden = torch.randn(tokens, 4096, requires_grad=True, dtype=torch.bfloat16, device="cuda")
    target = torch.randint(128256, (tokens, 1), dtype=torch.long, device="cuda").squeeze(1)
    ten_times(lambda: nn.functional.cross_entropy(layer(hidden), target).backward())


def gated(batch, tokens, activation):
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaMLP
    hidden = torch.randn(batch, tokens, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    layer = LlamaMLP(config=LlamaConfig(hidden_size=4096, intermediate_size=11008, hidden_act=activation))
    layer = layer.to("cuda").to(torch.bfloat16)

    def full():
        output = layer(hidden)
        output.backward(torch.randn_like(output), retain_graph=True)

    ten_times(full)


# ---- the training of "LLMs from scratch" ----

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(GPT2["width"], 3 * GPT2["width"], bias=False), nn.Linear(GPT2["width"], GPT2["width"])

    def forward(self, hidden):
        batch, tokens, width = hidden.shape
        split = self.qkv(hidden).view(batch, tokens, 3, GPT2["heads"], width // GPT2["heads"]).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(
            *split, dropout_p=GPT2["dropout"] if self.training else 0.0, is_causal=True)
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, tokens, width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        width = GPT2["width"]
        self.attention, self.drop = Attention(), nn.Dropout(GPT2["dropout"])
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, hidden):
        for norm, part in zip(self.norms, (self.attention, self.wide)):
            shortcut = hidden
            hidden = self.drop(part(norm(hidden))) + shortcut
        return hidden


class Gpt(nn.Module):
    def __init__(self, words):
        super().__init__()
        width = GPT2["width"]
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(GPT2["context"], width)
        self.drop, self.blocks = nn.Dropout(GPT2["dropout"]), nn.Sequential(*[Block() for _ in range(GPT2["blocks"])])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(self.drop(hidden))))


def from_scratch(words, batch, is_compiled):
    model = Gpt(words)
    if is_compiled:
        model = torch.compile(model)
    model.to("cuda").to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True)

    def loss():
        tokens, target = (torch.randint(0, words, (batch, GPT2["context"])).to("cuda") for _ in range(2))
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), target.flatten())

    for step in range(4):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        if step == 0:
            model.eval()
            with torch.no_grad():
                loss().item(), loss().item()
            model.train()
    report(torch.cuda.memory_reserved())


PROGRAMS = {
    "zero": lambda: zero_redundancy(True),
    "no_zero": lambda: zero_redundancy(False),
    "mosaic": lambda: mosaic(False),
    "mosaic_checkpointed": lambda: mosaic(True),
    "bert": bert,
    "bert_accumulated": lambda: bert(1, gradient_accumulation_steps=4),
    "cross_entropy": lambda: cross_entropy(131072),
    "head_4096": lambda: head(4096),
    "head_32768": lambda: head(32768),
    "swiglu": lambda: gated(4, 8192, "silu"),
    "geglu": lambda: gated(8, 8192, "gelu_pytorch_tanh"),
    "scratch": lambda: from_scratch(50257, 8, False),
    "scratch_compiled": lambda: from_scratch(50257, 8, True),
    "scratch_round": lambda: from_scratch(50304, 8, True),
    "scratch_large": lambda: from_scratch(50304, 32, True),
}
if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
