from types import SimpleNamespace

import torch
from device import BOOK, take
from sglang.srt.mem_cache.memory_pool import Pool

torch.cuda.memory_snapshot = lambda: [
    dict(total_size=BOOK["allocated"], allocated_size=BOOK["allocated"], segment_pool_id=(0, 0)),
    dict(total_size=3 << 20, allocated_size=1 << 20, segment_pool_id=(0, 1))]


class ModelRunner:
    is_draft_worker, page_size, kv_cache_dtype = False, 1, torch.int8

    def __init__(self, server_args, tokens):
        self.server_args, self.max_total_num_tokens = server_args, tokens
        self.model_config = SimpleNamespace(context_len=server_args.context_length)

    def load_model(self):
        self.model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList(
            torch.nn.Linear(1024, 1024, bias=False) for _ in range(2))})
        take(8 << 20)

    def alloc_memory_pool(self):
        if self.max_total_num_tokens <= 0:
            raise RuntimeError("Not enough memory")
        self.token_to_kv_pool = Pool(self.max_total_num_tokens)
        take((self.max_total_num_tokens + 1) * 512)

    def init_cuda_graphs(self):
        self.decode_cuda_graph_capture_bs = [1, 2, 4]
        take(5 << 20, BOOK["allocated"] + (7 << 20))  # a batch, of which 1 MiB stays in the graphs
        BOOK["allocated"] -= 4 << 20
