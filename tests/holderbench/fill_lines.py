#!/usr/bin/env python3
"""The lines that fill a container, as holders_filled.py finds them in this Python's code: exactly those marked below.
And the lines behind loops that read what the loop collects, as holders_later.py finds them. Run by check_holders.py with each CPython; needs no torch."""
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), os.path.join(HERE, "..")]

import asserted  # noqa: E402
from asserted import held  # noqa: E402
from libmemprof_torch import holders_filled, holders_later  # noqa: E402

# "# KIND NAME" after a line: the line fills the container of that name.
CODE = '''
import collections, heapq, bisect
g_list, g_dict, g_set, g_deque, g_heap, g_iadd, g_ior, g_slice, g_sub, g_sorted, read_only, g_or = [], {}, set(), collections.deque(), [], [], {}, [], {}, [], [], {}
g_multi = []
def fill(x):
    g_list.append(x)  # GLOBAL g_list
    g_dict[x] = x  # GLOBAL g_dict
    g_set.add(x)  # GLOBAL g_set
    g_deque.appendleft(x)  # GLOBAL g_deque
    heapq.heappush(g_heap, x)  # GLOBAL g_heap
    bisect.insort(g_sorted, x)  # GLOBAL g_sorted
    global g_iadd
    g_iadd += [x]  # GLOBAL g_iadd
    g_slice[:0] = [x]  # GLOBAL g_slice
    g_sub[x, 1] = x  # GLOBAL g_sub
    y = read_only[0]
    for z in read_only: y = z
    if x in read_only: return len(read_only)
    g_multi.append(  # GLOBAL g_multi
        x)
    global g_or
    g_or |= {x: 1}  # GLOBAL g_or
    if x not in g_lists: g_lists[x] = []  # GLOBAL g_lists
    g_lists[x].append(y)  # DEEPER GLOBAL g_lists
    g_deep[x, y][1:].extend(z)  # DEEPER GLOBAL g_deep
class A:
    def __init__(self):
        self.items, self.kept, self.heap, self.q, self.never, self.agg, self.defd = [], {}, [], None, [], [], {}
    def put(self, x, y=1, z=2):
        self.items.append(x)  # ATTRIBUTE items
        self.kept[x] = (x, y)  # ATTRIBUTE kept
        heapq.heappush(self.heap, (x, y, z))  # ATTRIBUTE heap
        self.q.put(x)  # ATTRIBUTE q
        self.agg += [x]  # ATTRIBUTE agg
        self.defd.setdefault(x, []).append(y)  # ATTRIBUTE defd
        self.by_key[x][y].append(z)  # DEEPER ATTRIBUTE by_key
        n = len(self.never)
        return self.never[0]
    async def later(self, x):
        self.aitems.append(await x)  # ATTRIBUTE aitems
    def sup(self, x):
        super().items2.append(x)  # ATTRIBUTE items2
def main(n):
    loc, locd, loc_read, comp = [], {}, [], []
    cell, celld = [], {}
    def inner(v):
        cell.append(v)  # CLOSURE cell
        celld[v] = v  # CLOSURE celld
    for i in range(n):
        loc.append(i)  # LOCAL loc
        locd[i] = (loc_read, i)  # LOCAL locd
        a, b = loc_read, i
        try:
            pass
        finally:
            comp.extend([i])  # LOCAL comp
    with open("x") as f:
        lw = []
        lw.insert(0, f)  # LOCAL lw
    return loc_read
def two(x, y):
    first, second = [], {}
    second[x] = y  # LOCAL second
    first.append(second)  # LOCAL first
    total = 0
    for _ in (): total += len(read_only) + second[0]
    first2 = {}
    first2[len(first)] = x  # LOCAL first2
    first3 = []
    first3[0 if x else 1] = y  # LOCAL first3
    first4 = {}
    first4[x] += 1  # LOCAL first4
    first5, first6 = [], []
    first5 += first6  # LOCAL first5
    by_name = {}
    by_name[x if y else 1].append(y)
    by_name[first3[0]].add(y)  # DEEPER LOCAL by_name
    return first
'''
NOT_FILLED = {("ATTRIBUTE", "never"), ("GLOBAL", "read_only"), ("LOCAL", "loc_read")}

