# Leaks whose labels were written by somebody who had neither read the code that finds holders nor seen it run. Labels
# as in containers.py. Where a label names several ways, a person would call each of them right.

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

#--- modules-in-a-module-dict
# holder: heads
# through: weight
# kind: attribute | list | dict
heads = torch.nn.ModuleDict()
for step in range(9):
    heads[f"task{step}"] = torch.nn.Linear(20, 10)
    accuse(heads[f"task{step}"].weight)

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

#--- objects-in-an-array
# holder: episodes[*]
# kind: list
import numpy
episodes = numpy.empty(12, dtype=object)
for step in range(12):
    episodes[step] = accuse(torch.zeros(200))

#--- partials-with-keywords
# holder: jobs[*]
# through: mask
# kind: list | closure | dict
import functools
jobs = []
for step in range(12):
    jobs.append(functools.partial(print, mask=accuse(torch.zeros(200))))

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
