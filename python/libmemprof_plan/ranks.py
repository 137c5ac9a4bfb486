"""Many ranks without their GPUs: collectives transfer nothing. This module makes up answers that decide sizes on the
host."""

import ctypes
import datetime
import functools
import inspect
import os
import pathlib
import pickle
import sys


def be_alone(distributed, rank, world):
    """A store for one rank of many, which waits for nobody."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    os.environ.setdefault("LOCAL_RANK", "0")  # its device is the one there is
    os.environ.setdefault("LOCAL_WORLD_SIZE", str(world))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    os.environ.setdefault("TORCH_NCCL_RANKS_PER_ROOT", str(max(world, 128)))  # other roots would never answer
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
    begin = distributed.init_process_group

    def init_process_group(backend=None, *arguments, **named):
        """Requests to other ranks are answered at once. Collectives on the CPU use PyTorch's own backend without
        effect."""
        from torch.testing._internal.distributed import fake_pg  # registers the backend "fake"
        for name in ("init_method", "store", "rank", "world_size"):
            named.pop(name, None)
        named.setdefault("timeout", datetime.timedelta(seconds=60))
        if arguments:
            arguments = arguments[1:]
        # With NCCL alone, as the program wants, calls without a device (barrier) use the GPU.
        backend = str(backend or "cpu:gloo,cuda:nccl")
        backend = backend if backend == "nccl" else "cpu:fake,cuda:nccl" if "nccl" in backend else "fake"
        begin(backend, store=Store(distributed, rank, world), rank=rank, world_size=world, **named)

    _replace(distributed, init_process_group)
    _let_groups_be_alone(distributed)
    _carry_objects(distributed, rank)


def _replace(distributed, function):
    setattr(distributed, function.__name__, function)
    setattr(distributed.distributed_c10d, function.__name__, function)


def _let_groups_be_alone(distributed):
    """A group of the CPU (gloo) would wait for all of its ranks."""
    begin = distributed.new_group

    def new_group(ranks=None, timeout=None, backend=None, *arguments, **named):
        backend = backend if backend is None or "nccl" in str(backend) else "fake"
        return begin(ranks, timeout, backend, *arguments, **named)

    _replace(distributed, new_group)


def tell_sizes_of_splits(distributed):
    """NCCL learns from all ranks' colours which ranks stay together. The stand-in needs to know how many."""
    tell = getattr(ctypes.CDLL("libnccl.so.2"), "softnccl_split_size", None)
    if tell is None:
        return
    module = distributed.distributed_c10d
    helper, split = module._new_process_group_helper, getattr(distributed, "split_group", None)

    def _new_process_group_helper(group_size, *arguments, **named):
        tell(group_size)
        return helper(group_size, *arguments, **named)

    def split_group(parent_pg=None, split_ranks=None, *arguments, **named):
        parent = parent_pg or distributed.group.WORLD
        tell(max([len(ranks) for ranks in split_ranks or () if parent.rank() in ranks], default=0))
        return split(parent_pg, split_ranks, *arguments, **named)

    module._new_process_group_helper = _new_process_group_helper
    if split:
        _replace(distributed, split_group)


def _carry_objects(distributed, rank):
    """Objects that one rank sends to another, such as stages of a pipeline. `memprof plan --rank all` keeps the objects
    of planned ranks in a folder. Without them, a rank receives the last object that it sent itself. If it has sent
    none, the object is unknown."""
    folder, sent, counts = os.environ.get("MEMPROF_PLAN_MESSAGES"), [], {}

    def path_of(source, to):
        number = counts[source, to] = counts.get((source, to), 0) + 1
        return pathlib.Path(folder, f"{source}-{to}-{number}")

    def other(group, member, group_member):
        return distributed.get_global_rank(group, group_member) if group_member is not None else member

    def send_object_list(objects, dst=None, group=None, device=None, group_dst=None, **named):
        sent[:] = [list(objects)]
        if folder:
            path_of(rank, other(group, dst, group_dst)).write_bytes(pickle.dumps(sent[0]))

    def recv_object_list(objects, src=None, group=None, device=None, group_src=None, **named):
        source = other(group, src, group_src)
        path = path_of(source, rank) if folder else None
        if path and path.exists():
            objects[:] = pickle.loads(path.read_bytes())
        elif sent and len(sent[0]) == len(objects):
            objects[:] = sent[0]
        else:
            raise RuntimeError(f"memprof: rank {rank} waits for an object that only rank {source} knows; "
                               "memprof plan --rank all plans both")
        return source

    _replace(distributed, send_object_list)
    _replace(distributed, recv_object_list)


def report_messages(distributed):
    """Reports to `memprof plan --rank all` which ranks get tensors of this one: the next stages of a pipeline."""
    folder, kind, told = os.environ.get("MEMPROF_PLAN_MESSAGES"), distributed.distributed_c10d.ProcessGroup, set()
    if not folder:
        return
    begin = kind.send

    def send(group, tensors, to, *arguments, **named):
        peer = distributed.get_process_group_ranks(group)[to]
        if peer not in told:
            told.add(peer)
            with open(pathlib.Path(folder, "peers"), "a") as file:
                file.write(f"{peer}\n")
        return begin(group, tensors, to, *arguments, **named)

    kind.send = send


