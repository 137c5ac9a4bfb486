#!/usr/bin/env python3
"""A look must not do these things to the program. The paths that it finds must be Python code that gives the tensor. A
script of its own: the look examines its `__main__`. Run by check_holders.py."""
import collections
import functools
import gc
import os
import random
import re
import sys
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), os.path.join(HERE, "..")]

import torch  # noqa: E402

import asserted  # noqa: E402
from asserted import held  # noqa: E402
from libmemprof_torch import holders, holders_climb, holders_graphs, holders_names  # noqa: E402

saved = holders_graphs.SavedHooks(torch)
called = []
root = None  # what the tests hold things by


def look(addresses=None, budget_ns=20_000_000_000):
    looked = holders.Look(torch, addresses, budget_ns, saved)
    return looked.run(), looked


class Talks(type):
    def __getattribute__(cls, name):
        called.append(f"metaclass {name}")
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, instance):
        called.append("instancecheck")
        return False


def hostile_class():
    members = {name: (lambda name: lambda self, *arguments: called.append(name))(name)
               for name in ("__getattr__", "__getattribute__", "__repr__", "__str__", "__len__", "__iter__", "__getitem__",
                            "__bool__", "__contains__", "__index__", "__dir__", "__sizeof__", "__setattr__")}
    members["__eq__"] = lambda self, other: called.append("eq")
    members["__hash__"] = lambda self: called.append("hash") or 7
    members["__class__"] = property(lambda self: called.append("class"))
    return Talks("Hostile", (), members)


def test_it_calls_no_code_of_the_program():
    def hold(base):
        global root
        owner = object.__new__(base) if base is kind else base.__new__(base)
        object.__getattribute__(owner, "__dict__")["batch"] = torch.zeros(77)
        root = [owner]
        return object.__getattribute__(owner, "__dict__")["batch"].data_ptr()

    global root
    kind = hostile_class()
    for base in (kind, type("Listed", (kind, list), {}), type("Mapped", (kind, dict), {})):
        address = hold(base)
        called.clear()
        found, _ = look([address])
        said = list(called)
        held(said == [], said)
        held(found[0].path == "root[0].batch", found[0].path)
    called.clear()
    key = object.__new__(kind)
    root = {key: torch.zeros(5)}
    called.clear()
    found, _ = look([next(iter(dict.values(root))).data_ptr()])
    held(called == [], called)
    held(found[0].path == "root[*]", found[0].path)


class Packs:
    def __init__(self, called):
        self.called = called

    def pack(self, value):
        return {"packed": value}

    def unpack(self, value):
        self.called.append("unpack")
        return value["packed"]


def closing(calls):
    """The saved tensor comes back from a cell of the hook."""
    kept = []

    def unpack(value):
        calls.append("closure")
        return kept[value]
    return lambda value: kept.append(value) or len(kept) - 1, unpack


def test_hooks_of_what_graphs_save_are_not_called():
    global root
    weight, calls = torch.ones(30, requires_grad=True), []
    packs = Packs(calls)
    for path, pack, unpack in (
            ("['packed']", packs.pack, packs.unpack),
            ("[1]", lambda value: (1, value), lambda value, calls=calls: calls.append("lambda") or value[1]),
            ("[0]", lambda value: [value], functools.partial(lambda calls, value: calls.append(1) or value[0], calls)),
            (" → unpack().kept[0]", *closing(calls))):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            value = torch.randn(30)
            root = [(weight * value).sum()]
        address = value.data_ptr()
        del value, pack, unpack
        found, looked = look()
        held(calls == [], calls)
        held(sys.getprofile() is None)
        held(looked.complete, looked.notes)
        paths = [each.path for each in found if address in each.addresses]
        held(saved.tells or paths == ["root[0].grad_fn → MulBackward0._saved_other" + path], paths)
        root[0].backward()  # whose hooks work as before
        held(calls, "the hook was lost")
        calls.clear()
    root = None


