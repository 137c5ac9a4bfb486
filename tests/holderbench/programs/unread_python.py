# Leaks of Python: what programs, their frameworks and the library keep. Written as those of unread.py were, later, by
# somebody else: labels before the first run, the code that finds holders not read. As in containers.py. Where a label
# names several ways, each is one that a person would call right.

#--- classes-of-a-metaclass
# holder: Registry.classes[*].table | LayerMeta.classes[*].table
# kind: list | attribute | dict
class LayerMeta(type):
    classes = []

    def __init__(cls, name, bases, members):
        super().__init__(name, bases, members)
        LayerMeta.classes.append(cls)

def define(index):
    LayerMeta(f"Layer{index}", (), {"table": accuse(torch.zeros(200))})

for index in range(6):
    define(index)

#--- data-classes-with-slots
# holder: history[*].loss
# kind: list | attribute
import dataclasses

@dataclasses.dataclass(slots=True)
class Record:
    step: int
    loss: object

history = []
for step in range(9):
    history.append(Record(step, accuse(torch.zeros(200))))

#--- default-of-a-data-class
# holder: Settings.mask | Settings.__dataclass_fields__['mask'] | Settings.__init__.mask
# kind: attribute | default | dict
import dataclasses

@dataclasses.dataclass(eq=False)
class Settings:
    mask: object = accuse(torch.zeros(300))
    rate: float = 0.1

#--- filter-of-a-logger
# holder: log.filters[*].seen[*]
# kind: list
import logging

class Remember(logging.Filter):
    def __init__(self):
        super().__init__()
        self.seen = []

    def filter(self, record):
        self.seen.append(record.args)
        return False

log = logging.Logger("strangers")
log.addFilter(Remember())
for step in range(7):
    log.warning("loss %s", accuse(torch.zeros(200)))

#--- results-of-fixtures
# holder: session.fixtures[*].cached_result[*]
# kind: list | dict | attribute
class Fixture:
    def __init__(self, function):
        self.function, self.cached_result = function, None

    def execute(self, request):
        if self.cached_result is None:
            self.cached_result = (self.function(), request, None)
        return self.cached_result[0]

class Session:
    fixtures = None

session = Session()
session.fixtures = {name: Fixture(lambda: accuse(torch.zeros(200))) for name in ("model", "batch", "labels", "masks")}
for name in session.fixtures:
    session.fixtures[name].execute(name)

#--- rows-of-arrays-over-tensors
# holder: rows[*]
# kind: list
rows = []
for step in range(9):
    rows.append(accuse(torch.zeros(20, 20)).numpy()[0])

#--- cache-with-tensors-as-arguments
# holder: norm
# kind: cache
import functools

@functools.lru_cache(maxsize=128)
def norm(batch):
    return float(batch.norm())

for step in range(9):
    norm(accuse(torch.zeros(200)))

#--- weak-dictionary-whose-values-hold-the-keys
# holder: notes
# kind: dict
import weakref
notes = weakref.WeakKeyDictionary()

class Model:
    pass

class Note:
    def __init__(self, model):
        self.model, self.summary = model, accuse(torch.zeros(200))

def annotate():
    model = Model()
    notes[model] = Note(model)

for step in range(6):
    annotate()

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

#--- priority-queue
# holder: inbox.queue[*][*]
# kind: list
import queue
inbox = queue.PriorityQueue()
for step in range(9):
    inbox.put((-step, step, accuse(torch.zeros(200))))

#--- keys-of-a-comparison
# holder: ranked[*]
# kind: list | attribute
import functools, heapq
rank = functools.cmp_to_key(lambda left, right: float(left.sum() - right.sum()))
ranked = []
for step in range(9):
    heapq.heappush(ranked, rank(accuse(torch.zeros(200))))

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

#--- bound-arguments
# holder: calls[*].arguments['batch']
# kind: list | dict
import inspect
calls = []

def train(batch, rate=0.1):
    return batch.sum() * rate

