"""Which executor a vLLM with so many ranks gets, and its answers: one_rank.py TENSOR PIPELINE"""

import sys
import types

import torch  # noqa: F401


class MultiprocExecutor:
    pass


class UniProcExecutor:
    def __init__(self, settings):
        self.vllm_config = settings
        self._init_executor()

    def _init_executor(self):
        print("rank", __import__("os").environ["RANK"])

    def collective_rpc(self, method, single_value=False):
        return 40 if single_value else [40]


def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)
    return made


class Executor:
    get_class = staticmethod(lambda settings: MultiprocExecutor)


for name in ("vllm", "vllm.v1", "vllm.v1.executor", "vllm.distributed.device_communicators"):
    module(name)
module("vllm.v1.executor.uniproc_executor", UniProcExecutor=UniProcExecutor)
state = module("vllm.distributed.parallel_state", in_the_same_node_as=lambda group: [True, False])
module("vllm.distributed", parallel_state=state)
devices = sys.modules["vllm.distributed.device_communicators"]
devices.custom_all_reduce, devices.shm_broadcast = module("custom"), module("queue", MessageQueue=UniProcExecutor)
from libmemprof_plan import serving  # noqa: E402

serving._run_one_rank(types.SimpleNamespace(Executor=Executor))
tensor, pipeline = map(int, sys.argv[1:])
settings = types.SimpleNamespace(parallel_config=types.SimpleNamespace(
    world_size=tensor * pipeline, tensor_parallel_size=tensor))
found = Executor.get_class(settings)
print(found.__name__)
if tensor * pipeline == tensor > 1:
    engine = found(settings)
    print(engine.collective_rpc("any"), engine.collective_rpc("any", single_value=True), state.in_the_same_node_as(0))
