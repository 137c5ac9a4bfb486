import dataclasses
import logging
import os
from types import SimpleNamespace

import torch

logger = logging.getLogger("vllm")


@dataclasses.dataclass
class Spec:
    """A layer's cache: keys and values of `num_kv_heads` heads with 32 elements each."""
    num_kv_heads: int = 4
    dtype: torch.dtype = torch.bfloat16
    block_size: int = 16

    def bytes_of_token(self):
        return self.num_kv_heads * 32 * torch.empty(0, dtype=self.dtype).element_size()


def max_memory_usage_bytes(settings, specs):
    return settings.model_config.max_model_len * sum(spec.bytes_of_token() for spec in specs)


def _report_kv_cache_config(settings, cache):
    """A number of its own, as engines with hybrid caches have."""
    logger.info("GPU KV cache size: %s tokens", f"{cache.num_blocks * 16 - 7:,}")
    logger.info("Maximum concurrency for %s tokens per request: %.2fx", settings.model_config.max_model_len,
                cache.num_blocks * 16 / settings.model_config.max_model_len)


if "NEWER" in os.environ:  # as from 0.29 on
    def get_kv_cache_capacity(settings, cache):
        return cache.num_blocks * 16 - 9, cache.num_blocks * 16 / settings.model_config.max_model_len


def get_kv_cache_configs(settings, specs, available):
    if max_memory_usage_bytes(settings, specs[0].values()) > available[0]:
        raise ValueError("the cache is too small")
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=16, dtype=torch.int8), layer_names=list(specs[0]))
    return [SimpleNamespace(num_blocks=available[0] // 8192, kv_cache_groups=[group])]