def test_hooks_that_cannot_be_stopped_are_left_alone():
    global root
    weight, store = torch.ones(30, requires_grad=True), {}
    with torch.autograd.graph.saved_tensors_hooks(lambda value: store.setdefault(len(store), value) is None, store.pop):
        root = [(weight * torch.randn(30)).sum()]
    before = len(store)
    _, looked = look()
    held(len(store) == before)
    held(saved.tells or not looked.complete)
    saved.used = saved.blind = False
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
        root = [(weight * torch.randn(30)).sum()]
    seen = []
    sys.setprofile(lambda *event: seen.append(1))
    try:
        _, looked = look()
        held(sys.getprofile() is not None, "the program's profiler is gone")
    finally:
        sys.setprofile(None)
    held(saved.tells or not looked.complete)
    saved.used = False
    root = None


def test_hooks_of_nodes_are_read_and_stay_as_they_are():
    def hooked(calls):
        kept = [torch.zeros(50)]
        loss = (torch.ones(3, requires_grad=True) * 2).sum()
        loss.grad_fn.register_hook(lambda *gradients: calls.append(len(kept)))
        return loss, kept[0].data_ptr(), weakref.ref(kept[0])

    global root
    calls = []
    root, address, kept = hooked(calls)
    found, looked = look([address])
    paths = [re.sub(r"hooks\[\d+\]", "hooks[]", each.path) for each in found]
    held(paths == ["root.grad_fn → SumBackward0.hooks[].kept[0]"], paths)
    held(found[0].kind == "hook" and looked.complete and calls == [])
    root.backward()
    held(calls == [1], calls)
    root = found = looked = None
    held(kept() is None, "a hook lives longer")


def within_a_trace_function(work):
    """The result of work(), if Python calls no profile function. A signal's handler may run there."""
    given = []

    def tracer(frame, event, _):
        if event == "call" and frame.f_code is traced.__code__ and not given:
            given.append(work())

    def traced():
        pass
    sys.settrace(tracer)
    try:
        traced()
    finally:
        sys.settrace(None)
    held(len(given) == 1, "the work raised, or was not reached")
    return given[0]


def test_within_a_trace_function_no_hook_is_called():
    global root
    weight, calls = torch.ones(30, requires_grad=True), []
    packs = Packs(calls)
    with torch.autograd.graph.saved_tensors_hooks(packs.pack, packs.unpack):
        root = [(weight * torch.randn(30)).sum()]
    saved.used, saved.blind = True, False
    _, looked = within_a_trace_function(look)
    held(calls == [], calls)
    held(sys.getprofile() is None)
    held(saved.tells or any("packs what graphs save" in note for note in looked.notes), looked.notes)
    root[0].backward()
    held(calls == ["unpack"], calls)
    saved.used = False
    root = None


def test_within_a_trace_function_no_hook_is_added():
    def hooked(calls):
        kept = [torch.zeros(50)]
        loss = (torch.ones(3, requires_grad=True) * 2).exp().sum()
        loss.grad_fn.register_hook(lambda *gradients: calls.append(len(kept)))
        return loss, kept[0].data_ptr()

    global root
    calls = []
    root, address = hooked(calls)
    held(not within_a_trace_function(lambda: holders_graphs.may_read_hooks(torch)))
    found, looked = within_a_trace_function(lambda: look([address]))
    held(sys.getprofile() is None)
    note = "the program traces or profiles its Python, so hooks of autograd were not looked at"
    by_collector = any(each.kind == "hook" for each in found)  # as before torch 2
    held(looked.notes == ([] if by_collector else [note]), looked.notes)
    climbs = holders_climb.Climbs(looked, None, None)
    held(within_a_trace_function(climbs._nodes_to_ask) == () and note in looked.notes)
    hooks = holders_graphs.hooks_of(torch, root.grad_fn)
    held(list(map(len, hooks)) == [1], hooks)
    root.backward()
    held(calls == [1], calls)
    root = found = looked = hooks = None


