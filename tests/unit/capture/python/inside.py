"""Runs inside each interpreter, and compares the native walk with Python's own view of its stack.

Usage: inside.py HARNESS.so    (exit status 0: everything agreed)
"""
import asyncio
import collections
import ctypes
import dis
import gc
import importlib.util
import os
import subprocess
import sys
import threading
import types

FREE = ctypes.CDLL(sys.argv[1])  # releases the GIL around each call
HELD = ctypes.PyDLL(sys.argv[1])  # keeps it
ROOM = 4096
CALLBACK = ctypes.CFUNCTYPE(None)
HELD_CALLBACK = ctypes.PYFUNCTYPE(None)
for library in (FREE, HELD):
    library.harness_walk.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int]
    library.harness_note.restype = ctypes.c_char_p
    library.harness_check.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.harness_line.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32]
    library.harness_line.restype = ctypes.c_uint32
    library.harness_module_code.argtypes = [ctypes.py_object]
    library.harness_module.restype = ctypes.c_uint64

Stack = collections.namedtuple("Stack", "hash groups cut frames merged")
Frame = collections.namedtuple("Frame", "group instruction line identity function file")
counts = collections.Counter()
failures = []


def parse(buffer, count):
    head, *lines = buffer.value.split(b"\n")
    stack_hash, groups, cut = head.split(b"\t")
    frames = []
    for line in lines[:-2]:
        group, instruction, number, identity, function, file = line.split(b"\t")
        frames.append(Frame(int(group), int(instruction), int(number), identity, function, file))
    assert len(frames) == count
    return Stack(stack_hash, int(groups), cut == b"1", tuple(frames), tuple(lines[-2].decode().split()))


def encode(text):
    return text.encode("utf-8", "surrogatepass")


def name_of(code):
    return encode(getattr(code, "co_qualname", code.co_name))


def fail(where, message):
    failures.append(where)
    if len(failures) <= 20:
        print("FAILED %s: %s" % (where, message))


def check_merged(where, stack):
    """Checks that the merged stack has all Python frames in order, and the harness's frames at the right places."""
    if stack.merged[0] == "no":
        return
    merged = stack.merged[1:]
    if stack.merged[0] != "equal":
        fail(where, "%d groups do not pair with native frames: %s" % (stack.groups, " ".join(merged)))
    if [name for name in merged if name.isdigit()] != [str(i) for i in range(len(stack.frames))]:
        fail(where, "Python frames out of order: %s" % " ".join(merged))
    if "harness_walk" in merged and "0" in merged and merged.index("harness_walk") > merged.index("0"):
        fail(where, "Python frames inside harness_walk: %s" % " ".join(merged))
    if "harness_call" in merged:
        # called_from_c calls it, and it calls a lambda of called_from_c, without other Python frames between
        at = merged.index("harness_call")
        inner = [int(name) for name in merged[:at] if name.isdigit()]
        outer = [int(name) for name in merged[at:] if name.isdigit()]
        if b"lambda" not in stack.frames[inner[-1]].function or stack.frames[outer[0]].function != b"called_from_c":
            fail(where, "harness_call is in the wrong place: %s" % " ".join(merged))
        counts["stacks through this library"] += 1


buffers = threading.local()


def compare(where, library=None):
    """Walks with and without the GIL, and compares each frame with Python's own. Returns the last walk."""
    if not hasattr(buffers, "text"):
        buffers.text = ctypes.create_string_buffer(1 << 20)
    text = buffers.text
    for library in (library,) if library else (FREE, HELD):
        count, here = library.harness_walk(text, len(text), ROOM, 1), sys._getframe().f_lineno
        if count < 0:
            fail(where, "no stack: %s" % library.harness_note())
            return None
        stack = parse(text, count)
        frame, line = sys._getframe(), here
        expected = []
        while frame:
            last = frame.f_lasti if frame is not sys._getframe() else None
            expected.append((name_of(frame.f_code), encode(frame.f_code.co_filename), line or 0, last))
            frame = frame.f_back
            line = frame.f_lineno if frame else 0
        if len(expected) != len(stack.frames):
            fail(where, "%d frames, Python has %d" % (len(stack.frames), len(expected)))
            continue
        for ours, theirs in zip(stack.frames, expected):
            if (ours.function, ours.file, ours.line) != theirs[:3]:
                fail(where, "%r is not %r" % (ours, theirs))
            if theirs[3] is not None and ours.instruction != theirs[3]:
                fail(where, "instruction %d is not %d in %r" % (ours.instruction, theirs[3], ours.function))
        groups = [ours.group for ours in stack.frames]
        if groups != sorted(groups) or (groups and groups[-1] >= stack.groups):
            fail(where, "groups out of order: %r of %d" % (groups, stack.groups))
        check_merged(where, stack)
        counts["stacks"] += 1
        counts["frames"] += count
    return stack


