# Leaks of Python: what programs, their frameworks and the library keep. Written as those of unread.py were, later, by
# somebody else: labels before the first run, the code that finds holders not read. As in containers.py. Where a label
# names several ways, each is one that a person would call right.

#--- cache-with-tensors-as-arguments
# holder: norm
# kind: cache
import functools

@functools.lru_cache(maxsize=128)
def norm(batch):
    return float(batch.norm())

for step in range(9):
    norm(accuse(torch.zeros(200)))

#--- view-of-a-dictionary
# holder: values
# kind: dict | list
def load():
    cache = {}
    for key in range(7):
        cache[key] = accuse(torch.zeros(200))
    return cache.values()

values = load()

#--- read-only-mapping
# holder: constants[*]
# kind: dict
import types
constants = types.MappingProxyType({name: accuse(torch.zeros(200)) for name in ("mean", "deviation", "mask", "weights")})

#--- simple-queue
# holder: inbox
# kind: list | native
import queue
inbox = queue.SimpleQueue()
for step in range(9):
    inbox.put((step, accuse(torch.zeros(200))))

#--- slices-with-tensors
# holder: windows[*]
# kind: list | attribute
windows = []
for step in range(6):
    windows.append(slice(accuse(torch.zeros(200)), None))

#--- memo-of-copies
# holder: memo[*]
# kind: dict
import copy
memo = {}
for step in range(6):
    accuse(copy.deepcopy(torch.zeros(200), memo))

#--- memo-of-a-pickler
# holder: native code | pickler
# kind: native | dict | list | attribute
import io, pickle
pickler = pickle.Pickler(io.BytesIO())

class Sample:
    def __init__(self):
        self.image = accuse(torch.zeros(200))

for step in range(6):
    pickler.dump(Sample())

#--- property-with-a-default
# holder: Model.mask
# kind: default | attribute | closure
def add_mask(kind):
    kind.mask = property(lambda self, mask=accuse(torch.zeros(300)): mask)

class Model:
    pass

add_mask(Model)

#--- globals-of-a-plugin
# holder: handlers[*]
# through: table
# kind: dict | attribute | list
handlers = []

def load_plugin():
    namespace = {"make": lambda: accuse(torch.zeros(200))}
    exec("table = make()\ndef handle(key):\n    return table[key]\n", namespace)
    handlers.append(namespace["handle"])

for plugin in range(4):
    load_plugin()

#--- collector-by-send
# holder: sink
# through: collector(), received
# kind: local
def collector():
    received = []
    while True:
        received.append((yield))

sink = collector()
next(sink)
for step in range(8):
    sink.send(accuse(torch.zeros(200)))

#--- numbered-generator
# holder: steps
# through: load(), batch
# kind: local
def load():
    for _ in range(4):
        batch = accuse(torch.zeros(200))
        yield batch.sum()

steps = enumerate(load())
next(steps)

#--- running-totals
# holder: totals
# kind: attribute | list
import itertools
totals = itertools.accumulate(torch.full((200,), float(step)) for step in range(9))
for step in range(3):
    total = next(totals)
accuse(total)
del total

#--- names-made-by-number
# holder: activation_0 | activation_1 | activation_2
# kind: attribute
for layer in range(3):
    globals()[f"activation_{layer}"] = accuse(torch.zeros(200))

#--- group-of-exceptions
# holder: failure.exceptions[*]
# through: shard(), part
# kind: traceback
def shard(index):
    part = accuse(torch.zeros(200))
    raise ValueError(index)

def run():
    failed = []
    for index in range(4):
        try:
            shard(index)
        except ValueError as error:
            failed.append(error)
    raise ExceptionGroup("shards", failed)

try:
    run()
except ExceptionGroup as group:
    failure = group.with_traceback(None)

#--- arguments-of-exceptions
# holder: errors[*].args[*]
# kind: list
errors = []

def check(value):
    raise ValueError("not finite", value)

for step in range(6):
    try:
        check(accuse(torch.full((200,), float("inf"))))
    except ValueError as error:
        errors.append(error.with_traceback(None))

#--- object-of-an-attribute-error
# holder: errors[*].obj
# kind: list | attribute
errors = []
for step in range(6):
    try:
        accuse(torch.zeros(200)).nmupy
    except AttributeError as error:
        errors.append(error.with_traceback(None))

#--- error-that-keeps-itself
# holder: a cycle
# kind: unknown | traceback
import gc
gc.collect()
gc.disable()

def step():
    batch = accuse(torch.zeros(200))
    try:
        raise ValueError
    except ValueError as error:
        failure = error

for _ in range(5):
    step()

#--- functions-at-fork
# holder: native code | os.register_at_fork
# kind: native | closure | list
import os

def install():
    state = accuse(torch.zeros(200))
    os.register_at_fork(after_in_child=lambda: len(state))

install()

#--- finalizers-of-multiprocessing
# holder: multiprocessing.util._finalizer_registry[*]
# kind: dict | list
import multiprocessing.util
for step in range(5):
    multiprocessing.util.Finalize(None, id, args=(accuse(torch.zeros(200)),), exitpriority=1)
cleanup(multiprocessing.util._finalizer_registry.clear)

#--- scheduled-events
# holder: agenda._queue[*].argument[*]
# kind: list
import sched
agenda = sched.scheduler()
for step in range(6):
    agenda.enter(3600, 1, id, (accuse(torch.zeros(200)),))

#--- callbacks-of-a-future-that-waits
# holder: answer
# kind: list | attribute | closure | dict
import asyncio, functools
loop = asyncio.new_event_loop()
answer = loop.create_future()
for step in range(5):
    answer.add_done_callback(functools.partial(id, accuse(torch.zeros(200))))
cleanup(loop.close)

#--- function-for-c
# holder: callback
# through: last
# kind: closure | list | native | attribute | dict
import ctypes

def make():
    last = [accuse(torch.zeros(200)) for _ in range(4)]
    return ctypes.CFUNCTYPE(ctypes.c_int)(lambda: len(last))

callback = make()

#--- registry-of-a-generic-function
# holder: encode
# through: codebook
# kind: closure | dict
import functools

@functools.singledispatch
def encode(value):
    return value

def install():
    codebook = {size: accuse(torch.zeros(size)) for size in (200, 300, 400)}
    encode.register(int, lambda value: codebook[value])

install()

#--- data-of-a-selector
# holder: selector._fd_to_key[*].data
# kind: dict | list | attribute
import selectors, socket
selector = selectors.DefaultSelector()
ends = [socket.socketpair() for _ in range(3)]
for left, right in ends:
    selector.register(left, selectors.EVENT_READ, accuse(torch.zeros(200)))

def close(selector=selector, ends=ends):
    selector.close()
    for pair in ends:
        for end in pair:
            end.close()

cleanup(close)

#--- calls-until-a-value
# holder: feed
# through: buffer
# kind: list | attribute
class Reader:
    def __init__(self):
        self.buffer = [accuse(torch.zeros(200)) for _ in range(6)]

    def read(self):
        return len(self.buffer)

feed = iter(Reader().read, 0)
next(feed)
