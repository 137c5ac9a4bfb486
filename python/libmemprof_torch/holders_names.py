"""Names everything that holders.py meets. Nothing here runs code of the program: classes are read past their
metaclasses, instances through descriptors of their dictionaries and slots.
"""

import collections
import contextvars
import functools
import inspect
import re
import sys
import threading
import types

from libmemprof_torch import loaders

OURS = ("libmemprof", "sitecustomize")
# Objects of these classes refer to nothing that could hold a tensor.
PLAIN = {int, float, complex, bool, str, bytes, bytearray, type(None), type(...), type(NotImplemented), types.CodeType, range,
         slice, types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType,
         types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.ModuleType}
OPTIMIZED = 1  # flag of code: its frames have locals of their own
HOOKS_END = ("_hooks", "_hook")
NAMESPACES = ("_parameters", "_buffers", "_modules")  # of torch.nn.Module: attributes, as everybody writes them
PATH_MOST = 400  # characters
WAY_MOST = 160
UNTELLING = ("builtins", "collections", "weakref", "functools", "torch", "torch.nn.parameter")

_dict_of_type, _mro_of = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__


def dict_of_type(cls):
    return _dict_of_type(cls) or {}


def mro_of(cls):
    """A C class that was never made ready, such as f2py's `fortran` in SciPy, has neither."""
    return _mro_of(cls) or (cls,)


type_name = type.__dict__["__name__"].__get__
dict_of_module = types.ModuleType.__dict__["__dict__"].__get__


def module_of_type(cls):
    found = type.__dict__["__module__"].__get__(cls)
    return found if type(found) is str else "builtins"


def full_name(cls):
    module = module_of_type(cls)
    return type_name(cls) if module in ("builtins", "__main__") else f"{module}.{type_name(cls)}"


def is_dict(found):
    """isinstance() would ask the object for its __class__."""
    return dict in mro_of(type(found))


class Edge:
    """Steps from an object to an object that it refers to, if the walk knows more than the reference."""

    __slots__ = ("what", "text", "frame", "certain")

    def __init__(self, what, text, frame=None, certain=True):
        self.what, self.text, self.frame, self.certain = what, text, frame, certain


# ---- modules

def modules():
    """(name, module, its dictionary, tier). Tier 0 is the program's own, 1 other packages, 2 Python's and torch's."""
    found = []
    for name, module in list(dict.items(sys.modules)):
        if type(name) is str and types.ModuleType in mro_of(type(module)):
            namespace = dict_of_module(module)
            if type(namespace) is dict:
                found.append((name, module, namespace, _tier(name, namespace)))
    return found


def _tier(name, namespace):
    top = name.partition(".")[0]
    if name == "__main__":
        return 0
    if top in getattr(sys, "stdlib_module_names", ()) or top in sys.builtin_module_names or top in ("torch", "numpy"):
        return 2
    file = namespace.get("__file__")
    if type(file) is not str:
        return 0 if namespace.get("__loader__") is None else 1
    return 1 if "/site-packages/" in file or "/dist-packages/" in file else 0


def is_own_type(cls):
    """The program's own: classes of others lead far, and wait."""
    module = sys.modules.get(module_of_type(cls))
    return module is not None and _tier(module_of_type(cls), dict_of_module(module)) == 0


def is_own_namespace(namespace):
    """A module's names, from the globals of a function; code from exec() may have any."""
    name = dict.get(namespace, "__name__")
    return type(name) is not str or _tier(name, namespace) == 0


# ---- frames

class Frame:
    """`depth`: how many of the program's functions called this one; `passed`: the names of its *args and **kwargs."""

    __slots__ = ("frame", "name", "file", "line", "locals", "is_main", "is_over", "tier", "depth", "passed", "_is_alone")

    def __init__(self, frame, is_main, is_over=False):
        code, self.depth, self.is_over = frame.f_code, 0, is_over
        first = code.co_argcount + code.co_kwonlyargcount
        many = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        self.passed = code.co_varnames[first:first + many]
        self.frame, self.is_main = frame, is_main
        self.name, self.file, self.line = function_name(code), code.co_filename, line_of(frame)
        self.tier = tier_of(frame)
        self.locals, self._is_alone = None, False
        locals_of(frame, self._remember)

    def _remember(self, namespace):
        self._is_alone = sys.getrefcount(namespace) <= ALONE
        return self._is_alone

    def read(self):
        self.locals = locals_of(self.frame, lambda namespace: self._is_alone)


def tier_of(frame):
    namespace = frame.f_globals
    module = dict.get(namespace, "__name__") if type(namespace) is dict else None
    return _tier(module, namespace) if type(module) is str else 0


