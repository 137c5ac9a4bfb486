"""Objects that autograd's nodes keep: tensors saved in C++, the values that the program's hooks packed for them, hooks,
and the parameter whose gradient is added up. No hook runs for this. torch 2.14 and newer report packed values. In older
versions, a call of the hook's Python function is stopped before its first instruction; its arguments include the packed
value.
"""

import functools
import sys
import types
import weakref

from libmemprof_torch.holders_names import Edge, dict_of_type, function_name, is_dict, mro_of, type_name


def is_node_type(torch, cls, mro):
    if torch._C._FunctionBase in mro:
        return True
    members = dict_of_type(cls)
    return "next_functions" in members and "_register_hook_dict" in members


def next_functions(torch, node):
    return _member(torch, node, "next_functions").__get__(node)


def _member(torch, node, name):
    cls = type(node)
    if torch._C._FunctionBase in mro_of(cls):
        cls = torch._C._FunctionBase
    return dict_of_type(cls)[name]


def has_settled_graph(base, tensor):
    """False for a view whose base was changed: reading its node would make a new one, which changes the program, or
    raise."""
    if not base._is_view(tensor):
        return True
    below = base._base.__get__(tensor)
    return base._version.__get__(below) == 0


def is_leaf(base, tensor):
    """PyTorch's own attribute reads the node."""
    return not base.requires_grad.__get__(tensor) or has_settled_graph(base, tensor) and base.is_leaf.__get__(tensor)


def accumulated(function):
    """The parameter whose gradient a node adds up."""
    if type_name(type(function)) != "AccumulateGrad":
        return None
    return dict_of_type(type(function))["variable"].__get__(function)


# ---- stopping a call before it begins

class _Stopped(RuntimeError):
    """Raised to end a call before it begins."""


class _Stop:
    """Python calls a profile function before it runs a frame. This one ends a frame if `is_stopped` accepts its code.
    Other frames run, such as the program's signal handler. `found`: the code, and the values of its arguments and
    closures, by name; None: no such call."""

    __slots__ = ("found", "_is_stopped")

    def __init__(self, is_stopped):
        self.found, self._is_stopped = None, is_stopped

    def __call__(self, frame, event, argument):
        if event == "call" and self._is_stopped(frame.f_code):
            code, values = frame.f_code, frame.f_locals
            names = (*code.co_varnames[:code.co_argcount], *code.co_freevars)
            self.found = code, {name: values[name] for name in names if name in values}
            raise _Stopped


def may_stop_calls():
    """Not used if the program has a profiler, since Python has room for only one. Within a trace function
    (sys.settrace), Python calls no profile function. A call of the shim's own function shows this before a hook could
    run."""
    return sys.getprofile() is None and _stopped(_is_own, functools.partial(_own))[1] is not None


def _own():
    """Called from C, as torch calls a hook."""


def _is_own(code):
    return code is _own.__code__


def _stopped(is_stopped, read, *arguments):
    """(the result of read(), None), or (None, what _Stop found)."""
    stop, read_value = _Stop(is_stopped), None
    try:
        sys.setprofile(stop)
        read_value = read(*arguments)
    except Exception:
        if stop.found is None:
            raise
    finally:
        sys.setprofile(None)
    return read_value, stop.found


def _code_of(function):
    """(the code that a call runs first, the number of arguments before the call's own). (None, 0): the function is not
    in Python, so memprof cannot stop it."""
    bound = 0
    while type(function) in (types.MethodType, functools.partial):
        of_method = type(function) is types.MethodType
        bound += 1 if of_method else len(function.args)
        function = function.__func__ if of_method else function.func
    return (function.__code__, bound) if type(function) is types.FunctionType else (None, 0)


# ---- what nodes have saved

class SavedHooks:
    """True if the program has ever packed saved tensors with its own hooks: unpacking would call them. Newer torch
    reports each hook. `used`: packed values may exist; `blind`: some belong to hooks whose calls cannot be stopped."""

    def __init__(self, torch):
        self.used = self.blind = False
        self._codes = {}  # by address, of the hooks: (weak reference, which of its arguments is what was packed)
        self.kind = getattr(torch._C._autograd, "SavedTensor", None)
        self.tells = hasattr(self.kind, "unpack_hook") and hasattr(self.kind, "data")
        if not self.tells:
            self._watch(torch._C._autograd, "_push_saved_tensors_default_hooks")
            self._watch(torch._C._autograd, "_register_saved_tensors_default_hooks")
            if self.kind is not None:
                self._watch(self.kind, "register_hooks")

    def _watch(self, owner, name):
        original = getattr(owner, name, None)
        if original is None:
            self.used = self.blind = self.used or owner is self.kind
            return

        def watched(*arguments, **named):
            self.used = True
            unpack = named["unpack_hook"] if "unpack_hook" in named else arguments[-1] if arguments else None
            code, bound = _code_of(unpack)
            if code is None or bound >= code.co_argcount:
                self.blind = True
            else:
                self._codes[id(code)] = weakref.ref(code), bound
            return original(*arguments, **named)
        setattr(owner, name, watched)

    def is_hook(self, code):
        known = self._codes.get(id(code))
        return known is not None and known[0]() is code

    def packed_of(self, code):
        """The name of the argument that has the packed value."""
        return code.co_varnames[self._codes[id(code)][1]]


