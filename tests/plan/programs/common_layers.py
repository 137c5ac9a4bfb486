"""A decoder layer with grouped heads, like Llama's, and the host's memory that planning took."""
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn

BEGUN = time.time()


class Layer(nn.Module):
    def __init__(self, width, heads, shared, inner, projection=lambda i, o: nn.Linear(i, o, bias=False)):
        super().__init__()
        self.heads, self.shared = heads, shared
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.v = projection(width, width), projection(width, width // heads * shared)
        self.k, self.o = nn.Linear(width, width // heads * shared, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        h = self.norm_1(x)
        q = self.q(h).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = (part(h).view(batch, length, self.shared, -1).transpose(1, 2).repeat_interleave(self.heads // self.shared, 1)
                for part in (self.k, self.v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.o(h)
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def tell(who):
    gib, host = 1 << 30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{who}: allocated {torch.cuda.max_memory_allocated() / gib:.2f} GiB, reserved "
          f"{torch.cuda.max_memory_reserved() / gib:.2f} GiB, {time.time() - BEGUN:.1f} s, {host >> 10} MiB of the host",
          flush=True)