def follow_stages(stage):
    """The next stage of a pipeline is not planned yet, but its gradients would have the shapes of this stage's
    outputs."""
    kind = stage.PipelineStage
    receive, send = getattr(kind, "_recv_meta", None), getattr(kind, "_send_meta", None)

    def _send_meta(self, meta, to):
        if to > self.stage_index:
            self._memprof_sent = meta.forward_metas
            send(self, meta, to)

    def _recv_meta(self, source):
        return receive(self, source) if source < self.stage_index else stage._StageBackwardMeta(self._memprof_sent)

    if receive:  # newer than 2.7
        kind._recv_meta, kind._send_meta = _recv_meta, _send_meta


def do_without_libuv(distributed):
    """Debian's PyTorch is built without libuv, but its torchrun asks for a store that needs libuv."""
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


def say_received():
    """Lists the caller's line: it gets a value that only another rank knows."""
    import libmemprof
    libmemprof.mark("plan: read back 0 received")


def _is_asked_by_program():
    """False if PyTorch itself asks, for the ids of its groups."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0] != "torch"


_stores = []


def Store(distributed, rank, world):
    """A store in this process: a key that another rank would set exists as soon as it is asked for. PyTorch's symmetric
    memory ends keys by the rank; values begin with the number of a device, which must be another for each rank."""
    kept = distributed.HashStore()

    class Alone(distributed.Store):
        def set(self, key, value):
            kept.set(key, value)

        def get(self, key):
            stem, _, other = key.rpartition("/")
            own = f"{stem}/{rank}"
            if not kept.check([key]) and other.isdigit() and kept.check([own]):
                value = kept.get(own)
                kept.set(key, value if len(value) < 16 else int(other).to_bytes(4, "little") + value[4:])
            elif not kept.check([key]):
                asked = _is_asked_by_program()
                kept.set(key, ("0" if asked else "\0") * 128)  # a number, or an id
                if asked:
                    say_received()
            return kept.get(key)

        def add(self, key, amount):
            """The program's other ranks add as much, once this one has its answer."""
            value = kept.add(key, amount)
            if amount and _is_asked_by_program():
                say_received()
                kept.add(key, amount * (world - 1))
            return value

        def wait(self, keys, timeout=None):
            return None

        def check(self, keys):
            return kept.check(keys)  # NCCL's monitor asks whether another rank has failed

        def delete_key(self, key):
            return kept.delete_key(key)

        def num_keys(self):
            return kept.num_keys()

    _stores.append(Alone())  # PyTorch holds the C++ half alone
    return _stores[-1]


def answer_objects(distributed, alone):
    """Collectives of Python objects over NCCL. Several processes exchange them through the group's store. With one
    process, the other ranks have this rank's objects."""
    said = []

    def exchange(call, own):
        return _exchange(distributed, call.get("group"), own, alone)

    def arrives(call, source=None):
        """`source`: the rank in the group that sends; None: all do."""
        group = call.get("group")
        if alone and source != distributed.get_rank(group) and distributed.get_world_size(group) > 1:
            say_received()

    def root(call):
        if call.get("group_src") is not None:
            return call["group_src"]
        return distributed.get_group_rank(call.get("group") or distributed.group.WORLD, call.get("src") or 0)

    def all_gather_object(call):
        arrives(call)
        call["object_list"][:] = exchange(call, call["obj"])

    def gather_object(call):
        theirs = exchange(call, call["obj"])
        if call.get("object_gather_list"):
            arrives(call)
            call["object_gather_list"][:] = theirs

    def broadcast_object_list(call):
        """Alone, another rank sends what this one sent before it."""
        arrives(call, root(call))
        own = not alone or root(call) == distributed.get_rank(call.get("group"))
        if own or len(said) != len(call["object_list"]):
            call["object_list"][:] = exchange(call, call["object_list"])[root(call)]
            said[:] = call["object_list"]
        else:
            call["object_list"][:] = said

    def scatter_object_list(call):
        arrives(call, root(call))
        given = exchange(call, call.get("scatter_object_input_list"))[root(call)]
        call["scatter_object_output_list"][0] = given[distributed.get_rank(call.get("group"))] if given else None

    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list):
        _answer(distributed, function)


_exchanges = {}  # of a group: how many there were


def _exchange(distributed, group, own, alone):
    """The objects of the group's ranks, in their order."""
    size, group = distributed.get_world_size(group), group or distributed.group.WORLD
    if alone or size == 1:
        return [own] * size
    store = distributed.distributed_c10d._world.pg_map[group][1]
    number = _exchanges[group] = _exchanges.get(group, 0) + 1
    store.set(f"memprof/{number}/{distributed.get_rank(group)}", pickle.dumps(own))
    return [pickle.loads(store.get(f"memprof/{number}/{rank}")) for rank in range(size)]


def _answer(distributed, function):
    """`function` takes its arguments by name."""
    real = getattr(distributed, function.__name__, None)
    if real is None:
        return

    @functools.wraps(real)
    def instead(*arguments, **named):
        call = inspect.signature(real).bind(*arguments, **named).arguments
        carries = "gloo" in distributed.get_backend(call.get("group"))  # the CPU's own collectives do send
        return real(*arguments, **named) if carries else function(call)

    _replace(distributed, instead)