def test_what_would_be_registered_does_nothing():
    value = (torch.ones(3, requires_grad=True) * 2).exp()
    # Without asking first whether it may.
    within_a_trace_function(lambda: holders_graphs.hooks_of(torch, value.grad_fn))
    value.sum().backward()


def test_a_register_function_of_the_program_is_not_called():
    global root
    calls, kept = [], [torch.zeros(50)]
    root = (torch.ones(3, requires_grad=True) * 2).sum()
    root.grad_fn.register_hook(lambda *gradients: calls.append(len(kept)))
    original = torch.autograd.Function._register_hook

    @functools.wraps(original)
    def _register_hook(hooks, hook):
        calls.append("register")
        return original(hooks, hook)
    for other in (_register_hook, functools.partial(_register_hook)):
        torch.autograd.Function._register_hook = staticmethod(other)
        try:
            held(not holders_graphs.may_read_hooks(torch))
            held(holders_graphs.hooks_of(torch, root.grad_fn) == [])
            look([kept[0].data_ptr()])
        finally:
            del torch.autograd.Function._register_hook
        held(calls == [], calls)
    held(holders_graphs.may_read_hooks(torch))
    root.backward()
    held(calls == [1], calls)
    root = None


def test_what_a_read_raises_does_not_end_a_look():
    class Raises:
        def __get__(self, node):
            raise KeyError("of a hook")
    reader = holders_graphs.SavedReader(torch, None, held)
    node = (torch.ones(3, requires_grad=True) * torch.ones(3)).grad_fn
    reader._names[type(node)] = {"_saved_other": Raises()}, [("_saved_other", None)]
    held(list(reader.saved_by(node)) == [])


def test_a_handler_of_a_signal_runs_where_calls_are_stopped():
    handled = []

    def other():
        handled.append(1)
    _, found = holders_graphs._stopped(lambda code: False, other.__call__)
    held(handled == [1] and found is None)
    _, found = holders_graphs._stopped(lambda code: code is other.__code__, other.__call__)
    held(handled == [1] and found[0] is other.__code__)


def test_nothing_lives_longer_and_the_collector_is_as_it_was():
    global root

    class Owner:
        pass

    def running():
        local = Owner()
        local.batch = torch.zeros(64)
        gone = weakref.ref(local)
        look()
        del local
        return gone()

    for was_on in (True, False):
        gc.collect()
        (gc.enable if was_on else gc.disable)()
        owner = root = Owner()
        owner.batch = torch.zeros(10)
        dead = weakref.ref(owner), weakref.ref(owner.batch)
        threshold = gc.get_threshold()
        gc.set_threshold(1_000_000)  # that none of the test's own begins a collection
        collections_before = [each["collections"] for each in gc.get_stats()]
        found, looked = look()
        held(any(each.path == "root.batch" for each in found), [each.path for each in found])
        held(gc.isenabled() == was_on)
        held([each["collections"] for each in gc.get_stats()] == collections_before)
        owner = root = found = looked = None
        held(dead[0]() is None, "an object is kept alive")
        held(dead[1]() is None, "a tensor is kept alive")
        held(running() is None, "a local is kept alive")
        gc.enable()
        held(gc.collect() == 0, "a look left cycles")
        gc.set_threshold(*threshold)


def count_objects():
    """But empty dictionaries: Python keeps one for each frame whose locals were read."""
    return sum(type(each) is not dict or bool(each) for each in gc.get_objects())


def test_no_more_objects_are_there_than_before():
    look()
    gc.collect()
    before = count_objects()
    for _ in range(5):
        look()
    after = count_objects()
    held(after == before, (after, before))


def test_it_makes_no_tensor_and_draws_no_number():
    before = torch.get_rng_state(), random.getstate()
    look()
    held(torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1])


