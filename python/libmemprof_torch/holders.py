"""Finds the holders of memory. A walk goes from roots (names of modules, locals of frames, running code) down to the
tensors that use storages. It also follows graphs of autograd to the tensors that their nodes have saved.

The walk is breadth first, from the program's own names. So it first meets the shortest path that a person would write.
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

from libmemprof_torch import (holders_arrays, holders_filled, holders_graphs as graphs, holders_idle, holders_later,
                              holders_names as naming)
from libmemprof_torch.holders_names import Edge, mro_of, type_name

BUDGET_NS = 200_000_000
# Shares of the budget after which the search for tensors, the walk, the climb and the naming end. The rest is for
# freeing the look's own objects.
FIND_PERCENT, WALK_PERCENT, CLIMB_PERCENT, NAME_PERCENT = 25, 70, 80, 90
WALL = 25  # a machine with many others is slow for us, too
OBJECTS_MOST = 3_000_000
CLOCK_EVERY = 128  # objects between two looks at the clock
MANY = 4096  # entries of one container, which are visited after all else unless tensors are among them
LINES_MOST = 16  # holders whose container's line is looked for
CLIMB_AT_ONCE = 64  # tensors that climb together, and objects whose referrers one call looks for: each is compared with
# every existing reference
CLIMB_AS_ONE = 16  # so many objects add at most as much to a call as it takes for none
CLIMB_MOST = 500  # objects above one
DEAD_NS, DEAD_PERCENT = 2_000, 10  # for each of the youngest objects; of the budget: the search for what is unreachable
YOUNG_MOST = 4000  # of them, in a short look
HOME_MOST = 2000  # objects on the way from one back to it
LISTED = re.compile(r"[\w.()<>]+\[\*\]")  # the path of a list's entries
HEAD_START = 8  # levels that one frame's locals are walked before those of the frame that it calls: four attributes

# Objects of these classes refer to nothing that could hold a tensor.
ELSEWHERE = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)  # not under the object
PLAIN = {int, float, complex, bool, str, bytes, bytearray, type(None), type(...), type(NotImplemented), types.CodeType, range,
         slice, types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType,
         types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.ModuleType}
OURS = naming.OURS
# The parts of sparse tensors.
ROWS, COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
PARTS = {"torch.sparse_coo": ("_indices", "_values"), "torch.sparse_csr": ROWS, "torch.sparse_bsr": ROWS,
         "torch.sparse_csc": COLUMNS, "torch.sparse_bsc": COLUMNS}


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


class _Climb:
    """Climbs from one tensor to the objects that lead to it: `group`, the tensor first. `below`: by address, what each
    object refers to on the way down; `held`: addresses of objects with a referrer; `at`: the number of objects in the
    group whose referrers are known."""

    __slots__ = ("group", "below", "held", "at")

    def __init__(self, tensor):
        self.group, self.below, self.held, self.at = [tensor], {id(tensor): None}, set(), 0


class Look:
    """One look. `blocks` by address of storages is filled; `complete` says whether the look saw everything, `notes`
    what it left out. `wanted`: addresses of storages; None: all. `last`: frames that may have returned. `under`: (name,
    object) of the only roots; None: the whole program's. `is_short`: walks the program's own names only, and neither
    lists Python's objects nor climbs from tensors. `collects`: Python's collector is on."""

    def __init__(self, torch, wanted=None, budget_ns=BUDGET_NS, saved=None, objects_most=OBJECTS_MOST, last=(),
                 sees_views=True, census=None, under=None, is_short=False, collects=True):
        self.torch = torch
        self.base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        self._storage_of = getattr(torch._C, "_data_address", None)  # leaves copy-on-write as it is
        self._wanted = set(wanted) if wanted is not None else None
        self._saved = saved  # SavedHooks
        self._budget_ns, self._objects_most, self._last = budget_ns, objects_most, last
        self._under, self.is_short, self._cycle = under, is_short, "cycle" if collects else "cycle off"
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
        self._marker = self._found = self._objects = self._order = self._parents = self._edges = self._seen = self._later = None
        self._kinds = {}
        self._tensors = self._names = self._idle = self._left = self._frames = None
        self._reader = self._made = self._hooked = self._alone = None
        self.blocks = {}

    def _run(self):
        self._order, self._parents, self._edges = [], [], []  # visited objects, the place of each one's parent, the edge
        self._seen = {}  # place by address
        self._later = []  # (object, place of the parent) that waits for a later tier
        self._frames, self._last = naming.Frames(self._last), ()
        self._made = None  # (what _made_since() said), where it was asked for
        self._alone = []  # climbs of tensors that no object of Python refers to
        self._home_until = None  # when the search for cycles that the collector does not see ends
        self._hooked = None  # nodes by the addresses of their hooks, where those were asked for
        self._marker = []  # the youngest object there is: what Python lists behind it was made later
        begun = self._spent()
        self._objects = [] if self.is_short else self._by_age() if self._under is None else self._all_under()
        self._referrers_ns = 2 * (self._spent() - begun)  # one call that looks through all of them
        self._frames.read()
        self._kinds = {}
        self._find_tensors()
        self._names, self._idle = naming.Names(self), holders_idle.Idle(self)
        self._reader = graphs.SavedReader(self.torch, self._saved, self.miss)
        self._may_read_graph = not self._frames.in_backward
        if not self._may_read_graph:
            self.miss("a backward pass is running, so graphs were not looked at")
        tiers = self._roots()
        if self.is_short:
            self.miss("to take little of the program's time, the look walked only the program's own names")
            del tiers[1:]
        for number, groups in enumerate(tiers):
            if not self._left and not self.is_short or not self._walk(groups, number == 0):
                break
        del tiers, groups
        self._frames.forget()
        self._until = self._budget_ns * CLIMB_PERCENT // 100
        if self._left or self.is_short:  # else the walk met all tensors, and none is garbage
            self._settle_dead(self._unreachable())
        if self._left and not self.is_short and self._under is None:  # a few calls find more than a longer walk
            self._climb()
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
            self._home_until = None
            home = self._way_home(tensor, True)
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
                if id(child) not in seen and not isinstance(child, ELSEWHERE) and type(child) not in PLAIN:
                    seen.add(id(child))
                    found.append(child)
        return found

    def _made_since(self):
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
        return self._seen.get(id(referrer)) == -1 and type(referrer) is not dict

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
        return [self.base.grad_fn.__get__(tensor) for tensor in self._found
                if not self.base.is_leaf.__get__(tensor) and graphs.has_settled_graph(self.base, tensor)]

    def is_alone(self, tensor):
        """True if no other tensor uses its storage."""
        address = self._tensors.get(id(tensor))
        return sum(each == address for each in self._tensors.values()) == 1

    def is_listed(self, found):
        """True if the object is in the list of all objects, which is one more reference to it. The list is from the
        begin of the look, so objects made later are not in it."""
        if self.is_short or not gc.is_tracked(found):
            return False
        if self._made is None:
            self._made = (self._made_since(),)
        return self._made[0] is not None and id(found) not in self._made[0]

    def miss(self, note):
        self.complete = False
        if note not in self.notes:
            self.notes.append(note)

    def out_of_time(self):
        if self._spent() < self._until and len(self._order) < self._objects_most:
            return False
        if self._spent() >= self._until:
            self._stop = "out of time"
        else:
            self._stop = "out of objects"
        self.complete = False
        return True

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
        self._tensors, self._found, self._left, self._knows_tensors = {}, [], set(), True
        self._tensor_types = tensor_types
        until = self._spent() + self._budget_ns * FIND_PERCENT // 100
        asked = {cls for cls in tensor_types if self.kind_of(cls) == "tensor"}
        are_tensors = map(asked.__contains__, map(type, self._objects))
        for found in itertools.compress(self._objects, are_tensors):
            if len(self._tensors) % CLOCK_EVERY == 0 and self._spent() > until and self._tensors:
                self._stop, self.complete, self._knows_tensors = "out of time", False, False
                break
            for address, _, _ in self._addresses_of(found):
                if self._wanted is None or address in self._wanted:
                    self._tensors[id(found)] = address
                    self._found.append(found)
                    self._left.add(address)
        if self._wanted is not None:
            self._left = set(self._wanted)

    def _youngest(self):
        """The objects made last, as many as there is time to ask, oldest first. Garbage that waits for the collector is
        among them: it has been made since the last full collection, which frees older garbage."""
        most = YOUNG_MOST if self.is_short else self._budget_ns * DEAD_PERCENT // 100 // DEAD_NS
        objects = self._by_age(most) if self.is_short else self._objects
        return objects[-most:] if len(objects) > most > 0 else objects if most else []

    @staticmethod
    def _by_age(most=0):
        """Python's objects, the oldest generation first; `most` of each one."""
        young, middle, old = (gc.get_objects(generation)[-most:] for generation in (0, 1, 2))
        return old + middle + young

    def _unreachable(self):
        """By address, the objects that Python's collector would free now, as it finds them: references to them come
        only from one another. Of the youngest objects only; so a part of the garbage may be missing."""
        objects = self._youngest() if self._under is None else []
        found = collections.Counter(map(id, self._found))
        found.update(map(id, objects))
        if objects is not self._objects and self._objects:
            found.update(map(id, objects))  # each is in both lists
        inside = collections.Counter(map(id, gc.get_referents(*objects))).get
        alone = [object()]
        for each in alone:
            ours = sys.getrefcount(each) - 1  # of this loop
        each = None
        dead, reached = {}, []
        for each in objects:
            dead[id(each)] = each
        for each in objects:  # and `dead`
            if sys.getrefcount(each) > inside(id(each), 0) + found[id(each)] + 1 + ours:
                reached.append(each)
        for each in reached:  # and those that are added meanwhile
            if dead.pop(id(each), None) is not None:
                reached.extend([child for child in gc.get_referents(each) if id(child) in dead])
        return dead

    def _settle_dead(self, dead):
        """Storages that only garbage uses, and no other tensor and no graph."""
        if self.is_short and any(self.kind_of(type(each)) == "tensor" for each in dead.values()):
            self._objects = self._by_age()
            self._find_tensors()
            self._objects = []
            self._left -= self.blocks.keys()
        tensors = [each for each in self._found if id(each) in dead and self._tensors[id(each)] in self._left]
        if not tensors or not self._knows_tensors:
            return
        used = {self._tensors[id(each)] for each in self._found if id(each) not in dead}
        if not self.complete and not self._add_saved(used, dead):
            return
        above = collections.defaultdict(list)
        for each in dead.values():
            for child in gc.get_referents(each):
                if id(child) in dead:
                    above[id(child)].append(each)
        for tensor in tensors:
            if self._tensors[id(tensor)] in used:
                continue
            group = [tensor]
            seen = {id(tensor)}
            for each in group:  # and those that are added meanwhile
                more = [] if len(group) >= CLIMB_MOST else [one for one in above[id(each)] if id(one) not in seen]
                seen.update(map(id, more))
                group.extend({id(one): one for one in more}.values())
            top = naming.telling(group)
            if self._tensors[id(tensor)] in self._left and len(group) > 1 and id(top) not in self._seen:
                self._top(top, Edge(self._cycle, naming.cycle_text(group), None, True))

    def _add_saved(self, used, dead):
        """Adds the storages that the graphs of tensors saved, other than those of garbage. False: not all are known."""
        nodes = [] if self._may_read_graph else None
        for each in self._found:
            if not self.base.is_leaf.__get__(each) and id(each) not in dead:
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
                for _, saved in self._reader.saved_by(node):
                    if type(saved) not in PLAIN and self.kind_of(type(saved)) == "tensor":
                        used.update(address for address, _, _ in self._addresses_of(saved))
                nodes.extend(each for each, _ in graphs.next_functions(self.torch, node))
        return True

    def address_of(self, tensor):
        """The address of its storage; 0: none."""
        try:
            if self._storage_of is not None:
                return self._storage_of(tensor)
            address = self.base.data_ptr(tensor)
            return address - self.base.storage_offset(tensor) * self.base.element_size(tensor) if address else 0
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return 0

    def _addresses_of(self, found):
        """(address, owner, the step to it) of each storage under a tensor or a storage. A sparse tensor's storages are
        under tensors that are made here and dropped again."""
        if self.kind_of(type(found)) == "storage":
            address = self._address_of_storage(found)
            return [(address, found, None)] if address else []
        address = self.address_of(found)
        return [(address, found, None)] if address else self._parts_of(found)

    def _address_of_storage(self, storage):
        """0: none. A storage on the meta device, such as a FakeTensor's, has no memory: PyTorch warns on stderr if
        somebody reads its address."""
        base = self.torch._C.StorageBase
        try:
            return 0 if base.device.__get__(storage).type == "meta" else base.data_ptr(storage)
        except (RuntimeError, NotImplementedError, AttributeError):
            return 0

    def _parts_of(self, tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
            members = PARTS.get(str(self.base.layout.__get__(tensor)), ())
            if members:
                guard = self.torch._C._DisableTorchDispatch()  # until it is dropped
                parts = [(getattr(self.base, member)(tensor), member) for member in members]
                del guard
                return [(self.address_of(part), part, Edge("attribute", f"{member}()")) for part, member in parts]
        return []

    def views(self):
        """(bytes that tensors and arrays use, all bytes) by the address of a storage. A tensor that only its views hold
        uses nothing; a graph may use everything that it saved."""
        used, found = collections.Counter(), {}
        viewed = {id(self.base._base.__get__(tensor)) for tensor in self._found}
        for tensor in self._found:
            if id(tensor) in viewed and self._seen.get(id(tensor), -1) < 0:
                continue
            with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
                used[self._tensors[id(tensor)]] += self.base.numel(tensor) * self.base.element_size(tensor)
        for address, block in self.blocks.items() if self._sees_views else ():
            if self.out_of_time():
                break
            tensor = self._order[block.place]
            with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
                if id(tensor) not in self._tensors or self.base.requires_grad.__get__(tensor):
                    continue
                found[address] = (self._bytes_of_array(block.place) or used[address], self._bytes_of_storage(tensor))
        return found

    def _bytes_of_storage(self, tensor):
        if not hasattr(self.base, "untyped_storage"):
            return self.base._storage(tensor).nbytes()
        # From PyTorch 2 on, a storage that Python has seen is not freed where the interpreter ends. PyTorch makes each
        # view that fits into the storage, so views find its size.
        fits, size = self.base.numel(tensor), self.base.element_size(tensor)
        beyond = fits + 1
        while self._has_room(tensor, beyond):
            fits, beyond = beyond, 2 * beyond
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            fits, beyond = (middle, beyond) if self._has_room(tensor, middle) else (fits, middle)
        return fits * size

    def _has_room(self, tensor, elements):
        guard = self.torch._C._DisableTorchDispatch()  # until it is dropped
        try:
            self.base.as_strided(tensor, (elements,), (1,), 0)
            return True
        except RuntimeError:
            return False
        finally:
            del guard

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
            self._seen[id(module)] = self._seen[id(namespace)] = -1
        self._seen[id(sys.modules)] = -1
        for ours in (self, self.__dict__, self._objects, self._order, self._parents, self._edges, self._seen, self._later,
                     self._tensors, self._found, self._left, self.blocks, self._names, self._frames, self.notes, self._kinds,
                     self._marker):
            self._seen[id(ours)] = -1
        own = tiers[0][0]
        if self._under is not None:
            own.extend((value, Edge("global", name)) for name, value in self._under)
            return tiers
        for name, module, namespace, tier in modules:
            if name == "__main__":
                own.extend((value, Edge("global", key)) for key, value in dict.items(namespace))
        rest = []
        for frame in self._frames.all:
            self._seen[id(frame.frame)] = -1
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

    def _add(self, found, parent, edge):
        self._seen[id(found)] = len(self._order)
        self._order.append(found)
        self._parents.append(parent)
        self._edges.append(edge)

    def _add_roots(self, roots):
        for value, edge in roots:
            if type(value) not in PLAIN and id(value) not in self._seen:
                self._add(value, -1, edge)

    def _walk(self, groups, is_first):
        """Walks one tier, and what earlier tiers left for it. False: no time is left."""
        at, groups = len(self._order), collections.deque(groups)
        waiting, self._later = self._later, []
        self._add_roots(groups.popleft())
        for value, parent, edge in waiting:
            if id(value) not in self._seen:
                self._add(value, parent, edge)
        is_whole = self._visit_from(at, is_first, groups)
        for roots in groups:  # met, if not visited in time
            self._add_roots(roots)
        return is_whole

    def _visit_from(self, at, is_first, groups=()):
        """`groups`: a deque of later roots, each HEAD_START levels after the one before."""
        order, parents, edges, seen = self._order, self._parents, self._edges, self._seen
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
                        self._add(child, below, None)
                continue
            if at % CLOCK_EVERY == CLOCK_EVERY - 1 and ((found_all and not self._left) or self.out_of_time()):
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
                    self._claim(found, at)
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
        if found is not None and type(found) not in PLAIN and id(found) not in self._seen:
            self._add(found, parent, edge)

    def _claim(self, found, place, edge=None):
        for address, _, part in self._addresses_of(found):
            if address not in self.blocks and (self._wanted is None or address in self._wanted):
                self.blocks[address] = Block(address, place, edge or part)
                self._left.discard(address)

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
        self._claim(tensor, at)
        try:
            is_leaf = base.is_leaf.__get__(tensor)
            if is_leaf or base.retains_grad.__get__(tensor):
                self._push(base.grad.__get__(tensor), at, Edge("attribute", "grad"))
            if not is_leaf and self._may_read_graph and graphs.has_settled_graph(base, tensor):
                self._push(base.grad_fn.__get__(tensor), at, Edge("graph", "grad_fn"))
        except (RuntimeError, AttributeError):
            pass

    def _visit_node(self, node, at):
        if not self._may_read_graph:
            return
        for edge, saved in self._reader.saved_by(node):
            if type(saved) not in PLAIN and self.kind_of(type(saved)) == "tensor":
                self._claim(saved, at, edge)
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

    def _climb(self):
        """Handles storages that no root leads to. Either the walk had no time for them, or they are in a cycle that is
        not collected yet, or code outside of Python holds them. If several tensors share a storage, one climbs at a
        time."""
        was_whole, self._alone = self.complete, []
        for found in self._found:
            if self._seen.get(id(found), -1) >= 0:  # met, and not visited in time
                self._claim(found, self._seen[id(found)])
        # Tensors with a graph come first: the graph leads to others.
        waiting = sorted(self._found, key=self.base.is_leaf.__get__)
        while self._left and waiting and not self.out_of_time():
            climbs, later = {}, []
            for found in waiting:
                address = self._tensors[id(found)]
                if address in climbs or len(climbs) == CLIMB_AT_ONCE:
                    later.append(found)
                elif address in self._left:
                    climbs[address] = _Climb(found)
            waiting = later
            self._climb_together(climbs, was_whole)
        # The graph of a tensor that was found meanwhile may hold these: the graph of a younger tensor holds older ones.
        # A cycle holds what hangs below it.
        alone = sorted(reversed(self._alone), key=lambda climb: self.base.is_leaf.__get__(climb.group[0]))
        for climb in sorted(alone, key=lambda climb: self._tensors[id(climb.group[0])] not in self._left or
                            not self._way_home(climb.group[0])):
            if self._tensors[id(climb.group[0])] in self._left and not self.out_of_time():
                self._settle(climb, True)
        self._alone = []

    def _may_ask(self, count):
        """The number of objects, of `count`, whose referrers one call through all objects has time to find."""
        count = min(count, CLIMB_AT_ONCE)
        while count and self._spent() + self._referrers_ns * (CLIMB_AS_ONE + count) // CLIMB_AS_ONE >= self._until:
            count //= 2
        if not count:
            self._stop, self.complete = "out of time", False
        return 0 if self.out_of_time() else count

    def _climb_together(self, climbs, was_whole):
        """All tensors climb level by level. A top that one of them has reached is visited before the next level,
        because other tensors may be below it."""
        known = {}  # referrers by the address of an object
        while True:
            climbs = {address: climb for address, climb in climbs.items()
                      if address in self._left and not self._rise(climb, known, was_whole)}
            level = {id(each): each for climb in climbs.values() for each in climb.group[climb.at:] if id(each) not in known}
            if not level or not self._ask(list(level.values()), known):
                break
        for address, climb in climbs.items():
            if address in self._left and not self.out_of_time():
                self._settle(climb, False)

    def _ask(self, level, known):
        """False: there was no time to find all referrers."""
        at = 0
        while at < len(level):
            count = self._may_ask(len(level) - at)
            if not count:
                return False
            part = {id(each): [] for each in level[at:at + count]}
            begun = self._spent()
            referrers = gc.get_referrers(*level[at:at + count])
            ours = self._made_since()
            if ours is None:
                self.miss("the collector ran during the look")
                return False
            for referrer in referrers:
                if id(referrer) not in ours and self._seen.get(id(referrer)) != -1:
                    for child in set(map(id, gc.get_referents(referrer))) & part.keys():
                        part[child].append(referrer)
            referrers = None
            known.update(part)
            at += count
            self._referrers_ns = max(self._referrers_ns, (self._spent() - begun) * CLIMB_AS_ONE // (CLIMB_AS_ONE + count))
        return True

    def _rise(self, climb, known, was_whole):
        """Follows the referrers that are known. True if the climb ended there."""
        group, below = climb.group, climb.below
        while climb.at < len(group) and len(group) < CLIMB_MOST:
            child = group[climb.at]
            if id(child) not in known:
                return False
            for referrer in known[id(child)]:
                climb.held.add(id(child))
                if id(referrer) not in below:
                    below[id(referrer)] = child
                    group.append(referrer)
                place = self._seen.get(id(referrer))
                if place is not None:
                    self._connect(place, below[id(referrer)], below)
                    return True
            climb.at += 1
        whole = was_whole and climb.at >= len(group)
        if whole and len(group) == 1 and self.kind_of(type(group[0])) == "tensor":
            self._alone.append(climb)
        else:
            self._settle(climb, whole)
        return True

    def _settle(self, climb, whole):
        """`whole`: every object that leads to the tensor is known."""
        group = climb.group
        top = next((each for each in group if id(each) not in climb.held), None)
        node = self._node_with_hooks(top) if whole and naming.is_of_hooks(top) else None
        if node is not None:
            self._connect(self._seen[id(node)], top, climb.below)
            return
        if top is not None or not whole:
            top = group[0] if top is None else top
            what = ("native" if whole else "lost") + ("" if top is group[0] else " object")
            saved = self._saved_in_own_graph(top) if whole and top is group[0] else None
            home = self._way_home(top) if whole and not saved else None
            self._top(top, Edge("own graph", saved) if saved else Edge("unseen cycle", home) if home else
                      Edge(what, naming.native_text(top), None, False))
        else:
            self._top(naming.telling(group), Edge(self._cycle, naming.cycle_text(group), None, whole))

    def _way_home(self, top, is_named=False):
        """The shortest way from an object that only native code holds back to it, as a text; None: there is none. Only
        objects that no name leads to may be on it, unless the object itself is named."""
        order, above, at, seen = [(top, naming.short_of(top))], [-1], 0, {id(top)}
        if self._home_until is None:  # for all objects together
            self._home_until = (self._spent() + self._until) // 2
        while at < len(order) < HOME_MOST and self._spent() < self._home_until:
            for child, text in self._references(order[at][0]):
                if child is top:
                    way, place = [text], at
                    while place >= 0:
                        way.append(order[place][1])
                        place = above[place]
                    return naming.way_text(way[::-1])
                if type(child) in PLAIN or id(child) in seen or not is_named and id(child) in self._seen or \
                        self.kind_of(type(child)) == "type":
                    continue
                seen.add(id(child))
                order.append((child, text))
                above.append(at)
            at += 1
        return None

    def _references(self, found):
        """(object, step) of what an object refers to, through C++, too."""
        base, kind = self.base, self.kind_of(type(found))
        with contextlib.suppress(RuntimeError, AttributeError):
            if kind == "tensor":
                is_leaf = base.is_leaf.__get__(found)
                if base._is_view(found):
                    yield base._base.__get__(found), "._base"
                if is_leaf or base.retains_grad.__get__(found):
                    yield base.grad.__get__(found), ".grad"
                if not is_leaf and self._may_read_graph and graphs.has_settled_graph(base, found):
                    yield base.grad_fn.__get__(found), ".grad_fn"
            elif kind == "node" and self._may_read_graph:
                for edge, saved in self._reader.saved_by(found):
                    yield saved, f".{edge.text}"
                for function, _ in graphs.next_functions(self.torch, found):
                    yield function, ""
                yield graphs.accumulated(found), ".variable"
                if graphs.may_read_hooks(self.torch):
                    for hooks in graphs.hooks_of(self.torch, found):
                        yield hooks, ".hooks"
        for child in gc.get_referents(found):
            yield child, naming.reference_text(found, child)

    def _saved_in_own_graph(self, tensor):
        """The name under which a node of a tensor's own graph holds this very tensor, such as a value that a hook
        packed; None: no node holds it."""
        if self.kind_of(type(tensor)) != "tensor" or not self._may_read_graph or self.base.is_leaf.__get__(tensor) or \
                not graphs.has_settled_graph(self.base, tensor):
            return None
        nodes, at = [self.base.grad_fn.__get__(tensor)], 0
        while at < len(nodes) < CLIMB_MOST and not self.out_of_time():
            for edge, saved in self._reader.saved_by(nodes[at]):
                if saved is tensor:
                    return edge.text
            with contextlib.suppress(RuntimeError, AttributeError):
                nodes.extend(each for each, _ in graphs.next_functions(self.torch, nodes[at]) if each is not None)
            at += 1
        return None

    def _node_with_hooks(self, hooks):
        """A visited node with one of the hooks, found in half of the remaining time; None: none of those examined."""
        if self._hooked is None:
            self._hooked = {}
            until = (self._spent() + self._until) // 2
            for node in self._nodes_to_ask():
                if self._spent() >= until:
                    break
                self._hooked.update((id(each), node) for each in graphs.hooks_of(self.torch, node))
        return self._hooked.get(id(hooks))

    def _nodes_to_ask(self):
        if not self._may_read_graph:
            return ()
        if not graphs.may_read_hooks(self.torch):
            self.miss("the program traces or profiles its Python, so hooks of autograd were not looked at")
            return ()
        return [each for each in self._order if self.kind_of(type(each)) == "node"]

    def _top(self, found, edge):
        at = len(self._order)
        self._add(found, -1, edge)
        self._visit_from(at, False)

    def _connect(self, place, child, below):
        """A visited object leads to a tensor that the walk did not reach."""
        at = len(self._order)
        while child is not None:
            if id(child) not in self._seen:
                self._add(child, place, None)
            place = self._seen[id(child)]
            child = below[id(child)]
        self._visit_from(at, False)
