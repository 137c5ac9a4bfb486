# Leaks whose labels were written by somebody who had not read the code that finds holders, nor seen it run on them. As
# in containers.py. Where a label names several ways, each is one that a person would call right.

#--- contexts-kept
# holder: contexts[*]
# through: extra
# kind: list | graph | attribute
contexts = []

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.extra = accuse(torch.zeros(200))
        contexts.append(ctx)
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

for step in range(9):
    Scale.apply(torch.zeros(3, requires_grad=True))

#--- list-in-a-context
# holder: curve[*].grad_fn
# through: intermediates
# kind: graph
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.intermediates = [accuse(torch.zeros(200))]
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

curve = []
weight = torch.zeros(3, requires_grad=True)
for step in range(9):
    curve.append(Scale.apply(weight).sum())

#--- parameter-list
# holder: bank
# kind: attribute | list | dict
bank = torch.nn.ParameterList()
for step in range(9):
    bank.append(torch.nn.Parameter(accuse(torch.zeros(200))))

#--- modules-in-a-module-dict
# holder: heads
# through: weight
# kind: attribute | list | dict
heads = torch.nn.ModuleDict()
for step in range(9):
    heads[f"task{step}"] = torch.nn.Linear(20, 10)
    accuse(heads[f"task{step}"].weight)

#--- copies-of-the-average
# holder: averages[*]
# through: weight
# kind: list
import copy
averages = []
model = torch.nn.Linear(20, 10)
for epoch in range(9):
    averages.append(copy.deepcopy(model))
    accuse(averages[-1].weight)

#--- full-backward-hook
# holder: model
# through: _backward_hooks, kept
# kind: hook
def watch(layer):
    kept = []
    def hook(module, inputs, outputs):
        kept.append(accuse(outputs[0].clone()))
    layer.register_full_backward_hook(hook)

model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Tanh())
watch(model[0])
for step in range(9):
    model(torch.ones(10, 20, requires_grad=True)).sum().backward()

#--- pre-hook-of-a-tracker
# holder: model
# through: _forward_pre_hooks, inputs
# kind: hook
class Tracker:
    def __init__(self, module):
        self.inputs = []
        module.register_forward_pre_hook(self.note)

    def note(self, module, arguments):
        self.inputs.append(accuse(arguments[0].clone()))

model = torch.nn.Linear(20, 20)
Tracker(model)
for step in range(9):
    model(torch.ones(10, 20))

#--- state-dict-hook
# holder: model._state_dict_hooks[*]
# through: copies
# kind: hook
def remember(module):
    copies = []
    def hook(module, state, prefix, metadata):
        copies.append(accuse(module.weight.detach().clone()))
    module._register_state_dict_hook(hook)

model = torch.nn.Linear(20, 20)
remember(model)
for step in range(9):
    model.state_dict()

#--- closure-in-a-scheduler
# holder: scheduler.lr_lambdas[*]
# through: kept
# kind: closure
def decay():
    kept = []
    def factor(epoch):
        kept.append(accuse(torch.zeros(200)))
        return 1 / len(kept)
    return factor

optimizer = torch.optim.SGD([torch.zeros(3, requires_grad=True)], lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, decay())
for epoch in range(9):
    optimizer.step()
    scheduler.step()

#--- hook-of-a-gradient-accumulator
# holder: accumulators[*]
# through: kept
# kind: hook
accumulators = []
weights = [torch.zeros(200, requires_grad=True) for _ in range(3)]

def reduce(weight):
    kept = []
    node = weight.expand_as(weight).grad_fn.next_functions[0][0]
    node.register_hook(lambda *unused: kept.append(accuse(torch.zeros(200))))
    accumulators.append(node)

for weight in weights:
    reduce(weight)
for step in range(4):
    sum(weight.sum() for weight in weights).backward()

#--- fast-weights
# holder: fast
# through: grad_fn, _saved_
# kind: graph
weight = torch.ones(200, requires_grad=True)
fast = weight
for step in range(9):
    batch = accuse(torch.full((200,), 1.5))
    loss = (fast * batch).pow(2).sum()
    gradient, = torch.autograd.grad(loss, fast, create_graph=True)
    fast = fast - 0.1 * gradient
    del batch, loss, gradient

