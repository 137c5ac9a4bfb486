"""A small network of each kind. In the middle of its work it lists its tensors: tensors.py NAME OUT

OUT gets the address of each storage with the tensors that Python or autograd's graph has there. A tensor has its type
and sizes, as PyTorch prints them, and the names of the nodes that save it. The recording has a mark "look" at that
moment.
"""
import gc
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.checkpoint import checkpoint

name, out = sys.argv[1:3]
torch.manual_seed(0)
DEVICE = "cuda"


def saved_by(roots):
    """The tensors that autograd's nodes keep, with the nodes' names."""
    seen, nodes = set(), [root.grad_fn for root in roots if root.grad_fn is not None]
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes += [one for one, _ in node.next_functions if one is not None]
        for member in dir(node):
            if member.startswith("_saved_") or member == "saved_tensors":
                try:
                    value = getattr(node, member)
                except RuntimeError:
                    continue
                yield from ((one, node.name()) for one in (value if isinstance(value, (list, tuple)) else [value])
                            if isinstance(one, torch.Tensor))


def look(*roots):
    if "MEMPROF_SESSION" in os.environ:
        import libmemprof
        libmemprof.mark("look")
    found = {}
    objects = [(one, None) for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]  # a proxy may be dead
    for tensor, node in [*objects, *saved_by(roots)]:
        if isinstance(tensor, FakeTensor) or not tensor.is_cuda or tensor.layout is not torch.strided:
            continue
        try:
            shapes, nodes = found.setdefault(tensor.untyped_storage().data_ptr(), ([], []))
        except RuntimeError:  # a compiler's tensor without memory
            continue
        text = f"{str(tensor.dtype).replace('torch.', '')} {list(tensor.shape)}"
        if text not in shapes:
            shapes.append(text)
        if node and node not in nodes:
            nodes.append(node)
    with open(out, "w") as file:
        json.dump(found, file)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class Language(nn.Module):
    def __init__(self, words=500, width=128, layers=3, experts=0, checkpointed=False):
        super().__init__()
        self.embed, self.checkpointed = nn.Embedding(words, width), checkpointed
        self.attention = nn.ModuleList(Attention(width, 4) for _ in range(layers))
        self.mlp = nn.ModuleList(Experts(width, experts) if experts else nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
            for _ in range(layers))
        self.head = nn.Linear(width, words)

    def layer(self, i, x):
        x, _ = self.attention[i](x)
        return x + self.mlp[i](x)

    def forward(self, tokens):
        x = self.embed(tokens)
        for i in range(len(self.mlp)):
            x = checkpoint(self.layer, i, x, use_reentrant=False) if self.checkpointed else self.layer(i, x)
        return self.head(x)


