"""Counts Python's own objects at a look, by class, and the entries of the longest containers, by the path that leads to
them. The recorder keeps the numbers as counters; the readers show those that grow (src/analysis/holders/census.c).
It reads no object but the lengths of Python's own containers, and keeps only texts and numbers.
"""

import collections

from libmemprof_torch import holders_names as naming

CLASSES_FIRST, CLASSES_MOST = 16, 64  # told at the first look, and in all
LONG, LONGEST, PATHS_MOST = 1000, 8, 32  # entries; containers of a look, and in all
LENGTHS = {each: each.__len__ for each in (dict, list, set, frozenset, tuple, collections.deque, collections.OrderedDict,
                                           collections.defaultdict, collections.Counter)}
VALUE_MOST = 2**32 - 1  # the recorder takes no more


class Census:
    def __init__(self):
        self._first, self._classes, self._paths = None, {}, {}  # by class: the count at the first look; names that were told
        self._before, self._holders = {}, {}  # by path: bytes at the first look; paths that were told

    def take(self, look, kinds, held=None):
        """(name of a counter, value). `kinds`: how many objects of each class there are; None: they were not counted.
        `held`: bytes of arrays by path (holders_arrays.py)."""
        most = sorted(held or (), key=lambda path: held[path] - self._before.get(path, 0), reverse=True)
        self._before = self._before or dict(held or ())
        self._keep(self._holders, most[:LONGEST], PATHS_MOST)
        yield from ((f"python/KiB/{path}", min((held or {}).get(path, 0) >> 10, VALUE_MOST)) for path in self._holders)
        if kinds is None:
            yield from self._lengths(look)
            return
        first, self._first = self._first, self._first or {naming.full_name(cls): count for cls, count in kinds.items()}
        grown = sorted(kinds.items(), reverse=True,
                       key=lambda each: each[1] - (first.get(naming.full_name(each[0]), 0) if first else 0))
        now = {naming.full_name(cls): count for cls, count in kinds.items()}
        self._keep(self._classes, [naming.full_name(cls) for cls, _ in grown[:CLASSES_FIRST]], CLASSES_MOST)
        yield from self._lengths(look)
        yield from ((f"python/objects/{name}", min(now.get(name, 0), VALUE_MOST)) for name in self._classes)

    def is_new(self):
        return self._first is None

    def _lengths(self, look):
        entries = dict(self._longest(look))
        self._keep(self._paths, entries, PATHS_MOST)
        yield from ((f"python/entries/{path}", min(entries[path], VALUE_MOST)) for path in self._paths if path in entries)

    @staticmethod
    def _keep(told, names, most):
        for name in names:
            if name in told or len(told) < most:
                told[name] = True

    @staticmethod
    def _longest(look):
        """(path, entries) of containers that the look reached from a name of the program."""
        found = [(LENGTHS[type(each)](each), place) for place, each in enumerate(look.reached()) if type(each) in LENGTHS]
        for entries, place in sorted(found, reverse=True)[:LONGEST]:
            path = look.name_at(place) if entries >= LONG else None
            if path:
                yield path, entries
