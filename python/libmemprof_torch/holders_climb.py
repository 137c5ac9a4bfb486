"""Finds what holds storages that no root leads to: from their tensors up, with few calls of gc.get_referrers. Either
the walk had no time for them, or they are in a cycle that is not collected yet, or code outside of Python holds them.
"""

import contextlib
import gc

from libmemprof_torch import holders_graphs as graphs, holders_names as naming
from libmemprof_torch.holders_names import Edge, PLAIN

AT_ONCE = 64  # tensors that climb together, and objects whose referrers one call looks for: each is compared with every
# existing reference
AS_ONE = 16  # so many objects add at most as much to a call as it takes for none
MOST = 500  # objects above one
HOME_MOST = 2000  # objects on the way from one back to it


class _Climb:
    """Climbs from one tensor to the objects that lead to it: `group`, the tensor first. `below`: by address, what each
    object refers to on the way down; `held`: addresses of objects with a referrer; `at`: the number of objects in the
    group whose referrers are known."""

    __slots__ = ("group", "below", "held", "at")

    def __init__(self, tensor):
        self.group, self.below, self.held, self.at = [tensor], {id(tensor): None}, set(), 0


class Climbs:
    """The climbs of one look (holders.Look), which end at `until` of its time. `referrers_ns`: one call of
    gc.get_referrers through all objects takes as long."""

    def __init__(self, look, spent, until, referrers_ns=0):
        self._look, self._spent, self._until, self._referrers_ns = look, spent, until, referrers_ns
        self._alone = []  # climbs of tensors that no object of Python refers to
        self._home_until = None  # when the search for cycles that the collector does not see ends
        self._hooked = None  # nodes by the addresses of their hooks, where those were asked for

    def run(self):
        """Handles all storages that are left. If several tensors share a storage, one climbs at a time."""
        was_whole = self._look.complete
        for found in self._look.found:
            if self._look.seen.get(id(found), -1) >= 0:  # met, and not visited in time
                self._look.claim(found, self._look.seen[id(found)])
        # Tensors with a graph come first: the graph leads to others.
        waiting = sorted(self._look.found, key=self._is_leaf)
        while self._look.left and waiting and not self._look.out_of_time():
            climbs, later = {}, []
            for found in waiting:
                address = self._look.tensors[id(found)]
                if address in climbs or len(climbs) == AT_ONCE:
                    later.append(found)
                elif address in self._look.left:
                    climbs[address] = _Climb(found)
            waiting = later
            self._together(climbs, was_whole)
        # The graph of a tensor that was found meanwhile may hold these: the graph of a younger tensor holds older ones.
        # A cycle holds what hangs below it.
        alone = sorted(reversed(self._alone), key=lambda climb: self._is_leaf(climb.group[0]))
        for climb in sorted(alone, key=lambda climb: self._look.tensors[id(climb.group[0])] not in self._look.left or
                            not self.way_home(climb.group[0])):
            if self._look.tensors[id(climb.group[0])] in self._look.left and not self._look.out_of_time():
                self._settle(climb, True)

    def _is_leaf(self, tensor):
        return graphs.is_leaf(self._look.base, tensor)

    def _may_ask(self, count):
        """The number of objects, of `count`, whose referrers one call through all objects has time to find."""
        count = min(count, AT_ONCE)
        while count and self._spent() + self._referrers_ns * (AS_ONE + count) // AS_ONE >= self._until:
            count //= 2
        if not count:
            self._look.end("out of time")
        return 0 if self._look.out_of_time() else count

    def _together(self, climbs, was_whole):
        """All tensors climb level by level. A top that one of them has reached is visited before the next level,
        because other tensors may be below it."""
        known = {}  # referrers by the address of an object
        while True:
            climbs = {address: climb for address, climb in climbs.items()
                      if address in self._look.left and not self._rise(climb, known, was_whole)}
            level = {id(each): each for climb in climbs.values() for each in climb.group[climb.at:]
                     if id(each) not in known}
            if not level or not self._ask(list(level.values()), known):
                break
        for address, climb in climbs.items():
            if address in self._look.left and not self._look.out_of_time():
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
            ours = self._look.made_since()
            if ours is None:
                self._look.miss("the collector ran during the look")
                return False
            for referrer in referrers:
                if id(referrer) not in ours and self._look.seen.get(id(referrer)) != -1:
                    for child in set(map(id, gc.get_referents(referrer))) & part.keys():
                        part[child].append(referrer)
            referrers = None
            known.update(part)
            at += count
            self._referrers_ns = max(self._referrers_ns, (self._spent() - begun) * AS_ONE // (AS_ONE + count))
        return True

    def _rise(self, climb, known, was_whole):
        """Follows the referrers that are known. True if the climb ended there."""
        group, below = climb.group, climb.below
        while climb.at < len(group) and len(group) < MOST:
            child = group[climb.at]
            if id(child) not in known:
                return False
            for referrer in known[id(child)]:
                climb.held.add(id(child))
                if id(referrer) not in below:
                    below[id(referrer)] = child
                    group.append(referrer)
                place = self._look.seen.get(id(referrer))
                if place is not None:
                    self._connect(place, below[id(referrer)], below)
                    return True
            climb.at += 1
        whole = was_whole and climb.at >= len(group)
        if whole and len(group) == 1 and self._look.kind_of(type(group[0])) == "tensor":
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
            self._connect(self._look.seen[id(node)], top, climb.below)
            return
        if top is not None or not whole:
            top = group[0] if top is None else top
            what = ("native" if whole else "lost") + ("" if top is group[0] else " object")
            saved = self._saved_in_own_graph(top) if whole and top is group[0] else None
            home = self.way_home(top) if whole and not saved else None
            self._look.top(top, Edge("own graph", saved) if saved else Edge("unseen cycle", home) if home else
                      Edge(what, naming.native_text(top), None, False))
        else:
            self._look.top(naming.telling(group), Edge(self._look.cycle, naming.cycle_text(group), None, whole))

    def way_home(self, top, is_named=False):
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
                if type(child) in PLAIN or id(child) in seen or not is_named and id(child) in self._look.seen or \
                        self._look.kind_of(type(child)) == "type":
                    continue
                seen.add(id(child))
                order.append((child, text))
                above.append(at)
            at += 1
        return None

    def _references(self, found):
        """(object, step) of what an object refers to, through C++, too."""
        base, kind = self._look.base, self._look.kind_of(type(found))
        with contextlib.suppress(RuntimeError, AttributeError):
            if kind == "tensor":
                is_leaf = self._is_leaf(found)
                if base._is_view(found):
                    yield base._base.__get__(found), "._base"
                if is_leaf or base.retains_grad.__get__(found):
                    yield base.grad.__get__(found), ".grad"
                if not is_leaf and self._look.may_read_graph and graphs.has_settled_graph(base, found):
                    yield base.grad_fn.__get__(found), ".grad_fn"
            elif kind == "node" and self._look.may_read_graph:
                for edge, saved in self._look.reader.saved_by(found):
                    yield saved, f".{edge.text}"
                for function, _ in graphs.next_functions(self._look.torch, found):
                    yield function, ""
                yield graphs.accumulated(found), ".variable"
                if graphs.may_read_hooks(self._look.torch):
                    for hooks in graphs.hooks_of(self._look.torch, found):
                        yield hooks, ".hooks"
        for child in gc.get_referents(found):
            yield child, naming.reference_text(found, child)

    def _saved_in_own_graph(self, tensor):
        """The name under which a node of a tensor's own graph holds this very tensor, such as a value that a hook
        packed; None: no node holds it."""
        look, base = self._look, self._look.base
        if look.kind_of(type(tensor)) != "tensor" or not look.may_read_graph or self._is_leaf(tensor) or \
                not graphs.has_settled_graph(base, tensor):
            return None
        nodes, at = [base.grad_fn.__get__(tensor)], 0
        while at < len(nodes) < MOST and not self._look.out_of_time():
            for edge, saved in self._look.reader.saved_by(nodes[at]):
                if saved is tensor:
                    return edge.text
            with contextlib.suppress(RuntimeError, AttributeError):
                nodes.extend(each for each, _ in graphs.next_functions(self._look.torch, nodes[at]) if each is not None)
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
                self._hooked.update((id(each), node) for each in graphs.hooks_of(self._look.torch, node))
        return self._hooked.get(id(hooks))

    def _nodes_to_ask(self):
        if not self._look.may_read_graph:
            return ()
        if not graphs.may_read_hooks(self._look.torch):
            self._look.miss("the program traces or profiles its Python, so hooks of autograd were not looked at")
            return ()
        return [each for each in self._look.reached() if self._look.kind_of(type(each)) == "node"]

    def _connect(self, place, child, below):
        """A visited object leads to a tensor that the walk did not reach."""
        at = len(self._look.reached())
        while child is not None:
            if id(child) not in self._look.seen:
                self._look.add(child, place, None)
            place = self._look.seen[id(child)]
            child = below[id(child)]
        self._look.visit_from(at, False)
