# Leaks of containers and names. Each program begins at a line `#--- NAME`, runs as __main__, and calls accuse() with
# every tensor that it leaks. The comments below the line have its holder, as the program's author would write it:
#
#    holder: the path's beginning
#    through: further parts of the path, in this order
#    kind: the kind of the holder
#
# bench.py looks when a program ends, or when it calls look(), and compares.

#--- list-of-a-global
# holder: history[*]
# kind: list
history = []
for step in range(12):
    loss = accuse(torch.zeros(200))
    history.append(loss)
del loss

#--- slots
# holder: buffer.items[*]
# kind: list
class Buffer:
    __slots__ = ("items", "size")

buffer = Buffer()
buffer.items, buffer.size = [], 0
for step in range(9):
    buffer.items.append(accuse(torch.zeros(200)))

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

#--- local-of-a-running-function
# holder: main().results[*]
# kind: local
def main():
    results = []
    for step in range(9):
        results.append(accuse(torch.zeros(200)))
    look()

main()

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
