"""Finds containers that the program keeps on purpose: code behind the loop that fills them reads their entries. An
example:

    losses = []
    for batch in batches:            # the loop: flow leads from its body back to its begin
        losses.append(step(batch))
    print(torch.stack(losses))       # behind it, and not within another loop that keeps the same list

If an outer loop has the last line, too, but not the first, each of its rounds reads a longer list: nobody drops the old
entries. Calls are followed by their names, so code counts only if it runs once. It is then a module's own, or a name in
a module's own code leads to it, and no loop does. A local variable that the code makes anew is read by each run on its
own.
"""

import dis
import sys
import types

from libmemprof_torch.holders_filled import CLOSURE, LOCAL, NAMED_AT, NOT_BETWEEN, lines_that_fill
from libmemprof_torch.holders_idle import CODE_MOST, Flow
from libmemprof_torch.holders_names import OPTIMIZED

READ, COUNTED = "read", "counted"  # the readers know these (src/analysis/holders)
READING = {"items", "values", "keys", "get", "copy", "pop", "popleft", "popitem", "sort"}  # methods of containers
SIZES = {"len", "bool", "id", "type"}
DEEPEST = 6  # calls from a loop to the line that fills
CODES_MOST = 3000
INLINE = {"<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"}


class _Body:
    """One code: what it names where, and its loops."""

    def __init__(self, code):
        self.code, self.flow = code, Flow(code)
        self.steps = self.flow.steps
        self.names = {}  # by place: names of functions, methods and variables that the instruction loads
        for place, step in enumerate(self.steps):
            if step.opname.startswith("LOAD_"):
                self.names[place] = set(_names_of(step))
        self.loops = self.flow.loops()
        self.looped = set().union(*self.loops)

    def named_in(self, places):
        return set().union(*(self.names[place] for place in places if place in self.names))


def _names_of(step):
    if type(step.argval) is types.CodeType:  # a comprehension, a lambda or a function: it may run here
        yield step.argval.co_name
        if step.argval.co_name in INLINE:
            yield from step.argval.co_names
    elif type(step.argval) is tuple:
        yield from (each for each in step.argval if type(each) is str)
    elif type(step.argval) is str and not step.opname.startswith("LOAD_CONST"):
        yield step.argval