# Code that a function runs on `ring` after an entry: the bounds that the code shows. A name is (kind, name).
BOUNDS = {
    "ring.append(x)": set(),
    "ring.append(x)\n    if len(ring) > 64: ring.pop(0)": {64},
    "ring.append(x)\n    while len(ring) > most: del ring[0]": {("local", "most")},
    "ring.append(x)\n    while len(ring) > self.most: del ring[0]": {("attribute", "most")},
    "ring.append(x)\n    ring = ring[-64:]": {64},
    "ring[x % 64] = x": {64},
    "ring[x] = x\n    if len(ring) > limit(): ring.popitem()": {0},
    "ring.append(x)\n    if len(ring) > 64: print(x)": set(),
    "ring.append(x)\n    if len(ring) > 0: ring.clear()": set(),
    "ring.append(x)\n    while self.used > self.most: self.used -= ring.pop(0)": {0},
    "ring[x] = x\n    while most < self.used:\n        old = next(iter(ring))\n        self.used -= ring[old]\n        del ring[old]": {0},
    "ring.append(x)\n    if self.used > most: print(x)\n    self.last = ring.pop(0)": set(),
    "ring.append(x)\n    if x in self.names: ring.pop(0)": set(),
    "heapq.heappush(ring, x)\n    if len(ring) > 64: heapq.heappop(ring)": {64},
    "if len(ring) < most: heappush(ring, x)\n    else: heappushpop(ring, x)": {("local", "most")},
    "heapq.heappush(ring, x)\n    if len(ring) > 64: print(heapq.heappop(self.other))": set(),
}


# The same for bounds below which alone the code fills `ring`; None: it does not fill it.
BELOW = {
    "print(ring)": None,
    "ring.append(x)": set(),
    "if len(ring) < most: ring.append(x)\n    ring[self.at] = x\n    self.at = (self.at + 1) % most": {("local", "most")},
    "if len(ring) < self.most: ring.append(x)\n    else: ring[self.at] = x": {("attribute", "most")},
    "if len(ring) >= 64: ring[x] = x\n    else: ring.append(x)\n    print(x)": {64},
    "if 64 > len(ring): ring.append(x)": {64},
    "if most <= len(ring): return x\n    ring[x] = x": {("local", "most")},
    "if len(ring) >= self.most: raise MemoryError\n    ring.append(x)": {("attribute", "most")},
    "if x is not None and len(ring) < most: ring.append(x)": {("local", "most")},
    "while len(ring) < 8: ring.append(x)": {8},
    "for y in x:\n        if len(ring) >= most: continue\n        ring[y] = x": {("local", "most")},
    "for y in x:\n        if len(ring) >= most: continue\n        ring[y] = x\n    ring[x] = x": set(),
    "if len(ring) < most(): ring.append(x)": {0},
    "if self.all or len(ring) < most: ring.append(x)": set(),
    "if len(ring) < most: ring.append(x)\n    if x: ring.append(x)": set(),
    "if len(ring) < most: print(x)\n    ring.append(x)": set(),
    "if len(ring) >= most: print(x)\n    ring.append(x)": set(),
    "if len(ring) > most: ring.append(x)": set(),
    "if len(ring) < most: ring[x] = x\n    ring[self.at] = x": set(),
    "if len(self.other) < most: ring.append(x)": set(),
    "if len(ring) > 0: return\n    ring.append(x)": set(),
    "if len(ring) < most: ring.append(x)\n    ring += [x]": set(),
}


def bounds_of(body, rule):
    code, = [each for each in codes_in(compile(f"def fill(ring, x, most, self):\n    {body}\n", "code", "exec"))
             if each.co_name == "fill"]
    found = rule(code, "ring", holders_filled.NAMED_AT[holders_filled.LOCAL])
    return found and {each if type(each) is int else each[:2] for each in found}


def codes_in(code):
    yield code
    for each in code.co_consts:
        if type(each) is types.CodeType:
            yield from codes_in(each)


