"""Reads recordings of memprof: tables as NumPy arrays, and as frames of pandas and polars.

    import memprof
    run = memprof.open("run.mp")
    run.blocks().to_pandas()                 every allocation's life
    run.at_peak().to_pandas()                what was live when memory was highest
    run.blocks()["bytes"].sum()              one column
    run.leaks()["verdict"]                   the answer of a command, as its --json
    run                                      in a notebook: the page
    %load_ext memprof                        in a notebook: a cell that begins with
    %%plan --device rtx4090                  is planned on a GPU that is not here; its value is the recording

docs/manual/reading.md lists tables and columns. The files are those that memprof's commands read. Needs NumPy; pandas
and polars only for their frames. PyPI's package `memprof` is another program.
"""

import builtins
import ctypes
import html
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

__all__ = ["Error", "Recording", "Table", "open"]

_HERE = os.path.dirname(os.path.abspath(__file__))
# Where library and command lie: in a wheel, in a source tree, and where `make install` puts them.
_PLACES = [os.path.join(_HERE, "libmemprof_package"), os.path.join(_HERE, "../../build"),
           os.path.join(_HERE, "../../../../lib"), os.path.join(_HERE, "../../../../bin")]
_WHY = 512  # MEMPROF_READ_ERROR_MAX
_TEXT = 5  # MEMPROF_TEXT
_FORMATS = {1: "u1", 2: "u4", 3: "u8", 4: "i8", _TEXT: "u4"}  # enum memprof_type


class Error(Exception):
    """One sentence: what failed, with what."""


class _Column(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("values", ctypes.c_void_p)]


class _Table(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("rows", ctypes.c_size_t), ("column_count", ctypes.c_size_t),
                ("columns", ctypes.POINTER(_Column))]


class _Line(ctypes.Structure):
    _fields_ = [("function", ctypes.c_char_p), ("file", ctypes.c_char_p), ("module", ctypes.c_char_p),
                ("language", ctypes.c_char_p), ("line", ctypes.c_uint32)]


def _find(name):
    return next((path for path in (os.path.join(place, name) for place in _PLACES) if os.path.exists(path)), None)


