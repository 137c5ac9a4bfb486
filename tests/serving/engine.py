"""vLLM's engine as `vllm serve` sets it up, until it is ready: engine.py MODEL '{"max_model_len": 8192, ...}'"""

import json
import os
import sys

if __name__ == "__main__":
    settings = dict(load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.95,
                    max_num_batched_tokens=8192, max_num_seqs=1024)
    settings.update(json.loads(sys.argv[2]))
    if settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1) == 1:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine in this process: half of the imports
    from vllm import LLM
    LLM(sys.argv[1], **settings)