def traced(*arguments):
    calls.append(inspect.signature(train).bind(*arguments))
    return train(*arguments)

for step in range(7):
    traced(accuse(torch.zeros(200)))

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

#--- search-tree-with-parents
# holder: root
# through: children, state
# kind: list | attribute | dict
class Node:
    def __init__(self, parent, state):
        self.parent, self.state, self.children = parent, state, {}

root = Node(None, torch.zeros(1))
for move in range(3):
    child = root.children[move] = Node(root, accuse(torch.zeros(200)))
    for answer in range(3):
        child.children[answer] = Node(child, accuse(torch.zeros(200)))
del child

#--- services-of-an-application
# holder: app.services['trainer'].callbacks[*].state.outputs[*]
# kind: list
import types

class Callback:
    def __init__(self):
        self.state = types.SimpleNamespace(outputs=[], epoch=0)

    def on_batch_end(self, output):
        self.state.outputs.append(output)

class Trainer:
    def __init__(self):
        self.callbacks = [Callback()]

class Application:
    def __init__(self):
        self.services = {"trainer": Trainer(), "log": None}

app = Application()
for step in range(9):
    app.services["trainer"].callbacks[0].on_batch_end(accuse(torch.zeros(200)))

#--- events-with-listeners
# holder: bus.listeners['batch'][*]
# through: batches
# kind: closure
class Bus:
    def __init__(self):
        self.listeners = {}

    def on(self, event, listener):
        self.listeners.setdefault(event, []).append(listener)

    def emit(self, event, value):
        for listener in self.listeners[event]:
            listener(value)

bus = Bus()

def watch():
    batches = []
    bus.on("batch", lambda value: batches.append(value))

watch()
for step in range(7):
    bus.emit("batch", accuse(torch.zeros(200)))

#--- context-of-an-exception
# holder: failure.__context__
# through: load(), batch
# kind: traceback
def load():
    batch = accuse(torch.zeros(200))
    raise KeyError("file")

def run():
    try:
        load()
    except KeyError:
        raise RuntimeError("no data")

try:
    run()
except RuntimeError as error:
    failure = error

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

#--- unraisable-errors
# holder: unraisable[*]
# through: batch
# kind: traceback
import sys
unraisable, before = [], sys.unraisablehook
sys.unraisablehook = unraisable.append
cleanup(lambda: setattr(sys, "unraisablehook", before))

class Owner:
    def __init__(self):
        self.batch = accuse(torch.zeros(200))

    def __del__(self):
        raise ValueError

for step in range(4):
    Owner()

#--- crashes-of-threads
# holder: crashes[*]
# through: worker(), batch
# kind: traceback
import threading
crashes, before = [], threading.excepthook
threading.excepthook = crashes.append
cleanup(lambda: setattr(threading, "excepthook", before))

def worker():
    batch = accuse(torch.zeros(200))
    raise ValueError

for step in range(3):
    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
del thread

#--- hook-for-exceptions
# holder: sys.excepthook
# through: recent
# kind: closure
import sys
before = sys.excepthook
cleanup(lambda: setattr(sys, "excepthook", before))

def install():
    recent = [accuse(torch.zeros(200)) for _ in range(5)]

    def hook(kind, value, trace):
        print(len(recent))
    sys.excepthook = hook

install()

#--- trace-function-for-threads
# holder: threading._trace_hook
# through: arguments
# kind: list | attribute
import threading

class Tracer:
    def __init__(self):
        self.arguments = [accuse(torch.zeros(200)) for _ in range(5)]

    def trace(self, frame, event, argument):
        return None

threading.settrace(Tracer().trace)
cleanup(lambda: threading.settrace(None))

#--- callbacks-of-the-collector
# holder: gc.callbacks[*]
# through: snapshots
# kind: list | closure
import gc

def probe():
    snapshots = [accuse(torch.zeros(200)) for _ in range(4)]

    def when(phase, info):
        snapshots.reverse()
    gc.callbacks.append(when)
    cleanup(lambda: gc.callbacks.clear())