def test_frozen_objects_are_found_and_stay_frozen():
    global root
    look()  # the first one of a process frees a few objects for ever
    root = Box()
    root.kept = [torch.zeros(33)]
    before = len(gc.callbacks), gc.get_debug(), gc.get_threshold()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        found, _ = look([root.kept[0].data_ptr()])
        held(gc.get_freeze_count() == frozen, f"a look froze or thawed objects: {frozen}, {gc.get_freeze_count()}")
    finally:
        gc.unfreeze()
    held([each.path for each in found] == ["root.kept[0]"], [each.path for each in found])
    held((len(gc.callbacks), gc.get_debug(), gc.get_threshold()) == before)
    root = None


def test_containers_of_very_many_come_last():
    global root
    root = [[Box() for _ in range(100_000)], {"kept": [[[torch.zeros(6)]]]}]
    found, looked = look([root[1]["kept"][0][0][0].data_ptr()])
    held(found[0].path == "root[1]['kept'][0][0][0]", found[0].path)
    held(looked.looked_at < 50_000, looked.looked_at)
    root = None


def test_long_names_come_back_cut_and_are_not_searched():
    class Searched:
        def __init__(self, pattern):
            self.pattern, self.texts = pattern, []

        def search(self, text):
            self.texts.append(text)
            return self.pattern.search(text)

    global root
    root = type("Owner", (), {})()
    root.short = [torch.zeros(3), torch.zeros(3)]
    setattr(root, "long_" * 2000, [torch.zeros(3), torch.zeros(3)])
    addresses = {kept: [tensor.data_ptr() for tensor in vars(root)[kept]] for kept in vars(root)}
    searched = holders_names.NAME = Searched(holders_names.NAME)
    try:
        found, _ = look(sum(addresses.values(), []))
    finally:
        holders_names.NAME = searched.pattern
    paths = {tuple(sorted(each.addresses)): each.path for each in found}
    held(paths[tuple(sorted(addresses["short"]))] == "root.short[*]", paths)
    cut = paths[tuple(sorted(addresses["long_" * 2000]))]
    held(cut.startswith("root.long_long_") and cut.endswith("long_long_[*]") and " … " in cut, cut)
    held(len(cut) <= holders_names.PATH_MOST + 3, len(cut))
    held(".short" in searched.texts, searched.texts)
    held(max(map(len, searched.texts)) <= 200)


def test_all_suspended_generators_are_named_by_few_lists_of_what_is_new():
    def running(number):
        batch = torch.full((5,), float(number))
        yield batch

    global root
    root = [running(number) for number in range(1000)]
    addresses = [next(each).data_ptr() for each in root]
    for each in root[::2]:  # up to Python 3.12 the frame keeps what this gives, which is there before the look is
        held("batch" in each.gi_frame.f_locals)
    each = None
    lists, original = [], gc.get_objects

    def counted(*arguments, **named):
        lists.append(arguments)
        return original(*arguments, **named)
    gc.get_objects = counted
    try:
        found, _ = look(addresses)
    finally:
        gc.get_objects = original
    held([each.path for each in found] == ["root[*] → running().batch"], [each.path for each in found])
    held(sorted(sum((each.addresses for each in found), [])) == sorted(addresses))
    held(len(lists) <= 4, len(lists))
    dead = [weakref.ref(each.gi_frame.f_locals["batch"]) for each in root]
    root = None
    gc.collect()
    held(not any(each() is not None for each in dead), "a local is kept alive")