#--- packed-into-a-store
# holder: store[*]
# kind: dict
store = {}

def pack(value):
    store[len(store)] = accuse(value.clone())
    return len(store) - 1

weight = torch.ones(200, requires_grad=True)
for step in range(9):
    with torch.autograd.graph.saved_tensors_hooks(pack, store.get):
        loss = (weight * 2).exp().sum()
    loss.backward()
del loss

#--- sparse-values
# holder: masks[*]
# kind: list
masks = []
for step in range(9):
    values = accuse(torch.ones(200))
    masks.append(torch.sparse_coo_tensor(torch.arange(200).reshape(1, 200), values, (300,)))
del values

#--- distributions
# holder: policies[*]
# through: loc
# kind: list
policies = []
for step in range(9):
    policies.append(torch.distributions.Normal(accuse(torch.zeros(200)), torch.ones(200)))

#--- hook-of-a-node
# holder: losses[*].grad_fn
# through: kept
# kind: hook | graph
losses = []
weight = torch.ones(200, requires_grad=True)

def penalty():
    kept = accuse(torch.ones(200))
    loss = (weight * 2).sum()
    loss.grad_fn.register_hook(lambda inputs, outputs: (kept.sum() * inputs[0],))
    return loss

for step in range(9):
    losses.append(penalty())

#--- metadata-of-a-node
# holder: losses[*].grad_fn
# through: metadata
# kind: graph | dict
losses = []
weight = torch.ones(200, requires_grad=True)
for step in range(9):
    loss = (weight * 2).sum()
    loss.grad_fn.metadata["batch"] = accuse(torch.ones(200))
    losses.append(loss)
del loss

#--- buffer-with-history
# holder: model.running
# through: grad_fn, _saved_
# kind: graph
class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(()))
        self.scale = torch.nn.Parameter(torch.ones(200))

    def forward(self, value):
        self.running = 0.9 * self.running + 0.1 * (value * self.scale).mean()
        return value

model = Norm()
for step in range(9):
    model(accuse(torch.ones(200)))

#--- meters
# holder: meters['loss'].sum
# through: grad_fn, _saved_
# kind: graph
class Meter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value):
        self.sum, self.count = self.sum + value, self.count + 1

meters = {"loss": Meter(), "time": Meter()}
weight = torch.ones(200, requires_grad=True)
for step in range(9):
    batch = accuse(torch.ones(200))
    meters["loss"].update((weight * batch).mean())
    meters["time"].update(0.1)
del batch

#--- memory-of-an-optimizer
# holder: optimizer.state[*]['old_dirs'][*]
# kind: list | dict
weight = torch.ones(200, requires_grad=True)
optimizer = torch.optim.LBFGS([weight], max_iter=8, lr=0.1)

def closure():
    optimizer.zero_grad()
    loss = (weight ** 4).sum() + (weight * torch.arange(200.)).pow(2).sum()
    loss.backward()
    return loss

for step in range(2):
    optimizer.step(closure)
for direction in optimizer.state[weight]["old_dirs"]:
    accuse(direction)
del direction

#--- averaged-model
# holder: swa
# through: module, weight
# kind: attribute
model = torch.nn.Linear(20, 10)
swa = torch.optim.swa_utils.AveragedModel(model)
accuse(swa.module.weight)

#--- cache-in-a-parametrization
# holder: layer.parametrizations
# through: weight, seen
# kind: list
import torch.nn.utils.parametrize

class Remember(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, weight):
        self.seen.append(accuse(weight.detach().clone()))
        return weight

layer = torch.nn.Linear(20, 10)
torch.nn.utils.parametrize.register_parametrization(layer, "weight", Remember())
for step in range(9):
    layer(torch.ones(1, 20))

#--- defaultdict-of-lists
# holder: by_label[*][*]
# kind: list
import collections
by_label = collections.defaultdict(list)
for step in range(12):
    by_label[step % 3].append(accuse(torch.zeros(200)))

#--- ordered-cache
# holder: recent[*]
# kind: dict
import collections
recent = collections.OrderedDict()
for step in range(12):
    recent[step] = accuse(torch.zeros(200))