# The cases: each puts another kind of frame on the stack.

def nested(depth):
    if depth:
        return nested(
            depth - 1
        )
    compare("nested")


def generators():
    def inner():
        compare("generator")
        yield 1
        compare("generator resumed")
        yield 2

    def outer():
        yield from inner()

    for _ in outer():
        compare("between yields")


async def coroutine(depth):
    await asyncio.sleep(0)
    if depth:
        return await coroutine(depth - 1)
    compare("coroutine")


async def stream():
    for i in range(2):
        compare("async generator")
        yield i


async def asynchronous():
    await asyncio.gather(coroutine(3), coroutine(0))
    async for _ in stream():
        compare("async for")
    _ = [i async for i in stream()]


def comprehensions():
    _ = [compare("list") for _ in range(2)]
    _ = {compare("set") for _ in range(1)}
    _ = {1: compare("dict") for _ in range(1)}
    _ = list(compare("generator expression") for _ in range(1))
    _ = [[compare("nested list") for _ in range(1)] for _ in range(1)]


def called_from_c():
    sorted([2, 1], key=lambda x: compare("sorted") and x)
    list(map(lambda x: compare("map"), [1]))
    max([1, 2], key=lambda x: (compare("max"), x)[1])

    class Thing:
        def __init__(self):
            compare("init")

        def __lt__(self, other):
            compare("lt")
            return False

        def __getattr__(self, name):
            compare("getattr")
            return name

        @property
        def value(self):
            compare("property")

        def __call__(self):
            compare("call")

        def __del__(self):
            compare("del")

        def __iter__(self):
            compare("iter")
            yield 1

        def __enter__(self):
            compare("enter")

        def __exit__(self, *_):
            compare("exit")

    thing = Thing()
    sorted([thing, thing])
    thing.missing, thing.value, thing()
    list(thing)
    with thing:
        pass
    del thing
    import functools
    functools.reduce(lambda a, b: compare("reduce"), [1, 2])
    CALLBACK(lambda: compare("ctypes") and None)()
    FREE.harness_call(CALLBACK(lambda: compare("callback") and None))
    HELD.harness_call(HELD_CALLBACK(lambda: compare("callback with the GIL") and None))


