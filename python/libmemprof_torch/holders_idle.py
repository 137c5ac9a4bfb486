"""Finds variables that are not read again: no path through the frame's bytecode reads the name before it is assigned
again. If only this variable holds a block, `del` can free it sooner. A graph may hold the block, too. The nodes that
took the tensor show this: their classes say which inputs and results they save.
"""

import bisect
import dis
import gc
import types

from libmemprof_torch import holders_graphs as graphs
from libmemprof_torch.holders_names import OPTIMIZED, mro_of, type_name

IN_BACKWARD, NOT_READ = " (not used in backward)", " (not read from line {} on)"  # the readers know these (src/analysis/holders)
BACKWARD = {"backward", "manual_backward"}  # what a frame calls to run it
ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}
ENDS_OF_STATEMENTS = ("STORE_", "DELETE_", "POP_", "RETURN_")
GOES = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD_NO_INTERRUPT"}
VIEWS = ("View", "UnsafeView", "Reshape", "Transpose", "Slice", "Select", "TBackward", "Permute", "Unsqueeze", "Squeeze",
         "Expand", "AsStrided", "Alias", "Split", "Unbind", "Narrow")
SILENT = {"_FunctionBase", "CppFunction", "CopySlices"}  # nodes that do not say what they save
CODE_MOST = 20_000  # bytes
NODES_MOST = 20_000
ASKED_MOST = 16  # tensors of a variable
CANDIDATES_MOST = 8
LEAST_BYTES = 1 << 18
KINDS = {"local", "attribute", "list", "dict"}


class Flow:
    """The ways through a code: which names may be read after an instruction, before they are assigned, and its loops.
    Places are indices of instructions."""

    def __init__(self, code):
        self.steps = list(dis.get_instructions(code))
        self.at = {step.offset: place for place, step in enumerate(self.steps)}
        self._offsets = [step.offset for step in self.steps]
        self._live = {}  # by name: a set of places before which it may be read

    def effect(self, step, name):
        """True if an instruction reads the name, False if it ends its value, otherwise None."""
        names = step.argval if type(step.argval) is tuple else (step.argval,)
        if name not in names:
            return None
        if step.opname.startswith(("LOAD_FAST_AND_CLEAR", "DELETE_")):
            return False
        if step.opname.startswith("STORE_") and "LOAD" not in step.opname:
            return step.opname in ("STORE_ATTR", "STORE_SUBSCR") or False
        return True if step.opname.startswith(("LOAD_", "STORE_")) and "ATTR" not in step.opname and \
            "METHOD" not in step.opname and "CONST" not in step.opname else None

    def _following(self, place):
        step = self.steps[place]
        if step.opname not in ENDS and step.opname not in GOES and place + 1 < len(self.steps):
            yield place + 1
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            yield self.at.get(step.argval, place)

    def line(self, place):
        """0: unknown."""
        return next((line for line in map(_line_of, reversed(self.steps[:place + 1])) if line), 0)

    def reached(self, places):
        """The places that flow leads to from these, and these themselves."""
        found, todo = set(places), list(places)
        while todo:
            more = {each for each in self._following(todo.pop()) if each not in found}
            found |= more
            todo.extend(more)
        return found

    def behind(self, places):
        return self.reached(places) - set(places)

    def loops(self):
        """A set of places for each loop. A handler of exceptions that goes on within a loop belongs to it."""
        found, handlers, before = {}, [], {}
        for place in range(len(self.steps)):
            for following in self._following(place):
                before.setdefault(following, []).append(place)
        for place in range(len(self.steps)):
            for head in (each for each in self._following(place) if each <= place):
                body, todo = {head, place}, [place]
                while todo:
                    more = [each for each in before.get(todo.pop(), ()) if each not in body]
                    body.update(more)
                    todo.extend(more)
                if place in self.reached({head}):
                    found[head] = found.get(head, set()) | body
                else:
                    handlers.append((head, body))
        for head, body in handlers:
            for loop in found.values():
                if head in loop:
                    loop |= body
        return list(found.values())

    def live(self, name):
        if name not in self._live:
            effects = [self.effect(step, name) for step in self.steps]
            before = {place: [] for place in range(len(self.steps))}
            reached = self.reached({0})
            for place in range(len(self.steps)):
                for following in self._following(place):
                    before[following].append(place)
            # A handler of exceptions may be entered from anywhere.
            anywhere = any(effect and place not in reached for place, effect in enumerate(effects))
            live = set(range(len(self.steps))) if anywhere else set()
            todo = [] if anywhere else [place for place, effect in enumerate(effects) if effect]
            while todo:
                place = todo.pop()
                if place in live:
                    continue
                live.add(place)
                todo.extend(each for each in before[place] if effects[each] is None)
            self._live[name] = live
        return self._live[name]

    def is_read_after(self, name, offset):
        """The state after the instruction at an offset: a call that runs, or has just returned."""
        place = None if offset is None else bisect.bisect_right(self._offsets, offset) - 1  # it may be in a cache
        return place is None or any(each in self.live(name) for each in self._following(place))

    def not_read_from(self, name, line):
        """The first line, up to this one, after which no line reads the name's value."""
        lines, at = {}, 0
        for place, step in enumerate(self.steps):
            at = _line_of(step) or at
            lines[at] = lines.get(at, False) or place in self.live(name)
        read = [each for each, reads in lines.items() if reads and each <= line]
        return min((each for each in lines if each > max(read, default=0)), default=line)

    def calls_of_backward(self):
        return [place for place, step in enumerate(self.steps)
                if step.argval in BACKWARD and step.opname.startswith(("LOAD_METHOD", "LOAD_ATTR"))]

    def statement_of(self, place):
        """The instructions from the end of one statement to the end of the next, which contains the place."""
        ends = [each for each, step in enumerate(self.steps) if step.opname.startswith(ENDS_OF_STATEMENTS)]
        cut = bisect.bisect_left(ends, place)
        return self.steps[ends[cut - 1] + 1 if cut else 0:ends[cut] if cut < len(ends) else None]

    def end_of_call(self, place):
        """The offset of the first call after a method is loaded; None. Calls in its arguments come before it."""
        return next((step.offset for step in self.steps[place + 1:]
                     if step.opname.startswith("CALL") and not step.opname.startswith("CALL_INTRINSIC")), None)


