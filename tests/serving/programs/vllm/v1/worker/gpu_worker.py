import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner, take


class Worker:
    def __init__(self, settings):
        self.vllm_config, self.model_runner = settings, GPUModelRunner(settings)

    def load_model(self):
        self.model_runner.load_model()

    def determine_available_memory(self):
        self.peak_activation_memory = 7 << 20
        return (52 - 3 * self.vllm_config.scheduler_config.max_num_seqs) << 20

    def initialize_from_config(self, cache):
        self.model_runner.kv_caches = [torch.zeros(cache.num_blocks * 4096, dtype=torch.int8) for _ in range(2)]
        take(cache.num_blocks * 8192)

    def compile_or_warm_up_model(self):
        self.model_runner.capture_model()

    def execute_model(self, size):
        self.batch = torch.ones(size)
