"""Operators at the sizes of real training, where PyTorch and NVIDIA's libraries choose other kernels than for small ones:
{name: function}; what a function returns goes backward. PROGRAMS are whole models, with an optimizer."""
import importlib.util

import torch
from torch import nn
from torch.nn import functional as F

TOKENS, WIDTH, WORDS, IMAGE = 8192, 4096, 128000, 1024
BF16, F16 = torch.bfloat16, torch.float16


def rand(*shape, dtype=BF16, grad=True):
    return torch.rand(*shape, device="cuda", dtype=dtype).requires_grad_(grad)


def ids(most, *shape):
    return torch.randint(most, shape or (TOKENS,), device="cuda")


def layer(module, *inputs, dtype=BF16):
    return module.to("cuda", dtype)(*inputs)


def attend(backend, heads=32, dtype=BF16, **named):
    one = [rand(1, heads, TOKENS, 128, dtype=dtype) for _ in range(3)]
    with nn.attention.sdpa_kernel(backend):
        return F.scaled_dot_product_attention(*one, **named)


def flex():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 1024, 1024, device="cuda")
    return torch.compile(flex_attention)(*(rand(1, 8, 1024, 64) for _ in range(3)), block_mask=mask)


def compiled(mode):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to("cuda", BF16)
    return torch.compile(model, mode=mode)(rand(TOKENS, 1024))


def fp8():
    one = rand(TOKENS, WIDTH, grad=False).to(torch.float8_e4m3fn)
    scale = torch.ones((), device="cuda")
    torch._scaled_mm(one, rand(WIDTH, WIDTH, grad=False).to(torch.float8_e4m3fn).t(), scale, scale, out_dtype=BF16)


