import torch
from sglang.srt.model_executor.model_runner import ModelRunner


class Scheduler:
    def __init__(self, server_args, tokens):
        if tokens < 0:
            raise ValueError("Cannot find model module. 'OddModel' is not known\nto this version")
        self.server_args, self.max_running_requests = server_args, 16
        self.runner = ModelRunner(server_args, tokens)

    def init_model_worker(self):
        self.runner.load_model()
        self.runner.alloc_memory_pool()
        self.runner.init_cuda_graphs()

    def run_batch(self, size):
        self.batch = torch.ones(size)
