"""The line that fills a container: of the program's code, the only one that stores an entry under the container's name;
for an attribute, of the code of its owner's classes, since others may have one of that name. Where there are several, or none that can be seen, it is not known. Code is read, never run.
"""

import bisect
import dis
import sys
import types

from libmemprof_torch import holders_names as naming

FILL = {"append", "appendleft", "add", "insert", "extend", "extendleft", "update", "setdefault", "put", "put_nowait"}
FILL_FIRST = {"heappush", "insort"}  # functions that fill their first argument
NOT_BETWEEN = {"PUSH_NULL", "EXTENDED_ARG", "CACHE"}
CODES_MOST = 20_000
NAMED = object()
# What names a container, and the instructions that do so.
GLOBAL, LOCAL, CLOSURE, ATTRIBUTE = "global", "local", "closure", "attribute"
_NAMED_BY = {GLOBAL: ("LOAD_NAME", "LOAD_GLOBAL", "STORE_NAME", "STORE_GLOBAL"),
             LOCAL: ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST", "STORE_DEREF", "LOAD_NAME"),
             CLOSURE: ("LOAD_DEREF", "STORE_DEREF"), ATTRIBUTE: ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")}


class Filled:
    """`out_of_time` is asked before each code that is read."""

    def __init__(self, frames, out_of_time):
        self._out_of_time = out_of_time
        self._codes = list(_codes_of_program(frames))

    def line_of(self, what, name, of):
        """(file, line) of the only line; None. `of`: the function that a local is of, the module that a global is of, the
        classes of an attribute's owner."""
        found = set()
        for code in self._codes_for(what, of):
            if name not in code.co_names and name not in code.co_varnames and name not in code.co_cellvars and \
                    name not in code.co_freevars:
                continue
            if self._out_of_time():
                return None
            found.update((code.co_filename, line) for line in _lines_that_fill(code, name, _NAMED_BY[what]))
            if len(found) > 1:
                return None
        return found.pop() if found else None

    def _codes_for(self, what, of):
        if what == ATTRIBUTE:
            return _codes_of_classes(of)
        module = sys.modules.get(of) if what == GLOBAL else None
        namespace = naming.dict_of_module(module) if module is not None else None
        return (code for code, its_globals in self._codes
                if what == CLOSURE or (its_globals is namespace if what == GLOBAL else _is_in(code, of)))


def _is_in(code, function):
    """It, or a function in it."""
    whole = getattr(code, "co_qualname", code.co_name)
    return naming.function_name(code) == function or f"{function}.<locals>." in whole


def _codes_of_program(frames):
    """(code, the namespace of its globals): one module may have several names, as __main__ and __mp_main__."""
    waiting = [(each.frame.f_code, each.frame.f_globals) for each in frames.all if each.tier == 0]
    for name, _, namespace, tier in naming.modules():
        if tier == 0 and not name.startswith(naming.OURS):
            waiting.extend((code, namespace) for code in _codes_in(list(dict.values(namespace)), namespace))
    return _with_those_in_them(waiting)


def _with_those_in_them(waiting):
    seen = set()
    while waiting and len(seen) < CODES_MOST:
        code, namespace = waiting.pop()
        if id(code) not in seen:
            seen.add(id(code))
            yield code, namespace
            waiting.extend((each, namespace) for each in code.co_consts if type(each) is types.CodeType)


def _codes_of_classes(classes):
    waiting = [(code, None) for each in classes if naming.is_own_type(each) for code in _codes_of_class(each)]
    return (code for code, _ in _with_those_in_them(waiting))


def _codes_in(values, namespace):
    """Of the functions of a module, and of its classes."""
    for value in values:
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            yield value.__code__
        elif type in naming.mro_of(type(value)) and naming.is_own_type(value):
            yield from _codes_of_class(value)


def _codes_of_class(cls):
    for each in list(naming.dict_of_type(cls).values()):
        each = each.__func__ if type(each) in (staticmethod, classmethod) else each
        if type(each) is types.FunctionType:
            yield each.__code__


def _lines_that_fill(code, name, named_by):
    """Those that load, say, append of what has the name: `kept.append(value)`, `heappush(kept, value)`, or have the name
    and store: `self.kept[key] = value`, `kept += [value]`."""
    starts = [(offset, line) for offset, line in dis.findlinestarts(code) if line]
    offsets = [offset for offset, _ in starts]
    named, filled, found, last, is_first = set(), set(), set(), None, False
    for each in dis.get_instructions(code):
        at = bisect.bisect_right(offsets, each.offset) - 1
        line = starts[at][1] if at >= 0 else 0
        values = each.argval if type(each.argval) is tuple else (each.argval,)  # newer Python loads two at once
        if each.opname in NOT_BETWEEN:
            continue
        is_first = last in FILL_FIRST or is_first and each.opname == "LOAD_ATTR"  # heappush(self.kept, ...
        has_name = each.opname.startswith(named_by) and name in values
        loaded = values[-1] if each.opname.startswith("LOAD_") and each.opname != "LOAD_CONST" else None
        if has_name:
            named.add(line)
            if is_first:
                found.add(line)
        if last is NAMED and loaded in FILL:
            found.add(line)
        if each.opname in ("STORE_SUBSCR", "INPLACE_ADD") or each.opname == "BINARY_OP" and each.argrepr == "+=":
            filled.add(line)
        last = NAMED if has_name and loaded == name else loaded
    return found | named & filled
