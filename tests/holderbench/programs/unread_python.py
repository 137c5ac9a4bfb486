# Leaks of Python: objects kept by programs, frameworks and the library. Written later by another person in the same way
# as unread.py: labels before the first run, without reading the code that finds holders. Labels as in containers.py.
# Where a label names several ways, a person would call each of them right.

#--- cache-with-tensors-as-arguments
# holder: norm
# kind: cache
import functools

@functools.lru_cache(maxsize=128)
def norm(batch):
    return float(batch.norm())

for step in range(9):
    norm(accuse(torch.zeros(200)))

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

#--- scheduled-events
# holder: agenda._queue[*].argument[*]
# kind: list
import sched
agenda = sched.scheduler()
for step in range(6):
    agenda.enter(3600, 1, id, (accuse(torch.zeros(200)),))

#--- function-for-c
# holder: callback
# through: last
# kind: closure | list | native | attribute | dict
import ctypes

def make():
    last = [accuse(torch.zeros(200)) for _ in range(4)]
    return ctypes.CFUNCTYPE(ctypes.c_int)(lambda: len(last))

callback = make()

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
