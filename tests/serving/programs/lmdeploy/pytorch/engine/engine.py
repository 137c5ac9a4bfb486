from types import SimpleNamespace

import torch
from lmdeploy.pytorch.engine.model_agent.agent import BaseModelAgent


class Engine:
    def __init__(self, path, length):
        self.cache_config = SimpleNamespace(block_size=64, num_gpu_blocks=1024, cache_max_entry_count=0.8,
                                            max_prefill_token_num=8192, max_batches=16)
        self.model_config = SimpleNamespace(num_layers=2, dtype=torch.int8)
        self.max_session_len = length
        agent = self.agent = BaseModelAgent(path, self.cache_config)
        agent.build_model()
        agent.build_cache_engine()
        agent.warmup()
