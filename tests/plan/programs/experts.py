"""Mixtures of experts as their libraries make them: experts.py LIBRARY cpu|cuda [write|read FILE].

`write` keeps what the routers chose, in order: on the CPU, these are real choices. `read`, in a plan, puts them in the place
of the plan's guesses: sizes are then as on a GPU."""
import contextlib
import gc
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

library, device, *way = sys.argv[1:]
CHOICES = ("topk", "argmax")


class Kept(TorchDispatchMode):
    choices = []

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        result = operator(*arguments, **(named or {}))
        if operator._opname in CHOICES:
            self.choices.append((result if isinstance(result, torch.Tensor) else result[1]).clone())
        return result


def put_in_place_of_guesses(choices):
    follower = next(one for one in gc.get_objects() if type(one).__name__ == "_Follower")

    def follow(guess):
        def instead(*arguments):
            values, is_condition = guess(*arguments)
            return [None if one is None else choices.pop(0).reshape(one.shape) for one in values], is_condition

        return instead

    follower.guesses.update({name: follow(follower.guesses[name]) for name in CHOICES})


choices = torch.load(way[1]) if way[:1] == ["read"] else []
if choices:
    put_in_place_of_guesses(choices)
if device == "cpu":  # its histc() takes no integers
    histc, torch.histc = torch.histc, lambda data, **named: histc(data.float(), **named).to(data.dtype)
torch.manual_seed(0)
WORDS, LENGTH, BATCH = 4096, 512, 4


def transformers_model(kind, **settings):
    import transformers
    configuration = getattr(transformers, kind + "Config")(
        vocab_size=WORDS, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
        num_experts_per_tok=2, max_position_embeddings=LENGTH, attn_implementation="eager", **settings)
    configuration._experts_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(configuration).to(device)
    return model, lambda tokens: model(input_ids=tokens, labels=tokens).loss


def titan(**settings):
    from unittest import mock
    for name in ("datasets", "datasets.distributed", "tiktoken", "tiktoken.load", "torch.utils.tensorboard", "torchdata",
                 "torchdata.stateful_dataloader"):  # not installed, and not needed
        sys.modules[name] = mock.MagicMock()
    sys.modules["torchdata.stateful_dataloader"].StatefulDataLoader = type("Base", (), {})
    from torchtitan.experiments.llama4.model.args import TransformerModelArgs
    from torchtitan.experiments.llama4.model.model import Transformer
    model = Transformer(TransformerModelArgs(dim=256, n_layers=4, n_heads=4, vocab_size=WORDS, max_seq_len=LENGTH,
                                             use_grouped_mm=False, **settings)).to(device)
    model.init_weights(buffer_device=torch.device(device))
    return model, lambda tokens: torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())


def deepspeed(**settings):
    import deepspeed as library
    from deepspeed.moe.layer import MoE
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    library.init_distributed("nccl" if device == "cuda" else "gloo", auto_mpi_discovery=False)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(256)
            self.moe = MoE(256, torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)),
                           num_experts=8, **settings)

        def forward(self, data):
            return data + self.moe(self.norm(data))[0]

    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, 256), *(Block() for _ in range(3)), torch.nn.Linear(256, WORDS)).to(device)
    return model, lambda tokens: torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


LIBRARIES = {
    "mixtral": lambda: transformers_model("Mixtral", intermediate_size=512, num_local_experts=8),
    "qwen3_moe": lambda: transformers_model("Qwen3Moe", intermediate_size=512, moe_intermediate_size=256, num_experts=16),
    "titan": lambda: titan(num_experts=8, top_k=2, interleave_moe_layer_step=1),
    "titan_top1": lambda: titan(num_experts=16),
    "deepspeed_top1": lambda: deepspeed(k=1),
    "deepspeed_top2": lambda: deepspeed(k=2),
    "deepspeed_no_drop": lambda: deepspeed(k=2, drop_tokens=False),
}
model, loss_of = LIBRARIES[library]()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
with Kept() if way[:1] == ["write"] else contextlib.nullcontext():
    for _ in range(2):
        loss_of(torch.randint(WORDS, (BATCH, LENGTH)).to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
if way[:1] == ["write"]:
    torch.save(Kept.choices, way[1])
assert way[:1] != ["read"] or not choices  # all are taken
if device == "cuda":
    print("PEAK", torch.cuda.max_memory_allocated())