class Experts(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weight, chosen = self.gate(flat).softmax(-1).topk(1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows = torch.arange(i, len(flat), len(self.experts), device=DEVICE)
            out = out.index_add(0, rows, expert(flat[rows]) * weight[rows])
        return out.view_as(x) + chosen.sum() * 0


class LoRA(nn.Module):
    def __init__(self, base, rank=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(base.in_features, rank, False), nn.Linear(rank, base.out_features, False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * 2


class Conv(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b), nn.ReLU(True), nn.Conv2d(b, b, 3, 1, 1),
                                  nn.BatchNorm2d(b))
        self.skip = nn.Conv2d(a, b, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down, self.middle = Conv(3, 32), Conv(32, 64, 2), Conv(64, 64)
        self.norm, self.up, self.last = nn.GroupNorm(8, 64), Conv(96, 32), nn.Conv2d(32, 3, 1)

    def forward(self, x):
        a = self.first(x)
        b = F.silu(self.norm(self.middle(self.down(a))))
        return self.last(self.up(torch.cat([a, F.interpolate(b, scale_factor=2)], 1)))


def train(model, batch, loss_of, steps=3, amp=False, optimizer=torch.optim.AdamW):
    model = model.to(DEVICE)
    optimizer = optimizer([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for step in range(steps):
        data = batch()
        with torch.autocast("cuda", torch.float16, enabled=amp):
            loss = loss_of(model, data)
        if step == steps - 1:
            look(loss)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def words():
    return torch.randint(0, 500, (8, 64), device=DEVICE)


def of_words(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def pictures():
    return torch.randn(16, 3, 32, 32, device=DEVICE)


if name == "gpt":
    train(Language(), words, of_words)
elif name == "checkpointed":
    train(Language(checkpointed=True), words, of_words)
elif name == "moe":
    train(Language(experts=4), words, of_words)
elif name == "lora":
    model = Language().requires_grad_(False)
    for part in model.attention:
        part.qkv, part.proj = LoRA(part.qkv), LoRA(part.proj)
    train(model, words, of_words)
elif name == "resnet":
    net = nn.Sequential(Conv(3, 32), Conv(32, 64, 2), Conv(64, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(128, 10))
    train(net, pictures, lambda model, x: F.cross_entropy(model(x), torch.zeros(16, dtype=torch.long, device=DEVICE)),
          amp=True, optimizer=torch.optim.SGD)
elif name == "unet":
    train(UNet(), pictures, lambda model, x: F.mse_loss(model(x), x))
elif name == "lstm":
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell, self.head = nn.Embedding(500, 64), nn.LSTMCell(64, 128), nn.Linear(128, 500)

        def forward(self, tokens):
            state = tuple(torch.zeros(len(tokens), 128, device=DEVICE) for _ in range(2))
            outputs = []
            for x in self.embed(tokens).unbind(1):
                state = self.cell(x, state)
                outputs.append(state[0])
            return self.head(torch.stack(outputs, 1))
    train(Recurrent(), words, of_words)
elif name == "generate":
    model = Language().to(DEVICE, torch.bfloat16).eval()
    with torch.inference_mode():
        x, past = words(), [None] * 3
        for step in range(6):
            h = model.embed(x if step == 0 else x[:, -1:])
            for i in range(3):
                h, past[i] = model.attention[i](h, past[i])
                h = h + model.mlp[i](h)
            x = torch.cat([x, model.head(h[:, -1:]).argmax(-1)], 1)
        look()
elif name == "graphs":
    model, static = Language().to(DEVICE).eval(), words()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        model(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        logits = model(static)
    for _ in range(3):
        graph.replay()
    look()
elif name == "compiled":
    model = Language()
    train(torch.compile(model, backend="aot_eager"), words, of_words)
elif name == "inductor":
    train(torch.compile(Language(layers=1)), words, of_words)
elif name == "profiled":  # the program has its own profiler, a mode, a subclass and hooks
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            return function(*arguments, **(named or {}))

    class Own(torch.Tensor):
        pass

    model = Language().to(DEVICE)
    with torch.profiler.profile(record_shapes=True, profile_memory=True):
        of_words(model, words()).backward()
    with Counting():
        of_words(model, words()).backward()
    kept = torch.ones(300, 200, device=DEVICE).as_subclass(Own) * 2
    with torch.autograd.graph.save_on_cpu():
        of_words(model, words()).backward()
    try:
        torch.mm(torch.ones(3, 4, device=DEVICE), torch.ones(3, 4, device=DEVICE))
    except RuntimeError:
        pass
    sparse = torch.eye(50, device=DEVICE).to_sparse()
    mapped = torch.func.vmap(torch.func.grad(lambda x: (x * x).sum()))(torch.ones(20, 30, device=DEVICE))
    loss = of_words(model, words())
    look(loss)
    loss.backward()
elif name == "sharded":  # FSDP2, one rank of one
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    model = Language().to(DEVICE)
    for part in (*model.attention, *model.mlp, model):
        fully_shard(part)
    train(model, words, of_words)
    dist.destroy_process_group()
elif name == "lightning":
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen = Language(), 0

        def training_step(self, batch, _):
            self.seen += 1
            loss = of_words(self.model, batch)
            if self.seen == 3:
                look(loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())
    data = torch.utils.data.DataLoader(torch.randint(0, 500, (24, 64)), batch_size=8)
    lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False).fit(Module(), data)
elif name == "trainer":  # LoRA with transformers' Trainer
    import peft
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=500, n_embd=128, n_layer=3, n_head=4, n_positions=64))
    adapted = peft.LoraConfig(r=8, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM")

    class Looking(transformers.Trainer):
        def compute_loss(self, model, inputs, **named):
            loss = super().compute_loss(model, inputs, **named)
            if self.state.global_step == 2:
                look(loss)
            return loss
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 500, (24, 64))]
    settings = transformers.TrainingArguments(os.path.dirname(out), per_device_train_batch_size=8, max_steps=3,
                                              report_to=[], save_strategy="no")
    Looking(peft.get_peft_model(model, adapted), settings, train_dataset=rows).train()
elif name == "diffusion":
    from diffusers import UNet2DModel
    net = UNet2DModel(32, 3, 3, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                      down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    times = torch.zeros(16, device=DEVICE)
    train(net, pictures, lambda model, x: F.mse_loss(model(x, times).sample, x))
elif name == "generation":  # generate() of transformers
    import transformers
    config = transformers.LlamaConfig(vocab_size=500, hidden_size=128, intermediate_size=512, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()

    def looking(tokens, scores):
        if tokens.shape[1] == 68:
            look()
        if tokens.shape[1] == 70:  # on a stand-in GPU no sequence ends
            raise EOFError
        return scores
    try:
        model.generate(words(), max_new_tokens=8, do_sample=False, pad_token_id=0, logits_processor=[looking])
    except EOFError:
        pass
elif name == "vllm":  # the profile run of an engine, in this process
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "serving"))
    import models
    from vllm import LLM
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    sampler = GPUModelRunner._dummy_sampler_run

    def looking(self, *arguments, **named):
        if not os.path.exists(out):
            look()
        return sampler(self, *arguments, **named)
    GPUModelRunner._dummy_sampler_run = looking
    LLM(models.write("small", os.path.dirname(out)), load_format="dummy", skip_tokenizer_init=True, max_model_len=512,
        enforce_eager=True, gpu_memory_utilization=0.5)
