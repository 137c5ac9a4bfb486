"""An engine as its server sets it up, until it is ready: engine.py vllm|sglang MODEL '{"max_model_len": 8192, ...}'"""

import json
import os
import sys


def vllm(model, settings):
    settings = dict(load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.95,
                    max_num_batched_tokens=8192, max_num_seqs=1024) | settings
    if settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1) == 1:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine in this process: half of the imports
    from vllm import LLM
    LLM(model, **settings)


def sglang(model, settings):
    from sglang import Engine
    Engine(model_path=model, log_level="info", **settings).shutdown()


if __name__ == "__main__":
    {"vllm": vllm, "sglang": sglang}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