class Later:
    def __init__(self, codes, out_of_time):
        """`codes`: the program's own."""
        self._out_of_time, self._bodies = out_of_time, {}
        # A class's code only stores the names of its functions.
        self._codes = [code for code in codes[:CODES_MOST] if code.co_flags & OPTIMIZED or code.co_name == "<module>"]
        self._by_name, self._once = {}, None
        torch = sys.modules.get("torch")
        # A name of theirs may be called on anything.
        self._common = (list, dict, set, str, *((torch.Tensor, torch.nn.Module) if hasattr(torch, "Tensor") else ()))
        for code in self._codes:
            self._by_name.setdefault(code.co_name, []).append(code)

    def read_of(self, what, name, codes):
        """(READ or COUNTED, line) of the first line that reads the container of this name behind the loop which fills it;
        None: there is none. `codes`: those in which the name is the container's."""
        named_by, fillers, readers = NAMED_AT[what], set(), {}
        for code in codes:
            if name in (*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars):
                body = self._body(code)
                if body is None:
                    return None
                if any(map(len, lines_that_fill(code, name, named_by) or ())):
                    fillers.add(code)
                how = max((self._how_read(body, place, name, named_by) for place in range(len(body.steps))), default=0)
                if how:
                    readers[code] = how
        if not fillers and what not in (LOCAL, CLOSURE):
            return None
        filling = self._leading_to({code.co_name for code in fillers})
        reading = self._leading_to({code.co_name for code, how in readers.items() if how == 2 and code not in fillers})
        common = {name for name in reading if any(hasattr(cls, name) for cls in self._common)}
        counting = self._leading_to({code.co_name for code in readers if code not in fillers}) - reading | common
        reading -= common
        found = []
        for code in {*self._codes, *codes}:
            body = self._body(code)
            if body is None:
                return None
            makes = {place for place, step in enumerate(body.steps)
                     if step.opname.startswith("STORE_") and step.opname.startswith(named_by) and step.argval == name}
            is_own = bool(makes) and what in (LOCAL, CLOSURE)
            if not (is_own or code in self._run_once()) or is_own and code not in codes:
                continue
            keeping = [loop for loop in body.loops if not loop & makes]
            kept = [loop for loop in keeping if self._fills(body, loop, name, named_by, filling)]
            inside = {place for place, step in enumerate(body.steps) if self._fills(body, {place}, None, named_by, filling)}
            if is_own and not kept:
                kept = keeping  # a function in this one fills it, and anything may call that
            area = set().union(*kept) if kept else inside - body.looped
            for place in sorted(body.flow.behind(area) - set().union(*kept)) if area else ():
                how = self._how_read(body, place, name, named_by) if code in codes else 0
                names = body.names.get(place, set()) if not how and place not in area else set()
                how = how or (2 if names & reading else 1 if names & counting else 0)
                if how:
                    found.append((-how, body.flow.line(place)))
        how, line = min(found, default=(0, 0))
        return (READ if how == -2 else COUNTED, line) if how and line else None

    def _fills(self, body, places, name, named_by, filling):
        """True if these instructions load the container, or a name that leads to code which fills it."""
        return any(name in body.names[place] and body.steps[place].opname.startswith(named_by) or
                   not filling.isdisjoint(body.names[place]) for place in places if place in body.names)

    def _body(self, code):
        """None: there is no time."""
        if code not in self._bodies:
            if len(code.co_code) > CODE_MOST or self._out_of_time():
                return None
            self._bodies[code] = _Body(code)
        return self._bodies[code]

    def _leading_to(self, names):
        """These names, and those of functions that name them."""
        found = set(names)
        for _ in range(DEEPEST):
            more = {code.co_name for code in self._codes if code.co_name not in found and
                    not found.isdisjoint((*code.co_names, *code.co_freevars))} - {"<module>"}
            if not more:
                break
            found |= more
        return found

    def _run_once(self):
        if self._once is None:
            modules = [code for code in self._codes if code.co_name == "<module>"]
            bodies = list(filter(None, map(self._body, self._codes)))
            looped = self._below(set().union(*(body.named_in(body.looped) for body in bodies)))
            once, waiting = set(modules), list(modules)
            while waiting:
                body = self._body(waiting.pop())
                for each in (code for name in (body.named_in(body.names) - looped if body else ())
                             for code in self._by_name.get(name, ())):
                    if each not in once:
                        once.add(each)
                        waiting.append(each)
            self._once = once
        return self._once

    def _below(self, names):
        """These names, and those that their functions name."""
        found, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(each for code in self._by_name.get(name, ()) for each in code.co_names)
        return found

    @staticmethod
    def _how_read(body, place, name, named_by):
        """0: the instruction does not load the container, or only to change or test it. 1: code counts its entries, or
        takes one of them. 2: code reads them."""
        step = body.steps[place]
        values = step.argval if type(step.argval) is tuple else (step.argval,)
        if not step.opname.startswith("LOAD_") or not step.opname.startswith(named_by) or name not in values:
            return 0
        rest = [each for each in body.steps[place + 1:place + 8] if each.opname not in NOT_BETWEEN and
                each.opname != "PRECALL"][:2]
        if values[-1] != name or not rest:
            return 2
        following = rest[0]
        if following.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            return 2 if following.argval in READING else 0
        if following.opname.startswith(("TO_BOOL", "POP_JUMP", "UNARY_NOT", "STORE_", "COPY")):
            return 0
        before = [each.argval for each in body.steps[max(place - 4, 0):place]]
        if following.opname.startswith("CALL") and not SIZES.isdisjoint(each for each in before if type(each) is str):
            return 1
        takes_one = len(rest) > 1 and following.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and \
            type(following.argval) is int and rest[1].opname in ("BINARY_SUBSCR", "BINARY_OP")
        return 1 if takes_one else 2
