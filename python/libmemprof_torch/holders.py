"""Finds the holders of memory. A walk goes from roots (names of modules, locals of frames, running code) down to the
tensors that use storages. It also follows graphs of autograd to the tensors that their nodes have saved.

The walk is breadth first, from the program's own names, so it first meets the shortest path that a person would write.
It never meets most of Python's and torch's own objects. From tensors that it did not reach, it climbs up, with few
calls of gc.get_referrers. It runs no code of the program: it reads attributes past their class, and calls no repr. It
keeps nothing alive, and leaves Python's collector as it was. holders_names.py makes the texts.

An example: `losses` is a local list of main(), and each loss has a graph that saved a matrix of 64 KiB. The walk goes

    main()'s frame -> "losses" -> [0] a tensor -> .grad_fn -> AddmmBackward0 -> _saved_mat1, over the matrix's storage

in five steps. It is the first path to that storage, so longer ones, such as over the optimizer's state, are not
followed. The same path over [1], [2], ... is one holder: main().losses[*].grad_fn → AddmmBackward0._saved_mat1.
"""

import collections
import contextlib
import gc
import itertools
import os
import re
import sys
import time
import types

from libmemprof_torch import (holders_arrays, holders_climb as climbing, holders_filled, holders_graphs as graphs,
                              holders_idle, holders_later, holders_names as naming)
from libmemprof_torch.holders_names import Edge, PLAIN, mro_of, type_name
from libmemprof_torch.holders_storages import Storages

BUDGET_NS = 200_000_000
# Shares of the budget after which the search for tensors, the walk, the climb and the naming end. The rest is for
# freeing the look's own objects.
FIND_PERCENT, WALK_PERCENT, CLIMB_PERCENT, NAME_PERCENT = 25, 70, 88, 94
WALL = 25  # a machine with many others is slow for us, too
OBJECTS_MOST = 3_000_000
CLOCK_EVERY = 128  # objects between two looks at the clock
MANY = 4096  # entries of one container, which are visited after all else unless tensors are among them
LINES_MOST = 16  # holders whose container's line is looked for
DEAD_NS, DEAD_PERCENT = 2_000, 10  # for each of the youngest objects; of the budget: the search for what is unreachable
YOUNG_MOST = 4000  # of them, in a short look
LISTED = re.compile(r"[\w.()<>]+\[\*\]")  # the path of a list's entries
HEAD_START = 8  # levels that one frame's locals are walked before those of the frame that it calls: four attributes

ELSEWHERE = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)  # not under the object
OURS = naming.OURS


