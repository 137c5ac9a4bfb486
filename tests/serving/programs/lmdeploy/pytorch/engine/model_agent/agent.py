import torch
from device import BOOK, take
from lmdeploy.pytorch.weight_loader import model_weight_loader

torch.cuda.memory_snapshot = lambda: [
    dict(total_size=BOOK["allocated"], allocated_size=BOOK["allocated"], segment_pool_id=(0, 0)),
    dict(total_size=3 << 20, allocated_size=1 << 20, segment_pool_id=(0, 1))]


class Model(torch.nn.ModuleDict):
    def get_capture_batch_sizes(self):
        return [4, 2, 1]


class Cache:
    def __init__(self, blocks, block):
        self.local_gpu_cache = [(torch.zeros(blocks, block, 256, dtype=torch.int8),) * 2 for _ in range(2)]


class BaseModelAgent:
    def __init__(self, path, cache_config):
        self.path, self.cache_config = path, cache_config

    def build_model(self):
        self.patched_model = Model({"layers": torch.nn.ModuleList(
            torch.nn.Linear(1024, 1024, bias=False) for _ in range(2))})
        model_weight_loader.ModelWeightLoader(self.path).load_model_weights(self.patched_model, device="cpu")
        take(8 << 20)

    def build_cache_engine(self):
        self.cache_engine = Cache(self.cache_config.num_gpu_blocks, self.cache_config.block_size)
        take(self.cache_config.num_gpu_blocks * self.cache_config.block_size * 512)

    def warmup(self):
        take(5 << 20, BOOK["allocated"] + (7 << 20))  # a batch, of which 1 MiB stays in the graphs
        BOOK["allocated"] -= 4 << 20