#--- chain-of-maps
# holder: settings.maps[*][*]
# kind: dict
import collections
settings = collections.ChainMap({}, {"a": 1})
for step in range(12):
    settings[f"mask{step}"] = accuse(torch.zeros(200))

#--- heap
# holder: best[*][*]
# kind: list
import heapq
best = []
for step in range(12):
    heapq.heappush(best, (step % 5, step, accuse(torch.zeros(200))))

#--- objects-in-an-array
# holder: episodes[*]
# kind: list
import numpy
episodes = numpy.empty(12, dtype=object)
for step in range(12):
    episodes[step] = accuse(torch.zeros(200))

#--- tee
# holder: later
# kind: list
import itertools
now, later = itertools.tee(accuse(torch.zeros(200)) for step in range(12))
for batch in now:
    pass
del now, batch

#--- partials-with-keywords
# holder: jobs[*]
# through: mask
# kind: list | closure | dict
import functools
jobs = []
for step in range(12):
    jobs.append(functools.partial(print, mask=accuse(torch.zeros(200))))

#--- cache-of-a-static-method
# holder: Tokens.embed
# kind: cache
import functools

class Tokens:
    @staticmethod
    @functools.lru_cache(maxsize=None)
    def embed(word):
        return accuse(torch.zeros(200))

for step in range(12):
    Tokens.embed(step)

#--- cache-made-by-a-constructor
# holder: model.lookup
# kind: cache
import functools

class Model:
    def __init__(self):
        self.lookup = functools.lru_cache(maxsize=None)(self._lookup)

    def _lookup(self, key):
        return accuse(torch.zeros(200))

model = Model()
for step in range(12):
    model.lookup(step)

#--- at-exit
# holder: atexit | native code
# kind: native | attribute | list | closure
import atexit

class Writer:
    def __init__(self):
        self.pending = accuse(torch.zeros(200))
        atexit.register(self.flush)
        cleanup(lambda flush=__import__("weakref").ref(self): flush() and atexit.unregister(flush().flush))

    def flush(self):
        pass

Writer()

#--- callback-of-a-weak-reference
# holder: watchers[*]
# kind: list | closure
import functools, weakref

class Node:
    pass

nodes, watchers = [], []
for step in range(9):
    nodes.append(Node())
    watchers.append(weakref.ref(nodes[-1], functools.partial(lambda kept, dead: None, accuse(torch.zeros(200)))))

#--- weak-cache-beside-the-holder
# holder: alive[*].embedding
# kind: list
import weakref

class Word:
    pass

cache, alive = weakref.WeakValueDictionary(), []
for step in range(9):
    word = Word()
    word.embedding = accuse(torch.zeros(200))
    cache[step] = word
    alive.append(word)
del word

#--- namespace
# holder: state.window[*]
# kind: list
import types
state = types.SimpleNamespace(window=[], size=3)
for step in range(9):
    state.window.append(accuse(torch.zeros(200)))

#--- attribute-of-another-library
# holder: torch.debug_outputs[*]
# kind: list
torch.debug_outputs = []
cleanup(lambda library=torch: delattr(library, "debug_outputs"))
for step in range(9):
    torch.debug_outputs.append(accuse(torch.zeros(200)))

#--- builtin-name
# holder: builtins.last_batch
# kind: attribute
import builtins
builtins.last_batch = accuse(torch.zeros(200))
cleanup(lambda library=builtins: delattr(library, "last_batch"))

#--- descriptor
# holder: Model.state.values[*]
# kind: dict
class Cached:
    def __init__(self):
        self.values = {}

    def __get__(self, instance, owner):
        if instance is None:
            raise RuntimeError("the class has none")
        return self.values.setdefault(instance.number, accuse(torch.zeros(200)))

class Model:
    state = Cached()

    def __init__(self, number):
        self.number = number

for step in range(9):
    Model(step).state

#--- singletons
# holder: Singleton.instances[*].table
# kind: dict
class Singleton(type):
    instances = {}

    def __call__(cls, *arguments):
        return Singleton.instances.setdefault((cls, arguments), super().__call__(*arguments))

class Table(metaclass=Singleton):
    def __init__(self, size):
        self.table = accuse(torch.zeros(size))

for step in range(9):
    Table(200 + step)

#--- subclass-of-list
# holder: history[*]
# kind: list
class History(list):
    def __init__(self):
        super().__init__()
        self.best = None

