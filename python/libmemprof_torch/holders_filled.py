"""The line that fills a container: the program's only line that stores an entry under the container's name. For an
attribute, only code of its owner's classes counts, since other classes may have an attribute of that name. If several
lines store entries, or none is visible, the line is unknown. The same code often says how many entries there will be.
Code is read, never run.
"""

import bisect
import contextlib
import dis
import sys
import types

from libmemprof_torch import holders_names as naming

FILL = {"append", "appendleft", "add", "insert", "extend", "extendleft", "update", "setdefault", "put", "put_nowait"}
LISTS_FILL = {"append", "insert", "extend"}
DROP = {"pop", "popleft", "popitem", "clear"}
ORDERS = {"<", "<=", ">", ">="}
FILL_FIRST = {"heappush", "insort"}  # functions that fill their first argument
DROP_FIRST = {"heappop", "heapreplace", "heappushpop"}  # and that drop entries of it
NOT_BETWEEN = {"PUSH_NULL", "EXTENDED_ARG", "CACHE"}
CODES_MOST = 20_000
WRAPPED_MOST = 16  # functions and values of closures around one function
CLOCK_EVERY = 1024  # instructions between two looks at the clock
STORED_BELOW = {"STORE_SUBSCR": 1, "STORE_SLICE": 2}  # by how many values the container lies below the top
COMPARED_MOST = 12  # instructions from len() to the comparison
STORED_MOST = 200  # instructions that make those values
ENTRY = {"BINARY_SUBSCR", "BINARY_SLICE"}
MOVED = ("SWAP", "ROT_", "COPY", "DUP_")
JUMPS = {*dis.hasjrel, *dis.hasjabs}
NAMED = object()
# Names of containers, by the instructions that use them.
GLOBAL, LOCAL, CLOSURE, ATTRIBUTE = "global", "local", "closure", "attribute"
NAMED_AT = {GLOBAL: ("LOAD_NAME", "LOAD_GLOBAL", "STORE_NAME", "STORE_GLOBAL"),
             LOCAL: ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST", "STORE_DEREF", "LOAD_NAME"),
             CLOSURE: ("LOAD_DEREF", "STORE_DEREF"),
             ATTRIBUTE: ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR")}


def _codes_that_import():
    """(code, module's name) of the program's modules that are importing torch."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and naming.is_own_namespace(frame.f_globals):
            yield frame.f_code, dict.get(frame.f_globals, "__name__")
        frame = frame.f_back


# When a module has run, nothing refers to its code, so a look at the end could not read it. Holding the code keeps only
# constants alive.
_IMPORTERS = list(_codes_that_import())


class Filled:
    """`out_of_time` is asked before each code is read, and within long code."""

    def __init__(self, frames, out_of_time):
        self._out_of_time, self._frames = out_of_time, frames
        self._codes = list(_codes_of_program(frames))

    def line_of(self, what, name, of, of_entries):
        """(file, line) of the only line; None: unknown. `of`: a local's function, a global's module, or the classes of
        an attribute's owner. `of_entries`: the container's entries are containers that are filled. naming.ONE_ENTRY: only
        one of them is."""
        found, deeper = set(), set()
        for code in self.codes_for(what, of):
            if name not in code.co_names and name not in code.co_varnames and name not in code.co_cellvars and \
                    name not in code.co_freevars:
                continue
            lines = None if self._out_of_time() else lines_that_fill(code, name, NAMED_AT[what], self._out_of_time)
            if lines is None:
                return None
            found.update((code.co_filename, line) for line in lines[0])
            deeper.update((code.co_filename, line) for line in lines[1])
            if len(deeper if of_entries else found) > 1:
                return None
        if of_entries == naming.ONE_ENTRY:
            return deeper.pop() if deeper else None
        if of_entries and deeper:  # what puts a new container there fills it no more
            return deeper.pop()
        return found.pop() if len(found) == 1 else None

    def bound_of(self, what, name, of, of_entries, sizes):
        """The bound that code sets: it compares the container's len() and drops entries, or fills it only below the bound, or
        its keys are remainders. `sizes`: numbers of its owner, by name. 0: the bound's value is not visible or no number of
        entries, or code elsewhere drops entries of such an attribute. None: no such code, or it is unknown."""
        found, below, always = set(), set(), False
        own = list(self.codes_for(what, of)) if not of_entries else []
        functions = [code for code, _ in self._codes if code.co_varnames[:1] != ("self",)] if what == ATTRIBUTE else []
        for place, code in enumerate(own + functions if own else ()):
            if name in (*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars):
                if self._out_of_time():
                    return None
                bounds = _bounds_in(code, name, NAMED_AT[what])
                found.update(bounds if place < len(own) else {0} if bounds and not found else ())
                fills = _filled_below(code, name, NAMED_AT[what])
                always |= fills == set() or any(_is_raised(own, bound) for bound in fills or ())
                below.update(fills or ())
        found = below if below and not always else found
        values = {self._value_of(bound, sizes) for bound in found}
        return None if not values else values.pop() if len(values) == 1 else 0

    def codes(self):
        """All code of the program."""
        return [code for code, _ in self._codes]

    def _value_of(self, bound, sizes):
        """The number that a bound is. A name may be a global, an attribute of the owner, an argument of a running call, or a
        local that is set only once. 0: it is unknown."""
        if type(bound) is int:
            return bound
        kind, name, code = bound
        if kind == ATTRIBUTE:
            return sizes.get(name, 0)
        if kind == GLOBAL:
            namespace = next((each for own, each in self._codes if own is code and each is not None), {})
            value = dict.get(namespace, name)
            return value if type(value) is int and value > 0 else 0
        values = _values_stored(code, name)
        if not values and name in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
            values = [value for value in self._values_passed(code, name) if type(value) is int and value > 0]
        return values[0] if len(values) == 1 else 0

    def _values_passed(self, code, name):
        """The values of an argument in the calls that run."""
        for each in self._frames.all:
            if each.frame.f_code is code:
                each.read()
                passed, each.locals = dict(each.locals).get(name), None
                yield passed

    def codes_for(self, what, of):
        if what == ATTRIBUTE:
            return _codes_of_classes(of)
        module = sys.modules.get(of) if what == GLOBAL else None
        namespace = naming.dict_of_module(module) if module is not None else None
        return (code for code, its_globals in self._codes
                if what == CLOSURE or (its_globals is namespace if what == GLOBAL else _is_in(code, of)))


def _is_in(code, function):
    """The code, or code of a function in it."""
    whole = getattr(code, "co_qualname", code.co_name)
    return naming.function_name(code) == function or f"{function}.<locals>." in whole


def _codes_of_program(frames):
    """(code, the namespace of its globals): one module may have several names, such as __main__ and __mp_main__."""
    waiting = [(each.frame.f_code, each.frame.f_globals) for each in frames.all if each.tier == 0]
    for name, _, namespace, tier in naming.modules():
        waiting.extend((code, namespace) for code, importer in _IMPORTERS if importer == name)
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
    """Code of a module's functions and classes."""
    for value in values:
        if type in naming.mro_of(type(value)):
            yield from _codes_of_class(value) if naming.is_own_type(value) else ()
        else:
            yield from (each.__code__ for each in _functions_in(value) if each.__globals__ is namespace)


def _codes_of_class(cls):
    for value in list(naming.dict_of_type(cls).values()):
        yield from (each.__code__ for each in _functions_in(value) if naming.is_own_namespace(each.__globals__))


def _functions_in(value):
    """A function, and the functions that its decorators wrap, as torch.no_grad() does."""
    waiting, seen = [value], 0
    while waiting and seen < WRAPPED_MOST:
        each, seen = waiting.pop(), seen + 1
        if type(each) in (staticmethod, classmethod):
            waiting.append(each.__func__)
        elif type(each) is property:
            waiting.extend((each.fget, each.fset))
        elif type(each) is types.FunctionType:
            yield each
            with contextlib.suppress(ValueError):  # an empty cell
                waiting.extend(cell.cell_contents for cell in each.__closure__ or ())
        elif type(each) is naming.CACHED:
            waiting.append(naming.dict_of(each).get("__wrapped__"))


def lines_that_fill(code, name, named_by, out_of_time=lambda: False):
    """(instructions that load the name's `append` or the like: `kept.append(value)`, `heappush(kept, value)`, or that
    store into it: `self.kept[key] = value`, `kept += [value]`; instructions that do so to an entry of it:
    `kept[key].append(value)`). None: there was no time for all code."""
    starts = [(offset, line) for offset, line in dis.findlinestarts(code) if line]
    offsets = [offset for offset, _ in starts]
    named, unclear, found, deeper, last, is_first, before = set(), set(), set(), set(), None, False, []
    for number, each in enumerate(dis.get_instructions(code), 1):
        if number % CLOCK_EVERY == 0 and out_of_time():
            return None
        if each.opname in NOT_BETWEEN:
            continue
        at = bisect.bisect_right(offsets, each.offset) - 1
        line = starts[at][1] if at >= 0 else 0
        values = each.argval if type(each.argval) is tuple else (each.argval,)  # newer Python loads two at once
        is_first = last in FILL_FIRST or is_first and each.opname == "LOAD_ATTR"  # heappush(self.kept, ...
        has_name = each.opname.startswith(named_by) and name in values
        loaded = _loads(each)[-1] if _loads(each) and each.opname != "LOAD_CONST" else None
        if has_name:
            named.add(line)
            if is_first or each.opname.startswith("STORE_") and _is_in_place(before):
                found.add(line)
        if last is NAMED and loaded in FILL:
            found.add(line)
        if loaded in FILL and before and _is_entry(before[-1]):
            container = _loaded_below(before, 0, True)
            if container and container[0].startswith(named_by) and container[1] == name:
                deeper.add(line)
        if each.opname in STORED_BELOW:
            container = _loaded_below(before, STORED_BELOW[each.opname])
            if container is None:
                unclear.add(line)
            elif container[0].startswith(named_by) and container[1] == name:
                found.add(line)
        last = NAMED if has_name and loaded == name else loaded
        before.append(each)
    return found | named & unclear, deeper


def _values_stored(code, name):
    """For each instruction that stores under a local's name: the number that it stores, 0: something else."""
    some = [each for each in dis.get_instructions(code) if each.opname not in NOT_BETWEEN]
    return [before.argval if _loads_number(before) and before.argval > 0 else 0
            for before, each in zip(some, some[1:]) if each.opname.startswith("STORE_") and each.argval == name]


def _loads_number(each):
    return each.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(each.argval) is int


def _bounds_in(code, name, named_by):
    """The bounds that the code sets for the container: numbers, or (kind, name, code) of a variable. 0: the code drops
    entries if one value exceeds another, such as `while self.bytes > self.limit`."""
    some = [each for each in dis.get_instructions(code) if each.opname not in NOT_BETWEEN]

    def is_container(each):
        return each.opname.startswith(named_by) and _loads(each)[-1:] == (name,)

    compared, kept, drops, ordered_until, trims = set(), set(), False, 0, False
    for place, each in enumerate(some):
        drops_here = each.argval in DROP and place > 0 and is_container(some[place - 1]) or \
            each.opname.startswith(named_by) and _loads(each)[:1] == (name,) and _is_argument(some, place, DROP_FIRST)
        if each.opname == "COMPARE_OP" and each.argval in ORDERS and some[place + 1].opcode in JUMPS and \
                not (_loads_number(some[place - 1]) and some[place - 1].argval <= 0):
            ordered_until = max(ordered_until, some[place + 1].argval)
        if each.opname == "COMPARE_OP" and place >= 3:
            sizes = [at for at in range(max(place - COMPARED_MOST, 0), place) if some[at].argval == "len" and
                     any(is_container(one) for one in some[at + 1:at + 4]) and
                     not any(one.opname.startswith(("POP_", "STORE_")) for one in some[at:place])]
            beside = [one for one in (some[place - 1], some[sizes[0] - 1] if sizes and sizes[0] else some[place - 1])
                      if not is_container(one)]
            known = [_named_value(one, code) for one in beside if _named_value(one, code) is not None]
            if sizes and not any(_loads_number(one) and one.argval <= 0 for one in beside):
                compared.add(known[0] if known else 0)
        if each.opname == "DELETE_SUBSCR" or each.opname == "STORE_SUBSCR":
            container = _loaded_below(some[:place], 1)
            if container and container[0].startswith(named_by) and container[1] == name:
                drops_here = each.opname == "DELETE_SUBSCR"
                rest = some[place - 1]
                if each.opname == "STORE_SUBSCR" and _is_remainder(rest) and _named_value(some[place - 2], code):
                    kept.add(_named_value(some[place - 2], code))
        drops |= drops_here
        trims |= drops_here and each.offset < ordered_until
        if each.opname == "BINARY_SLICE" or each.opname == "BUILD_SLICE" or _is_slice(each):
            last = -each.argval.start if _is_slice(each) else next(
                (-one.argval for one in some[max(place - 2, 0):place] if _loads_number(one) and one.argval < 0), 0)
            stored = next((one for one in some[place + 1:place + 4] if one.opname.startswith("STORE_")), None)
            if last > 0 and stored is not None and stored.argval == name:
                kept.add(last)
    return kept | (compared if drops else set()) or ({0} if trims else set())


def _filled_below(code, name, named_by):
    """The bounds below which alone the code fills the container: `if len(ring) < most: ring.append(x)`, or behind
    `if len(ring) >= most: return`. Empty: it also fills it elsewhere. None: it fills it nowhere."""
    some = [each for each in dis.get_instructions(code) if each.opname not in NOT_BETWEEN]

    def is_container(each):
        return each.opname.startswith(named_by) and each.argval == name

    def is_stored(place):
        container = _loaded_below(some[:place], 1)
        return container is not None and container[0].startswith(named_by) and container[1] == name

    filled = [place for place, each in enumerate(some) if each.argval in FILL and place and is_container(some[place - 1])]
    if not {some[place].argval for place in filled} & LISTS_FILL:  # storing an entry makes no list longer
        filled += [place for place, each in enumerate(some) if each.opname == "STORE_SUBSCR" and is_stored(place)]
    otherwise = any(each.argval in FILL_FIRST or each.opname == "STORE_SLICE" or each.opname.startswith("STORE_") and
                    is_container(each) and _is_in_place(some[:place]) for place, each in enumerate(some))
    if not filled or otherwise:
        return set() if lines_that_fill(code, name, named_by)[0] else None
    compared = [place for place, each in enumerate(some[:-1])
                if each.opname == "COMPARE_OP" and each.argval in ORDERS and some[place + 1].opcode in JUMPS]
    ranges = [each for place in compared for each in _range_below(some, place, is_container, code)]
    found = set()
    for place in filled:
        at = some[place].offset
        bounds = {bound for bound, jump, first, end in ranges if first <= at < end and not any(
            each.opcode in JUMPS and each.offset < some[jump].offset < each.argval <= at for each in some[:jump])}
        if not bounds:
            return set()
        found |= bounds
    return found


def _range_below(some, place, is_container, code):
    """[(bound, place of the jump, first offset, end)] of the code that runs only if the comparison at `place` says that
    the container has fewer entries than the bound; []: no such code."""
    at = next((at for at in range(place - 1, max(place - COMPARED_MOST, 0) - 1, -1) if some[at].argval == "len"), None)
    loaded = None if at is None else next((each for each in range(at + 1, min(at + 4, place)) if is_container(some[each])), None)
    if loaded is None:
        return []
    called = next((each for each in range(loaded + 1, place) if some[each].opname.startswith("CALL")), loaded)
    is_right = called == place - 1  # most > len(ring)
    bound = some[at - 1] if is_right and at else some[place - 1]
    jump, target = some[place + 1], some[place + 1].argval
    if _loads_number(bound) and bound.argval <= 0 or target <= jump.offset:
        return []
    value = _named_value(bound, code) or 0
    if ((some[place].argval in ("<", "<=")) != is_right) == ("IF_FALSE" in jump.opname):
        return [(value, place + 1, jump.offset + 1, target)]
    last = next(each for each in reversed(some) if each.offset < target)
    if last.opname.startswith(("RETURN_", "RAISE_")):
        return [(value, place + 1, target, some[-1].offset + 1)]
    if not last.opname.startswith("JUMP_") or last.opname.startswith("JUMP_IF"):
        return []
    end = last.argval if last.argval > target else max(  # an else, or the rest of a loop behind `continue`
        each.offset for each in some if each.opcode in JUMPS and each.argval == last.argval)
    return [(value, place + 1, target, end)]


def _is_raised(codes, bound):
    """True if code adds to the variable that the bound is, or a loop counts by it: it follows the container, and bounds
    nothing. `codes`: those of the container's owner."""
    kind, name, code = (None, None, None) if type(bound) is int else bound
    for each in [code] if kind == LOCAL else codes if kind else ():
        if name not in each.co_names + each.co_varnames + each.co_cellvars:
            continue
        some = [one for one in dis.get_instructions(each) if one.opname not in NOT_BETWEEN]
        if any(_stores(one, name) and (_is_in_place(some[:place]) or _is_of_loop(some[:place]))
               for place, one in enumerate(some)):
            return True
    return False


def _stores(each, name):
    return each.opname.startswith("STORE_") and name in (each.argval if type(each.argval) is tuple else (each.argval,))


def _is_of_loop(before):
    """True if the next stored value is what a loop takes next, or a part of it."""
    skipped = ("STORE_FAST", "STORE_NAME", "UNPACK_")
    each = next((each for each in reversed(before) if not each.opname.startswith(skipped)), None)
    return each is not None and each.opname == "FOR_ITER"


def _loads(each):
    """The names that an instruction loads; newer Python loads or stores two at once."""
    names = each.argval if type(each.argval) is tuple else (each.argval,)
    return names if each.opname.startswith("LOAD_") else names[1:] if each.opname.startswith("STORE_FAST_LOAD") else ()


def _is_argument(some, place, functions):
    """True if what is loaded here is the first argument of one of the functions."""
    for each in reversed(some[max(place - 3, 0):place]):
        if each.argval in functions or not each.opname.startswith("LOAD_"):
            return each.opname.startswith("LOAD_")
    return False


def _is_slice(each):
    return each.opname == "LOAD_CONST" and type(each.argval) is slice and type(each.argval.start) is int and \
        each.argval.start < 0 and each.argval.stop is None


def _is_remainder(each):
    return each.opname == "BINARY_MODULO" or each.opname == "BINARY_OP" and each.argrepr == "%"


def _named_value(each, code):
    """A number, or what it is loaded from; None: neither."""
    if _loads_number(each):
        return each.argval if each.argval > 0 else None
    for kind, names in ((GLOBAL, ("LOAD_GLOBAL", "LOAD_NAME")), (LOCAL, ("LOAD_FAST", "LOAD_DEREF")),
                        (ATTRIBUTE, ("LOAD_ATTR",))):
        if each.opname.startswith(names) and type(each.argval) is str:
            return kind, each.argval, code
    return None


def _is_entry(each):
    return each.opname in ENTRY or each.opname == "BINARY_OP" and each.argrepr == "[]"


def _is_in_place(before):
    """True if the next stored value is the changed old one."""
    each = next((each for each in reversed(before) if not each.opname.startswith(MOVED)), None)
    return each is not None and (each.opname in ("INPLACE_ADD", "INPLACE_OR") or
                                 each.opname == "BINARY_OP" and each.argrepr in ("+=", "|="))


def _loaded_below(instructions, depth, of_entry=False):
    """(operation, name) of the instruction that loaded the value that many places below the top; None: straight code
    does not show it. `of_entry`: for an entry, what loaded its container."""
    wanted = depth
    for each in reversed(instructions[-STORED_MOST:]):
        names = each.argval if type(each.argval) is tuple else ()
        if len(names) == 2 and each.opname.startswith("LOAD_FAST") and each.opname.count("LOAD_FAST") == 2:
            if wanted < 2:
                return "LOAD_FAST", names[1 - wanted]
            wanted -= 2
            continue
        if not wanted and each.opname.startswith(("LOAD_", "STORE_FAST_LOAD_FAST")):
            return ("LOAD_FAST", names[1]) if names and each.opname.startswith("STORE") else (each.opname, each.argval)
        if not wanted and of_entry and _is_entry(each):
            wanted = 2 if each.opname == "BINARY_SLICE" else 1
            continue
        if not wanted or each.opcode in JUMPS or each.opname.startswith((*MOVED, "STORE_FAST_")):
            return None
        wanted -= dis.stack_effect(each.opcode, each.arg)
        if wanted < 0:
            return None
    return None