def _line_of(step):
    """0: the same as before, or none."""
    return getattr(step, "line_number", None) or (step.starts_line if type(step.starts_line) is int else 0) or 0


def _reads_elsewhere(code, name):
    """True if a function within the code may read a global name."""
    return any(isinstance(each, types.CodeType) and (name in each.co_names or _reads_elsewhere(each, name))
               for each in code.co_consts)


class _Candidate:
    """A holder whose blocks one variable leads to. `asked`: the variable's value, the tensors below it, and the objects
    in between."""

    __slots__ = ("holder", "form", "asked", "bytes")

    def __init__(self, holder, form, asked, size):
        self.holder, self.form, self.asked, self.bytes = holder, form, asked, size


class Idle:
    def __init__(self, look):
        self._look, self._codes, self._takers_of, self._nodes = look, {}, None, []

    def mark(self, holders):
        """Marks the paths of holders that are not read again, in a form that readers know. One call finds the referrers
        of the largest holders."""
        found = sorted(filter(None, map(self._candidate, holders)), key=lambda each: -each.bytes)[:CANDIDATES_MOST]
        counts = self._count_referrers([candidate.asked for candidate in found]) if found else {}
        for candidate in found:
            if all(counts[id(each)] <= 1 for each in candidate.asked):
                candidate.holder.path += candidate.form

    def _candidate(self, holder):
        look = self._look
        if holder.kind not in KINDS or len(holder.addresses) > ASKED_MOST:
            return None
        places = [look.blocks[address].place for address in holder.addresses]
        paths = [look.path_of(place) for place in places]
        roots = {path[-1] for path in paths}
        edge = look.edge_of(roots.pop())
        frame = self._frame_of(edge) if not roots and edge is not None else None
        tensors = [look.object_at(place) for place in places]
        if frame is None or not all(look.kind_of(type(each)) == "tensor" and look.is_alone(each) for each in tensors):
            return None
        size = sum(map(look.bytes_of, tensors))
        if size < LEAST_BYTES:
            return None
        code = self._codes.get(id(frame.f_code))
        if code is None:
            code = self._codes[id(frame.f_code)] = Flow(frame.f_code) if len(frame.f_code.co_code) < CODE_MOST else ()
        name = edge.text
        if not code or code.is_read_after(name, frame.f_lasti):
            return None
        line = code.not_read_from(name, frame.f_lineno)
        if frame in look.ended_frames() and line >= frame.f_lineno:  # nothing is read after a function's end
            return None
        early = all(self._is_over(frame, code, name, place) for place in code.calls_of_backward())
        unsaved = early and all(self._is_unsaved(tensor) for tensor in tensors)
        form = IN_BACKWARD if unsaved else NOT_READ.format(line)
        asked = {id(each): each for path in paths for each in map(look.object_at, path)}
        return _Candidate(holder, form, list(asked.values()), size)

    def _is_over(self, frame, code, name, place):
        """Neither the call of backward nor later code reads the name, and its loss still shows the graph."""
        before = code.steps[place - 1]
        lost = before.opname.startswith(("LOAD_FAST", "LOAD_NAME")) and \
            type(self._look.value_of(frame, before.argval)) in (type(None), float, int)
        return not (lost or code.is_read_after(name, code.end_of_call(place)) or
                    any(code.effect(step, name) for step in code.statement_of(place)))

    def _frame_of(self, edge):
        """The frame that owns the name; None: it has ended, or closures share the name."""
        for each in [*self._look.frames(), *self._look.ended_frames()]:
            code = each.f_code
            if edge.what == "local" and each is edge.frame.frame:
                return None if edge.text in code.co_cellvars or edge.text in code.co_freevars else each
            of_module = not code.co_flags & OPTIMIZED and each.f_globals.get("__name__") == "__main__"
            if edge.what == "global" and of_module and edge.text in each.f_globals:
                return None if _reads_elsewhere(code, edge.text) else each
        return None

    def _count_referrers(self, lists):
        """By address of the lists' contents: how many variables of running frames, and how many other objects, refer to
        it."""
        asked = [each for part in lists for each in part]
        look, counts, ours = self._look, dict.fromkeys(map(id, asked), 0), [asked, *lists]
        for value in look.values_of_locals():
            if id(value) in counts:
                counts[id(value)] += 1
        for referrer in gc.get_referrers(*asked):
            if not any(referrer is each for each in ours) and type(referrer) is not types.FrameType and \
                    not look.is_own(referrer):
                for child in {id(each) for each in gc.get_referents(referrer)} & counts.keys():
                    counts[child] += 1
        return counts

    def _is_unsaved(self, tensor):
        """True if no graph has saved it: its own node saves no result, and the nodes that took it save no input."""
        look, todo, found = self._look, [], 0
        for each in [tensor, *([look.base._base.__get__(tensor)] if look.base._is_view(tensor) else ())]:
            if look.base.is_leaf.__get__(each) or not graphs.has_settled_graph(look.base, each):
                return False
            todo.append(look.base.grad_fn.__get__(each))
            names = _saved_names(todo[-1])
            if names is None or any(name.startswith(("result", "output")) for name in names):
                return False
        while todo:
            for taker in self._takers().get(id(todo.pop()), ()):
                names = _saved_names(taker)
                if names is None or not all(each.startswith(("result", "output")) for each in names):
                    return False
                found += 1
                if type_name(type(taker)).startswith(VIEWS):
                    todo.append(taker)
        return found > 0

    def _takers(self):
        """In the graphs that variables lead to: nodes, by the address of a node whose result they take."""
        if self._takers_of is None:
            look, self._takers_of, self._nodes = self._look, {}, self._look.nodes()
            seen = set(map(id, self._nodes))
            for node in self._nodes:
                if len(self._nodes) > NODES_MOST or look.out_of_time():
                    self._takers_of = {}
                    break
                for following, _ in graphs.next_functions(look.torch, node):
                    if following is not None:
                        self._takers_of.setdefault(id(following), []).append(node)
                        if id(following) not in seen:
                            seen.add(id(following))
                            self._nodes.append(following)
        return self._takers_of


def _saved_names(node):
    """The tensors that a node of this class saves; None: unknown."""
    cls = type(node)
    if any(type_name(each) in SILENT for each in mro_of(cls)):
        return None
    return [name[len("_raw_saved_"):] for name in dir(cls) if name.startswith("_raw_saved_")]