history = History()
for step in range(9):
    history.append(accuse(torch.zeros(200)))

#--- user-dict
# holder: registry.data[*]
# kind: dict
import collections
registry = collections.UserDict()
for step in range(9):
    registry[step] = accuse(torch.zeros(200))

#--- decorated
# holder: step
# through: calls
# kind: closure
import functools

def recorded(function):
    calls = []
    @functools.wraps(function)
    def wrapper(*arguments):
        calls.append((arguments, function(*arguments)))
        return calls[-1][1]
    return wrapper

@recorded
def step(value):
    return value.sum()

for number in range(9):
    step(accuse(torch.zeros(200)))

#--- attribute-of-a-function
# holder: predict.seen[*]
# kind: list
def predict(value):
    predict.seen.append(value)

predict.seen = []
for step in range(9):
    predict(accuse(torch.zeros(200)))

#--- tensors-as-keys
# holder: seen
# kind: dict
seen = {}
for step in range(9):
    seen[accuse(torch.zeros(200))] = step

#--- methods-of-tensors
# holder: calls[*]
# kind: list
calls = []
for step in range(9):
    calls.append(accuse(torch.zeros(200)).add_)

#--- lazy-map
# holder: lazy
# kind: list
lazy = map(torch.sum, [accuse(torch.zeros(200)) for step in range(9)])

#--- defaults-of-lambdas
# holder: callbacks[*]
# through: batch
# kind: default
callbacks = []
for step in range(9):
    callbacks.append(lambda batch=accuse(torch.zeros(200)): batch.sum())

#--- mock
# holder: forward
# kind: list | attribute
import unittest.mock
forward = unittest.mock.MagicMock()
for step in range(9):
    forward(accuse(torch.zeros(200)))

#--- garbage-list
# holder: gc.garbage[*]
# kind: list
import gc

class Node:
    def __init__(self):
        self.me, self.batch = self, accuse(torch.zeros(200))

gc.collect()
gc.set_debug(gc.DEBUG_SAVEALL)
for step in range(9):
    Node()
gc.collect()
gc.set_debug(0)
cleanup(gc.garbage.clear)

#--- caught-warnings
# holder: caught[*].source
# kind: list
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for step in range(9):
        warnings.warn("a leak", ResourceWarning, source=accuse(torch.zeros(200)))

#--- queue-of-a-task
# holder: inbox._queue[*]
# kind: list
import asyncio
inbox = asyncio.Queue()
for step in range(9):
    inbox.put_nowait((step, accuse(torch.zeros(200))))

#--- asynchronous-generator
# holder: streams[*]
# through: frames(), batch
# kind: local
async def frames():
    batch = accuse(torch.zeros(200))
    yield 1
    yield batch

streams = []
for step in range(9):
    streams.append(frames())
    try:
        streams[-1].__anext__().send(None)
    except StopIteration:
        pass

#--- generator-in-a-generator
# holder: stream
# through: inner(), batch
# kind: local
def inner():
    batch = accuse(torch.zeros(200))
    yield 1
    yield batch

def outer():
    yield from inner()

stream = outer()
next(stream)

#--- work-that-waits
# holder: executor._work_queue
# kind: list
import concurrent.futures, threading
go = threading.Event()
executor = concurrent.futures.ThreadPoolExecutor(1)
executor.submit(go.wait)
for step in range(9):
    executor.submit(id, accuse(torch.zeros(200)))
cleanup(lambda go=go, executor=executor: (go.set(), executor.shutdown()))

#--- arguments-of-a-timer
# holder: timer.args[*]
# kind: list | thread
import threading
timer = threading.Timer(1000, print, [accuse(torch.zeros(200))])
timer.start()
cleanup(lambda timer=timer: (timer.cancel(), timer.join()))

#--- log-records-of-errors
# holder: keeper.buffer[*]
# through: work(), batch
# kind: traceback
import logging, logging.handlers
keeper = logging.handlers.MemoryHandler(1000, flushLevel=1000)
log = logging.Logger("unread")
log.addHandler(keeper)

def work():
    batch = accuse(torch.zeros(200))
    raise ValueError(len(batch))