PATIENCE, AGAIN = 4, 256


class SavedReader:
    """Reads what nodes have saved. Asking for a freed or changed tensor costs PyTorch some 0.5 ms for its error. After
    a few such errors in a row for a name, that name is asked for only now and then."""

    def __init__(self, torch, hooks, miss):
        self._base, self._hooks, self._miss = torch._C._FunctionBase, hooks, miss
        self._may_stop = None  # a look is wholly within a function of tracing or wholly not: known once asked
        self._names = {}  # by type of node: (class that has them, [(name, the name of what is packed)])
        self._failed = {}  # by type of node and name: how often in a row

    def saved_by(self, node):
        """(edge, tensor) of each tensor that a node keeps in C++, (edge, object) of each packed value."""
        kind = type(node)
        if kind not in self._names:
            self._names[kind] = self._names_of(kind)
        members, names = self._names[kind]
        for name, raw in names:
            failed = self._failed.get((kind, name), 0)
            if failed >= PATIENCE and failed % AGAIN:
                self._failed[kind, name] = failed + 1
                continue
            text = f"{type_name(kind)}.{name}"
            try:
                found = self._read(node, members, name, raw, text)
                self._failed[kind, name] = 0
            except Exception:  # what was freed, or what a hook of the program's in C raises
                self._failed[kind, name] = failed + 1
                continue
            if found is None:
                return
            yield from found

    def _read(self, node, members, name, raw, text):
        """Pairs; None: this node cannot be read."""
        hooks = self._hooks
        if hooks is None or hooks.tells and raw is not None:
            packed = _packed(members[raw].__get__(node)) if hooks and raw is not None else None
            return [(Edge("saved", text), each) for each in packed] if packed else _pairs(members[name].__get__(node), text)
        if not hooks.used:
            return _pairs(members[name].__get__(node), text)
        if self._may_stop is None:
            self._may_stop = may_stop_calls()
        if hooks.blind or not self._may_stop or sys.getprofile() is not None:
            self._miss("the program packs what graphs save with hooks of its own, so that was not looked at")
            return None
        saved, stopped = _stopped(hooks.is_hook, members[name].__get__, node)
        if stopped is None:
            return _pairs(saved, text)
        several = members[raw].__get__(node) if raw is not None else ()
        if type(several) is tuple and len(several) > 1:
            self._miss("of several tensors that a node packs with hooks of the program, only the first was looked at")
        code, values = stopped
        packed, function = hooks.packed_of(code), function_name(code)
        return [(Edge("saved", text if name == packed else f"{text} → {function}().{name}"), value)
                for name, value in values.items()]

    def _names_of(self, kind):
        is_custom = self._base in mro_of(kind)
        members = dict_of_type(self._base if is_custom else kind)
        if is_custom:
            return members, [("saved_tensors", "_raw_saved_tensors" if "_raw_saved_tensors" in members else None)]
        # Other values have nothing packed.
        return members, [(name, "_raw" + name) for name in members if name.startswith("_saved_") and
                         "_raw" + name in members]


def _pairs(saved, text):
    if type(saved) is tuple:
        return [(Edge("saved", f"{text}[{place}]"), tensor) for place, tensor in enumerate(saved)]
    return [(Edge("saved", text), saved)]


def _packed(saved):
    """The value that the program's hooks packed; None: they packed nothing."""
    saved = [each for each in (saved if type(saved) is tuple else (saved,)) if each is not None]
    return [each.data for each in saved] if any(each.unpack_hook is not None for each in saved) else None


# ---- hooks of nodes

# The first thing that each of these does is to pass its hooks to Function._register_hook(), a Python function.
REGISTER = ("register_hook", "register_prehook")


def _code_of_register(torch):
    """None: the program has replaced the function, and the replacement might register what it gets."""
    for each in mro_of(torch.autograd.Function):
        function = dict_of_type(each).get("_register_hook")
        if function is not None:
            code, bound = _code_of(function.__func__ if type(function) is staticmethod else function)
            is_torch = code is not None and code.co_name == "_register_hook" and "/torch/autograd/" in code.co_filename
            return code if is_torch and not bound else None
    return None


def may_read_hooks(torch):
    return _code_of_register(torch) is not None and may_stop_calls()


def _nothing(*_):
    """A hook that is never registered. If None took its place, the program's backward pass would fail."""


def hooks_of(torch, node):
    """Dictionaries of the node's hooks, if may_read_hooks() allows it. Since torch 2, the collector sees them only if
    nothing else refers to the node."""
    found, code = [], _code_of_register(torch)
    if code is None or sys.getprofile() is not None:
        return found
    for name in REGISTER:
        try:
            register = _member(torch, node, name)
            _, stopped = _stopped(lambda called: called is code, register.__get__(node), _nothing)
        except Exception:
            continue
        found.extend(value for value in (stopped[1].values() if stopped else ()) if is_dict(value))
    return found
