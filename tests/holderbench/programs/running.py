# Leaks by running, ended or waiting code, such as exceptions and generators. Labels as in containers.py.

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

#--- container-of-a-caller
# holder: main().runner.kept[*]
# kind: list | local
class Runner:
    def __init__(self):
        self.kept = []

    def run(self):
        for step in range(4):
            self.once(self.kept)

    def once(self, kept):
        kept.append(accuse(torch.zeros(200)))
        again = kept
        look()

def main():
    runner = Runner()
    runner.run()

main()

#--- container-that-only-a-parameter-names
# holder: fill().kept[*]
# kind: list | local
import functools

def decorated(function):
    @functools.wraps(function)
    def around(*arguments, **named):
        return function(*arguments, **named)
    return around

@decorated
def fill(kept):
    for _ in range(4):
        kept.append(accuse(torch.zeros(200)))
    inner(kept)

def inner(items):
    look()

def main():
    fill([])

main()

#--- local-of-a-running-generator
# holder: produce().batch
# kind: local
def produce():
    batch = accuse(torch.zeros(200))
    look()
    yield batch

def main():
    batches = produce()
    next(batches)

main()

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