for step in range(9):
    try:
        work()
    except ValueError:
        log.exception("failed")

#--- results-with-exc-info
# holder: results[*]
# through: work(), batch
# kind: traceback
import sys
results = []

def work():
    batch = accuse(torch.zeros(200))
    raise ValueError(len(batch))

for step in range(9):
    try:
        work()
    except ValueError:
        results.append((step, sys.exc_info()))

#--- future-that-failed
# holder: future._exception
# through: work(), batch
# kind: traceback
import concurrent.futures
executor = concurrent.futures.ThreadPoolExecutor(1)

def work():
    batch = accuse(torch.zeros(200))
    raise ValueError(len(batch))

future = executor.submit(work)
executor.shutdown()

#--- manager-never-left
# holder: guard.gen
# through: buffers(), buffer
# kind: local
import contextlib

@contextlib.contextmanager
def buffers():
    buffer = accuse(torch.zeros(200))
    yield buffer.sum()

guard = buffers()
guard.__enter__()

#--- frames-kept
# holder: frames[*]
# through: work(), batch
# kind: local | list | traceback
import sys
frames = []

def work():
    batch = accuse(torch.zeros(200))
    frames.append(sys._getframe())

for step in range(9):
    work()

#--- context-variable-that-is-named
# holder: native code | current | not found
# through: current
# kind: native | unknown | attribute | dict | list
import contextvars
current = contextvars.ContextVar("current")
token = current.set([])
for step in range(9):
    current.get().append(accuse(torch.zeros(200)))
del token
cleanup(lambda: current.set(None))

#--- contexts-that-were-copied
# holder: contexts[*]
# kind: list | dict
import contextvars
variable, contexts = contextvars.ContextVar("variable"), []
for step in range(9):
    contexts.append(contextvars.copy_context())
    contexts[-1].run(variable.set, accuse(torch.zeros(200)))

#--- resurrected
# holder: graveyard[*].weights
# kind: list
graveyard = []

class Layer:
    def __init__(self):
        self.weights = accuse(torch.zeros(200))

    def __del__(self):
        graveyard.append(self)

for step in range(9):
    Layer()

#--- cycle-through-a-generator
# holder: a cycle
# kind: unknown
import gc
gc.collect()
gc.disable()

class Loader:
    def __init__(self):
        self.batches = self.load()
        next(self.batches)

    def load(self):
        batch = accuse(torch.zeros(200))
        yield 1
        yield batch

for step in range(9):
    Loader()

#--- py-objects-of-ctypes
# holder: cells
# kind: list | dict | native
import ctypes
cells = (ctypes.py_object * 9)()
for step in range(9):
    cells[step] = accuse(torch.zeros(200))

#--- capsules
# holder: capsules[*] | native code
# kind: native
import torch.utils.dlpack
capsules = []
for step in range(9):
    capsules.append(torch.utils.dlpack.to_dlpack(accuse(torch.zeros(200))))

#--- memory-views
# holder: views[*]
# kind: list
views = []
for step in range(9):
    views.append(memoryview(accuse(torch.zeros(200)).numpy()))

#--- storages
# holder: storages[*]
# kind: list
storages = []
for step in range(9):
    batch = accuse(torch.zeros(200))
    storages.append(batch.untyped_storage() if hasattr(batch, "untyped_storage") else batch.storage())
del batch

#--- operators-with-arguments
# holder: operations[*]
# kind: list
import operator
operations = []
for step in range(9):
    operations.append(operator.methodcaller("add", accuse(torch.zeros(200))))

#--- nested-tuples
# holder: pairs[*][*]
# kind: list | attribute
pairs = (("first", accuse(torch.zeros(200))), ("second", accuse(torch.zeros(200))))

#--- members-of-an-enumeration
# holder: Stage
# through: TRAIN
# kind: attribute | dict | list
import enum

class Stage(enum.Enum):
    TRAIN = 1
    TEST = 2

Stage.TRAIN.batch = accuse(torch.zeros(200))

#--- cells-of-two-functions
# holder: push.values[*] | pop.values[*]
# kind: closure
def stack():
    values = []
    return values.append, (lambda: values.append(accuse(torch.zeros(200)))), (lambda: values.pop())

_, push, pop = stack()
del _
for step in range(9):
    push()
