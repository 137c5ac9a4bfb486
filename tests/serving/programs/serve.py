"""The stand-in engine, set up as vLLM does: serve.py FOLDER LENGTH; then three steps."""

import sys

import torch  # noqa: F401
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core import kv_cache_utils
from vllm.v1.worker import gpu_model_runner, gpu_worker

settings = gpu_model_runner.settings(EngineArgs(sys.argv[1], int(sys.argv[2])).create_engine_config())
worker = gpu_worker.Worker(settings)
worker.load_model()
layers = {f"layers.{number}": kv_cache_utils.Spec() for number in range(2)}
available = worker.determine_available_memory()
cache, = kv_cache_utils.get_kv_cache_configs(settings, [layers], [available])
worker.initialize_from_config(cache)
worker.compile_or_warm_up_model()
for step in range(3):
    worker.execute_model(1 << 16)
