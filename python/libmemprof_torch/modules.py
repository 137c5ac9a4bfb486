"""Names of modules: the class of the root and the path of named_modules(), passed to the recorder by address.

The recorder sees in the interpreter's own frames which module runs, but lacks its name. If an address has no name, the
recorder asks for it, between two instructions of the main thread (Py_AddPendingCall). Calls of modules are not changed.
"""

import bisect
import collections
import ctypes
import threading
import time
import weakref

from libmemprof_torch import TROUBLE, complain, is_of_signal, replace

# Wrappers of modules, which add a step to paths that users do not expect.
TRANSPARENT = {"_orig_mod", "_fsdp_wrapped_module", "_fpw_module", "_checkpoint_wrapped_module"}
TRANSPARENT_OF = {"DistributedDataParallel", "DataParallel", "DeepSpeedEngine"}  # those call it `module`
MADE_CLASSES = ("torch.distributed.", "torch.nn.utils.parametrize")  # they give a module a class made of its own
FRESH_LEAST = 1000  # so many new ones are kept without a look at whether they still live
REST = 100  # after a look at all modules, for so many times as long only new ones are looked at


def start(api, torch, labels, history):
    names = Names(api["module_name"], labels)
    Module = torch.nn.Module
    # Dynamo treats this as a constant, and follows nothing behind it.
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
    born, replicated = names.born, names.replicated

    def make_init(init):
        def __init__(self, *arguments, **named):
            init(self, *arguments, **named)
            if not is_compiling():
                born(self)
        return __init__

    def make_setstate(setstate):
        def __setstate__(self, state):
            setstate(self, state)
            if not is_compiling():
                born(self)
        return __setstate__

    def make_replicate(replicate):
        def _replicate_for_data_parallel(self):
            replica = replicate(self)
            replicated(replica, self)
            return replica
        return _replicate_for_data_parallel

    replace(Module, "__init__", make_init)
    replace(Module, "__setstate__", make_setstate)  # copies, and what was unpickled
    if "_replicate_for_data_parallel" in vars(Module):
        replace(Module, "_replicate_for_data_parallel", make_replicate)
    ask, code = _Ask(names, api, history), Module.__call__.__code__
    for kept in (ask, code):  # longer than this module: the recorder has their addresses
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    api["module_code"](id(code))
    # This function of the interpreter runs Python code for one object, and passes on an exception from a signal
    # handler.
    api["module_ask"](ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p), id(ask))
    return names


class _Ask:
    """The recorder reads the object's truth value when it has seen modules without a name."""

    __slots__ = ("_names", "_api", "_history")

    def __init__(self, names, api, history):
        self._names, self._api, self._history = names, api, history

    def __bool__(self):
        if self._names is not None:
            try:
                self._names.look()
            except TROUBLE as trouble:
                if is_of_signal(trouble):
                    raise
                self._names = None
                complain(self._api, "names of modules", trouble)
        if self._history is not None:
            self._history.look()
        return False


class _Known(weakref.ref):
    """A named module; a replica has the name of its original."""

    __slots__ = ("address", "path", "is_replica")


def _children(module):
    """Pairs of name and module, read without running the class's code for attributes."""
    return [(name, child) for name, child in (vars(module).get("_modules") or {}).items() if child is not None]


def _is_transparent(module, name):
    if name == "module":
        return any(kind.__name__ in TRANSPARENT_OF for kind in type(module).__mro__)
    return name in TRANSPARENT


def _class_name(module):
    own = [kind for kind in type(module).__mro__ if not (kind.__module__ or "").startswith(MADE_CLASSES)]
    return (own[0] if own and own[0].__name__ != "Module" else type(module)).__name__


def _unwrapped(module):
    for _ in range(8):  # a wrapper of wrappers
        inner = next((child for name, child in _children(module) if _is_transparent(module, name)), None)
        if inner is None:
            break
        module = inner
    return module


