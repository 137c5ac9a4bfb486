"""vLLM's engine as `vllm serve` sets it up, until it is ready: engine.py MODEL '{"max_model_len": 8192, ...}'"""

import json
import sys

if __name__ == "__main__":
    from vllm import LLM
    settings = dict(load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.95,
                    max_num_batched_tokens=8192, max_num_seqs=1024)
    LLM(sys.argv[1], **{**settings, **json.loads(sys.argv[2])})