def rare_instructions():
    """Instructions that call from different places of the interpreter loop; compilers move rarely run ones away."""
    class Meta(type):
        def __new__(cls, name, bases, scope):
            compare("metaclass")
            return super().__new__(cls, name, bases, scope)

    def answer(result):
        def method(self, *arguments):
            compare("special method")
            return self if result is None else result
        return method
    names = """matmul imatmul pow ipow floordiv ifloordiv mod imod lshift ilshift rshift irshift and iand xor ixor or ior sub
        isub mul imul truediv itruediv add iadd neg pos invert setitem delitem getitem setattr delattr""".split()
    scope = {"__%s__" % name: answer(None) for name in names}
    scope.update(__bool__=answer(False), __contains__=answer(False), __format__=answer("x"), __str__=answer("x"),
                 __eq__=answer(True), __ne__=answer(True), __hash__=answer(1), __len__=answer(0),
                 __iter__=lambda self: iter([compare("iter"), compare("iter")]), keys=answer(("a",)),
                 __enter__=answer(None), __exit__=answer(True), __repr__=answer("x"), __index__=answer(1))
    Thing = Meta("Thing", (), scope)
    t = Thing()
    t @ t, t ** t, t // t, t % t, t << t, t >> t, t & t, t ^ t, t | t, t - t, t * t, t / t, t + t, -t, +t, ~t
    u = t
    u @= t; u **= t; u //= t; u %= t; u <<= t; u >>= t; u &= t; u ^= t; u |= t; u -= t; u *= t; u /= t; u += t
    t[0], t[0:1]
    t[0] = t[0:1] = 1
    del t[0]
    t.x = 1
    del t.x
    1 in t, 1 not in t, not t, t == 1, t != 1, {t: 1}, {t}, f"{t}", f"{t!s}{t!r:>3}", [0, 1][t]
    a, b = t
    a, *b = t
    [*t], (*t, 1), {**t}
    (lambda *arguments: None)(*t)
    (lambda **arguments: None)(**t)
    while t:
        pass
    assert not t
    with t:
        raise ValueError
    with t, t:
        pass

    class Error(Exception):
        def __init__(self):
            compare("exception")
    for cause in (None, Error):
        try:
            raise Error from cause
        except (KeyError, Error):
            pass

    class Wait:
        def __await__(self):
            compare("await")
            yield from iter([])

        async def __aenter__(self):
            compare("aenter")

        async def __aexit__(self, *_):
            compare("aexit")

        def __aiter__(self):
            compare("aiter")
            return self

        async def __anext__(self):
            compare("anext")
            raise StopAsyncIteration

    async def wait():
        await Wait()
        async with Wait():
            pass
        async for _ in Wait():
            pass
    asyncio.run(wait())

    class Scope(dict):
        def __getitem__(self, key):
            compare("name")
            return super().__getitem__(key)

        def __setitem__(self, key, value):
            compare("store name")
            super().__setitem__(key, value)
    exec("x = y\ndef f(a: y = y) -> y: pass\nclass C(object): z: int = 1", {}, Scope(y=object, int=int))

    def importing(*_):
        compare("import")
        return types.SimpleNamespace(__all__=["z"], z=1, sub=1)
    exec("import os\nfrom os import sub\nfrom os import *", {"__builtins__": {"__import__": importing}})


def executed():
    exec("compare('exec')", globals())
    exec(compile("def f():\n\n  if 1: compare('exec function')\nf()", "<string>", "exec"), globals())
    eval("compare('eval')", globals())
    eval("(lambda: compare('eval lambda'))()", globals())
    long = "\n" * 300 + "compare('far down',\n\n" + "\n" * 40 + ")\n"
    exec(compile(long, "long.py", "exec"), globals())
    body = "".join("  x = %d; y = x if x else 1\n" % i for i in range(3000))
    exec(compile("def big(compare):\n%s  compare('big')\n  try:\n   1/0\n  except ZeroDivisionError: compare('handler')\n"
                 "  finally: compare('finally')\nbig(compare)" % body, "big.py", "exec"), globals())


def non_ascii():
    for name in ("caf\xe9", "\u0416\u0443\u043a", "\u5f35\u91cf", "\U00010400\U00010428", "x" * 400):
        source = "def %s():\n  compare('non-ascii')\n%s()" % (name, name)
        for file in ("plain.py", "caf\xe9.py", "\u0416.py", "\U0001f600.py", "bad\udcff.py"):
            exec(compile(source, file, "exec"), {"compare": compare})


def decorated():
    def decorate(function):
        def wrapper(*args):
            return function(*args)
        return wrapper

    @decorate
    @decorate
    def target():
        compare("decorated")

    class Some:
        @staticmethod
        @decorate
        def method():
            compare("static method")

        @classmethod
        def other(cls):
            compare("class method")

    target()
    Some.method()
    Some.other()


def cells():
    values = list(range(5))

    def closure():
        return [values, compare("closure")]
    closure()


def exceptions():
    try:
        raise ValueError
    except ValueError:
        compare("except")
        try:
            {}["x"]
        except KeyError:
            compare("nested except")
        finally:
            compare("finally")


def traced():
    def tracer(frame, event, argument):
        return tracer

    def target():
        compare("traced")
    sys.settrace(tracer)
    target()
    sys.settrace(None)

    def profiler(frame, event, argument):
        sys.setprofile(None)
        compare("profiler")
    sys.setprofile(profiler)
    target()
    sys.setprofile(None)


def collector():
    class Cycle:
        def __del__(self):
            compare("collector")
    for _ in range(3):
        cycle = Cycle()
        cycle.self = cycle
    del cycle
    gc.callbacks.append(lambda phase, info: compare("collector callback") and None)
    gc.collect()
    gc.callbacks.clear()


