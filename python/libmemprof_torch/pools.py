"""Calls of PyTorch's CUDA allocator that allocate nothing, so a driver may not see them. They empty caches, make
private pools of graphs and MemPools, or change limits and settings. Each becomes a mark in the recording, whose text
src/analysis/allocator/torch_history.c reads. A replay under other settings makes the same calls.

PyTorch up to 2.9 gives only a segment's pool: the history is read before segments can go (history.py).
"""

import functools
import os
import weakref

from libmemprof_torch.guarded import Guarded

BEGINS = ("_cuda_beginAllocateToPool", "_cuda_beginAllocateCurrentStreamToPool",
          "_cuda_beginAllocateCurrentThreadToPool")
SETS = ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings")  # the second from 2.9 on
# PyTorch reads the first variable that is set, even if it is empty. Only versions from 2.9 on read the second.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
ENDS = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")


def start(api, torch, history):
    """Does nothing if this torch was built without CUDA."""
    if hasattr(torch._C, "_cuda_emptyCache"):
        Pools(api, torch, history)


class Pools(Guarded):
    def __init__(self, api, torch, history):
        super().__init__(api, "emptied caches and private pools")
        self._write, self._torch, self._history = api["torch_mark"], torch, history
        self._changed = False
        self._begun = {}  # the last pool of each device
        self._alive = {}  # graphs and pools: what becomes of each when the program lets go of it
        self._wrap("_cuda_emptyCache", self._empties)
        for name in BEGINS:
            self._wrap(name, lambda original: self._about_pool(original, "begins"))
        for name in ENDS:
            self._wrap(name, lambda original: self._about_pool(original, "ends"))
        self._wrap("_cuda_releasePool", lambda original: self._about_pool(original, "released"))
        self._wrap("_cuda_setMemoryFraction", self._limits)
        for name in SETS:
            self._wrap(name, self._changes)
        graph, pool = getattr(torch.cuda, "CUDAGraph", None), getattr(torch.cuda, "MemPool", None)
        if isinstance(graph, type) and {"capture_begin", "capture_end", "reset"} <= set(vars(graph)):
            for name, make in (("capture_begin", self._captures), ("capture_end", self._captured),
                               ("reset", self._resets)):
                setattr(graph, name, functools.wraps(vars(graph)[name])(make(vars(graph)[name])))
        # Up to 2.5 a MemPool is a number. Since then it holds its pool until it is deleted, and then releases it.
        if isinstance(pool, type) and "__init__" in vars(pool) and hasattr(pool, "use_count"):
            pool.__init__ = functools.wraps(pool.__init__)(self._makes(pool.__init__))

    def _wrap(self, name, make):
        """torch.cuda.memory has some of these functions under its own names."""
        original = getattr(self._torch._C, name, None)
        if original is None:
            return
        made = functools.wraps(original)(make(original))
        setattr(self._torch._C, name, made)
        if vars(self._torch.cuda.memory).get(name) is original:
            setattr(self._torch.cuda.memory, name, made)

    def _mark(self, text):
        self._write(f"torch: {text}".encode())

    def _before_loss(self):
        if self._history is not None:
            self._history.before_loss()

    def _pool_ended(self):
        if self._history is not None:
            self._history.pool_ended()

    def _empties(self, original):
        def empty_cache(*arguments, **named):
            self._guarded(self._empty)
            return original(*arguments, **named)
        return empty_cache

    def _empty(self):
        self._before_loss()
        self._mark("empty_cache")

    def _about_pool(self, original, what):
        def call(*arguments, **named):
            answer = original(*arguments, **named)
            self._guarded(self._tell_pool, what, *arguments)
            return answer
        return call

    def _tell_pool(self, what, device, pool=None, *more):
        if what == "begins":
            self._begun[device] = pool
        elif pool is None:  # up to 2.1 an end is told of the device alone
            pool = self._begun.get(device)
        if pool is None:
            return
        self._mark(f"pool {pool[0]}:{pool[1]} {what} on cuda:{device}")
        if what == "ends":
            self._pool_ended()

    def _limits(self, original):
        def set_memory_fraction(*arguments, **named):
            answer = original(*arguments, **named)
            self._guarded(self._limit, *arguments)
            return answer
        return set_memory_fraction

    def _limit(self, fraction, device, *more):
        self._mark(f"memory fraction {fraction:.17g} on cuda:{device}")

    def _changes(self, original):
        def set_allocator_settings(*arguments, **named):
            self._guarded(self._before_change)
            answer = original(*arguments, **named)
            self._guarded(self._change, *arguments)
            return answer
        return set_allocator_settings

    def _before_change(self):
        """PyTorch reads its first settings from the environment, perhaps only now."""
        if not self._changed:
            variables = VARIABLES[:2 if hasattr(self._torch._C, "_accelerator_emptyCache") else 1]
            self._mark("began with settings:" + next((os.environ[name] for name in variables if name in os.environ), ""))
        self._changed = True

    def _change(self, settings, *more):
        self._mark(f"settings:{settings}")

    # ---- graphs: a pool's number is known once the capture has ended

    def _captures(self, original):
        def capture_begin(graph, *arguments, **named):
            answer = original(graph, *arguments, **named)
            self._guarded(self._begin, graph)
            return answer
        return capture_begin

    def _begin(self, graph):
        device = self._torch.cuda.current_device()
        self._mark(f"capture begins on cuda:{device}")
        self._alive[id(graph)] = (weakref.ref(graph, self._lets_go(id(graph))), device, None)

    def _captured(self, original):
        def capture_end(graph, *arguments, **named):
            try:
                answer = original(graph, *arguments, **named)
            except BaseException:
                self._guarded(self._fail, graph)
                raise
            self._guarded(self._end, graph)
            return answer
        return capture_end

    def _fail(self, graph):
        known = self._alive.get(id(graph))
        if known is not None:
            self._mark(f"capture fails on cuda:{known[1]}")

    def _end(self, graph):
        known = self._alive.get(id(graph))
        if known is not None:
            pool = graph.pool()
            self._mark(f"pool {pool[0]}:{pool[1]} captured on cuda:{known[1]}")
            self._alive[id(graph)] = (*known[:2], (pool, "released"))
            self._pool_ended()

    def _resets(self, original):
        def reset(graph, *arguments, **named):
            answer = original(graph, *arguments, **named)
            self._guarded(self._gone, id(graph))
            return answer
        return reset

    # ---- MemPools

    def _makes(self, original):
        def __init__(pool, *arguments, **named):
            original(pool, *arguments, **named)
            self._guarded(self._make, pool, *arguments, **named)
        return __init__

    def _make(self, pool, allocator=None, use_on_oom=False, no_split=False):
        if self._torch.cuda.is_initialized():
            device, number = self._torch.cuda.current_device(), pool.id
            ways = " use_on_oom" * bool(use_on_oom) + " no_split" * bool(no_split)
            self._mark(f"pool {number[0]}:{number[1]} made on cuda:{device}{ways}")
            self._alive[id(pool)] = (weakref.ref(pool, self._lets_go(id(pool))), device, (number, "deleted"))

    def _lets_go(self, key):
        """Python calls it before the object and its pool are freed."""
        return lambda reference: self._guarded(self._gone, key)

    def _gone(self, key):
        known = self._alive.pop(key, None)
        if known is not None and known[2] is not None:
            pool, what = known[2]
            if what == "deleted":
                self._before_loss()
            self._mark(f"pool {pool[0]}:{pool[1]} {what} on cuda:{known[1]}")
