from types import SimpleNamespace

import torch
from device import BOOK, take


class GPUModelRunner:
    def __init__(self, settings):
        self.vllm_config, self.kv_caches = settings, []
        self.max_num_reqs = self.max_num_tokens = 0

    def load_model(self):
        layers = [torch.nn.Linear(1024, 1024, bias=False) for _ in range(2)]
        self.model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList(layers),
                                          "head": torch.nn.Linear(1024, 512, bias=False).half()})
        take(9 << 20)

    def capture_model(self):
        for size in self.vllm_config.compilation_config.cudagraph_capture_sizes:
            self._warmup_and_capture(SimpleNamespace(num_tokens=size))

    def _warmup_and_capture(self, desc):
        """The largest makes the pool; smaller ones take memory from the driver."""
        if desc.num_tokens == 8:
            self.graphs = torch.zeros(2 << 18)
            take(2 << 20, BOOK["reserved"] + (4 << 20))
        else:
            BOOK["others"] += 1 << 20


def settings(length):
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=length, hf_text_config=SimpleNamespace(num_attention_heads=8),
                                     get_total_num_kv_heads=lambda: 4),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
        compilation_config=SimpleNamespace(cudagraph_capture_sizes=[8, 4, 1]),
        cache_config=SimpleNamespace(gpu_memory_utilization=0.9, cache_dtype="auto"),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=64, max_num_seqs=4))
