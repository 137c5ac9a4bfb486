"""What single operators take beyond what they work on and give back, as JSON: [name, bytes taken, bytes of the largest tensor,
bytes of the largest result]."""
import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHAPES = ((1000, 200), (4096, 64), (20000, 32), (100000, 8), (1024, 1024), (64, 5000), (3, 400000), (7000, 1000), (1 << 20, 3))
NAMES = ("sum", "mean", "amax", "std", "var", "var_mean", "argmax", "argmin", "norm", "prod", "nansum", "all", "count_nonzero",
         "min", "max", "sort", "argsort", "cumsum", "cummax", "softmax", "topk", "unique", "aminmax", "mode")
found = {}


def bytes_of(tensors):
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}


class Watched(TorchDispatchMode):
    """Operators as autograd calls them; the most that each took, by its share."""

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        given = bytes_of(leaf for leaf in tree_leaves((arguments, options or {})) if torch.is_tensor(leaf) and leaf.is_cuda)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        result = operator(*arguments, **(options or {}))
        taken = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
        made = bytes_of(leaf for leaf in tree_leaves(result) if torch.is_tensor(leaf) and leaf.is_cuda)
        taken -= sum(size for address, size in made.items() if address not in given)
        name = operator.name().removeprefix("aten::").replace(".", "_")
        row = [name, taken, max([*given.values(), *made.values()], default=0), max(made.values(), default=0)]
        if row[2] > 100_000 and taken / row[2] > found.get(name, [name, 0, 1])[1] / found.get(name, [name, 0, 1])[2]:
            found[name] = row
            rows.append(row)
        return result


rows = []
with Watched():
    for shape in SHAPES:
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            values = torch.randn(shape, device="cuda").to(dtype)
            for name in NAMES:
                for dim in (0, 1):
                    options = {"k": min(10, shape[dim])} if name == "topk" else {}
                    try:
                        getattr(torch, name)(values, dim=dim, **options)
                    except (RuntimeError, NotImplementedError):
                        pass  # not of this type, or not on made-up numbers
            torch.randperm(values.numel(), device="cuda")
            parameter = values.clone().requires_grad_()
            torch.nn.functional.layer_norm(parameter, shape[1:]).sum(0).square().sum().backward()
            del values, parameter
print(json.dumps(rows))