def threads():
    def work(number):
        for _ in range(30):
            nested(number)
            sorted([2, 1], key=lambda x: compare("thread") and x)
    running = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if FREE.harness_walk_on_foreign_thread() != 0:
        fail("foreign", "frames on a thread without Python")
    FREE.harness_call_on_foreign_thread(CALLBACK(lambda: compare("foreign thread") and None))


def greenlets():
    """Frames of the running greenlet only, down to its own base: as Python sees it."""
    try:
        import greenlet
    except ImportError:
        return

    def switching(depth):
        for _ in range(3):
            nested(depth)
            sorted([2, 1], key=lambda x: compare("greenlet") and x)
            greenlet.getcurrent().parent.switch()
    running = [greenlet.greenlet(switching) for _ in range(4)]
    for _ in range(3):
        for number, one in enumerate(running):
            one.switch(number)
            compare("between greenlets")
    counts["greenlets"] += len(running)


def deep():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(6000)
    threading.stack_size(256 << 20)

    def descend(depth, then):
        return descend(depth - 1, then) if depth else then()

    def cut():
        text = ctypes.create_string_buffer(1 << 20)
        for room in (0, 1, 2, 7, 100, ROOM):
            stack = parse(text, FREE.harness_walk(text, len(text), room, 1))
            if len(stack.frames) > room or not stack.cut:
                fail("cut", "%d frames in room for %d, cut is %r" % (len(stack.frames), room, stack.cut))
            if room == 100 and stack.frames[5].function != name_of(descend.__code__):
                fail("cut", "wrong frame")

    def run():
        descend(3000, lambda: compare("deep"))
        descend(4800, cut)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(0)
    sys.setrecursionlimit(limit)


def hashes():
    def here():
        return compare("hash", FREE)
    same = {here().hash for _ in range(5)}
    other = here().hash
    if len(same) != 1 or other in same:
        fail("hash", "%r and %r" % (same, other))
    by_key = [sorted([1], key=lambda x: same.add(here().hash) or x) for _ in range(2)]
    direct = [(lambda x: same.add(here().hash) or x)(1) for _ in range(2)]
    assert by_key and direct
    if len(same) != 3:
        fail("hash", "%d hashes of 3 stacks" % len(same))


def identities():
    """Makes and drops many functions: an identity must never be that of another function, nor of another line in it."""
    text = ctypes.create_string_buffer(1 << 16)

    def take():
        return parse(text, FREE.harness_walk(text, len(text), ROOM, 1)).frames[1]
    ways = {
        "names": lambda i: ("def f%d(): return take()\nresult = f%d()" % (i % 911, i % 911), "file.py"),
        "first lines": lambda i: ("\n" * (i % 7) + "def f(): return take()\nresult = f()", "file.py"),
        "files": lambda i: ("def f(): return take()\nresult = f()", "<input-%d>" % (i % 911)),
        "bodies": lambda i: ("def f():\n a = 1%s\n b = 2\n return take()\nresult = f()" % ("\n" * (i % 5)), "<input>"),
        "all": lambda i: ("%sdef f%d(): return take()\nresult = f%d()" % ("\n" * (i % 7), i % 911, i % 911),
                          "file%d.py" % (i % 13)),
    }
    if sys.version_info < (3, 12):
        del ways["bodies"]  # code objects have no version yet
    for way, make in ways.items():
        seen = {}
        for i in range(4000):
            source, file = make(i)
            scope = {"take": take}
            exec(compile(source, file, "exec"), scope)
            frame = scope["result"]
            what = (frame.function, frame.file, frame.line)
            if seen.setdefault((frame.identity, frame.instruction), what) != what:
                fail("identity", "different %s: %r was %r" % (way, what, seen[frame.identity, frame.instruction]))
                break
            counts["functions"] += 1
    if len({take().identity for _ in range(5)}) != 1:
        fail("identity", "differs from call to call")


class Module:
    def call(self, then, *rest):
        result = then(*rest)
        return result

    def other_call(module, then):
        return then()

    def closed_over(self, then):
        def inner():
            return self, then()
        return inner()

    def without(self, then):
        del self
        return then()


def innermost(where, module):
    for library in (FREE, HELD):
        counts["modules"] += 1
        found = library.harness_module()
        if found != (id(module) if module else 0):
            fail("module " + where, "%#x is not %r" % (found, module))
    return where