FILLS = """
import collections, functools, heapq, sys, torch
number = 0

def make():
    global number
    number += 1
    return torch.full((4,), float(number))

class Filled:
    def __init__(self):
        self.items, self.heap = [], []

    @torch.no_grad()
    @functools.lru_cache(None)
    def keep(self, tensor):
        self.items.append(  # FILLS owner.items
            tensor)
        heapq.heappush(self.heap, (number, make()))  # FILLS owner.heap

class Aliased:
    def __init__(self):
        self.items, self.late = [], {}

    def keep(self, tensor):
        kept = self.items
        kept.append(tensor)

class Heir(Filled):
    pass

class Other:
    def put(self, config):
        self.items.append(1)
        self.late["x"] = 1

@torch.no_grad()
def fill(tensor):
    listed.append(tensor)  # FILLS listed

def other(config):
    for each in looped: config.update(n=1)

def sort(tensor):
    if number % 2 not in by_key: by_key[number % 2] = []
    by_key[number % 2].append(tensor)  # FILLS by_key

listed, looped, by_key = [], [], {}
owner, aliased, heir = Filled(), Aliased(), Heir()
for _ in range(3):
    for each in (owner, aliased, heir):
        each.keep(make())
    fill(make())
    sort(make())
    number += 1
    sort(make())
    (lambda to: to.append(make()))(looped)
    (lambda to: to.setdefault(len(to), make()))(aliased.late)
del each
"""


def test_lines_are_those_that_fill_this_very_container():
    wrote = os.path.join(sys.path[0], "fills.py")  # the file does not exist; only its name matters
    own = sys.modules["__main__"]
    module = type(sys)("__main__")
    module.__file__ = wrote
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module  # as multiprocessing does
    try:
        exec(compile(FILLS, wrote, "exec"), module.__dict__)
        found, _ = look()
    finally:
        sys.modules["__main__"] = own
        del sys.modules["__mp_main__"]
    lines = {line.split()[-1]: at for at, line in enumerate(FILLS.splitlines(), 1) if "# FILLS" in line}
    said = {each.path: (each.file, each.line) for each in found}
    for container, path in (("owner.items", "owner.items[*]"), ("owner.items", "heir.items[*]"), ("listed", "listed[*]"), ("by_key", "by_key[*][*]"),
                            ("owner.heap", "owner.heap[*][1]")):
        held(said.get(path) == (wrote, lines[container]), said)
    for path in ("aliased.items[*]", "aliased.late[*]", "looped[*]"):
        held(said.get(path) == (None, 0), said)


def test_the_line_of_a_frame_is_no_line_of_a_container():
    def main():
        kept, alone = [torch.full((4,), float(number)) for number in range(3)], torch.zeros(3)
        return look([each.data_ptr() for each in (*kept, alone)])[0]
    said = {each.path.rpartition("main().")[2]: each.line for each in main()}
    held(said["kept[*]"] == 0 and said["alone"] > 0, said)


def test_a_line_that_there_is_no_time_for_leaves_the_look_complete():
    global root
    root = [torch.zeros(3), torch.zeros(3)]
    filled, asked = holders.holders_filled.Filled, []

    class Late(filled):
        def line_of(self, *of):
            asked.append(of)
            looked._until = 0
            return filled.line_of(self, *of)
    holders.holders_filled.Filled = Late
    try:
        looked = holders.Look(torch, [each.data_ptr() for each in root], 20_000_000_000, saved)
        found = looked.run()
    finally:
        holders.holders_filled.Filled = filled
    held(asked and looked.complete and not looked.notes, looked.notes)
    held([each.path for each in found] == ["root[*]"], [each.path for each in found])


def test_a_short_budget_says_how_far_it_got():
    global root
    root = [[torch.zeros(4)] for _ in range(200_000)]
    found, looked = look(budget_ns=20_000_000)
    held(not looked.complete and "out of time" in looked.notes[-1], looked.notes)
    held(looked.looked_at > 0)
    root = None