probe()

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

#--- calls-of-a-loop-for-later
# holder: loop._scheduled[*]
# kind: list
import asyncio
loop = asyncio.new_event_loop()
for step in range(6):
    loop.call_later(3600, id, accuse(torch.zeros(200)))
cleanup(loop.close)

#--- results-of-finished-tasks
# holder: finished[*]
# kind: list | attribute
import asyncio
finished = []

async def predict():
    return accuse(torch.zeros(200))

async def serve():
    for request in range(5):
        finished.append(asyncio.ensure_future(predict()))
        await finished[-1]

asyncio.run(serve())

#--- callbacks-of-a-future-that-waits
# holder: answer
# kind: list | attribute | closure | dict
import asyncio, functools
loop = asyncio.new_event_loop()
answer = loop.create_future()
for step in range(5):
    answer.add_done_callback(functools.partial(id, accuse(torch.zeros(200))))
cleanup(loop.close)

#--- answers-of-a-pool-of-threads
# holder: answers[*]._value
# kind: list | attribute
import multiprocessing.pool
pool = multiprocessing.pool.ThreadPool(2)
answers = [pool.apply_async(lambda: accuse(torch.zeros(200))) for _ in range(6)]
for answer in answers:
    answer.wait()
del answer
pool.close()
pool.join()

#--- last-item-of-a-consumer
# holder: consume().item
# kind: thread
import queue, threading
work, done = queue.Queue(), queue.Queue()

def consume():
    while True:
        item = work.get()
        if item is None:
            return
        done.put(item.sum().item())

thread = threading.Thread(target=consume)
thread.start()

def produce():
    work.put(accuse(torch.zeros(200)))
    done.get()

produce()
look()
work.put(None)
thread.join()

#--- caller-in-a-pool
# holder: predict().batch
# kind: thread | local
import concurrent.futures, threading
ready, go_on = threading.Event(), threading.Event()
executor = concurrent.futures.ThreadPoolExecutor(1)

def pause():
    ready.set()
    go_on.wait()

def predict():
    batch = accuse(torch.zeros(200))
    pause()
    return float(batch.sum())

future = executor.submit(predict)
ready.wait()
look()
go_on.set()
executor.shutdown()

#--- threads-that-never-started
# holder: threads[*]._args[*]
# kind: list | thread
import threading
threads = []
for step in range(5):
    threads.append(threading.Thread(target=id, args=(accuse(torch.zeros(200)),)))

#--- function-for-c
# holder: callback
# through: last
# kind: closure | list | native | attribute | dict
import ctypes

def make():
    last = [accuse(torch.zeros(200)) for _ in range(4)]
    return ctypes.CFUNCTYPE(ctypes.c_int)(lambda: len(last))

callback = make()

#--- function-in-a-database
# holder: native code | connection
# kind: native | closure | list
import sqlite3
connection = sqlite3.connect(":memory:")

def install():
    table = [accuse(torch.zeros(200)) for _ in range(4)]
    connection.create_function("score", 1, lambda key: float(table[key].sum()))

install()
cleanup(connection.close)

#--- reducers-of-copyreg
# holder: copyreg.dispatch_table[*]
# through: pool
# kind: closure
import copyreg

class Handle:
    pass

def install():
    pool = [accuse(torch.zeros(200)) for _ in range(4)]
    copyreg.pickle(Handle, lambda handle: (pool.pop, ()))

install()
cleanup(lambda kind=Handle: copyreg.dispatch_table.pop(kind))

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

#--- tensors-of-test-cases
# holder: suite._tests[*].batch
# kind: list
import unittest

class Case(unittest.TestCase):
    def setUp(self):
        self.batch = accuse(torch.zeros(200))

    def runTest(self):
        pass

class Suite(unittest.TestSuite):
    def _removeTestAtIndex(self, index):
        pass

suite = Suite(Case() for _ in range(5))
suite.run(unittest.TestResult())