class Names:
    def __init__(self, tell, labels):
        self._tell = tell
        self._labels = labels
        self._fresh = collections.deque()  # weak references: what was made since the last look; any thread adds to it
        self._fresh_most = FRESH_LEAST
        self._known = {}  # by address
        # References to modules that have died. A Python function as callback would be one more place where an exception
        # from a signal handler gets lost. Dead modules are forgotten before a new module is reported, because it may
        # have the address of an old one.
        self._dead = []
        self._numbers = {}  # of roots, by address: class and number
        self._free = {}  # numbers by class, ascending
        self._next_full_ns = 0
        self._looking = False
        self.parameters = {}  # encoded names by the address of the Python object

    def born(self, module):
        try:
            if self._dead:
                self._forget()
            if len(self._fresh) >= self._fresh_most:  # nobody has asked for long
                self._fresh.extend(reference for reference in self._take_fresh() if reference() is not None)
                self._fresh_most = max(FRESH_LEAST, 2 * len(self._fresh))
            self._fresh.append(weakref.ref(module))
        except TROUBLE as trouble:  # no weak references to its class, say
            if is_of_signal(trouble):
                raise

    def replicated(self, replica, original):
        """DataParallel makes new replicas at each call, and runs them at once on other threads, where nobody could
        ask."""
        try:
            if self._dead:
                self._forget()
            if id(original) not in self._known and threading.current_thread() is threading.main_thread():
                self.look()
            known = self._known.get(id(original))
            if known is not None and known() is original:
                self._know(replica, known.path, True)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise

    def look(self):
        """Names new modules. Checks all modules again if the last check was long ago, since one may have got a parent.
        Runs only on the main thread, where the recorder may ask in the middle of a look."""
        if self._looking:
            return
        self._looking = True
        try:
            self._look()
        finally:
            self._looking = False

    def _look(self):
        begun = time.perf_counter_ns()
        full = begun >= self._next_full_ns
        self._forget()
        fresh = self._take_fresh()
        try:
            known = [reference for reference in list(self._known.values()) if not reference.is_replica] if full else []
            self._name_all([*fresh, *known])
        except BaseException:
            self._fresh.extend(fresh)
            raise
        if full:
            self._next_full_ns = begun + REST * (time.perf_counter_ns() - begun)

    def _take_fresh(self):
        return [self._fresh.popleft() for _ in range(len(self._fresh))]

    def _name_all(self, references):
        modules = [module for module in (reference() for reference in references) if module is not None]
        named = set()
        children = {id(child) for module in modules for _, child in _children(module)}
        for roots in ([module for module in modules if id(module) not in children], modules):  # rings have no root
            for module in roots:
                if id(module) not in named:
                    self._name_tree(module, self._root_name(module), named)

    def _root_name(self, root):
        """The second module of a class is Class#2; numbers of freed modules are reused."""
        root = _unwrapped(root)
        name = _class_name(root)
        known, number = self._numbers.get(id(root), (None, 0))
        if known != name:
            free = self._free.setdefault(name, [1])  # the last one is the first that nobody had yet
            number = free.pop(0)
            if not free:
                free.append(number + 1)
            self._numbers[id(root)] = (name, number)
        return name if number == 1 else f"{name}#{number}"

    def _name_tree(self, root, path, named):
        todo = [(root, path)]
        while todo:
            module, path = todo.pop()
            if id(module) in named:
                continue
            named.add(id(module))
            self._name(module, path)
            for name, child in reversed(_children(module)):
                todo.append((child, path if _is_transparent(module, name) else f"{path}.{name}"))

    def _name(self, module, path):
        is_new = self._know(module, path, False)
        if self._labels is not None:
            self._labels.of_module(module, path, self.parameters, is_new)

    def _know(self, module, path, is_replica):
        address = id(module)
        known = self._known.get(address)
        if known is not None and known() is module and known.path == path:
            return False
        known = _Known(module, self._dead.append)
        known.address, known.path, known.is_replica = address, path, is_replica
        self._known[address] = known
        self._tell(address, path.encode("utf-8", "replace"))
        return True

    def _forget(self):
        while self._dead:
            known = self._dead.pop()
            if self._known.get(known.address) is known:
                del self._known[known.address]
                self._tell(known.address, None)
                name, number = self._numbers.pop(known.address, (None, 0))
                if name is not None:
                    bisect.insort(self._free[name], number)