def lines_found(kind, name, deeper=False):
    named_by, found = holders_filled.NAMED_AT[getattr(holders_filled, kind)], set()
    for code in codes_in(compile(CODE, "code", "exec")):
        if name in {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}:
            found |= holders_filled.lines_that_fill(code, name, named_by)[deeper]
    return found


# By part of tests/leakbench/programs/wanted.py: the kind of its list's name, the name, and the code that has it.
LISTS = {"wanted_stacked": ("LOCAL", "losses", "wanted_stacked"), "wanted_returned": ("LOCAL", "outputs", "evaluate"),
         "wanted_of_a_meter": ("ATTRIBUTE", "values", "Meter"), "wanted_global": ("GLOBAL", "history", "<module>"),
         "wanted_by_key": ("LOCAL", "found", "wanted_by_key"), "wanted_of_a_hook": ("LOCAL", "seen", "wanted_of_a_hook"),
         "wanted_of_epochs": ("LOCAL", "losses", "wanted_of_epochs"), "wanted_passed": ("LOCAL", "into", "wanted_passed"),
         "wanted_of_a_trainer": ("ATTRIBUTE", "seen", "Trainer"), "leak_unread": ("LOCAL", "kept", "leak_unread"),
         "doubt_counted": ("LOCAL", "kept", "doubt_counted"), "doubt_last": ("LOCAL", "kept", "doubt_last"),
         "leak_of_epochs": ("LOCAL", "losses", "leak_of_epochs"), "leak_cleared_late": ("LOCAL", "kept", "leak_cleared_late"),
         "leak_of_validations": ("ATTRIBUTE", "predictions", "Validation"), "leak_of_a_server": ("ATTRIBUTE", "log", "Server"),
         "doubt_namesake": ("ATTRIBUTE", "all", "Kept")}


def check_later():
    source = open(os.path.join(HERE, "..", "leakbench", "programs", "wanted.py")).read()
    codes = list(codes_in(compile(source, "wanted.py", "exec")))
    for part, (kind, name, owner) in LISTS.items():
        kind, of = getattr(holders_filled, kind), next(code for code in codes if code.co_name == owner)
        later = holders_later.Later(codes, lambda: False).read_of(kind, name, list(codes_in(of)))
        held((later and later[0]) == {"wanted": "read", "doubt": "counted", "leak": None}[part.split("_")[0]], (part, later))
        if later:
            line = source.splitlines()[later[1] - 1]
            held(name in line or "average()" in line or "copy()" in line or "report()" in line or "summary()" in line, (part, line))
    held(holders_later.Later(codes, lambda: True).read_of(kind, name, codes) is None)


def main():
    check_later()
    wanted, of_entries = {key: set() for key in NOT_FILLED}, {}
    for number, line in enumerate(CODE.splitlines(), 1):
        for key in re.findall(r"# ([A-Z]+) (\w+)$", line):
            wanted.setdefault(key, set()).add(number)
        for key in re.findall(r"# DEEPER ([A-Z]+) (\w+)$", line):
            of_entries.setdefault(key, set()).add(number)
    held(len(wanted) > 30)
    for key in wanted:
        held(lines_found(*key) == wanted[key], (key, lines_found(*key), wanted[key]))
    held(len(of_entries) == 4)
    for key in of_entries:
        held(lines_found(*key, True) == of_entries[key], (key, lines_found(*key, True), of_entries[key]))
    for key in wanted.keys() - of_entries.keys():
        held(lines_found(*key, True) == set(), key)
    for rule, cases in ((holders_filled._bounds_in, BOUNDS), (holders_filled._filled_below, BELOW)):
        for body, bounds in cases.items():
            held(bounds_of(body, rule) == bounds, (body, bounds_of(body, rule), bounds))
    long = compile("\n".join(["kept.append(1)"] * 10_000), "long", "exec")
    asked = []
    named_by = holders_filled.NAMED_AT[holders_filled.GLOBAL]
    held(len(holders_filled.lines_that_fill(long, "kept", named_by)[0]) == 10_000)
    held(holders_filled.lines_that_fill(long, "kept", named_by, lambda: asked.append(1) or len(asked) == 3) is None)
    held(len(asked) == 3)
    print("read by Python", sys.version.split()[0])
    return 0


if __name__ == "__main__":
    asserted.script(main)
