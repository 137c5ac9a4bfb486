"""Many ranks without their GPUs: collectives carry nothing, so that what decides sizes on the host is answered here."""

import datetime
import functools
import inspect
import os
import pickle
import sys


def be_alone(distributed, rank, world):
    """One rank of many: a store that needs nobody else."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    os.environ.setdefault("LOCAL_RANK", "0")  # its device is the one there is
    os.environ.setdefault("LOCAL_WORLD_SIZE", str(world))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    begin = distributed.init_process_group

    def init_process_group(backend=None, *arguments, **named):
        """What is asked of others is answered at once; the CPU's collectives are PyTorch's own of no effect."""
        from torch.testing._internal.distributed import fake_pg  # registers the backend "fake"
        for name in ("init_method", "store", "rank", "world_size"):
            named.pop(name, None)
        named.setdefault("timeout", datetime.timedelta(seconds=60))
        if arguments:
            arguments = arguments[1:]
        # With NCCL alone, as the program wants it, what has no device (barrier) is on the GPU.
        backend = str(backend or "cpu:gloo,cuda:nccl")
        backend = backend if backend == "nccl" else "cpu:fake,cuda:nccl" if "nccl" in backend else "fake"
        begin(backend, store=Store(distributed, rank),
              rank=rank, world_size=world, **named)

    distributed.init_process_group = init_process_group
    distributed.distributed_c10d.init_process_group = init_process_group


def do_without_libuv(distributed):
    """Debian's PyTorch is built without libuv, but its torchrun asks for a store that wants it."""
    real = distributed.TCPStore

    class TCPStore(real):
        def __init__(self, *arguments, **named):
            try:
                super().__init__(*arguments, **named)
            except RuntimeError as error:
                if "libuv" not in str(error):
                    raise
                super().__init__(*arguments, **dict(named, use_libuv=False))

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and vars(module).get("TCPStore") is real:
            module.TCPStore = TCPStore


_stores = []


def Store(distributed, rank):
    """A store in this process; what another rank would have set is there as soon as it is asked for."""
    kept = distributed.HashStore()

    class Alone(distributed.Store):
        def set(self, key, value):
            kept.set(key, value)

        def get(self, key):
            if not kept.check([key]):
                kept.set(key, "\0" * 128)
            return kept.get(key)

        def add(self, key, amount):
            return kept.add(key, amount)

        def wait(self, keys, timeout=None):
            return None

        def check(self, keys):
            return True

        def delete_key(self, key):
            return kept.delete_key(key)

        def num_keys(self):
            return kept.num_keys()

    if not rank:
        return kept
    _stores.append(Alone())  # PyTorch holds the C++ half alone
    return _stores[-1]


def answer_objects(distributed, alone):
    """Collectives of Python objects over NCCL: by the group's store between processes; alone, the others have what this
    rank has."""
    def exchange(call, own):
        return _exchange(distributed, call.get("group"), own, alone)

    def root(call):
        if alone or call.get("group_src") is not None:
            return call.get("group_src") or 0
        return distributed.get_group_rank(call.get("group") or distributed.group.WORLD, call.get("src") or 0)

    def all_gather_object(call):
        call["object_list"][:] = exchange(call, call["obj"])

    def gather_object(call):
        theirs = exchange(call, call["obj"])
        if call.get("object_gather_list"):
            call["object_gather_list"][:] = theirs

    def broadcast_object_list(call):
        call["object_list"][:] = exchange(call, call["object_list"])[root(call)]

    def scatter_object_list(call):
        given = exchange(call, call.get("scatter_object_input_list"))[root(call)]
        call["scatter_object_output_list"][0] = given[distributed.get_rank(call.get("group"))] if given else None

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list):
        _answer(distributed, function)


_exchanges = {}  # of a group: how many there were


def _exchange(distributed, group, own, alone):
    """What each rank of the group gives, in the order of ranks."""
    size, group = distributed.get_world_size(group), group or distributed.group.WORLD
    if alone or size == 1:
        return [own] * size
    store = distributed.distributed_c10d._world.pg_map[group][1]
    number = _exchanges[group] = _exchanges.get(group, 0) + 1
    store.set(f"memprof/{number}/{distributed.get_rank(group)}", pickle.dumps(own))
    return [pickle.loads(store.get(f"memprof/{number}/{rank}")) for rank in range(size)]


def _answer(distributed, function):
    """`function` takes the arguments by their names."""
    real = getattr(distributed, function.__name__, None)
    if real is None:
        return

    @functools.wraps(real)
    def instead(*arguments, **named):
        call = inspect.signature(real).bind(*arguments, **named).arguments
        carries = "gloo" in distributed.get_backend(call.get("group"))  # the CPU's own collectives do send
        return real(*arguments, **named) if carries else function(call)

    setattr(distributed, function.__name__, instead)
    setattr(distributed.distributed_c10d, function.__name__, instead)
