"""A vLLM with tensor parallelism under `memprof plan`: rank 0 runs in the engine's own process and answers for its
equals. The engine imports this module in each of its processes."""

import os

try:
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
except ImportError:  # 0.10
    from vllm.v1.executor.abstract import UniProcExecutor


def fits(settings):
    """All ranks are equal: weights, activations and cache are split by tensor parallelism alone."""
    ranks = settings.parallel_config
    return ranks.world_size == ranks.tensor_parallel_size > 1 and getattr(ranks, "data_parallel_size", 1) == 1 and \
        not getattr(ranks, "enable_expert_parallel", False) and getattr(ranks, "nnodes", 1) == 1


class OneRankExecutor(UniProcExecutor):
    def _init_executor(self):
        import torch.distributed
        from libmemprof_plan import ranks
        world = self.vllm_config.parallel_config.world_size
        ranks.be_alone(torch.distributed, 0, world)
        ranks.answer_objects(torch.distributed, True)
        _be_on_one_node(world)
        super()._init_executor()

    def collective_rpc(self, *arguments, **named):
        """In a list, an answer for each rank."""
        answer = super().collective_rpc(*arguments, **named)
        return answer * self.vllm_config.parallel_config.world_size if isinstance(answer, list) else answer


def _be_on_one_node(world):
    """Nobody reads the messages to the other ranks, which share this rank's memory."""
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators import custom_all_reduce, shm_broadcast
    for module in (parallel_state, custom_all_reduce):
        if hasattr(module, "in_the_same_node_as"):
            module.in_the_same_node_as = lambda *_, **__: [True] * world
    shm_broadcast.MessageQueue.create_from_process_group = staticmethod(lambda *_, **__: None)
    os.environ.pop("SOFTGPU_MESSAGES", None)  # the stand-in of NCCL would wait for the others
    try:
        from flashinfer.comm.mnnvl import IpcSocket
    except ImportError:
        return
    send = IpcSocket.send_fd
    IpcSocket.send_fd = lambda self, descriptor, *_: send(self, descriptor, self.rank)
