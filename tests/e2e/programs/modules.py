"""Allocates inside and outside of modules, and writes the module of each block by its own count.

    modules.py RECORD.json pool|tensors|driver|unasked
    modules.py RECORD.json halves MIDDLE [start | snapshot FILE]

Modules are plain classes, reported to the recorder as the PyTorch shim does. Blocks are of a pool of the C API; with
`tensors` they are PyTorch's, with `driver` CUDA's. With `unasked` the recorder does not ask for names. The record maps
addresses to a path, to null for none, or to a list of right answers. A forked child's record has the suffix `.child`.

`halves`: after the first half it writes the record so far to the file MIDDLE. The second half begins when MIDDLE.go
exists. In between, recording is started or a snapshot is taken.
"""
import asyncio
import ctypes
import json
import os
import sys
import threading
import time

ORDER = ["active", "start", "stop", "step", "region_push", "region_pop", "mark", "pool", "alloc", "free", "snapshot",
         "stats", "reset_peak", "release_cupti", "module_code", "module_name", "module_ask", "label", "torch_step"]
ASK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def bind():
    table_of = ctypes.CDLL(None).memprof_api_v1
    table_of.restype = ctypes.c_void_p
    table = table_of()
    held, released, pointer, text = ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE, ctypes.c_void_p, ctypes.c_char_p
    prototypes = {"pool": held(ctypes.c_uint32, text, ctypes.c_int), "alloc": held(None, ctypes.c_uint32, pointer,
                  ctypes.c_size_t), "module_code": held(None, ctypes.py_object), "module_name": held(None, pointer, text),
                  "module_ask": held(None, pointer, pointer), "label": held(None, pointer, ctypes.c_int, text),
                  "start": held(None), "snapshot": released(ctypes.c_int, text)}
    bound = {name: prototype(pointer.from_address(table + 8 * (ORDER.index(name) + 1)).value)
             for name, prototype in prototypes.items()}
    bound["alloc_without_gil"] = released(None, ctypes.c_uint32, pointer, ctypes.c_size_t)(
        pointer.from_address(table + 8 * (ORDER.index("alloc") + 1)).value)
    return bound


api = bind()
pool = api["pool"](b"tests", -1)
record, running, kept, paths = {}, threading.local(), [], {}
lock, next_address = threading.Lock(), 0x10000000
with_tensors = sys.argv[2] == "tensors"
if with_tensors:
    import torch
with_driver = sys.argv[2] == "driver"
if with_driver:
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)


def driver_memory():
    address = ctypes.c_uint64()
    assert not cuda.cuCtxSetCurrent(context) and not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
    return address.value



def name(module, path):
    paths[id(module)] = path
    api["module_name"](id(module), path.encode())


def forget(module):
    del paths[id(module)]
    api["module_name"](id(module), None)


def allocate(expected=None):
    """Allocates a block and notes its module: the innermost one on this thread's own list."""
    global next_address
    stack = getattr(running, "stack", [])
    with lock:
        next_address += 4096
        address = next_address
    if with_tensors:
        kept.append(torch.empty(4096))
        address = kept[-1].data_ptr()
    elif with_driver:
        address = driver_memory()
    else:
        api["alloc" if address & 4096 else "alloc_without_gil"](pool, address, 64)
    record[address] = expected if expected is not None else paths.get(stack[-1]) if stack else None


class Module:
    def __call__(self, then, *rest):
        stack = running.__dict__.setdefault("stack", [])
        stack.append(id(self))
        try:
            return self._call_impl(then, *rest)
        finally:
            stack.pop()

    def _call_impl(self, then, *rest):
        return then(*rest)


class Other(Module):
    def _call_impl(self, then, *rest):
        return [then(*rest) for _ in range(1)][0]


def ways(one, two):
    allocate()
    one(allocate)
    one(two, allocate)
    one(two, one, allocate)
    two(lambda: (allocate(), one(allocate), allocate()))
    sorted([1, 2], key=lambda x: one(lambda: allocate() or x))

    def deep(depth):
        allocate()
        (one if depth % 3 else two)(deep, depth - 1) if depth else None
    deep(60)

    def raising():
        allocate()
        try:
            two(lambda: one(lambda: {}["x"]))
        except KeyError:
            allocate()
        raise ValueError
    try:
        one(raising)
    except ValueError:
        allocate()

    def generator():
        while True:
            allocate()
            yield
    steps = generator()
    one(next, steps), two(next, steps), next(steps), one(two, next, steps)

    async def task(module):
        for _ in range(3):
            module(allocate)
            await asyncio.sleep(0)
            allocate()

    async def tasks():
        await asyncio.gather(*(task(module) for module in (one, two, one)))
    asyncio.run(tasks())


