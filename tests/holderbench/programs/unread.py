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

#--- namespace
# holder: state.window[*]
# kind: list
import types
state = types.SimpleNamespace(window=[], size=3)
for step in range(9):
    state.window.append(accuse(torch.zeros(200)))

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

#--- caught-warnings
# holder: caught[*].source
# kind: list
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for step in range(9):
        warnings.warn("a leak", ResourceWarning, source=accuse(torch.zeros(200)))

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