def test_a_short_look_walks_the_programs_own_names_and_climbs_from_nothing():
    global root
    others = type(sys)("mp_others")
    others.__file__ = "/usr/lib/python3/site-packages/mp_others.py"
    others.kept, root = torch.ones(3), [torch.zeros(5), torch.ones(2, requires_grad=True) * 3]
    wanted = {root[0].data_ptr(): "root[0]", root[1].data_ptr(): "root[1]"}
    cycle = [torch.zeros(7)]
    cycle.append(cycle)
    cycle, sys.modules["mp_others"], real = None, others, gc.get_referrers
    gc.get_referrers = lambda *_: called.append("climbed") or []
    try:
        looked = holders.Look(torch, None, 20_000_000_000, saved, is_short=True)
        found = {address: each for each in looked.run() for address in each.addresses}
    finally:
        gc.get_referrers = real
        del sys.modules["mp_others"]
    held(not called, called)
    held(wanted.keys() <= found.keys())
    held(all(found[address].path.startswith("root[") and found[address].certain for address in wanted))
    held(others.kept.data_ptr() not in found)
    held(any("a cycle of list" in each.path for each in found.values()))
    held(not looked.complete and len(looked.notes) == 1 and "only the program's own names" in looked.notes[0], looked.notes)
    root = None
    gc.collect()


def test_many_cycles_take_no_more_looks_at_all_objects_than_one():
    def calls_for(count):
        addresses = []
        gc.disable()
        for _ in range(count):
            box = Box()
            box.me, box.kept = [[[box]]], {"deep": (torch.zeros(8),)}
            addresses.append(box.kept["deep"][0].data_ptr())
        box = None
        calls, ask = [], gc.get_referrers

        def counted(*objects):
            calls.append(len(objects))
            return ask(*objects)

        gc.get_referrers = counted
        try:
            found, looked = look(addresses)
        finally:
            gc.get_referrers = ask
            gc.enable()
        held(looked.complete, looked.notes)
        held({each.path.partition(" →")[0] for each in found} == {"a cycle of Box that gc has not collected yet"},
             [each.path for each in found])
        held(sorted(address for each in found for address in each.addresses) == sorted(addresses))
        held(all(each.certain for each in found))
        found = looked = None
        gc.collect()
        return len(calls)

    share, holders.DEAD_PERCENT = holders.DEAD_PERCENT, 0  # as if there were too many objects to ask about each
    one = calls_for(1)
    held(calls_for(40) == one > 0)
    held(calls_for(150) < 10 * one)
    holders.DEAD_PERCENT = share


def test_of_few_objects_the_unreachable_ones_are_known_without_a_climb():
    gc.collect()
    gc.freeze()
    gc.disable()
    box, used = Box(), Box()
    for each in box, used:
        each.me, each.kept = [[[each]]], torch.zeros(8)
    addresses = [box.kept.data_ptr(), used.kept.data_ptr()]
    box, ask, calls = None, gc.get_referrers, []
    gc.get_referrers = lambda *objects: calls.append(objects) or ask(*objects)
    try:
        found, looked = look(addresses)
    finally:
        gc.get_referrers = ask
        gc.enable()
        gc.unfreeze()
    held(not calls and looked.complete, looked.notes)
    held({(each.path, each.certain, *each.addresses) for each in found} ==
         {("a cycle of Box that gc has not collected yet → kept", True, addresses[0]),
          ("test_of_few_objects_the_unreachable_ones_are_known_without_a_climb().used.kept", True, addresses[1])},
         [each.path for each in found])
    found = looked = used = None
    gc.collect()


def test_a_short_look_finds_young_garbage_that_nothing_else_uses():
    """A package has a loss whose graph saved a tensor of one box, and a view that shares that of another: freeing the
    boxes frees neither. A short look does not walk the package's names."""
    others = type(sys)("mp_others")
    others.__file__ = "/usr/lib/python3/site-packages/mp_others.py"
    weight = torch.ones(8, requires_grad=True)
    boxes = [Box() for _ in range(4)]
    for each in boxes:
        each.me, each.kept = [each], torch.rand(8)
    addresses = [each.kept.data_ptr() for each in boxes]
    others.loss, others.view, used = (weight * boxes[0].kept).sum(), boxes[1].kept[:2], boxes[2]
    gc.disable()
    sys.modules["mp_others"], boxes, others, each = others, None, None, None
    made = holders.Look(torch, is_short=True)
    found = made.run()
    gc.enable()
    del sys.modules["mp_others"]
    paths = {address: each.path for each in found for address in each.addresses if each.path.startswith("a cycle of ")}
    held({address: path for address, path in paths.items() if address in addresses} ==
         {addresses[3]: "a cycle of Box that gc has not collected yet → kept"}, paths)
    found = made = used = None
    gc.collect()