def line_of(frame):
    """0 if the frame has no line, as in code that the compiler made (Python 3.12 says None)."""
    return frame.f_lineno or 0


def function_name(code):
    name = getattr(code, "co_qualname", code.co_name)
    return name.rpartition("<locals>.")[2]


def locals_of(frame, may_empty):
    """Pairs of name and value. Up to 3.12, Python makes and keeps a dictionary of them for this. It is emptied again if
    nobody else has it (may_empty())."""
    found = frame.f_locals
    if not frame.f_code.co_flags & OPTIMIZED:
        return [] if found is frame.f_globals else list(found.items()) if type(found) is dict else []
    pairs = list(found.items())
    if type(found) is dict and may_empty(found):
        found.clear()
    return pairs


ALONE = 4  # references to such a dictionary: the frame's, that of locals_of(), that of what it asks, the call's


def is_our_frame(frame):
    return "/libmemprof_" in frame.f_code.co_filename


class Frames:
    """The frames of all threads except the look's own; `in_backward`: true if a graph is in use. Made before the list
    of all objects, which would refer to the dictionaries that Python makes of locals. Their values are read later."""

    def __init__(self, last=()):
        """`last`: frames of the main thread that may have returned (holders_last.py)."""
        main = threading.main_thread().ident
        self.all, self.in_backward = [], False
        current = sys._current_frames()
        running = set(map(id, _with_callers(current.get(main))))
        self.all.extend(Frame(each, True, True) for each in last if id(each) not in running)
        for depth, each in enumerate(self.all):
            each.depth = depth
        for ident in sorted(current, key=lambda each: each != main):
            frame, of_thread, depth = current[ident], [], 0
            while frame is not None:
                if not is_our_frame(frame):
                    of_thread.append(Frame(frame, ident == main))
                    self.in_backward = self.in_backward or _is_of_backward(frame.f_code)
                frame = frame.f_back
            for each in reversed(of_thread):  # callers first
                each.depth, depth = depth, depth + (each.tier == 0 and bool(each.frame.f_code.co_flags & OPTIMIZED))
            self.all.extend(reversed(of_thread))
        current.clear()  # it has this very frame, which has it

    def read(self):
        for frame in self.all:
            frame.read()

    def forget(self):
        for frame in self.all:
            frame.locals = None


def _with_callers(frame):
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _is_of_backward(code):
    file = code.co_filename
    return "/torch/autograd/" in file and (code.co_name in ("backward", "grad", "_engine_run_backward") or
                                           file.endswith("/function.py") and code.co_name == "apply")


def is_amid_backward(frame):
    while frame is not None and not _is_of_backward(frame.f_code):
        frame = frame.f_back
    return frame is not None


def handled_exceptions():
    get = getattr(sys, "_current_exceptions", None)
    found = list(get().values()) if get else [sys.exc_info()]
    for each in found:
        error = each[1] if type(each) is tuple else each
        if error is not None:
            yield "the exception being handled", error