def modules():
    """The function's object, for the innermost call of the code object with this name."""
    one, two = Module(), Module()
    innermost("before", None)
    one.call(innermost, "not named", None)
    first = (Module.call, Module.other_call, Module.without)
    for function in first + (Module.call,):
        if HELD.harness_module_code(function.__code__) != 1:
            fail("module code", function.__name__)
    has_kinds = sys.version_info >= (3, 11)
    if HELD.harness_module_code(Module.closed_over.__code__) != (not has_kinds):
        fail("module code", "closed over")
    if HELD.harness_module_code(one) or HELD.harness_module_code((lambda x: x).__code__) != has_kinds:
        fail("module code", "no code, or the last of four")
    if HELD.harness_module_code((lambda y: y).__code__):
        fail("module code", "a fifth")
    innermost("outside", None)
    one.call(innermost, "direct", one)
    one.call(two.call, innermost, "nested", two)
    one.call(two.call, one.call, innermost, "recursive", one)
    one.other_call(lambda: innermost("another code object", one))
    one.call(two.closed_over, lambda: innermost("closed over", one))
    one.call(two.without, lambda: innermost("deleted", one))
    sorted([1], key=lambda _: one.call(sorted, [1]) and one.call(innermost, "through C", one))
    list(map(lambda _: two.call(innermost, "in a callback", two), [1]))

    def generator():
        innermost("generator's first", one)
        yield
        innermost("generator elsewhere", two)
        yield
        innermost("generator outside", None)
        yield
    running = generator()
    one.call(next, running)
    two.call(next, running)
    next(running)

    def raising(depth):
        if depth:
            return one.call(raising, depth - 1)
        raise KeyError
    try:
        raising(20)
    except KeyError:
        innermost("after an exception", None)
    two.call(lambda: [innermost("comprehension", two) for _ in range(2)])

    async def task(module):
        await asyncio.sleep(0)
        module.call(innermost, "task", module)
        await asyncio.sleep(0)
        innermost("task outside", None)

    async def tasks():
        await asyncio.gather(*(task(module) for module in (one, two, one)))
    asyncio.run(tasks())

    def work():
        mine = Module()
        for depth in range(20):
            mine.call(nested, depth)
            innermost("thread outside", None)
            mine.call(innermost, "thread", mine)
    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        one.call(thread.start)
    for thread in started:
        two.call(thread.join)
    child = os.fork()
    if child == 0:
        before = len(failures)
        two.call(innermost, "forked", two)
        os._exit(len(failures) != before)
    if os.waitpid(child, 0)[1] != 0:
        fail("module fork", "child differs")


def called_soon():
    calls = []
    soon = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: calls.append(threading.current_thread()) or 0)

    def ask():
        if FREE.harness_call_soon(soon) != 1:
            fail("soon", "refused without the GIL")
        # a thread that has the GIL must not be made to release it
        if HELD.harness_call_soon(soon) != (sys.version_info < (3, 13)):
            fail("soon", "with the GIL")
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    for _ in range(1000):
        calls or nested(0)
    if set(calls) != {threading.main_thread()}:
        fail("soon", repr(calls))


def forked():
    child = os.fork()
    if child == 0:
        before = len(failures)
        nested(3)
        os._exit(len(failures) != before)
    if os.waitpid(child, 0)[1] != 0:
        fail("fork", "child differs")


# A wrong offset may stay unnoticed if nothing that is used reads differently, or if the value only distinguishes code
# objects or groups.
HARMLESS = {"code_name": "its type alone matters where there are qualified names", "frame_owner": "3.11 has no shims"}


def wrong_layouts():
    """Each offset made wrong must be refused; the layout as it is must be accepted."""
    fields = """thread_top record_frame thread_id frame_previous frame_code frame_position frame_owner frame_is_entry
        code_file code_name code_qualname code_first_line code_lines code_bytecode object_type object_size bytes_data
        string_length string_state string_ascii string_compact""".split()

    def béta():
        if HELD.harness_check(None, 0) != 1:
            fail("check", "the right layout is refused")
        for field in fields:
            for delta in (-16, -8, 8, 16):
                verdict = HELD.harness_check(encode(field), delta)
                counts["wrong layouts refused"] += verdict == 0
                if verdict == 1 and not (field in HARMLESS and sys.version_info >= (3, 11)):
                    fail("check", "the layout is accepted with %s%+d" % (field, delta))
        return 0

    sorted([1, 2], key=lambda x: béta())


