"""Tells memprof what a program is doing, and asks how much memory that takes.

    import libmemprof as mp

    for batch in loader:
        mp.step()
        with mp.region("forward"):
            loss = model(batch)

Under `memprof snapshot -- python3 train.py` the marks become part of the recording. Without it, every function here
does nothing, and decorated functions stay unchanged. Needs only the standard library.
"""

import functools
import os
from collections import namedtuple

__all__ = ["active", "environment", "mark", "peak", "region", "release_cupti", "reset_peak", "show", "snapshot", "start", "stats",
           "step", "stop", "Stats"]

Stats = namedtuple("Stats", ["live_bytes", "peak_bytes", "live_blocks"])
Stats.__doc__ = """Figures of one track: bytes and blocks live now, and the most bytes since the start or
reset_peak()."""


def _bind():
    """The recorder's functions by name, from the table that its memprof_api_v1() returns; empty without a recorder.

    The table has its size in bytes, then function pointers, in the order of `struct memprof_api_v1` in memprof.h.
    """
    try:
        import ctypes
        table_of = ctypes.CDLL(None).memprof_api_v1
    except (ImportError, OSError, AttributeError):
        return {}

    class CStats(ctypes.Structure):
        _fields_ = [(field, ctypes.c_uint64) for field in Stats._fields]

    # Cheap functions keep the GIL. Releasing it and taking it again would cost more than the functions themselves, and
    # could block.
    cheap, slow, text = ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE, ctypes.c_char_p
    entries = [
        ("active", cheap(ctypes.c_int)),
        ("start", cheap(None)),
        ("stop", cheap(None)),
        ("step", cheap(None)),
        ("region_push", cheap(None, text)),
        ("region_pop", cheap(None)),
        ("mark", cheap(None, text)),
        ("pool", None),
        ("alloc", None),
        ("free", None),
        ("snapshot", slow(ctypes.c_int, text)),
        ("stats", slow(ctypes.c_int, text, ctypes.POINTER(CStats))),
        ("reset_peak", cheap(None, text)),
        ("release_cupti", slow(ctypes.c_int)),
        ("module_code", cheap(None, ctypes.c_void_p)),
        ("module_name", cheap(None, ctypes.c_void_p, text)),
        ("module_ask", cheap(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("label", cheap(None, ctypes.c_void_p, ctypes.c_int, text)),
        ("torch_step", cheap(None)),
        ("shim", cheap(None, text)),
        ("torch_history", slow(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)),
        ("torch_mark", cheap(None, text)),
        ("aside", cheap(None, ctypes.c_int, text)),
        ("holder", slow(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, text, text, ctypes.c_uint)),
        ("holder_ask", cheap(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("holder_due", cheap(ctypes.c_uint)),
        ("call_begins", cheap(None, text)),
        ("holder_wakes", cheap(None, ctypes.c_int)),
        ("operators", cheap(ctypes.c_int, ctypes.c_void_p)),
        ("kernel", cheap(None, text, ctypes.c_void_p, text, ctypes.c_uint)),
    ]
    table_of.restype = ctypes.c_void_p
    table_of.argtypes = []
    table = table_of()
    if not table:
        return {}
    size = ctypes.c_uint32.from_address(table).value
    pointer_size = ctypes.sizeof(ctypes.c_void_p)
    bound = {}
    for place, (name, prototype) in enumerate(entries, start=1):
        if prototype is None or (place + 1) * pointer_size > size:
            continue
        address = ctypes.c_void_p.from_address(table + place * pointer_size).value
        if address:
            bound[name] = prototype(address)
    if "stats" in bound:
        bound["new_stats"] = CStats
    return bound


def _encode(name):
    return name.encode("utf-8", "replace")


def _nothing(*arguments):
    return None


_api = _bind()
_before_snapshot = []  # functions of the PyTorch shim
_push = _api.get("region_push", _nothing)
_pop = _api.get("region_pop", _nothing)
_mark = _api.get("mark", _nothing)
_recorded = "region_push" in _api and "region_pop" in _api


def active():
    """True while the program is being recorded."""
    return bool(_api["active"]()) if "active" in _api else False


def environment(given=None):
    """The variables with which a process of another program becomes part of this recording. For engines whose workers
    do not descend from this process, such as Ray's runtime_env or Dask's nanny. `given`: the variables that the
    worker gets otherwise; a list among them stays, behind memprof's part. Empty without a recording."""
    part = os.environ.get("MEMPROF_PRELOAD")
    if not part or not os.environ.get("MEMPROF_SESSION"):
        return {}
    found = {name: value for name, value in os.environ.items()
             if name.startswith("MEMPROF_") or name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")}
    for name, own in (("LD_PRELOAD", part), ("PYTHONPATH", os.environ.get("MEMPROF_PYTHON"))):
        other = (given or {}).get(name)
        if own and (other is None or own not in other):
            found[name] = own + ":" + other if other else own
    found["MEMPROF_WORKER"] = "1"  # the worker tells that it has come
    return found


# These are the recorder's own functions: a Python frame around each would only slow them down.
start = _api.get("start", _nothing)  # record from here,
stop = _api.get("stop", _nothing)    # to here; live bytes stay right outside
step = _api.get("step", _nothing)    # the next iteration of the program's loop begins


def mark(name):
    """A named moment on the timeline."""
    _mark(_encode(name))


class region:
    """A named span of this thread: a context manager, or a decorator of functions.

    A decorator without a name uses the function's name. Decorated generators and `async` functions are in the region
    while they run. They are not while they wait, because other tasks of the thread may run then. A `with` block in
    an `async` function must therefore not contain an `await`.
    """

    __slots__ = ("_name",)

    def __init__(self, name=None):
        if name is not None and not isinstance(name, str):
            raise TypeError("the name of a region is a string; a decorator is written @region()")
        self._name = None if name is None else _encode(name)

    def __enter__(self):
        _push(self._name or b"")
        return self

    def __exit__(self, kind, error, traceback):
        _pop()

    def __call__(self, function):
        if not _recorded:
            return function
        return _decorate(function, self._name or _encode(function.__qualname__))


def _decorate(function, name):
    import inspect

    if inspect.iscoroutinefunction(function):
        async def run(*arguments, **named):
            return await _await_in_region(name, function(*arguments, **named))
    elif inspect.isasyncgenfunction(function):
        def run(*arguments, **named):
            return _iterate_in_region(name, function(*arguments, **named))
    elif inspect.isgeneratorfunction(function):
        def run(*arguments, **named):
            return _run_in_region(name, function(*arguments, **named))
    else:
        def run(*arguments, **named):
            _push(name)
            try:
                return function(*arguments, **named)
            finally:
                _pop()
    return functools.wraps(function)(run)


def _run_in_region(name, inner):
    """A generator that runs `inner` (a generator or coroutine), each time in the region."""
    resume, value = inner.send, None
    while True:
        _push(name)
        try:
            item = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            _pop()
        try:
            value = yield item
            resume = inner.send
        except GeneratorExit:
            _push(name)
            try:
                inner.close()
            finally:
                _pop()
            raise
        except BaseException as error:
            resume, value = inner.throw, error


class _await_in_region:
    __slots__ = ("_name", "_inner")

    def __init__(self, name, inner):
        self._name, self._inner = name, inner

    def __await__(self):
        return _run_in_region(self._name, self._inner)


async def _iterate_in_region(name, inner):
    """The same as _run_in_region, for an asynchronous generator."""
    following = inner.asend(None)
    try:
        while True:
            try:
                item = await _await_in_region(name, following)
            except StopAsyncIteration:
                return
            try:
                following = inner.asend((yield item))
            except GeneratorExit:
                raise
            except BaseException as error:
                following = inner.athrow(error)
    finally:
        await _await_in_region(name, inner.aclose())


def snapshot(path=None):
    """Writes the recording so far to `path` (default: a name next to the recording). False: that failed."""
    if "snapshot" not in _api:
        return False
    for tell in _before_snapshot:
        tell()
    return _api["snapshot"](None if path is None else os.fsencode(path)) == 0


def stats(track=None):
    """The Stats of a track such as "cuda:0/torch" (default: the track that reports show); None: it has none."""
    if "stats" not in _api:
        return None
    found = _api["new_stats"]()
    if _api["stats"](None if track is None else _encode(track), found) != 0:
        return None
    return Stats(found.live_bytes, found.peak_bytes, found.live_blocks)


def peak(track=None):
    """The most bytes that were live on the track since the start or reset_peak(); None: unknown."""
    found = stats(track)
    return None if found is None else found.peak_bytes


def reset_peak(track=None):
    """Starts the peak of the track (default: of all tracks) again from the live bytes."""
    if "reset_peak" in _api:
        _api["reset_peak"](None if track is None else _encode(track))


def release_cupti():
    """Releases CUPTI before another tool of this process wants it (torch.profiler); hooks continue to record. True:
    done."""
    return _api["release_cupti"]() == 0 if "release_cupti" in _api else False


class _Page:
    """The value that a notebook shows: a page in a frame of its own."""

    def __init__(self, page, height):
        self._page, self._height = page, height

    def _repr_html_(self):
        import html

        return (f'<iframe srcdoc="{html.escape(self._page)}" width="100%" height="{int(self._height)}" '
                'style="border: 0" sandbox="allow-scripts"></iframe>')


def _program():
    """The memprof command: from the installation that this module belongs to, or from PATH."""
    import shutil

    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.normpath(os.path.join(here, "..", "..", "..", "bin", "memprof"))
    found = installed if os.access(installed, os.X_OK) else shutil.which("memprof")
    if not found:
        raise FileNotFoundError("there is no memprof command in PATH")
    return found


def show(path=None, height=800):
    """The page of a recording, as the value of a notebook's cell: `memprof trace_plot` in a frame.

    `path` is any file that memprof reads; without it, the page shows this program's recording so far. The notebook
    stores the whole page: a few megabytes for a million blocks.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="memprof-show-") as folder:
        if path is None:
            path = os.path.join(folder, "now.mp")
            if not snapshot(path):
                raise RuntimeError("nothing is recorded: start the notebook's kernel under memprof snapshot, or name a file")
        page = os.path.join(folder, "page.html")
        done = subprocess.run([_program(), "trace_plot", os.fspath(path), "-o", page], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 4):
            raise RuntimeError(done.stderr.strip())
        with open(page, encoding="utf-8") as file:
            return _Page(file.read(), height)
