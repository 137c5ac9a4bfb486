"""Finds what holds host memory: bytes of NumPy's arrays and of Python's bytes, by the path that leads to them from a name
of the program. A view counts as the whole array that it keeps alive. The walk is breadth first, so the shortest path
has the bytes. It runs no code of the program, and keeps only texts and numbers.

An example: each entry of `store.frames` is an object with an array, or a view of one. Its bytes are `store.frames[*].image`.
"""

import collections
import gc
import time
import types

from libmemprof_torch import holders_names as naming
from libmemprof_torch.holders_names import array_type, dict_of, dict_of_type, mro_of

LEAST = 1024  # bytes of an object
FEW = 16  # entries of a dictionary whose keys are names
CLOCK_EVERY = 256
OBJECTS_MOST = 3_000_000
LEAVES = (type, types.ModuleType, types.CodeType, types.FrameType)
PLAIN = {int, float, complex, bool, str, type(None), range, slice, types.BuiltinFunctionType, types.GetSetDescriptorType}
SEQUENCES = (list, tuple, set, frozenset, collections.deque)


class Arrays:
    """`held`: bytes by path, after the walk. `frames`: naming.Frames. `complete`: the walk saw all."""

    def __init__(self, frames, budget_ns):
        self._until = time.thread_time_ns() + budget_ns
        self._order, self._paths, self._seen, self._classes = [], [], set(), {}
        self.held, self.complete = collections.Counter(), True
        for name, _, namespace, tier in naming.modules():
            if tier == 0 and not name.startswith(naming.OURS):
                before = "" if name == "__main__" else name + "."
                for key, value in list(dict.items(namespace)):
                    self._add(value, f"{before}{key}")
        frames.read()
        for each in frames.all:
            if each.tier == 0:
                for key, value in each.locals:
                    self._add(value, f"{each.name}().{key}")
        frames.forget()
        self._walk()

    def reached(self):
        return self._order

    def name_at(self, place):
        return self._paths[place]

    def forget(self):
        self._order, self._paths, self._seen = [], [], set()

    def _add(self, found, path):
        if type(found) not in PLAIN and id(found) not in self._seen and not issubclass(type(found), LEAVES):
            self._seen.add(id(found))
            self._order.append(found)
            self._paths.append(path)

    def _walk(self):
        for place, found in enumerate(self._order):  # and those that are added meanwhile
            if place % CLOCK_EVERY == CLOCK_EVERY - 1 and (time.thread_time_ns() > self._until or place > OBJECTS_MOST):
                self.complete = False
                return
            if len(self._paths[place]) < naming.PATH_MOST:
                self._visit(found, self._paths[place])

    def _kind(self, cls):
        kind = self._classes.get(cls)
        if kind is None:
            mro = mro_of(cls)
            kind = "array" if array_type(mro) else "bytes" if bytes in mro or bytearray in mro else \
                "dict" if dict in mro else "sequence" if any(each in mro for each in SEQUENCES) else \
                "tensor" if any(naming.full_name(each) == "torch._C.TensorBase" for each in mro) else ""
            self._classes[cls] = kind
        return kind

    def _visit(self, found, path):
        kind = self._kind(type(found))
        if kind == "array":
            self._count_array(found, path)
        elif kind == "bytes":
            self._count(len(found) if type(found) in (bytes, bytearray) else 0, path)
        elif kind == "dict":
            keys = list(dict.keys(found)) if dict.__len__(found) <= FEW else ()
            named = bool(keys) and all(type(key) is str for key in keys)
            for key, value in list(dict.items(found)):
                self._add(value, f"{path}[{naming.key_text(key)}]" if named else path + "[*]")
        elif kind == "sequence":
            fields = dict_of_type(type(found)).get("_fields")
            for number, value in enumerate(gc.get_referents(found)):
                named = type(fields) is tuple and number < len(fields) and value is tuple.__getitem__(found, number)
                self._add(value, f"{path}.{fields[number]}" if named else path + "[*]")
        if kind not in ("array", "bytes", "tensor"):
            self._visit_members(found, path, kind)

    def _visit_members(self, found, path, kind):
        namespace = dict_of(found)
        for name, value in list(dict.items(namespace)) if namespace is not None else ():
            self._add(value, f"{path}.{name}")
        for name, value in naming.slots_of(found):
            self._add(value, f"{path}.{name}")
        if type(found) is types.FunctionType:
            for name, cell in zip(found.__code__.co_freevars, found.__closure__ or ()):
                for value in gc.get_referents(cell):
                    self._add(value, f"{path}.{name}")
            self._add(found.__defaults__, path)
        elif not kind:  # parts of objects of C, such as a DataFrame's blocks
            for value in gc.get_referents(found):
                if value is not namespace:
                    self._add(value, path)

    def _count(self, size, path):
        if size >= LEAST:
            self.held[path] += size

    def _count_array(self, array, path):
        members = dict_of_type(array_type(mro_of(type(array))))
        while True:
            base = members["base"].__get__(array)
            if base is None or array_type(mro_of(type(base))) is None:
                break
            if id(base) in self._seen:
                return
            self._seen.add(id(base))
            array = base
        if base is None:
            self._count(members["nbytes"].__get__(array), path)
        elif self._kind(type(base)) != "tensor":
            self._add(base, path)
        if members["dtype"].__get__(array).kind == "O":
            for value in members["flat"].__get__(array):
                self._add(value, path + "[*]")