def _load():
    try:
        library = ctypes.CDLL(_find("libmemprof-read.so") or "libmemprof-read.so")
    except OSError as error:
        raise ImportError(f"memprof: libmemprof-read.so cannot be loaded ({error}); install memprof") from None
    for name, result, arguments in (
            ("open", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]),
            ("close", None, [ctypes.c_void_p]),
            ("table", ctypes.POINTER(_Table), [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
            ("tables", ctypes.POINTER(ctypes.c_char_p), []),
            ("text", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]),
            ("stack", ctypes.POINTER(_Line), [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_size_t)]),
            ("arrow", ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(_Table), ctypes.c_void_p, ctypes.c_void_p])):
        function = getattr(library, "memprof_read_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _decode(text):
    return None if text is None else text.decode(errors="replace")


def open(path):
    """The recording in a file; raises Error with the sentence that the commands would print."""
    return Recording(path)


class _Handle:
    """The library's recording; tables keep it open."""

    def __init__(self, path):
        why = ctypes.create_string_buffer(_WHY)
        self.pointer = _library.memprof_read_open(os.fsencode(path), why)
        if not self.pointer:
            raise Error(_decode(why.value))
        self.texts = {0: None}

    def __del__(self):
        if self.pointer:
            _library.memprof_read_close(self.pointer)

    def text(self, number):
        if number not in self.texts:
            self.texts[number] = _decode(_library.memprof_read_text(self.pointer, number, None))
        return self.texts[number]

    def table(self, name):
        why = ctypes.create_string_buffer(_WHY)
        table = _library.memprof_read_table(self.pointer, name.encode(), why)
        if not table:
            raise Error(_decode(why.value))
        return table


class Recording:
    """A recording. Its tables are made when they are first asked for."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._handle = _Handle(self.path)
        self._answers = {}

    def __repr__(self):
        return f"<memprof recording {self.path!r}: {len(self.blocks())} blocks>"

    @property
    def tables(self):
        """The names of all tables."""
        names = _library.memprof_read_tables()
        found = []
        while names[len(found)]:
            found.append(_decode(names[len(found)]))
        return found

    def table(self, name):
        return _shared(self._handle, self._handle.table(name))

    def blocks(self):
        return self.table("blocks")

    def events(self):
        return self.table("events")

    def stacks(self):
        return self.table("stacks")

    def steps(self):
        return self.table("steps")

    def regions(self):
        return self.table("regions")

    def tracks(self):
        return self.table("tracks")

    def holders(self):
        return self.table("holders")

    def stack(self, stack_id):
        """The lines of a stack, innermost first. Each is a dict: function and file, line, module and language."""
        count = ctypes.c_size_t()
        lines = _library.memprof_read_stack(self._handle.pointer, int(stack_id), ctypes.byref(count))
        return [{"function": _decode(line.function), "file": _decode(line.file), "line": line.line or None,
                 "module": _decode(line.module), "language": _decode(line.language)} for line in lines[:count.value]]

    def at_peak(self, track=None):
        """The blocks that were live at the track's peak; `bytes`: their bytes then. Without `track`: the track that
        reports show."""
        return self._live("peak_blocks", track)

    def outstanding(self, track=None):
        """The blocks that were live at the end."""
        return self._live("outstanding_blocks", track)

    def _live(self, name, track):
        tracks, live, blocks = self.tracks(), self.table(name), self.blocks()
        names = list(tracks["name"])
        if track is not None and track not in names:
            raise Error(f"the recording has no track {track}: it has {', '.join(names)}")
        number = names.index(track) if track is not None else int(tracks["is_default"].argmax())
        picked = live["track_id"] == number
        return blocks._rows(live["block_id"][picked], bytes=live["bytes"][picked])

    def answer(self, command, *options):
        """The answer of `memprof COMMAND FILE --json` as a dict. Raises Error if there is none."""
        asked = (command, *options)
        if asked not in self._answers:
            run = subprocess.run([_command(), command, *options, "--json", "--", self.path],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            if not run.stdout:
                raise Error(run.stderr.decode(errors="replace").strip().removeprefix("memprof: "))
            self._answers[asked] = json.loads(run.stdout)
        return self._answers[asked]

    def info(self):
        return self.answer("info")

    def leaks(self):
        return self.answer("leaks")

    def peak(self):
        return self.answer("peak")

    @property
    def plan(self):
        """For a recording by `memprof plan`: device, values, read_backs and estimated; else None."""
        return self.info().get("plan")

    def _repr_html_(self):
        page = subprocess.run([_command(), "trace_plot", self.path, "-o", "-"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        return (f'<iframe srcdoc="{html.escape(page.decode(), quote=True)}" width="100%" height="720" '
                'style="border: 0"></iframe>')


def _plan_cell(line, cell):
    """Runs a cell in a process of its own under `memprof plan`, so it must import what it uses; the line has options."""
    folder = tempfile.TemporaryDirectory(prefix="memprof-plan-")
    program, path = os.path.join(folder.name, "cell.py"), os.path.join(folder.name, "cell.mp")
    with builtins.open(program, "w", encoding="utf-8") as file:
        file.write(cell)
    run = subprocess.Popen([_command(), "plan", *shlex.split(line), "-o", path, "--", sys.executable, program],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for text in run.stdout:
        print(text, end="")
    run.wait()
    if not os.path.exists(path):
        return None  # as with --size; memprof has said why
    recording = open(path)
    recording._folder = folder  # the page is made of the file
    return recording


def load_ipython_extension(shell):
    shell.register_magic_function(_plan_cell, "cell", "plan")


def _command():
    found = _find("memprof") or shutil.which("memprof")
    if not found:
        raise Error("the command memprof is not on the PATH")
    return found


class Table:
    """Columns of equal length. table["bytes"] is a NumPy array, of a column of texts an array of str and None. Numbers
    that are unknown have all bits set; `known` tells them apart, and frames show them as missing."""

    def __init__(self, columns, handle, source=None):
        self._columns = columns  # name: (type, array)
        self._handle = handle
        self._source = source

    @property
    def columns(self):
        return list(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values()))[1])

    def __repr__(self):
        return f"<table of {len(self)} rows: {', '.join(self._columns)}>"

    def __getitem__(self, name):
        sort, values = self._columns[name]
        if sort != _TEXT:
            return values
        codes, texts = self._factors(values)
        return _object_array([*texts, None])[codes]

    def known(self, name):
        """An array of bool: False where the column's value is unknown or does not exist."""
        import numpy
        sort, values = self._columns[name]
        if sort == _TEXT:
            return values != 0
        return values != numpy.iinfo(values.dtype).max if values.dtype.kind == "u" else numpy.ones(len(values), bool)

    def _factors(self, numbers):
        """Codes from 0 on (-1: no text), and the text of each code."""
        import numpy
        used = numpy.zeros(int(numbers.max(initial=0)) + 1, bool)
        used[numbers] = True
        used[0] = False
        codes = (numpy.cumsum(used) - 1).astype("i4")
        codes[0] = -1
        texts = [self._handle.text(int(number)) for number in numpy.flatnonzero(used)]
        # Two texts that are no UTF-8 may look the same.
        return codes[numbers], texts if len(set(texts)) == len(texts) else [f"{text}#{i}" for i, text in enumerate(texts)]

    def _rows(self, rows, **replaced):
        return Table({name: (sort, replaced.get(name, values[rows])) for name, (sort, values) in self._columns.items()},
                     self._handle)

    def to_pandas(self):
        """A DataFrame: texts are categories, unknown numbers missing."""
        import pandas
        series = {}
        for name, (sort, values) in self._columns.items():
            if sort == _TEXT:
                series[name] = pandas.Categorical.from_codes(*self._factors(values))
                continue
            unknown = ~self.known(name)
            series[name] = pandas.arrays.IntegerArray(values, unknown) if unknown.any() else values
        return pandas.DataFrame(series, copy=False)

    def to_polars(self):
        """A DataFrame of polars: texts are categories, unknown numbers missing."""
        import polars
        if self._source is not None:
            return polars.from_arrow(self).struct.unnest()
        columns = [polars.Series(name, self[name].tolist(), dtype=polars.Categorical) if sort == _TEXT else
                   polars.Series(name, values) for name, (sort, values) in self._columns.items()]
        frame = polars.DataFrame(columns)
        return frame.with_columns(polars.when(polars.Series(self.known(name))).then(polars.col(name)).alias(name)
                                  for name, (sort, values) in self._columns.items() if sort != _TEXT)

    def __arrow_c_array__(self, requested_schema=None):
        """Arrow's PyCapsule interface, for every library that speaks it."""
        if self._source is None:
            raise Error("only a whole table can be passed as Arrow: use to_pandas() or to_polars()")
        schema, array = _Struct(72), _Struct(80)
        if _library.memprof_read_arrow(self._handle.pointer, self._source, schema.address, array.address):
            raise MemoryError
        return schema.capsule(b"arrow_schema"), array.capsule(b"arrow_array")


def _object_array(values):
    import numpy
    made = numpy.empty(len(values), object)
    made[:] = values
    return made


def _shared(handle, table):
    """A Table of the library's own arrays, which are not copied."""
    import numpy
    columns = {}
    for column in table.contents.columns[:table.contents.column_count]:
        dtype, rows = numpy.dtype(_FORMATS[column.type]), table.contents.rows
        buffer = (ctypes.c_char * (rows * dtype.itemsize)).from_address(column.values) if rows else b""
        buffer_with_owner = numpy.frombuffer(buffer, dtype)
        buffer_with_owner.flags.writeable = False
        columns[_decode(column.name)] = column.type, _Owned(buffer_with_owner, handle).array
    return Table(columns, handle, table)


class _Owned:
    """Lets an array keep the recording open: NumPy holds the object whose interface it read."""

    def __init__(self, array, handle):
        self._kept = array, handle
        self.__array_interface__ = array.__array_interface__

    @property
    def array(self):
        import numpy
        return numpy.asarray(self)


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_structs = {}  # by address: those in a capsule


class _Struct:
    """Memory of an ArrowSchema or ArrowArray. The last two members are `release` and `private_data`."""

    def __init__(self, size):
        self.memory = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.memory)

    def capsule(self, name):
        self.name = name  # a capsule does not copy its name
        _structs[self.address] = self
        return _api.PyCapsule_New(self.address, name, _end_capsule)

    def end(self):
        release = ctypes.c_void_p.from_address(self.address + len(self.memory) - 16).value
        if release:  # nobody has taken it over
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(self.address)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _end_capsule(capsule):
    address = _api.PyCapsule_GetPointer(capsule, _api.PyCapsule_GetName(capsule))
    _structs.pop(address).end()