def many_threads(one, two):
    def work(number):
        mine = Module()
        name(mine, "Net.thread.%d" % number)
        for _ in range(20):
            mine(allocate)
            one(mine, two, allocate)
            allocate()
        forget(mine)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        one(thread.start)
    for thread in threads:
        two(thread.join)


def reused_addresses():
    """Modules are freed, and new ones get their addresses. New modules without names must not get the old names."""
    seen, reused = set(), 0
    for number in range(400):
        module = Module()
        reused += id(module) in seen
        seen.add(id(module))
        if number % 3:
            name(module, "Net.temporary.%d" % number)
        module(allocate)
        if number % 3:
            name(module, "Net.renamed.%d" % (number % 10))
            module(allocate)
            forget(module)
        module(allocate)
    assert reused > 100, reused


def long_names():
    module = Module()
    name(module, "Net." + "\u00e4" * 400)
    paths[id(module)] = "Net." + "\u00e4" * 254
    module(allocate)


def asked():
    """The recorder asks once for the names of unnamed modules, and knows them from then on."""
    calls, new = [], [Module() for _ in range(5)]

    def ask(_):
        calls.append(threading.current_thread() is threading.main_thread())
        for number, module in enumerate(new[:-1]):
            name(module, "Net.asked.%d" % number)
        return 0
    callback = ASK(ask)
    api["module_ask"](ctypes.cast(callback, ctypes.c_void_p), None)
    new[2](allocate, [None, "Net.asked.2"])
    for _ in range(100000):
        if calls:
            break
    for _ in range(3):
        for module in new:
            module(allocate)
    for _ in range(100000):
        pass
    before = len(calls)
    for _ in range(50):
        new[4](allocate)
    assert calls and all(calls) and before <= 2 and len(calls) == before, calls
    api["module_ask"](None, None)


def too_much():
    try:
        torch.empty(1 << 46)
    except RuntimeError:
        pass


def labels():
    """The last label of a block counts. Any address inside of a block names the block."""
    global next_address
    address = next_address + 4096
    next_address += 3 * 4096
    api["alloc"](pool, address, 4096)
    record[address] = None
    for place, role, said in ((0, 1, b"net.weight"), (4095, 2, b"net.grad"), (4096, 5, b"not of this block"),
                              (64, 2, b"net.grad"), (64, 77, b"no role")):
        api["label"](address + place, role, said)
        allocate()


def halves():
    one, two = Module(), Other()
    name(one, "Net.blocks.0.attn")
    name(two, "Net.blocks.1")
    ways(one, two)
    api["label"](min(record), 1, b"first.weight")
    api["label"](max(record), 2, b"last.grad")
    said = {min(record): ("parameter", "first.weight"), max(record): ("gradient", "last.grad")}
    middle, what = sys.argv[3], sys.argv[4:]
    with open(middle + ".new", "w") as file:
        json.dump({"modules": record, "labels": said}, file)
    os.rename(middle + ".new", middle)
    while not os.path.exists(middle + ".go"):
        time.sleep(0.01)
    if what[:1] == ["start"]:
        api["start"]()
    if what[:1] == ["snapshot"]:
        assert api["snapshot"](what[1].encode()) == 0
    ways(one, two)
    api["label"](max(record), 3, b"exp_avg")
    api["label"](min(record), 4, b"first.buffer")
    said.update({max(record): ("optimizer_state", "exp_avg"), min(record): ("buffer", "first.buffer")})
    with open(sys.argv[1], "w") as file:
        json.dump({"modules": record, "labels": said}, file)


def main():
    for kind in (Module, Other):
        api["module_code"](kind._call_impl.__code__)
    if sys.argv[2] == "halves":
        return halves()
    one, two = Module(), Other()
    one(allocate)  # nobody has a name yet
    name(one, "Net.blocks.0.attn")
    name(two, "Net.blocks.1")
    ways(one, two)
    many_threads(one, two)
    reused_addresses()
    long_names()
    if sys.argv[2] != "unasked":
        asked()
    if with_tensors:
        for module in (one, two):
            module(too_much)
    elif not with_driver:
        labels()
    child = os.fork() if not with_driver else None  # a child of one that uses CUDA cannot
    if child == 0:
        record.clear()
        ways(one, two)
        name(one, "Net.child")
        one(allocate)
    with open(sys.argv[1] + (".child" if child == 0 else ""), "w") as file:
        json.dump(record, file)
    if child == 0:
        os._exit(0)
    one(allocate)
    assert with_driver or os.waitpid(child, 0)[1] == 0
    with open(sys.argv[1], "w") as file:
        json.dump(record, file)


main()
