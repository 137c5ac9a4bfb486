"""Runs a training script of Megatron-LM: megatron.py SCRIPT ARGUMENT... Prints what its log would say of memory.

Modules of apex and Transformer Engine that need nvcc are stand-ins here. Each takes the memory that the real one takes,
and computes nothing. $WITHOUT_APEX: there is no apex, as in Megatron's tests without Transformer Engine."""
import builtins
import os
import runpy
import sys
import types

import numpy
import torch


class Layers:
    """Stands for both classes of apex's layer norms."""
    @staticmethod
    def apply(x, weight, bias, *rest):
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)

    @staticmethod
    def forward(ctx, x, weight, bias, *rest, memory_efficient=False):
        pass


class FusedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **named):
        super().__init__(params, dict(lr=lr, bias_correction=True, betas=betas, eps=eps, weight_decay=weight_decay))
        self.overflow = torch.zeros(1, dtype=torch.int, device="cuda")

    @torch.no_grad()
    def step(self, closure=None, **named):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for one in group["params"]:
                if one.grad is not None and not self.state[one]:
                    for name in ("exp_avg", "exp_avg_sq"):
                        self.state[one][name] = torch.zeros_like(one, dtype=torch.float)


def l2norm(chunk, overflow, lists, per_tensor=False):
    kept = torch.zeros(1, device="cuda"), torch.zeros(320, device="cuda")
    return kept[0], torch.zeros(len(lists[0]) if per_tensor else 0, device="cuda")


def batches_per_block(queries, keys, batch, heads):
    power = 1 << (keys - 1).bit_length()
    return 128 // min(power, 32) * (2 if power <= 128 else 1)


def general_gemm(a, b, dtype=None, layout="TN", **named):
    return (b @ a.T if layout == "TN" else b @ a if layout == "NN" else b.T @ a,)


def nothing(*arguments, **named):
    pass


SOFTMAX = {"forward": lambda x, *rest: torch.empty_like(x), "backward": lambda gradient, *rest: gradient,
           "get_batch_per_block": batches_per_block}
APEX = {
    "apex": {}, "apex.contrib": {}, "apex.contrib.layer_norm": {}, "apex.normalization": {},
    "apex.contrib.layer_norm.layer_norm": {"FastLayerNormFN": Layers},
    "apex.normalization.fused_layer_norm": {"FusedLayerNormAffineFunction": Layers},
    "apex.optimizers": {"FusedAdam": FusedAdam, "FusedSGD": torch.optim.SGD},
    "apex.multi_tensor_apply": {"multi_tensor_applier":
                                lambda operator, overflow, lists, *rest: operator(1 << 16, overflow, lists, *rest)},
    "amp_C": {"multi_tensor_l2norm": l2norm, "multi_tensor_scale": nothing},
    "fused_weight_gradient_mlp_cuda": {"wgrad_gemm_accum_fp32": nothing, "wgrad_gemm_accum_fp16": nothing},
    **dict.fromkeys(("scaled_masked_softmax_cuda", "scaled_softmax_cuda", "scaled_upper_triang_masked_softmax_cuda"),
                    SOFTMAX),
}


class Writer:
    def __init__(self, *arguments, **named):
        pass

    def add_scalar(self, name, value, iteration=None, *arguments, **named):
        if name == "mem-max-allocated-bytes":
            print("MEASURED", iteration, value, flush=True)
        elif name == "mem-allocated-bytes":
            print("CURRENT", iteration, value, flush=True)

    def __getattr__(self, name):
        return nothing


tensorboard = sys.modules["torch.utils.tensorboard"] = types.ModuleType("torch.utils.tensorboard")
tensorboard.SummaryWriter = Writer
for name, members in ({} if os.environ.get("WITHOUT_APEX") else APEX).items():
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(members)
builtins.te_general_gemm = general_gemm  # a name that Megatron uses where Transformer Engine is not installed
sys.path[0] = os.getcwd()  # in place of the folder of this file, which has the name of the package
import megatron.training.global_vars as variables  # noqa: E402
from megatron.core.datasets import masked_dataset  # noqa: E402
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder  # noqa: E402
from megatron.core.fusions.fused_layer_norm import FusedLayerNorm  # noqa: E402
from megatron.core.models.bert import bert_layer_specs  # noqa: E402
from megatron.core.models.T5 import t5_spec  # noqa: E402

t5_spec.TENorm = FusedLayerNorm
# Each planned rank makes the index that rank 0 makes for all
masked_dataset.torch = types.SimpleNamespace(distributed=types.SimpleNamespace(get_rank=lambda: 0))
bert_layer_specs.bert_layer_with_transformer_engine_spec = None  # Megatron imports it, but local layers do not use it
variables._set_tensorboard_writer = lambda arguments: setattr(variables, "_GLOBAL_TENSORBOARD_WRITER", Writer())
sys.argv = sys.argv[1:]
if "--data-path" in sys.argv:  # documents of sentences; only their number matters
    path = sys.argv[sys.argv.index("--data-path") + 1]
    text = IndexedDatasetBuilder(path + ".bin", numpy.int32)
    for _ in range(1000):
        text.add_document(torch.randint(5, 20000, (640,)), [64] * 10)
    text.finalize(path + ".idx")
runpy.run_path(sys.argv[0], run_name="__main__")