def of_a_worker():
    """A DataLoader's worker has no other name in the program for its copy of the dataset."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    worker = module and dict.get(dict_of_module(module), "_worker_info") or next(iter(loaders.kept), None)
    for name, value in [*(dict_of(worker) or {}).items(), *slots_of(worker)] if worker else ():
        if name == "dataset":
            yield "torch.utils.data.get_worker_info().dataset", value


def context_variables():
    """(name, value) of the locals that are set when the look is made."""
    for variable, value in contextvars.copy_context().items():
        yield variable.name, value


def last_errors():
    for name in ("last_exc", "last_value", "last_traceback"):
        if name in sys.__dict__ and sys.__dict__[name] is not None:
            yield name, sys.__dict__[name]


# ---- objects

def dict_of(found):
    """An instance's dictionary, read without running the class's code for attributes; None: it has none."""
    for cls in mro_of(type(found)):
        member = dict_of_type(cls).get("__dict__")
        if member is not None:
            if type(member) not in (types.GetSetDescriptorType, types.MemberDescriptorType):  # SimpleNamespace: a member
                return None
            try:
                namespace = member.__get__(found)
            except (AttributeError, TypeError):
                return None
            return namespace if is_dict(namespace) else None
    return None


def slots_of(found):
    for cls in mro_of(type(found)):
        for name, member in dict.items(dict(dict_of_type(cls))):
            if type(member) is types.MemberDescriptorType:
                try:
                    yield name, member.__get__(found)
                except AttributeError:
                    pass


def short_of(found):
    return type_name(type(found))


def telling(group):
    """The most telling object of a cycle: one of a class of the program."""
    plain = (dict, list, tuple, types.CellType, types.FrameType)
    rest = [each for each in group[1:] if type(each) not in plain]
    for is_telling in (is_own_type, lambda cls: module_of_type(cls) not in UNTELLING):
        for each in rest:
            if is_telling(type(each)):
                return each
    return rest[0] if rest else group[-1]


def array_type(mro):
    """numpy's own class among an object's classes; None: there is none."""
    return next((cls for cls in mro if type_name(cls) == "ndarray" and module_of_type(cls) == "numpy"), None)


def is_of_hooks(top):
    """Hooks of autograd, by the numbers of their handles."""
    return top is not None and collections.OrderedDict in mro_of(type(top)) and set(map(type, dict.keys(top))) == {int}


def native_text(top):
    """For an object that no other object refers to."""
    if is_of_hooks(top):
        return "hooks of autograd"
    return type_name(type(top))


def cycle_text(group):
    return type_name(type(telling(group)))


def reference_text(found, child):
    """The step from an object to one that Python's collector sees below it: an attribute's name, or nothing."""
    if is_dict(found):
        key = next((key for key, value in dict.items(found) if value is child), None)
        return f".{key}" if type(key) is str and key.isidentifier() else "[*]"
    if type(found) is types.FunctionType:
        return "()"
    if type(found) is types.CellType or is_dict(child):
        return ""
    if type(found) in (list, tuple, set, collections.deque):
        return "[*]"
    return next((f".{name}" for name, value in slots_of(found) if value is child), "")


def way_text(steps):
    """A.b[*].c for a way from an A back to it; a long one is cut in the middle."""
    text = "".join(steps)
    return text if len(text) <= WAY_MOST else f"{text[:WAY_MOST // 2]}…{text[-WAY_MOST // 2:]}"


def key_text(key):
    if type(key) in (str, int, float, bool, type(None), bytes):
        text = repr(key)
        return text if len(text) <= 60 else text[:56] + "..." + text[-1]
    return "*"


class Token:
    """One step of a path. `key`: the key of a container's entry, or `*` for several entries. `names`: the key says what
    the entry is, so few of them are shown separately. `classes`: those of an attribute's owner. `unit`: the patterns of
    the steps that it represents many times. `bound`: (entries, most, numbers of its owner by name) of the entry's
    container; most is None if the container has no bound."""

    __slots__ = ("text", "tag", "key", "file", "line", "certain", "names", "classes", "unit", "bound")

    def __init__(self, text, tag="", key=None, file=None, line=0, certain=True, names=False, classes=(), unit=None,
                 bound=None):
        self.text, self.tag, self.key, self.file, self.line, self.certain = text, tag, key, file, line, certain
        self.names, self.classes, self.unit, self.bound = names, classes, unit, bound

    def pattern(self, apart):
        if self.key is None:
            return self.text, self.tag
        return self.text + (self.key if apart and self.names else "[]"), self.tag


class Holder:
    """`path` holds `addresses` of storages; sorted by their number.

    * `container`: the container of the entries, as holders_filled.py takes it, or None. It is the kind of its name, the
      name, its function, module or classes, and whether its entries are filled.
    * `entries`: the number of entries of the growing container; 0 if the container has a bound of its own.
    * `sizes`: numbers of its owner, by name.
    * `told`: where tell_bound() writes into the path.
    """

    __slots__ = ("path", "kind", "certain", "addresses", "file", "line", "container", "entries", "sizes", "told")

    def __init__(self, path, kind, certain, file, line, container):
        self.path, self.kind, self.certain, self.file, self.line = path, kind, certain, file, line
        self.container, self.addresses, self.entries, self.sizes, self.told = container, [], 0, {}, len(path)

    def tell_bound(self, most):
        """`most`: entries, or 0 if the code says only that there is a bound. The readers know these forms."""
        if self.entries > most > 0 or not self.entries:
            return
        text = f"{self.entries} of at most {most} entries, by its code" if most else f"{self.entries} entries, code drops some"
        self.tell(text)

    def tell(self, text):
        self.path = f"{self.path[:self.told]} ({text}){self.path[self.told:]}"


class Names:
    def __init__(self, look):
        self.look = look
        self._tokens = {}  # lists by place
        self._at = -1  # the place of the object that the step being named goes out from
        self._places = {}  # of entries, by the address of the container

    def holders(self, blocks):
        patterns = {}
        for number, block in enumerate(blocks):
            if number % NAMED_AT_ONCE == NAMED_AT_ONCE - 1 and self.look.out_of_time():
                self.look.miss(f"{len(blocks) - number} of {len(blocks)} holders were found and not named in time")
                break
            tokens = self._path_to(block.place)
            if block.edge is not None:
                tokens = [*tokens, _token_of(block.edge)]
            patterns.setdefault(tuple(token.pattern(False) for token in tokens), []).append((tokens, block.address))
        views = self.look.views()
        found = [_holder(part, _view_text([views.get(address, (0, 0)) for _, address in part]))
                 for members in _numbered(patterns) for part in _apart(members)]
        found.sort(key=lambda each: (-len(each.addresses), each.path))
        return found

    def text_to(self, place):
        """The path of an object that was visited; None: no name of the program leads to it."""
        tokens = self._path_to(place)
        if not tokens or not tokens[0].certain or tokens[0].tag in ("native", "unknown"):
            return None
        text = "".join(token.text + ("" if token.key is None else f"[{token.key}]") for token in tokens)
        return text if len(text) <= PATH_MOST else None

    def _path_to(self, place):
        """For an object that was visited; walks long chains without recursion."""
        chain = []
        while place >= 0 and place not in self._tokens:
            chain.append(place)
            place = self.look._parents[place]
        tokens = self._tokens[place] if place >= 0 else []
        for place in reversed(chain):
            tokens = self._tokens[place] = _shortened([*tokens, *self._step(place)])
        return tokens

    def _step(self, place):
        look = self.look
        child, edge, above = look._order[place], look._edges[place], look._parents[place]
        if edge is not None:
            return [] if edge.what == "graph" and edge.text == "" else [_token_of(edge)]
        parent = look._order[above]
        self._at = above
        grand = self._above(above)
        if type(parent) is dict and type(grand) is dict and threading.local in mro_of(type(self._above(above, 2))):
            name = self.place_in(parent, child)
            return [Token(f".{name}", "thread")] if type(name) is str else [Token("", "thread")]
        if type(parent) is dict and threading.local in mro_of(type(grand)) and type(child) is dict:
            return [Token("", "thread")]
        kind = look.kind_of(type(parent))
        return _steps(self, parent, child, grand, kind) or _unknown_step(parent, child)

    def may_empty(self, namespace):
        """For a frame that is not running. It may be in the list of all objects; this is asked only to explain the
        additional reference."""
        references = sys.getrefcount(namespace)
        return references <= ALONE or references == ALONE + 1 and self.look.is_listed(namespace)

    def _above(self, place, steps=1):
        """The object through which another was reached; None: above a root."""
        for _ in range(steps):
            place = self.look._parents[place] if place >= 0 else -1
        return self.look._order[place] if place >= 0 else None

    def owner_above(self, grand):
        """The owner of the step being named: the object itself, or the object whose dictionary it is."""
        return self._above(self._at, 2) if type(grand) is dict else grand

    def place_in(self, container, child):
        """The key of `child` in `container`. The keys of a container are collected once."""
        places = self._places.get(id(container))
        if places is None:
            if is_dict(container):
                places = {id(value): key for key, value in dict.items(container)}
            else:
                base = next(each for each in (list, tuple, collections.deque) if each in mro_of(type(container)))
                places = {id(value): place for place, value in enumerate(base.__iter__(container))}
            self._places[id(container)] = places
        return places.get(id(child), MISSING)


MISSING = object()


UNIT_MOST = 4  # steps
LINKS = {"attribute", "list", "dict", "namespace"}


def _shortened(tokens):
    """A list or tree that is linked by hand: head.next … next, root.children[*] … children[*]."""
    for size in range(1, UNIT_MOST + 1):
        unit, before = tokens[-size:], tokens[-size - 1:-size]
        if not before or not _may_repeat(unit):
            continue
        patterns = _patterns(unit)
        if before[0].unit == patterns:
            return tokens[:-size]
        if len(tokens) >= 3 * size and patterns == _patterns(tokens[-2 * size:-size]) == _patterns(tokens[-3 * size:-2 * size]):
            text = "".join(token.text if token.key is None else "[*]" for token in unit[:-1]) + unit[-1].text
            many = Token(f"{text}{'' if unit[-1].key is None else '[*]'}…{text[1:]}", unit[-1].tag,
                         None if unit[-1].key is None else "*", unit=patterns)
            return [*tokens[:-3 * size], many]
    return tokens


def _may_repeat(unit):
    """True if `unit` may stand for several equal parts of a path: it begins with an attribute, and has only links
    without names."""
    return unit[0].text[:1] == "." and unit[0].key is None and all(
        token.tag in LINKS and token.unit is None and (token.key is None or not token.names) for token in unit)


def _patterns(tokens):
    return [token.pattern(False) for token in tokens]


UNSEEN_CYCLE = "a cycle that gc cannot see: "
# Objects that no name of the program leads to.
_UNNAMED = {"native": ("native code", "native"), "native object": ("native code → {}", "native"),
            "lost": ("not found", "unknown"), "lost object": ("not found → {}", "unknown"),
            "own graph": ("a cycle through its own grad_fn, {}", "graph"),
            "cycle": ("a cycle of {} that gc has not collected yet", "unknown"),
            "cycle off": ("a cycle of {} that gc has not collected yet, as it is off", "unknown"),
            "unseen cycle": (UNSEEN_CYCLE + "{}", "native")}


def _token_of(edge):
    if edge.what == "global":
        of_torch = edge.text.startswith("torch.") and edge.text.endswith(HOOKS_END)
        return Token(edge.text, "hook" if of_torch else "attribute")
    if edge.what == "local":
        frame = edge.frame
        return Token(f"{frame.name}().{edge.text}", "local" if frame.is_main else "thread", None, frame.file, frame.line)
    if edge.what in _UNNAMED:
        text, tag = _UNNAMED[edge.what]
        return Token(text.format(edge.text), tag, certain=edge.certain)
    if edge.what == "graph":
        return Token("." + edge.text, "graph")
    if edge.what == "saved":
        return Token(" → " + edge.text, "graph")
    if edge.what == "entry":
        return Token("", "list", edge.text)
    return Token("." + edge.text, "attribute")


NAMED_AT_ONCE = 64  # between two looks at the clock
APART_MOST = 16


def _apart(members):
    """Keys that name things (outputs[*]['loss'], outputs[*]['logits']) separate holders, unless there are many: then
    they are data."""
    parts = {}
    if any(token.names for token in members[0][0]):
        for member in members:
            parts.setdefault(tuple(token.pattern(True) for token in member[0]), []).append(member)
    return parts.values() if 1 < len(parts) <= APART_MOST else [members]


NUMBER = re.compile(r"\d+")
NUMBERED_LEAST = 4


def _without_numbers(text, tag):
    """The last name of a step: mask_7, activation_0, main().part2."""
    before, period, name = text.rpartition(".")
    if tag not in ("attribute", "local", "thread") or " " in text or "…" in text:
        return text
    return before + period + NUMBER.sub("*", name)


def _numbered(patterns):
    """The members of each pattern. Names that a program numbers (mask_0, mask_1) are one pattern."""
    alike = {}
    for pattern, members in patterns.items():
        alike.setdefault(tuple((_without_numbers(*step), step[1]) for step in pattern), []).append((pattern, members))
    for steps, parts in alike.items():
        if len(parts) < NUMBERED_LEAST:
            yield from (members for _, members in parts)
            continue
        tokens, address = parts[0][1][0]
        tokens = list(tokens)
        for place, (text, _) in enumerate(steps):
            if any(pattern[place] != parts[0][0][place] for pattern, _ in parts):
                old = tokens[place]
                tokens[place] = Token(text, old.tag, None, old.file, old.line, old.certain)
        yield [(tokens, address), *[member for _, members in parts for member in members][1:]]


def _bounds(tokens, members):
    """The bounds of the containers whose entries differ, from the outermost on."""
    return [token.bound or (0, None, {}) for place, token in enumerate(tokens)
            if token.tag in ("list", "dict", "cache") and token.key is not None and
            (token.key == "*" or any(other[place].key != token.key for other, _ in members))]


def _bound_text(bounds):
    """Added if the outermost container whose entries differ has a bound; of it and bounded ones in its entries, about
    the least full. The readers know this form (src/analysis/holders)."""
    if not bounds or bounds[0][1] is None:
        return ""
    entries, most, _ = min((bound for bound in bounds if bound[1]), key=lambda bound: bound[0] / bound[1])
    return f" ({entries} of at most {most} entries)"


def _view_text(views):
    """Added for blocks of which tensors use only a part, on average over blocks whose use is known. The readers know
    this form."""
    known = [view for view in views if view[1]]
    used, whole = (sum(each) / len(known) for each in zip(*known)) if known else (0, 0)
    if not used or used * VIEW_PART > whole:
        return ""
    unit, size = next((each for each in UNITS if used >= each[1]), UNITS[-1])
    return f" ({_number_text(used / size)} of {_number_text(whole / size)} {unit} used)"


def _number_text(number):
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}".replace(",", " ")


VIEW_PART = 2
UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def _holder(members, view=""):
    """For blocks whose paths differ only in entries of containers. `view`: the text from _view_text()."""
    first, address = members[0]
    texts, file, line, said = [], None, 0, None
    for place, token in enumerate(first):
        text = token.text
        if token.key is not None:
            if said in ("local", "thread") and token.tag in ("list", "dict"):
                file, line = None, 0  # where a frame is does not say who fills a container
            same = all(tokens[place].key == token.key for tokens, _ in members[1:])
            text += f"[{token.key}]" if same else "[*]"
        texts.append(text)
        if token.file is not None:
            file, line, said = token.file, token.line, token.tag
    path = "".join(texts[1:])
    if first[0].tag in ("native", "unknown") and path:
        path = " → " + path.lstrip(" →.")
    path = texts[0] + path
    if len(path) > PATH_MOST:
        path = path[:PATH_MOST // 2] + " … " + path[-PATH_MOST // 2:]
    bounds = _bounds(first, members)
    path += _bound_text(bounds)
    found = Holder(path, _kind(first, members), first[0].certain, file, line, _container_of(first, members))
    found.path += view
    if bounds and bounds[0][1] is None:
        found.entries, _, found.sizes = bounds[0]
    found.addresses = [address for _, address in members]
    return found


NAME = re.compile(r"(?:(\w[\w.<>]*)\(\)\.|(\.))?(\w+)$")  # main().losses, .losses, losses
ONE_ENTRY = "one entry"
NAME_MOST = 200  # characters: in longer ones no name is looked for, since that takes time that grows as their square


def _container_of(tokens, members):
    """The first step whose entries differ, else the last; see Holder."""
    keyed = [place for place, token in enumerate(tokens) if token.key is not None and token.tag in ("list", "dict")]
    growing = [place for place in keyed if any(other[place].key != tokens[place].key for other, _ in members)]
    for place in growing[:1] or keyed[-1:]:
        before = [token for token in tokens[:place] if token.text]
        may_have = before and tokens[0].certain and len(before[-1].text) <= NAME_MOST
        named = NAME.search(before[-1].text) if may_have else None
        if not named or tokens[place].unit:
            return None
        behind = next((token for token in tokens[place + 1:] if token.text or token.key is not None), None)
        of_entries = behind is not None and behind.key is not None and behind.tag in ("list", "dict") and not behind.text
        above = tokens[place - 1]
        if above.key is not None and above.tag in ("list", "dict") and not above.text and not tokens[place].text:
            if of_entries or before[-1] is not tokens[place - 2]:
                return None  # containers in containers in containers
            of_entries = ONE_ENTRY
        if named[1]:
            return "local", named[3], named[1], of_entries
        if before[-1].tag == "closure":
            return "closure", named[3], None, of_entries
        if before[-1].classes:
            return "attribute", named[3], before[-1].classes, of_entries
        if len(before) == 1:
            return "global", named[3], before[-1].text[:named.start(3)].rstrip(".") or "__main__", of_entries
    return None


def _kind(tokens, members):
    tags = [token.tag for token in tokens]
    for first in ("native", "unknown"):
        if tags[0] == first:
            return first
    for tag in ("traceback", "hook", "cache", "graph", "default", "closure", "thread", "local"):
        if tag in tags:
            return tag
    keyed = [place for place, token in enumerate(tokens) if token.key is not None]
    growing = [place for place in keyed if any(other[place].key != tokens[place].key for other, _ in members)]
    for places in (growing, [place for place in keyed if tags[place] != "attribute"]):
        if places:
            return tags[places[-1]]
    return next((tag for tag in reversed(tags) if tag), "attribute")


# ---- steps, by the type of the parent

# Iterators, queues and the like, whose parts have no names. hamt is inside of contexts of variables.
UNNAMED_PARTS = ("itertools", "_queue", "_contextvars", "_operator")


def _has_unnamed_parts(cls):
    return module_of_type(cls) in UNNAMED_PARTS or type_name(cls).startswith(("hamt", "Context")) and \
        module_of_type(cls) in ("builtins", "contextvars") or cls in (map, filter, zip, enumerate, reversed)


# Objects that show another object's contents, and add no step of their own.
SEEN_THROUGH = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))
QUEUE_HAS_LIST = sys.version_info < (3, 13)  # a SimpleQueue; a ring of its own since then


def _unknown_step(parent, child):
    if type(parent) in SEEN_THROUGH:
        return [Token("", "namespace")]
    if type_name(type(parent)) == "SimpleQueue" and module_of_type(type(parent)) == "_queue" and not QUEUE_HAS_LIST:
        return [Token("", "list", "*")]
    if not _has_unnamed_parts(type(parent)):
        return [Token(f" → {type_name(type(child))}", "attribute")]
    if type(child) in (list, tuple, dict) or _has_unnamed_parts(type(child)):
        return [Token("", "namespace")]
    return [Token("", "list", "*")]


def _entry(names, container, child, tag, grand=None):
    place = names.place_in(container, child)
    if place is MISSING:
        if is_dict(container):
            return [Token(".keys", tag), Token("", tag, "*")]
        return None
    return [Token("", tag, key_text(place), names=type(place) is str, bound=_bound_of(container, names.owner_above(grand)))]


def _bound_of(container, owner):
    """(entries, most, numbers of the owner by name); most is None: the container itself drops no entries."""
    sizes = {}
    if collections.deque in mro_of(type(container)):
        most = collections.deque.maxlen.__get__(container)
    elif type(container) is CACHED:
        most, entries = CACHED.cache_info(container)[2:]
        return entries, most or None, sizes
    else:
        most = None
    for each in (container, owner) if most is None else ():  # a queue, a cache with the usual name for its size
        namespace = dict_of(each) if each is not None else None
        for name, value in dict.items(namespace) if namespace is not None else ():
            if type(name) is str and type(value) is int and value > 0:
                sizes[name] = value
                most = value if name.endswith("maxsize") else most
    base = next((each for each in (dict, list, collections.deque) if each in mro_of(type(container))), None)
    entries = base.__len__(container) if base else 0
    return entries, most if most and entries <= most else None, sizes


def _steps(names, parent, child, grand, kind):
    cls = type(parent)
    rule = _RULES.get(cls)
    if rule is not None:
        return rule(names, parent, child, grand)
    if kind == "tensor":
        base = names.look.base
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if name in dict_of_type(base) and dict_of_type(base)[name].__get__(parent) is child:
                return [Token("." + name, "hook")]
    if kind == "type":
        return [Token("", "namespace")] if type(child) is dict else [Token(".__bases__", "attribute")]
    mro = mro_of(cls)
    for base, rule in ((dict, _of_dict), (tuple, _of_tuple), (list, _of_list), (BaseException, _of_exception),
                       (collections.deque, _of_list), (set, _of_set), (threading.local, _of_thread_local)):
        if base in mro:
            found = rule(names, parent, child, grand)
            if found:
                return found
    return _of_instance(names, parent, child, grand)


def _of_instance(names, parent, child, grand):
    namespace = dict_of(parent)
    of_node = names.look.kind_of(type(parent)) == "node"
    if namespace is child:
        return [Token(f" → {type_name(type(parent))}", "graph") if of_node else Token("", "namespace")]
    if of_node and is_dict(child):
        return [Token(f" → {type_name(type(parent))}.hooks", "hook")]
    if namespace is not None:
        found = names.place_in(namespace, child)
        if found is not MISSING and type(found) is str:
            return [_attribute(found, parent)]
    for name, value in slots_of(parent):
        if value is child:
            return [_attribute(name, parent)]
    if type_name(type(parent)).endswith("_iterator") or type(child) is type:
        return [Token("", "attribute")]
    return None


def _attribute(name, owner):
    if name in NAMESPACES:
        return Token("", "namespace")
    of_torch = name.startswith("_") and name.endswith(HOOKS_END) and _is_of_torch(owner)
    classes = mro_of(owner if type in mro_of(type(owner)) else type(owner))
    return Token("." + name, "hook" if of_torch else "attribute", classes=classes)


def _is_dict_of_torch(owner):
    return any(type_name(cls) in ("ModuleDict", "ParameterDict") and module_of_type(cls).startswith("torch.nn.")
               for cls in mro_of(type(owner)))


def _is_of_torch(owner):
    """A module, an optimizer or a tensor, whose hooks have handles. If the walk met only its dictionary: a dictionary
    with hooks of this kind."""
    if type(owner) is dict:
        return "_forward_hooks" in owner or "_optimizer_step_pre_hooks" in owner
    return any(module_of_type(cls).partition(".")[0] == "torch" for cls in mro_of(type(owner)))


def _of_dict(names, parent, child, grand):
    """An entry, or an attribute in a namespace."""
    place = names.place_in(parent, child)
    if place is MISSING and type(parent) is not dict:
        found = _of_instance(names, parent, child, grand)
        if found:
            return found
    if place is not MISSING and type(place) is str and grand is not None and _is_namespace(names, parent, grand):
        if place.isdigit() and _is_of(parent, grand, ("_modules", "_parameters")):  # of a Sequential, a ModuleList
            return [Token("", "list", place)]
        if _is_of(parent, grand, NAMESPACES) and _is_dict_of_torch(names.owner_above(grand)):
            return [Token("", "dict", key_text(place))]
        return [_attribute(place, grand)]
    if type(grand) is CACHED:
        return [Token("", "cache", "*", bound=_bound_of(grand, None))]
    if type(grand) is types.FunctionType and parent is grand.__kwdefaults__ and place is not MISSING:
        return [Token(f".{place}", "default", None, grand.__code__.co_filename, grand.__code__.co_firstlineno)]
    return _entry(names, parent, child, "dict", grand)


def _is_namespace(names, namespace, owner):
    if type(owner) is not dict and (type in mro_of(type(owner)) or dict_of(owner) is namespace):
        return True
    return _is_of(namespace, owner, NAMESPACES)


def _is_of(namespace, owner, of):
    """A module, optimizer or tensor, found by one of these entries in its dictionary: the walk may meet the dictionary
    alone."""
    own = owner if type(owner) is dict else dict_of(owner)
    return own is not None and any(namespace is dict.get(own, name) for name in of)


def _of_list(names, parent, child, grand):
    return _entry(names, parent, child, "list", grand)


def _of_set(names, parent, child, grand):
    return [Token("", "list", "*")]


def _of_tuple(names, parent, child, grand):
    place = names.place_in(parent, child)
    if type(grand) is types.FunctionType and place is not MISSING:
        code = grand.__code__
        if parent is grand.__closure__:
            return [Token("." + code.co_freevars[place], "closure", None, code.co_filename, code.co_firstlineno)]
        if parent is grand.__defaults__:
            arguments = code.co_varnames[:code.co_argcount]
            name = arguments[place - len(parent)] if len(parent) <= len(arguments) else str(place)
            return [Token("." + name, "default", None, code.co_filename, code.co_firstlineno)]
    fields = dict_of_type(type(parent)).get("_fields")
    if type(fields) is tuple and place is not MISSING and place < len(fields) and type(fields[place]) is str:
        return [Token("." + fields[place], "attribute")]
    if place is MISSING:
        return None
    return [Token("", "attribute", str(place), names=True)]


def _of_function(names, parent, child, grand):
    if child is parent.__closure__ or child is parent.__defaults__ or child is parent.__kwdefaults__:
        return [Token("", "namespace")]
    return [Token("" if type(child) is dict else ".__wrapped__", "namespace" if type(child) is dict else "attribute")]


def _of_exception(names, parent, child, grand):
    base = BaseException.__dict__
    for name in ("__traceback__", "__cause__", "__context__", "args"):
        if child is base[name].__get__(parent):
            return [Token("." + name, "attribute" if name == "args" else "traceback")]
    return None


def _of_traceback(names, parent, child, grand):
    return [Token("", "traceback")]


def _of_frame(names, parent, child, grand):
    code = parent.f_code
    if child is parent.f_back:
        return [Token(".f_back", "attribute")]
    for name, value in locals_of(parent, names.may_empty):
        if value is child:
            return [Token(f" → {function_name(code)}().{name}", "local", None, code.co_filename, line_of(parent))]
    return [Token(f" → {function_name(code)}()", "local", None, code.co_filename, line_of(parent))]


RUNS = {types.GeneratorType: "gi_{}", types.CoroutineType: "cr_{}", types.AsyncGeneratorType: "ag_{}"}


def is_running(generator):
    return dict_of_type(type(generator))[RUNS[type(generator)].format("running")].__get__(generator)


def _of_generator(names, parent, child, grand):
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        member = dict_of_type(type(parent)).get(name)
        frame = member.__get__(parent) if member is not None else None
        if frame is child:
            return [Token("", "attribute")]
        if frame is not None:
            return _of_frame(names, frame, child, grand)
    return None


def _of_method(names, parent, child, grand):
    return [Token(".__self__" if child is parent.__self__ else ".__func__", "attribute")]


def _of_partial(names, parent, child, grand):
    for name in ("args", "keywords", "func"):
        if child is dict_of_type(functools.partial)[name].__get__(parent):
            return [Token("." + name, "attribute")]
    return None


def _of_cache(names, parent, child, grand):
    if type(child) is dict:
        return [Token("", "cache")]
    return [Token("", "cache", "*", bound=_bound_of(parent, None))]


def _of_cell(names, parent, child, grand):
    return [Token("", "closure")]


def _of_thread_local(names, parent, child, grand):
    return [Token("", "thread")]


CACHED = type(functools.lru_cache()(len))
_RULES = {dict: _of_dict, list: _of_list, tuple: _of_tuple, set: _of_set, frozenset: _of_set,
          types.FunctionType: _of_function, types.TracebackType: _of_traceback, types.FrameType: _of_frame,
          types.GeneratorType: _of_generator, types.CoroutineType: _of_generator,
          types.AsyncGeneratorType: _of_generator, types.MethodType: _of_method, functools.partial: _of_partial,
          CACHED: _of_cache, types.CellType: _of_cell}
