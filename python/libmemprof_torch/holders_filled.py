"""The line that fills a container: of the program's code, the only one that stores an entry under the container's name.
Where there are several, or none that can be seen, it is not known. Code is read, never run.
"""

import bisect
import dis
import types

from libmemprof_torch import holders_names as naming

FILL = {"append", "appendleft", "add", "insert", "extend", "extendleft", "update", "setdefault", "put", "put_nowait",
        "heappush", "insort"}
CODES_MOST = 20_000
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

    def line_of(self, what, name, function):
        """(file, line) of the only line; None. `function`: the one that a local is of."""
        found = set()
        for code, is_main in self._codes:
            if name not in code.co_names and name not in code.co_varnames and name not in code.co_cellvars and \
                    name not in code.co_freevars:
                continue
            if what == GLOBAL and not is_main or what == LOCAL and not _is_in(code, function):
                continue
            if self._out_of_time():
                return None
            found.update((code.co_filename, line) for line in _lines_that_fill(code, name, _NAMED_BY[what]))
            if len(found) > 1:
                return None
        return found.pop() if found else None


def _is_in(code, function):
    """It, or a function in it."""
    whole = getattr(code, "co_qualname", code.co_name)
    return naming.function_name(code) == function or f"{function}.<locals>." in whole


def _codes_of_program(frames):
    """(code, whether it is of __main__)."""
    waiting = [(each.frame.f_code, dict.get(each.frame.f_globals, "__name__") == "__main__") for each in frames.all
               if each.tier == 0]
    for name, _, namespace, tier in naming.modules():
        if tier == 0 and not name.startswith(naming.OURS):
            waiting.extend((code, name == "__main__") for code in _codes_in(list(dict.values(namespace)), namespace))
    seen = set()
    while waiting and len(seen) < CODES_MOST:
        code, is_main = waiting.pop()
        if id(code) not in seen:
            seen.add(id(code))
            yield code, is_main
            waiting.extend((each, is_main) for each in code.co_consts if type(each) is types.CodeType)


def _codes_in(values, namespace):
    """Of the functions of a module, and of its classes."""
    for value in values:
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            yield value.__code__
        elif type in naming.mro_of(type(value)) and naming.is_own_type(value):
            for each in list(naming.dict_of_type(value).values()):
                each = each.__func__ if type(each) in (staticmethod, classmethod) else each
                if type(each) is types.FunctionType:
                    yield each.__code__


def _lines_that_fill(code, name, named_by):
    """Those that have the name and, say, append: `kept.append(value)`, `self.kept[key] = value`, `kept += [value]`."""
    starts = [(offset, line) for offset, line in dis.findlinestarts(code) if line]
    offsets = [offset for offset, _ in starts]
    named, filled = set(), set()
    for each in dis.get_instructions(code):
        at = bisect.bisect_right(offsets, each.offset) - 1
        line = starts[at][1] if at >= 0 else 0
        values = each.argval if type(each.argval) is tuple else (each.argval,)  # newer Python loads two at once
        if each.opname.startswith(named_by) and name in values:
            named.add(line)
        if each.opname.startswith("LOAD_") and any(type(value) is str and value in FILL for value in values) or \
                each.opname in ("STORE_SUBSCR", "INPLACE_ADD") or each.opname == "BINARY_OP" and each.argrepr == "+=":
            filled.add(line)
    return named & filled