def grouped():
    ends = torch.arange(1, 9, device="cuda", dtype=torch.int32) * (TOKENS // 8)
    multiply = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return multiply(rand(TOKENS, 2048), rand(8, 2048, 1024), offs=ends)


def packed(kind):
    data = nn.utils.rnn.pack_padded_sequence(rand(64, 512, 256, dtype=torch.float32), torch.arange(512, 448, -1),
                                             batch_first=True)
    return layer(kind(256, 512, 2, batch_first=True), data, dtype=torch.float32)[0].data


def nested():
    rows = torch.nested.nested_tensor([torch.rand(n, 512) for n in (512, 2048, 1024)], device="cuda", dtype=BF16,
                                      layout=torch.jagged, requires_grad=True)
    return F.linear(rows, rand(512, 512)).values()


def optimize(kind, **named):
    model = nn.Linear(WIDTH, WIDTH, device="cuda", dtype=BF16)
    model(rand(TOKENS, WIDTH)).sum().backward()
    kind(model.parameters(), **named).step()


def sparse(layout):
    one = rand(TOKENS, TOKENS, dtype=torch.float32, grad=False).to_sparse() if layout is torch.sparse_coo else \
        torch.eye(TOKENS, device="cuda").to_sparse_csr()
    return one @ rand(TOKENS, 256, dtype=torch.float32)


BACKENDS = nn.attention.SDPBackend
SIZES = {
    "embedding": lambda: F.embedding(ids(WORDS), rand(WORDS, 1024)),
    "embedding sparse": lambda: F.embedding(ids(WORDS), rand(WORDS, 1024, dtype=torch.float32), sparse=True),
    "embedding bag": lambda: F.embedding_bag(ids(WORDS, 512, 16), rand(WORDS, 256)),
    "cross entropy": lambda: F.cross_entropy(rand(TOKENS, WORDS), ids(WORDS)),
    "cross entropy float32": lambda: F.cross_entropy(rand(2048, WORDS, dtype=torch.float32), ids(WORDS, 2048)),
    "log softmax": lambda: F.log_softmax(rand(2048, WORDS), -1),
    "linear to words": lambda: F.linear(rand(TOKENS, WIDTH), rand(WORDS, WIDTH)),
    "linear float32": lambda: F.linear(rand(TOKENS, WIDTH, dtype=torch.float32), rand(WIDTH, WIDTH, dtype=torch.float32)),
    "linear half": lambda: F.linear(rand(TOKENS, WIDTH, dtype=F16), rand(WIDTH, WIDTH, dtype=F16), rand(WIDTH, dtype=F16)),
    "baddbmm": lambda: torch.baddbmm(rand(64, 2048, 2048), rand(64, 2048, 128), rand(64, 128, 2048)),
    "layer norm": lambda: layer(nn.LayerNorm(WIDTH), rand(TOKENS, WIDTH)),
    "rms norm": lambda: layer(nn.RMSNorm(WIDTH), rand(TOKENS, WIDTH)),
    "group norm": lambda: layer(nn.GroupNorm(32, 256), rand(4, 256, 128, 128)),
    "batch norm": lambda: layer(nn.BatchNorm2d(256), rand(8, 256, 128, 128)),
    "instance norm": lambda: layer(nn.InstanceNorm2d(64), rand(2, 64, 256, 256)),
    "dropout": lambda: F.dropout(rand(TOKENS, WIDTH)),
    "gelu": lambda: F.gelu(rand(TOKENS, 4 * WIDTH)),
    "swiglu": lambda: F.silu(rand(TOKENS, 4 * WIDTH)) * rand(TOKENS, 4 * WIDTH),
    "softmax": lambda: torch.softmax(rand(32, 2048, 2048), -1),
    "attention math": lambda: attend(BACKENDS.MATH, heads=2),
    "attention flash": lambda: attend(BACKENDS.FLASH_ATTENTION, is_causal=True),
    "attention efficient": lambda: attend(BACKENDS.EFFICIENT_ATTENTION, dtype=F16),
    "attention cudnn": lambda: attend(BACKENDS.CUDNN_ATTENTION, dtype=F16),
    "flex attention": flex,
    "multihead attention": lambda: nn.MultiheadAttention(1024, 16, device="cuda", dtype=BF16)(*[rand(2048, 4, 1024)] * 3)[0],
    "sort": lambda: torch.sort(rand(WORDS * 8, dtype=torch.float32))[0],
    "topk": lambda: torch.topk(rand(TOKENS, WORDS, grad=False), 50),
    "cumsum": lambda: torch.cumsum(rand(TOKENS, WORDS), -1),
    "nonzero": lambda: torch.nonzero(rand(TOKENS, TOKENS, grad=False) > 0.5),
    "mask": lambda: rand(TOKENS, WIDTH)[rand(TOKENS, grad=False) > 0.5],
    "unique": lambda: torch.unique(ids(WORDS, 16 * TOKENS), return_inverse=True),
    "median": lambda: torch.median(rand(64, WORDS, dtype=torch.float32)),
    "randperm": lambda: torch.randperm(1 << 22, device="cuda"),
    "multinomial": lambda: torch.multinomial(rand(256, WORDS, dtype=torch.float32, grad=False), 1),
    "bincount": lambda: torch.bincount(ids(64, 1 << 20)),
    "histc": lambda: torch.histc(rand(1 << 20, dtype=torch.float32, grad=False)),
    "scatter add": lambda: torch.zeros(TOKENS, WIDTH, device="cuda", dtype=BF16).index_add(0, ids(TOKENS), rand(TOKENS, WIDTH)),
    "gather": lambda: rand(TOKENS, WIDTH).gather(0, ids(TOKENS, TOKENS, 64)),
    "index put": lambda: torch.zeros(TOKENS, WIDTH, device="cuda").index_put((ids(TOKENS),), rand(TOKENS, WIDTH, dtype=torch.float32), True),
    "norm": lambda: torch.linalg.vector_norm(rand(WORDS, 1024)),
    "conv2d": lambda: layer(nn.Conv2d(3, 64, 7, 2, 3), rand(4, 3, IMAGE, IMAGE)),
    "conv2d channels last": lambda: layer(nn.Conv2d(64, 64, 3, padding=1).to(memory_format=torch.channels_last),
                                          rand(2, 64, 256, 256).to(memory_format=torch.channels_last)),
    "depthwise": lambda: layer(nn.Conv2d(256, 256, 7, padding=3, groups=256), rand(2, 256, 128, 128)),
    "conv1d": lambda: layer(nn.Conv1d(512, 512, 3), rand(4, 512, TOKENS)),
    "conv3d": lambda: layer(nn.Conv3d(3, 32, 3), rand(1, 3, 32, 128, 128)),
    "conv transposed": lambda: layer(nn.ConvTranspose2d(256, 128, 2, 2), rand(2, 256, 128, 128)),
    "interpolate": lambda: F.interpolate(rand(1, 64, 256, 256), scale_factor=4, mode="bilinear"),
    "grid sample": lambda: F.grid_sample(rand(2, 16, IMAGE, IMAGE, dtype=torch.float32), rand(2, 512, 512, 2, dtype=torch.float32), align_corners=False),
    "max pool": lambda: F.max_pool2d(rand(4, 64, 512, 512), 3, 2),
    "ctc": lambda: F.ctc_loss(torch.log_softmax(rand(1000, 16, 5000, dtype=torch.float32), -1), ids(4999, 16, 100) + 1,
                              torch.full((16,), 1000), torch.full((16,), 100)),
    "lstm packed": lambda: packed(nn.LSTM),
    "gru packed": lambda: packed(nn.GRU),
    "nested": nested,
    "sparse coo": lambda: sparse(torch.sparse_coo),
    "sparse csr": lambda: sparse(torch.sparse_csr),
    "fp8 product": fp8,
    "int8 product": lambda: torch._int_mm(*(torch.ones(WIDTH, WIDTH, device="cuda", dtype=torch.int8) for _ in "ab")),
    "grouped product": grouped,
    "fft": lambda: torch.fft.rfft2(rand(4, 3, IMAGE, IMAGE, dtype=torch.float32)).abs(),
    "cholesky": lambda: torch.linalg.cholesky(torch.eye(2048, device="cuda").requires_grad_()),
    "svd": lambda: torch.linalg.svdvals(rand(1024, 1024, dtype=torch.float32)),
    "adamw fused": lambda: optimize(torch.optim.AdamW, fused=True),
    "adamw foreach": lambda: optimize(torch.optim.AdamW, foreach=True),
    "sgd": lambda: optimize(torch.optim.SGD, lr=0.1, momentum=0.9),
    **{f"compile {mode}": lambda mode=mode: compiled(mode) for mode in ("default", "reduce-overhead", "max-autotune")},
}


def train(model, *inputs, learn=lambda out: out.float().mean()):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        learn(model(*inputs)).backward()
        optimizer.step()


class Block(nn.Module):
    def __init__(self, width, experts=0):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 16, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                     for _ in range(experts or 1))
        self.route = nn.Linear(width, experts) if experts else None

    def forward(self, data):
        data = data + self.attend(*[self.norms[0](data)] * 3, need_weights=False)[0]
        here = self.norms[1](data).flatten(0, 1)
        if not self.route:
            return data + self.experts[0](here).view_as(data)
        share, chosen = self.route(here).softmax(-1).topk(2)
        result = torch.zeros_like(here)
        for number, expert in enumerate(self.experts):
            token, slot = (chosen == number).nonzero(as_tuple=True)
            result = result.index_add(0, token, expert(here[token]) * share[token, slot, None])
        return data + result.view_as(data)


def language_model(experts=0):
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Embedding(32000, 1024), *(Block(1024, experts) for _ in range(4)), nn.Linear(1024, 32000)).to("cuda")
    train(model, ids(32000, 4, 1024), learn=lambda out: F.cross_entropy(out.flatten(0, 1), ids(32000, 4096)))


def detector():
    from torchvision.models.detection import fasterrcnn_resnet50_fpn
    model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None).to("cuda")
    boxes = [{"boxes": torch.tensor([[10.0, 20, 300, 400]], device="cuda"), "labels": torch.tensor([1], device="cuda")}]
    train(model, [torch.rand(3, 800, 800, device="cuda")], boxes, learn=lambda out: sum(out.values()))
    model.eval()([torch.rand(3, 800, 800, device="cuda")])


PROGRAMS = {"gpt": language_model, "moe": lambda: language_model(8)}
if importlib.util.find_spec("torchvision"):
    PROGRAMS["detector"] = detector