class Box:
    pass


class Slots:
    __slots__ = ("here",)


Named = collections.namedtuple("Named", "left right")


def wrap(inner, draw):
    """A container with one element, and the code after its name that gets the element."""
    choice = draw.randrange(8)
    if choice == 0:
        return [None] * draw.randrange(3) + [inner]
    if choice == 1:
        return {draw.choice(["key", "it's", 5, None, 2.5, b"bytes"]): inner, "other": [1]}
    if choice == 2:
        return (1, inner)
    if choice == 3:
        box = Box()
        box.value, box.rest = inner, {}
        return box
    if choice == 4:
        slots = Slots()
        slots.here = inner
        return slots
    if choice == 5:
        return Named(None, inner)
    if choice == 6:
        return collections.deque([0, inner])
    return collections.OrderedDict(first=inner)


def test_paths_are_expressions_that_give_the_tensor():
    global root
    draw = random.Random(4)
    for _ in range(60):
        tensor = thing = torch.zeros(9)
        for _ in range(draw.randrange(1, 7)):
            thing = wrap(thing, draw)
        root, address = thing, tensor.data_ptr()
        del tensor, thing
        found, looked = look([address])
        held(looked.complete and len(found) == 1 and found[0].certain, looked.notes)
        held("…" in found[0].path or eval(found[0].path).data_ptr() == address, found[0].path)
        root = None


def test_bounds_and_views():
    """If a container drops entries beyond a number, its path says so, unless a container around it grows. It also says
    if tensors and arrays use only a part of a storage."""
    global root
    cases = {"deque": (lambda each: collections.deque(each, 9), " (3 of at most 9 entries)"),
             "open": (collections.deque, ""),
             "around": (lambda each: [collections.deque([one], 9) for one in each], ""),
             "whole": (list, "")}
    for name, (make, wanted) in cases.items():
        root = make([torch.zeros(64, 8) for _ in range(3)])
        held(look()[0][0].path.endswith("]" + wanted), (name, look()[0][0].path))
    root = functools.lru_cache(maxsize=7)(lambda number: torch.zeros(64, 8))
    [root(number) for number in range(5)]
    held(look()[0][0].path == "root[*] (5 of at most 7 entries)", look()[0][0].path)
    pair = lambda number: (torch.zeros(64, 8), torch.zeros(64, 8))
    for make in (pair, lambda number: [pair(number), pair(number)], lambda number: collections.deque(pair(number), 2)):
        root = functools.lru_cache(maxsize=7)(make)
        [root(number) for number in range(5)]
        held(look()[0][0].path.endswith("] (5 of at most 7 entries)"), look()[0][0].path)
    root = [torch.zeros(64, 8).numpy()[2] for _ in range(3)]
    held(look()[0][0].path.endswith(" (32 of 2 048 B used)"), look()[0][0].path)
    some_are_unknown = [(8 << 10, 256 << 10), (0, 0), (8 << 10, 256 << 10)]
    held(holders_names._view_text(some_are_unknown) == " (8 of 256 KiB used)", some_are_unknown)
    held(holders_names._view_text([(1 << 20, 5 << 29)]) == " (1 of 2 560 MiB used)", "large")
    rows = torch.zeros(64, 8)
    root = [rows[2], rows]
    del rows
    held("used" not in look()[0][0].path, look()[0][0].path)
    root = None


def main():
    only = sys.argv[1:]
    tests = {name: test for name, test in globals().items() if name.startswith("test_") and
             (not only or name in only)}
    for name, test in tests.items():
        test()
        print("ok", name)
    return 0


if __name__ == "__main__":
    asserted.script(main)