def published_offsets():
    """3.13 and later publish most offsets: a difference in any of those used must be noticed."""
    used = {13: 21, 14: 23, 15: 24}.get(sys.version_info[1], 0)
    if HELD.harness_count_published() != used:
        fail("published", "%d words are compared, not %d" % (HELD.harness_count_published(), used))


def lines_by_dis(code):
    """The line of each instruction: as Python's own modules decode the tables."""
    lines = {}
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            lines.update(dict.fromkeys(range(start, end, 2), line or 0))
        return lines
    line, starts = code.co_firstlineno, dict(dis.findlinestarts(code))
    for at in range(0, len(code.co_code), 2):
        line = lines[at] = starts.get(at, line)
    return lines


def line_tables():
    """Each instruction of each function of each module loaded."""
    todo = [item for item in gc.get_objects() if isinstance(item, types.FunctionType)]
    todo, seen = [item.__code__ for item in todo], set()
    for name in ("argparse", "decimal", "typing", "test.test_grammar", "asyncio.base_events", "dataclasses"):
        try:
            path = importlib.util.find_spec(name).origin
            with open(path, "rb") as file:
                todo.append(compile(file.read(), path, "exec"))
        except (ImportError, AttributeError):
            pass
    while todo:
        code = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        todo += [item for item in code.co_consts if isinstance(item, types.CodeType)]
        table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
        for at, line in lines_by_dis(code).items():
            ours = HELD.harness_line(sys.version_info[1], table, len(table), code.co_firstlineno, at)
            counts["instructions"] += 1
            if ours != line:
                fail("lines", "%d is not %d at %d in %r" % (ours, line, at, code))
                break


def at_exit():
    """Threads that walk while the interpreter shuts down must not crash it."""
    code = """if 1:
        import ctypes, sys, threading, time
        library = ctypes.CDLL(sys.argv[1])
        library.harness_walks.restype = ctypes.c_uint64
        def descend(depth):
            return descend(depth - 1) if depth else library.harness_spin()
        for _ in range(3):
            threading.Thread(target=descend, args=(20,), daemon=True).start()
        while library.harness_walks() < 1000:
            time.sleep(0.01)
        class Late:
            def __del__(self):
                library.harness_walk(ctypes.create_string_buffer(65536), 65536, 4096, 1)
        late = Late()
        """
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code, sys.argv[1]], stderr=subprocess.PIPE)
        if done.returncode != 0 or b"outlived" not in done.stderr:
            fail("exit", "status %d: %s" % (done.returncode, done.stderr.decode()))


def unknown_version():
    """An unknown version is not walked, and gives a note."""
    text = ctypes.create_string_buffer(4096)
    note = b"python%d.%d is unknown" % sys.version_info[:2]
    if FREE.harness_walk(text, len(text), ROOM, 1) != -1 or not (FREE.harness_note() or b"").startswith(note):
        fail("unknown version", FREE.harness_note())
    print("  left alone: %s" % FREE.harness_note().decode())


def main():
    if not (3, 9) <= sys.version_info < (3, 16):
        return unknown_version()
    compare("main")
    for _ in range(2):
        for depth in (0, 1, 5, 40):
            nested(depth)
        generators()
        asyncio.run(asynchronous())
        comprehensions()
        called_from_c()
        rare_instructions()
        executed()
        non_ascii()
        decorated()
        cells()
        exceptions()
        traced()
        collector()
        threads()
    greenlets()
    deep()
    hashes()
    identities()
    forked()
    modules()
    called_soon()
    if "ASAN_OPTIONS" not in os.environ:  # a wrong layout reads what it should not: that is to be noticed, not fatal
        wrong_layouts()
    published_offsets()
    line_tables()
    at_exit()
    counts["ranges"] = FREE.harness_ranges()
    if FREE.harness_note():
        fail("note", FREE.harness_note())
    print("  %s" % ", ".join("%d %s" % (counts[name], name) for name in sorted(counts)))


main()
sys.exit(1 if failures else 0)
