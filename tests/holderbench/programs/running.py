# Leaks of what runs, ran or waits: exceptions, threads, generators, cycles. As containers.py says.

#--- exception-in-a-list
# holder: errors[*]
# through: work(), batch
# kind: traceback
errors = []

def work(step):
    batch = accuse(torch.zeros(200))
    raise ValueError(step)

for step in range(6):
    try:
        work(step)
    except ValueError as error:
        errors.append(error)

#--- last-traceback
# holder: sys.last_traceback
# through: work(), batch
# kind: traceback
import sys

def work():
    batch = accuse(torch.zeros(200))
    raise ValueError

try:
    work()
except ValueError as error:
    sys.last_traceback = error.__traceback__

#--- exception-of-a-running-handler
# holder: main().error
# through: work(), batch
# kind: traceback
def work():
    batch = accuse(torch.zeros(200))
    raise ValueError

def main():
    try:
        work()
    except ValueError as error:
        look()

main()

#--- cause-of-an-exception
# holder: failure.__cause__
# through: work(), batch
# kind: traceback
def work():
    batch = accuse(torch.zeros(200))
    raise ValueError

failure = None
try:
    try:
        work()
    except ValueError as error:
        raise RuntimeError("again") from error
except RuntimeError as error:
    failure = error.with_traceback(None)

#--- generator
# holder: batches
# through: load(), batch
# kind: local
def load():
    while True:
        batch = accuse(torch.zeros(200))
        yield 1

batches = load()
next(batches)

#--- coroutine
# holder: pending[*]
# through: fetch(), batch
# kind: local
import types

@types.coroutine
def wait():
    yield

async def fetch():
    batch = accuse(torch.zeros(200))
    await wait()

pending = [fetch() for _ in range(4)]
for one in pending:
    one.send(None)
del one

#--- thread-local-variable
# holder: worker().batch
# kind: thread
import threading
ready, go_on = threading.Event(), threading.Event()

def worker():
    batch = accuse(torch.zeros(200))
    ready.set()
    go_on.wait()

thread = threading.Thread(target=worker, daemon=True)
thread.start()
ready.wait()
look()
go_on.set()
thread.join()

#--- thread-arguments
# holder: worker().values[*]
# kind: thread
import threading
ready, go_on = threading.Event(), threading.Event()

def worker(values):
    ready.set()
    go_on.wait()

def start():
    thread = threading.Thread(target=worker, args=([accuse(torch.zeros(200)) for _ in range(4)],), daemon=True)
    thread.start()

start()
ready.wait()
look()
go_on.set()

#--- threading-local
# holder: store.values[*]
# kind: thread
import threading
store = threading.local()
store.values = [accuse(torch.zeros(200)) for _ in range(5)]

#--- cycle-not-collected
# holder: a cycle
# kind: unknown
import gc
gc.disable()

class Node:
    pass

for step in range(5):
    node = Node()
    node.self, node.value = node, accuse(torch.zeros(200))
del node

#--- cycle-of-two-with-del
# holder: a cycle
# kind: unknown
import gc
gc.disable()

class Owner:
    def __del__(self):
        pass

for step in range(5):
    left, right = Owner(), Owner()
    left.other, right.other, left.batch = right, left, accuse(torch.zeros(200))
del left, right

#--- object-with-del-in-a-list
# holder: owners[*].batch
# kind: list
class Owner:
    def __init__(self):
        self.batch = accuse(torch.zeros(200))

    def __del__(self):
        pass

owners = [Owner() for _ in range(5)]

#--- finalizer-arguments
# holder: weakref.finalize
# kind: dict
import weakref

class Batch:
    pass

alive = Batch()
weakref.finalize(alive, print, accuse(torch.zeros(200))).atexit = False

#--- leaked-reference
# holder: native code
# kind: native
import ctypes
for step in range(4):
    lost = accuse(torch.zeros(200))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
del lost

#--- iterator
# holder: left
# kind: list
left = iter([accuse(torch.zeros(200)) for _ in range(5)])
next(left)
left.__reduce__()

#--- log-records
# holder: log.handlers
# through: buffer
# kind: list
import logging, logging.handlers
log = logging.getLogger("train-of-holders")
log.propagate = False
log.addHandler(logging.handlers.MemoryHandler(1000, flushLevel=100))
for step in range(5):
    log.warning("loss %s", accuse(torch.zeros(200)))
