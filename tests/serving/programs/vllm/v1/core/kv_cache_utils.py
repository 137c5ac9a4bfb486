from types import SimpleNamespace

import torch


def max_memory_usage_bytes(settings, specs):
    return settings.model_config.max_model_len * 512


def estimate_max_model_len(settings, specs, available):
    return available // 512


def get_max_concurrency_for_kv_cache_config(settings, cache):
    return cache.num_blocks * 16 / settings.model_config.max_model_len


def get_kv_cache_configs(settings, specs, available):
    if max_memory_usage_bytes(settings, None) > available[0]:
        raise ValueError("the cache is too small")
    spec = SimpleNamespace(block_size=16, dtype=torch.int8)
    group = SimpleNamespace(kv_cache_spec=spec, layer_names=["layers.0", "layers.1"])
    return [SimpleNamespace(num_blocks=available[0] // 8192, kv_cache_groups=[group])]