class _Spent:
    """The time of a look. The thread's own time counts, which a busy machine does not change. The look also ends when
    WALL times as much time has passed."""

    def __init__(self):
        self._own, self._all = time.thread_time_ns(), time.perf_counter_ns()

    def __call__(self):
        return max(time.thread_time_ns() - self._own, (time.perf_counter_ns() - self._all) // WALL)

    def seconds(self):
        return (time.perf_counter_ns() - self._all) / 1e9


def _children_of(found, kind):
    return list(dict.values(found)) if kind == "dict" else gc.get_referents(found)


class Block:
    """A storage, and the place of the object that leads to it, by `edge` if the object does not own it."""

    __slots__ = ("address", "place", "edge")

    def __init__(self, address, place, edge):
        self.address, self.place, self.edge = address, place, edge


class Look:
    """One look. `blocks` by address of storages is filled; `complete` says whether the look saw everything, `notes`
    what it left out. `wanted`: addresses of storages; None: all. `last`: frames that may have returned. `under`: (name,
    object) of the only roots; None: the whole program's. `is_short`: walks the program's own names only, and neither
    lists Python's objects nor climbs from tensors. `collects`: Python's collector is on."""

    def __init__(self, torch, wanted=None, budget_ns=BUDGET_NS, saved=None, objects_most=OBJECTS_MOST, last=(),
                 sees_views=True, census=None, under=None, is_short=False, collects=True):
        self.torch = torch
        self.base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        self._storages = Storages(torch, self.base)
        self._wanted = set(wanted) if wanted is not None else None
        self._saved = saved  # SavedHooks
        self._budget_ns, self._objects_most, self._last = budget_ns, objects_most, last
        self._under, self.is_short, self.cycle = under, is_short, "cycle" if collects else "cycle off"
        self._sees_views = sees_views and not is_short  # PyTorch lets other threads run while views are asked for their storages
        self.blocks, self.notes = {}, []
        self._census, self.counted = census, []  # holders_census.Census; (name, value) of what it counted
        self.complete, self._stop = True, None
        self.seconds, self.looked_at = 0.0, 0

    # ---- the look

    def run(self):
        """Holders (holders_names.Holder), most blocks first."""
        self._spent = _Spent()
        self._until = self._budget_ns * WALK_PERCENT // 100
        was_on = gc.isenabled()
        gc.disable()  # what is made here must not be why a collection begins
        try:
            with self.torch._C.DisableTorchFunction():
                return self._run()
        finally:
            self._forget()
            if was_on:
                gc.enable()
            self.seconds = self._spent.seconds()

    def _forget(self):
        self._marker = self.found = self._objects = self._order = self._parents = self._edges = self.seen = self._later = None
        self._kinds = {}
        self.tensors = self._names = self._idle = self.left = self._frames = None
        self.reader = self._made = None
        self.blocks = {}

    def _run(self):
        self._order, self._parents, self._edges = [], [], []  # visited objects, the place of each one's parent, the edge
        self.seen = {}  # place by address
        self._later = []  # (object, place of the parent) that waits for a later tier
        self._frames, self._last = naming.Frames(self._last), ()
        self._made = None  # (what _made_since() said), where it was asked for
        self._marker = []  # the youngest object there is: what Python lists behind it was made later
        begun = self._spent()
        self._objects = [] if self.is_short else self._by_age() if self._under is None else self._all_under()
        referrers_ns = 2 * (self._spent() - begun)  # one call that looks through all of them
        self._frames.read()
        self._kinds = {}
        self._find_tensors()
        self._names, self._idle = naming.Names(self), holders_idle.Idle(self)
        self.reader = graphs.SavedReader(self.torch, self._saved, self.miss)
        self.may_read_graph = not self._frames.in_backward
        if not self.may_read_graph:
            self.miss("a backward pass is running, so graphs were not looked at")
        tiers = self._roots()
        if self.is_short:
            self.miss("to take little of the program's time, the look walked only the program's own names")
            del tiers[1:]
        for number, groups in enumerate(tiers):
            if not self.left and not self.is_short or not self._walk(groups, number == 0):
                break
        del tiers, groups
        self._frames.forget()
        self._until = self._budget_ns * CLIMB_PERCENT // 100
        if self.left or self.is_short:  # else the walk met all tensors, and none is garbage
            self._settle_dead(self._unreachable())
        if self.left and not self.is_short and self._under is None:  # a few calls find more than a longer walk
            climbing.Climbs(self, self._spent, self._until, referrers_ns).run()
        if self._stop:
            of_some = f" of some {len(self._objects)}" if self._objects else ""
            self.miss(f"the look was {self._stop} ({self._budget_ns // 1_000_000} ms): {len(self._order)}{of_some} objects")
        self._until = self._budget_ns * NAME_PERCENT // 100
        found = self._names.holders(self.blocks.values())
        if not self.is_short:
            self._find_immortal(found)
            if self._spent() < self._budget_ns:
                self._idle.mark(found)
        self._find_lines(found)
        if self._census and self._spent() < self._budget_ns:
            counts = "numpy" in sys.modules and (not self.is_short or "MEMPROF_HOST_HOLDERS" in os.environ)
            held = self._array_bytes() if counts else None
            self.counted = list(self._census.take(self, self._kinds_to_count(), held))
        return found

    def _kinds_to_count(self):
        """The first look counts all objects, even if it is short: growth needs a begin."""
        if self.is_short and not self._census.is_new():
            return None
        return collections.Counter(map(type, self._objects or gc.get_objects()))

    def _array_bytes(self):
        arrays = holders_arrays.Arrays(self._frames, self._budget_ns - self._spent())
        arrays.forget()
        return arrays.held

    def reached(self):
        """The objects that the walk has met, by place."""
        return self._order

    def name_at(self, place):
        return self._names.text_to(place)

    def _find_immortal(self, found):
        """A list of tensors may have found them by gc.get_objects(), as tools do. If one lives by a cycle that the
        collector does not see, that holds it whatever happens to the list."""
        for listed in [each for each in found[:LINES_MOST] if LISTED.fullmatch(each.path)]:
            tensor = self._order[self.blocks[listed.addresses[0]].place]
            if self.kind_of(type(tensor)) != "tensor" or not naming.dict_of(tensor):
                continue
            home = climbing.Climbs(self, self._spent, self._until).way_home(tensor, True)
            start = listed.path
            for each in found if home else ():
                if each.path.startswith(start):
                    below = each.path[len(start):].lstrip(".")
                    each.path = naming.UNSEEN_CYCLE + home + (f" → {below}" if below else "")
                    each.kind, each.told, each.container = "native", len(each.path), None

    def _find_lines(self, found):
        """The lines that fill the containers with most bytes. If there is no time to find a line, the look still counts
        as complete."""
        def is_late():
            return self._spent() >= self._until

        filled = later = None
        for holder in found[:LINES_MOST]:
            if holder.container and not is_late():
                filled = filled or holders_filled.Filled(self._frames, is_late)
                at = filled.line_of(*holder.container)
                if at:
                    holder.file, holder.line = at
                bound = filled.bound_of(*holder.container, holder.sizes) if holder.entries else None
                if bound is not None:
                    holder.tell_bound(bound)
                elif holder.entries and ".grad_fn" not in holder.path:  # a graph is wanted by nobody
                    later = later or holders_later.Later(filled.codes(), is_late)
                    what, name, of, _ = holder.container
                    read = later.read_of(what, name, list(filled.codes_for(what, of)))
                    if read:
                        holder.tell(f"{read[0]} later, line {read[1]}")
        for holder in found:
            holder.container = None  # it has classes of the program

    def _all_under(self):
        """Referring to an object writes to its memory, which a forked child shares with its parent until then."""
        found = [value for _, value in self._under]
        seen = set(map(id, found))
        for each in found:  # and those that are added meanwhile
            if len(found) >= self._objects_most or self._spent() > self._until:
                break
            for child in gc.get_referents(each) if type(each) not in PLAIN else ():
                if id(child) not in seen and not issubclass(type(child), ELSEWHERE) and type(child) not in PLAIN:
                    seen.add(id(child))
                    found.append(child)
        return found

    def made_since(self):
        """The addresses of objects made since the look began. None: a collection in another thread has moved them among
        older objects."""
        found = set()
        for each in reversed(gc.get_objects(0)):
            if each is self._marker:
                return found
            found.add(id(each))
        return None

    def frames(self):
        """The program's own running frames of the main thread."""
        return [each.frame for each in self._frames.all if each.is_main and each.tier == 0 and not each.is_over]

    def ended_frames(self):
        """The program's last frames, which have returned (holders_last.py)."""
        return [each.frame for each in self._frames.all if each.is_over]

    def values_of_locals(self):
        """The frames that functions run in."""
        for frame in self._frames.all:
            if frame.frame.f_code.co_flags & naming.OPTIMIZED:
                frame.read()
                values, frame.locals = [value for _, value in frame.locals], None
                yield from values

    def value_of(self, frame, name):
        """None: the frame has no such name."""
        if not frame.f_code.co_flags & naming.OPTIMIZED:
            return dict.get(frame.f_globals, name)
        found = next(each for each in self._frames.all if each.frame is frame)
        found.read()
        value, found.locals = dict(found.locals).get(name), None
        return value

    def is_own(self, referrer):
        """True if the container belongs to the look."""
        return self.seen.get(id(referrer)) == -1 and type(referrer) is not dict

    def object_at(self, place):
        return self._order[place]

    def edge_of(self, place):
        return self._edges[place]

    def path_of(self, place):
        """The places from this one up to the root."""
        path = [place]
        while self._parents[path[-1]] >= 0:
            path.append(self._parents[path[-1]])
        return path

    def bytes_of(self, tensor):
        return self.base.numel(tensor) * self.base.element_size(tensor)

    def nodes(self):
        """Graphs that tensors lead to."""
        return [self.base.grad_fn.__get__(tensor) for tensor in self.found
                if not graphs.is_leaf(self.base, tensor) and graphs.has_settled_graph(self.base, tensor)]

    def is_alone(self, tensor):
        """True if no other tensor uses its storage."""
        address = self.tensors.get(id(tensor))
        return sum(each == address for each in self.tensors.values()) == 1

    def is_listed(self, found):
        """True if the object is in the list of all objects, which is one more reference to it. The list is from the
        begin of the look, so objects made later are not in it."""
        if self.is_short or not gc.is_tracked(found):
            return False
        if self._made is None:
            self._made = (self.made_since(),)
        return self._made[0] is not None and id(found) not in self._made[0]

    def miss(self, note):
        self.complete = False
        if note not in self.notes:
            self.notes.append(note)

    def out_of_time(self):
        if self._spent() < self._until and len(self._order) < self._objects_most:
            return False
        self.end("out of time" if self._spent() >= self._until else "out of objects")
        return True

    def end(self, why):
        self._stop, self.complete = why, False

    # ---- tensors

    def kind_of(self, cls):
        """How objects of a class are visited; "" for classes without a way of their own. "opaque" is a tensor whose
        address only code of the program gives. "script" is a module of TorchScript. "generator" is also a coroutine."""
        kind = self._kinds.get(cls)
        if kind is None:
            mro = mro_of(cls)
            kind = ""
            if self.torch.Tensor in mro or self.base in mro:
                own = next((each for each in mro if "__torch_dispatch__" in naming.dict_of_type(each)), None)
                kind = "tensor" if own in (None, self.torch.Tensor, self.base) else "opaque"
                if cls is self.torch.nn.Parameter or own is None:
                    kind = "tensor"
            elif dict in mro:
                kind = "dict"
            elif type in mro:
                kind = "type"
            elif cls is types.FrameType:
                kind = "frame"
            elif cls in naming.RUNS:
                kind = "generator"
            elif graphs.is_node_type(self.torch, cls, mro):
                kind = "node"
            elif self.torch._C.StorageBase in mro:
                kind = "storage"
            elif self.torch._C.ScriptModule in mro:
                kind = "script"
            elif naming.array_type(mro) is not None:
                kind = "array"
            self._kinds[cls] = kind
        return kind

    def _find_tensors(self):
        """All tensors with Python objects, and the addresses of those whose holder is wanted. Storages are read only
        when the walk meets them: C++ alone may hold a storage, and may free it meanwhile."""
        tensor_types, classes = set(), [self.base, self.torch._C.StorageBase]
        for cls in classes:  # and those that are added meanwhile
            classes.extend(type.__subclasses__(cls))
            if self.kind_of(cls) in ("tensor", "storage"):
                tensor_types.add(cls)
        self.tensors, self.found, self.left, self._knows_tensors = {}, [], set(), True
        self._tensor_types = tensor_types
        until = self._spent() + self._budget_ns * FIND_PERCENT // 100
        asked = {cls for cls in tensor_types if self.kind_of(cls) == "tensor"}
        are_tensors = map(asked.__contains__, map(type, self._objects))
        for found in itertools.compress(self._objects, are_tensors):
            if len(self.tensors) % CLOCK_EVERY == 0 and self._spent() > until and self.tensors:
                self._stop, self.complete, self._knows_tensors = "out of time", False, False
                break
            for address, _, _ in self._storages.addresses_of(found, self.kind_of(type(found)) == "storage"):
                if self._wanted is None or address in self._wanted:
                    self.tensors[id(found)] = address
                    self.found.append(found)
                    self.left.add(address)
        if self._wanted is not None:
            self.left = set(self._wanted)

    def _youngest(self):
        """The objects made last, as many as there is time to ask, oldest first. Garbage that waits for the collector is
        among them: it has been made since the last full collection, which frees older garbage."""
        most = YOUNG_MOST if self.is_short else self._budget_ns * DEAD_PERCENT // 100 // DEAD_NS
        objects = self._by_age(most) if self.is_short else self._objects
        # The look's own lists have a million references to what the walk has met.
        return [each for each in objects[-most:] if self.seen.get(id(each)) != -1] if most else []

    @staticmethod
    def _by_age(most=0):
        """Python's objects, the oldest generation first; `most` of each one."""
        young, middle, old = (gc.get_objects(generation)[-most:] for generation in (0, 1, 2))
        return old + middle + young

    def _unreachable(self):
        """By address, the objects that Python's collector would free now, as it finds them: references to them come
        only from one another. Only the youngest objects count, so a part of the garbage may be missing."""
        objects = self._youngest() if self._under is None else []
        found = collections.Counter(map(id, self.found))
        lists = 2 if self._objects else 1  # that have each of the objects
        inside = collections.Counter(map(id, gc.get_referents(*objects))).get
        alone = [object()]
        for each in alone:
            ours = sys.getrefcount(each) - 1  # of this loop
        each = None
        dead, reached = dict(zip(map(id, objects), objects)), []
        for each in objects:  # and `dead`
            if sys.getrefcount(each) > inside(id(each), 0) + found[id(each)] + lists + 1 + ours:
                reached.append(each)
        while reached:
            for address in map(id, reached):
                del dead[address]
            below = gc.get_referents(*reached)
            reached = list({address: each for address, each in zip(map(id, below), below) if address in dead}.values())
        return dead

    def _settle_dead(self, dead):
        """Storages that only garbage uses, and no other tensor and no graph."""
        if self.is_short and any(self.kind_of(type(each)) == "tensor" for each in dead.values()):
            self._objects = self._by_age()
            self._find_tensors()
            self._objects = []
            self.left -= self.blocks.keys()
        tensors = [each for each in self.found if id(each) in dead and self.tensors[id(each)] in self.left]
        if not tensors or not self._knows_tensors:
            return
        used = {self.tensors[id(each)] for each in self.found if id(each) not in dead}
        if not self.complete and not self._add_saved(used, dead):
            return
        above = collections.defaultdict(list)
        for each in dead.values():
            for child in gc.get_referents(each):
                if id(child) in dead:
                    above[id(child)].append(each)
        for tensor in tensors:
            if self.tensors[id(tensor)] in used:
                continue
            group = [tensor]
            seen = {id(tensor)}
            for each in group:  # and those that are added meanwhile
                more = [] if len(group) >= climbing.MOST else [one for one in above[id(each)] if id(one) not in seen]
                seen.update(map(id, more))
                group.extend({id(one): one for one in more}.values())
            top = naming.telling(group)
            if self.tensors[id(tensor)] in self.left and len(group) > 1 and id(top) not in self.seen:
                self.top(top, Edge(self.cycle, naming.cycle_text(group), None, True))

    def _add_saved(self, used, dead):
        """Adds the storages that the graphs of tensors saved, other than those of garbage. False: not all are known."""
        nodes = [] if self.may_read_graph else None
        for each in self.found:
            if not graphs.is_leaf(self.base, each) and id(each) not in dead:
                if nodes is None or not graphs.has_settled_graph(self.base, each):
                    return False
                nodes.append(self.base.grad_fn.__get__(each))
        seen = set()
        for node in nodes or ():  # and those that are added meanwhile
            if id(node) in seen or node is None:
                continue
            seen.add(id(node))
            if len(seen) % CLOCK_EVERY == 0 and self.out_of_time():
                return False
            with contextlib.suppress(RuntimeError, AttributeError):
                for _, saved in self.reader.saved_by(node):
                    if type(saved) not in PLAIN and self.kind_of(type(saved)) == "tensor":
                        used.update(address for address, _, _ in self._storages.addresses_of(saved, False))
                nodes.extend(each for each, _ in graphs.next_functions(self.torch, node))
        return True

    def views(self):
        """(bytes that tensors and arrays use, all bytes) by the address of a storage. A tensor that only its views hold
        uses nothing; a graph may use everything that it saved."""
        used, found = collections.Counter(), {}
        viewed = {id(self.base._base.__get__(tensor)) for tensor in self.found}
        for tensor in self.found:
            if id(tensor) in viewed and self.seen.get(id(tensor), -1) < 0:
                continue
            with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
                used[self.tensors[id(tensor)]] += self.bytes_of(tensor)
        for address, block in self.blocks.items() if self._sees_views else ():
            if self.out_of_time():
                break
            tensor = self._order[block.place]
            with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
                if id(tensor) not in self.tensors or self.base.requires_grad.__get__(tensor):
                    continue
                found[address] = (self._bytes_of_array(block.place) or used[address], self._storages.bytes_of(tensor))
        return found

    def _bytes_of_array(self, place):
        """The address of the array that owns the tensor's memory, following bases; 0: none."""
        edge, above = self._edges[place], self._parents[place]
        while edge is not None and edge.what == "attribute" and edge.text == "base" and above >= 0:
            place, edge, above = above, self._edges[above], self._parents[above]
        members = naming.array_type(mro_of(type(self._order[place])))
        return naming.dict_of_type(members)["nbytes"].__get__(self._order[place]) if members else 0

    # ---- down from the roots

    def _roots(self):
        """Tiers of groups of (object, edge): the program's own first, then other packages', then Python's and torch's
        own. A group waits for the previous one: an object that a function passes on or names again belongs to the
        caller that owns it."""
        tiers = [[[]], [[]], [[]]]
        modules = naming.modules()
        for name, module, namespace, tier in modules:  # never met by the way: each is named at its own turn
            self.seen[id(module)] = self.seen[id(namespace)] = -1
        self.seen[id(sys.modules)] = -1
        for ours in (self, self.__dict__, self._objects, self._order, self._parents, self._edges, self.seen, self._later,
                     self.tensors, self.found, self.left, self.blocks, self._names, self._frames, self.notes, self._kinds,
                     self._marker):
            self.seen[id(ours)] = -1
        own = tiers[0][0]
        if self._under is not None:
            own.extend((value, Edge("global", name)) for name, value in self._under)
            return tiers
        for name, module, namespace, tier in modules:
            if name == "__main__":
                own.extend((value, Edge("global", key)) for key, value in dict.items(namespace))
        rest = []
        for frame in self._frames.all:
            self.seen[id(frame.frame)] = -1
            groups, depth = tiers[frame.tier], frame.depth if frame.tier == 0 else 0
            groups.extend([] for _ in range(depth + 1 - len(groups)))
            for key, value in frame.locals:
                (rest if frame.tier == 0 and key in frame.passed else groups[depth]).append((value, Edge("local", key, frame)))
        own.extend((value, Edge("global", key)) for key, value in naming.of_a_worker())
        own.extend((value, Edge("global", f"{name}.get()")) for name, value in naming.context_variables())
        for name, module, namespace, tier in modules:
            if name != "__main__" and not name.startswith(OURS) and tier == 0:
                own.extend(self._names_of(name, namespace))
        for tier in (1, 2):  # not read before their turn: two thousand modules have ninety thousand names
            of_tier = [each for each in modules if each[3] == tier and not each[0].startswith(OURS)]
            names = (self._names_of(name, namespace) for name, _, namespace, _ in of_tier)
            tiers[tier][0] = itertools.chain(tiers[tier][0], itertools.chain.from_iterable(names))
        rest.extend((value, Edge("global", key)) for key, value in naming.handled_exceptions())
        rest.extend((value, Edge("global", f"sys.{name}")) for name, value in naming.last_errors())
        tiers[0].append(rest)
        return tiers

    @staticmethod
    def _names_of(name, namespace):
        return [(value, Edge("global", f"{name}.{key}")) for key, value in dict.items(namespace) if type(key) is str]

    def add(self, found, parent, edge):
        self.seen[id(found)] = len(self._order)
        self._order.append(found)
        self._parents.append(parent)
        self._edges.append(edge)

    def _add_roots(self, roots):
        for value, edge in roots:
            if type(value) not in PLAIN and id(value) not in self.seen:
                self.add(value, -1, edge)

    def _walk(self, groups, is_first):
        """Walks one tier, and what earlier tiers left for it. False: no time is left."""
        at, groups = len(self._order), collections.deque(groups)
        waiting, self._later = self._later, []
        self._add_roots(groups.popleft())
        for value, parent, edge in waiting:
            if id(value) not in self.seen:
                self.add(value, parent, edge)
        is_whole = self.visit_from(at, is_first, groups)
        for roots in groups:  # met, if not visited in time
            self._add_roots(roots)
        return is_whole

    def visit_from(self, at, is_first, groups=()):
        """`groups`: a deque of later roots, each HEAD_START levels after the one before."""
        order, parents, edges, seen = self._order, self._parents, self._edges, self.seen
        referents, kinds, kind_of = gc.get_referents, self._kinds, self.kind_of
        late, large = collections.deque(), collections.deque()  # places
        # Tensors that only graphs hold are unknown, so a full look walks the program's own objects to the end.
        found_all = self._wanted is not None or self._under is not None or not is_first
        level, head = len(order), HEAD_START  # where the level that is visited ends
        while at < len(order) or groups or late or large:
            if at == level:
                level, head = len(order), head - 1
                if groups and (head <= 0 or at == level):
                    self._add_roots(groups.popleft())
                    level, head = len(order), HEAD_START
                    continue
            if at == len(order) and large:
                below = large.popleft()
                if not self._visit_many(_children_of(order[below], kinds[type(order[below])]), below):
                    return False
                continue
            if at == len(order):
                below = late.popleft()
                for child in referents(order[below]):
                    if type(child) not in PLAIN and id(child) not in seen:
                        self.add(child, below, None)
                continue
            if at % CLOCK_EVERY == CLOCK_EVERY - 1 and ((found_all and not self.left) or self.out_of_time()):
                return False
            found = order[at]
            cls = type(found)
            kind = kinds.get(cls)
            if kind is None:
                kind = kind_of(cls)
            if kind:
                if kind == "tensor":
                    self._visit_tensor(found, at)
                elif kind == "node":
                    self._visit_node(found, at)
                elif kind == "storage":
                    self.claim(found, at)
                elif kind == "script":
                    self._visit_script(found, at)
                elif kind == "array":
                    self._visit_array(found, at)
                elif kind == "generator" and naming.is_running(found):  # its frame is one of the roots
                    at += 1
                    continue
                elif kind == "type" and is_first and not naming.is_own_type(found):
                    del seen[id(found)]
                    self._later.append((found, parents[at], edges[at]))
                    at += 1
                    continue
            if kind == "dict":  # what refers to it as a key says less, and so comes later
                children = dict.values(found)
                if cls is not dict or not set(map(type, dict.keys(found))) <= PLAIN:
                    late.append(at)
            else:
                children = referents(found)
            if len(children) > MANY:
                if self._tensor_types.isdisjoint(map(type, children)):
                    large.append(at)
                elif not self._visit_many(children, at):
                    return False
                at += 1
                continue
            for child in children:
                if type(child) in PLAIN:
                    continue
                address = id(child)
                if address not in seen:
                    seen[address] = len(order)
                    order.append(child)
                    parents.append(at)
                    edges.append(None)
            at += 1
            self.looked_at = at
        return True

    def _visit_many(self, children, parent):
        """False: no time is left."""
        for number, child in enumerate(children):
            if number % MANY == MANY - 1 and self.out_of_time():
                return False
            self._push(child, parent, None)
        return True

    def _push(self, found, parent, edge):
        if found is not None and type(found) not in PLAIN and id(found) not in self.seen:
            self.add(found, parent, edge)

    def claim(self, found, place, edge=None):
        for address, _, part in self._storages.addresses_of(found, self.kind_of(type(found)) == "storage"):
            if address not in self.blocks and (self._wanted is None or address in self._wanted):
                self.blocks[address] = Block(address, place, edge or part)
                self.left.discard(address)

    def _visit_script(self, module, at):
        """The collector does not see parameters, buffers and modules that C++ keeps for it."""
        for members in (self.torch._C.ParameterDict, self.torch._C.BufferDict, self.torch._C.ModuleDict):
            for name, value in members(module).items():
                self._push(value, at, Edge("attribute", name))

    def _visit_array(self, array, at):
        """For arrays of numpy: Python's collector does not see the objects in an array of objects."""
        members = naming.dict_of_type(naming.array_type(mro_of(type(array))))
        self._push(members["base"].__get__(array), at, Edge("attribute", "base"))
        if members["dtype"].__get__(array).kind != "O":
            return
        one_way = members["ndim"].__get__(array) == 1
        for place, value in enumerate(members["flat"].__get__(array)):
            if place % CLOCK_EVERY == CLOCK_EVERY - 1 and self.out_of_time():
                return
            self._push(value, at, Edge("entry", str(place) if one_way else "*"))

    def _visit_tensor(self, tensor, at):
        base = self.base
        self.claim(tensor, at)
        try:
            is_leaf = graphs.is_leaf(base, tensor)
            if is_leaf or base.retains_grad.__get__(tensor):
                self._push(base.grad.__get__(tensor), at, Edge("attribute", "grad"))
            if not is_leaf and self.may_read_graph and graphs.has_settled_graph(base, tensor):
                self._push(base.grad_fn.__get__(tensor), at, Edge("graph", "grad_fn"))
        except (RuntimeError, AttributeError):
            pass

    def _visit_node(self, node, at):
        if not self.may_read_graph:
            return
        for edge, saved in self.reader.saved_by(node):
            if type(saved) not in PLAIN and self.kind_of(type(saved)) == "tensor":
                self.claim(saved, at, edge)
            else:
                self._push(saved, at, edge)  # what a hook of the program packed
        try:
            following = graphs.next_functions(self.torch, node)
        except (RuntimeError, AttributeError):
            return
        for function, _ in following:
            self._push(function, at, Edge("graph", ""))
        self._push(graphs.accumulated(node), at, Edge("graph", "variable"))

    # ---- up from tensors that were not reached

    def top(self, found, edge):
        at = len(self._order)
        self.add(found, -1, edge)
        self.visit_from(at, False)
