# Leaks of containers and names. Each program begins at a line `#--- NAME`, runs as __main__, and calls accuse() with every
# tensor that it leaks. What holds it stands below the name, as the program's author would say it:
#   holder: what the path begins with     through: what it has behind that, in this order     kind: of the holder
# bench.py looks when a program ends, or where it calls look(), and compares.

#--- list-of-a-global
# holder: history[*]
# kind: list
history = []
for step in range(12):
    loss = accuse(torch.zeros(200))
    history.append(loss)
del loss

#--- dict-of-a-global
# holder: seen[*]
# kind: dict
seen = {}
for step in range(12):
    seen[f"batch {step}"] = accuse(torch.zeros(200))

#--- global-itself
# holder: everything
# kind: attribute
everything = torch.zeros(0)
for step in range(4):
    everything = torch.cat([everything, torch.zeros(100)])
accuse(everything)

#--- attribute-list
# holder: trainer.history[*]
# kind: list
class Trainer:
    def __init__(self):
        self.history = []

    def step(self):
        self.history.append(accuse(torch.zeros(200)))

trainer = Trainer()
for step in range(12):
    trainer.step()

#--- attribute-tensor
# holder: trainer.best
# kind: attribute
class Trainer:
    pass

trainer = Trainer()
trainer.best = accuse(torch.zeros(300))

#--- slots
# holder: buffer.items[*]
# kind: list
class Buffer:
    __slots__ = ("items", "size")

buffer = Buffer()
buffer.items, buffer.size = [], 0
for step in range(9):
    buffer.items.append(accuse(torch.zeros(200)))

#--- slot-itself
# holder: buffer.last
# kind: attribute
class Buffer:
    __slots__ = ("last",)

buffer = Buffer()
buffer.last = accuse(torch.zeros(200))

#--- class-attribute
# holder: Model.cache[*]
# kind: dict
class Model:
    cache = {}

    def forward(self, key):
        self.cache[key] = accuse(torch.zeros(200))

model = Model()
for step in range(9):
    model.forward(step)
del model

#--- default-argument
# holder: collect.outputs[*]
# kind: default
def collect(value, outputs=[]):
    outputs.append(value)

for step in range(9):
    collect(accuse(torch.zeros(200)))

#--- keyword-default
# holder: collect.outputs[*]
# kind: default
def collect(value, *, outputs={}):
    outputs[len(outputs)] = value

for step in range(9):
    collect(accuse(torch.zeros(200)))

#--- closure
# holder: tracker.values[*]
# kind: closure
def make_tracker():
    values = []

    def track(value):
        values.append(value)
    return track

tracker = make_tracker()
for step in range(9):
    tracker(accuse(torch.zeros(200)))

#--- closure-cell-itself
# holder: again.batch
# kind: closure
def make():
    batch = accuse(torch.zeros(200))

    def again():
        return batch
    return again

again = make()

#--- local-of-a-running-function
# holder: main().results[*]
# kind: local
def main():
    results = []
    for step in range(9):
        results.append(accuse(torch.zeros(200)))
    look()

main()

#--- local-itself
# holder: main().batch
# kind: local
def main():
    batch = accuse(torch.zeros(200))
    look()

main()

#--- local-of-a-caller
# holder: train().outputs[*]
# kind: local
def validate():
    look()

def train():
    outputs = {}
    for step in range(9):
        outputs[step] = accuse(torch.zeros(200))
    validate()

train()

#--- lru-cache
# holder: embed
# kind: cache
import functools

@functools.lru_cache(maxsize=None)
def embed(key):
    return accuse(torch.zeros(200))

for step in range(9):
    embed(step)

#--- lru-cache-of-a-method
# holder: Model.embed
# kind: cache
import functools

class Model:
    @functools.lru_cache(maxsize=None)
    def embed(self, key):
        return accuse(torch.zeros(200))

for step in range(9):
    Model().embed(step)

#--- cached-property
# holder: batches[*].mask
# kind: list
import functools

class Batch:
    @functools.cached_property
    def mask(self):
        return accuse(torch.zeros(200))

batches = [Batch() for _ in range(5)]
for batch in batches:
    batch.mask
del batch

#--- weak-key-dictionary
# holder: features
# kind: dict
import weakref

class Sample:
    pass

samples = [Sample() for _ in range(5)]
features = weakref.WeakKeyDictionary()
for sample in samples:
    features[sample] = accuse(torch.zeros(200))
del sample

#--- deque
# holder: replay[*]
# kind: list
import collections
replay = collections.deque(maxlen=1000)
for step in range(9):
    replay.append(accuse(torch.zeros(200)))

#--- queue
# holder: results.queue[*]
# kind: list
import queue
results = queue.Queue()
for step in range(9):
    results.put(accuse(torch.zeros(200)))

#--- nested
# holder: state
# through: metrics, losses
# kind: list
state = {"metrics": {"losses": [], "count": 0}}
for step in range(9):
    state["metrics"]["losses"].append(accuse(torch.zeros(200)))

#--- list-of-tuples
# holder: records[*]
# kind: list
records = []
for step in range(9):
    records.append((step, accuse(torch.zeros(200))))

#--- named-tuples
# holder: memory[*].state
# kind: list
import collections
Transition = collections.namedtuple("Transition", "state action")
memory = []
for step in range(9):
    memory.append(Transition(accuse(torch.zeros(200)), step))

#--- dataclasses
# holder: memory[*].state
# kind: list
import dataclasses

@dataclasses.dataclass
class Transition:
    state: object
    action: int

memory = []
for step in range(9):
    memory.append(Transition(accuse(torch.zeros(200)), step))

#--- set
# holder: seen
# kind: list
seen = set()
for step in range(9):
    seen.add(accuse(torch.zeros(200)))

#--- partial
# holder: run
# kind: attribute
import functools
run = functools.partial(print, accuse(torch.zeros(200)))

#--- bound-method
# holder: callbacks[*]
# through: values
# kind: list
class Meter:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value)

callbacks = [Meter().update]
for step in range(9):
    callbacks[0](accuse(torch.zeros(200)))

#--- linked-list
# holder: head
# through: next
# kind: attribute
class Node:
    def __init__(self, value, following):
        self.value, self.next = value, following

head = None
for step in range(300):
    head = Node(torch.zeros(100), head)
    if step < 5:
        accuse(head.value)

#--- other-module
# holder: telemetry.history[*]
# kind: list
import sys, types
telemetry_module = types.ModuleType("telemetry")
telemetry_module.history = []
sys.modules["telemetry"] = telemetry_module
for step in range(9):
    telemetry_module.history.append(accuse(torch.zeros(200)))
del telemetry_module

#--- view-of-a-large-one
# holder: rows[*]
# kind: list
rows = []
for step in range(9):
    big = accuse(torch.zeros(500, 4))
    rows.append(big[3])
del big

#--- numpy-over-a-tensor
# holder: arrays[*]
# kind: list
arrays = []
for step in range(9):
    arrays.append(accuse(torch.zeros(200)).numpy())
