"""Turns on the log of operators (src/capture/torch/operators.h): PyTorch calls the recorder at each operator.

The recorder reads PyTorch's objects by byte offset. This file finds the offsets: it looks for known values in objects
that it made itself, and in the calls of a few operators on tensors of the CPU. If a value is not found, there is no
log. No mode, no hook and no tensor stays behind.
"""

import ctypes
import itertools
import os
import weakref

from libmemprof_torch import replace

WORDS = 96  # how far to look in an object

WARNED = ("q", "bits", "complex32", "bcomplex32")  # types of which PyTorch warns

WORD = ctypes.c_uint64


def _members(names, kind):
    return [(name, kind) for name in names.split()]


class Layout(ctypes.Structure):
    """struct mp_torch_layout."""
    _fields_ = [
        *_members("bytes name run_inputs run_outputs run_schema schema_arguments argument_bytes argument_alias "
                  "alias_write value_bytes value_tag tag_tensor tag_list list_values tensor_storage tensor_dims "
                  "tensor_dtype dims_inline storage_data", WORD),
        ("dtypes", (ctypes.c_char * 24) * 64), *_members("begin end node_begin node_end", ctypes.c_void_p)]


class Callback(ctypes.Structure):
    """at::RecordFunctionCallback: two functions, a probability, and a byte for each scope. Then it says whether inputs,
    outputs and numbers are needed. The number of scopes differs, so all bytes behind the wanted scopes are 1."""
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("probability", ctypes.c_double),
                ("scopes", ctypes.c_ubyte * 40)]


kept = []
OPERATORS, NODES = 0, 1  # at::RecordScope
SCOPES = 10


def _callback(begin, end, scope):
    scopes = [int(i == scope or i >= SCOPES) for i in range(40)]
    return Callback(begin, end, 1.0, (ctypes.c_ubyte * 40)(*scopes))


def _word(address):
    return WORD.from_address(address).value


def _find(address, value, begin=0, words=WORDS):
    """The offset of a word in an object."""
    for i in range(begin // 8, words):
        if _word(address + 8 * i) == value:
            return 8 * i
    raise LookupError("a value in an object")


def _library(torch):
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    return ctypes.CDLL(path) if os.path.exists(path) else ctypes.CDLL(None)


class _Prober:
    def __init__(self, torch, library):
        self.torch, self.layout = torch, Layout(bytes=ctypes.sizeof(Layout))
        self.name = library._ZNK2at14RecordFunction4nameEv
        self.name.argtypes, self.name.restype = [ctypes.c_void_p], ctypes.c_void_p
        self.add = library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE
        self.add.argtypes, self.add.restype = [Callback], WORD
        self.remove = library._ZN2at14removeCallbackEm
        self.remove.argtypes, self.remove.restype = [WORD], None
        self.layout.name = ctypes.cast(self.name, ctypes.c_void_p).value

    def of_tensors(self):
        torch, layout = self.torch, self.layout
        sizes, strides = (3, 1, 7, 2), (19, 1000, 2, 1)
        tensor = torch.empty_strided(sizes, strides, dtype=torch.float64, device="cpu")
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        layout.tensor_storage = _find(tensor._cdata, storage._cdata)
        layout.storage_data = _find(storage._cdata, tensor.data_ptr(), words=12)
        for place in range(8, 8 * WORDS, 8):
            words = [_word(tensor._cdata + place + 8 * i) for i in range(len(sizes) + 1)]
            if words == [len(sizes), *sizes]:
                layout.tensor_dims = place
        layout.dims_inline = (_find(tensor._cdata, strides[0], layout.tensor_dims + 8) - layout.tensor_dims - 8) // 8
        if not layout.tensor_dims or layout.dims_inline < len(sizes):
            raise LookupError("sizes of a tensor")
        self.of_dtypes()

    def of_dtypes(self):
        """Types have different numbers; a half word of a tensor differs accordingly and nowhere else."""
        torch, numbers = self.torch, {}
        types = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
        for dtype in sorted(types, key=str):
            if str(dtype).replace("torch.", "").startswith(WARNED):
                continue
            try:
                tensor = torch.empty((0,), dtype=dtype, device="cpu")
            except (RuntimeError, TypeError, NotImplementedError):
                continue
            begin = tensor._cdata + self.layout.tensor_dims + 8 * (1 + 2 * self.layout.dims_inline)
            numbers[dtype] = [ctypes.c_uint16.from_address(begin + 2 * i).value for i in range(40)]
        known = {torch.uint8: 0, torch.float32: 6, torch.float64: 7, torch.bool: 11}  # c10/core/ScalarType.h
        for i in range(40):
            of = [numbers[dtype][i] for dtype in numbers]
            if all(numbers[dtype][i] == number for dtype, number in known.items()) and len(set(of)) == len(of):
                self.layout.tensor_dtype = self.layout.tensor_dims + 8 * (1 + 2 * self.layout.dims_inline) + 2 * i
                for dtype in numbers:
                    if numbers[dtype][i] < 64:
                        self.layout.dtypes[numbers[dtype][i]].value = str(dtype).replace("torch.", "").encode()[:23]
                return
        raise LookupError("the type of a tensor")

    def of_operators(self):
        """Looks into calls while they run, since arguments and results are gone afterwards."""
        torch = self.torch
        first, second = torch.zeros(2, device="cpu"), torch.zeros(2, device="cpu")
        looks = {b"aten::neg": (lambda run: self.at_neg(run, first), lambda run: self.at_neg_end(run, first)),
                 b"aten::cat": (lambda run: self.at_cat(run, first), None), b"aten::add_": (self.at_add, None)}
        trouble, done = [], []

        def look(run, which):
            try:
                name = ctypes.string_at(self.name(run))
                if name in looks and looks[name][which] is not None:
                    looks[name][which](run)
                    done.append(name)
            except Exception as error:
                trouble.append(error)

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        def begin(context, run):
            WORD.from_address(context).value = 0
            if threading_number() == own:
                look(run, 0)
            return context

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        def end(run, context):
            if threading_number() == own:
                look(run, 1)

        from threading import get_ident as threading_number
        own = threading_number()
        number = self.add(_callback(*(ctypes.cast(one, ctypes.c_void_p) for one in (begin, end)), OPERATORS))
        try:
            with torch.no_grad():
                torch.neg(first)
                torch.cat([first, second])
                first.add_(second)
        finally:
            self.remove(number)
            kept.append((begin, end))  # another thread may just be calling them
            looks.clear()
        if trouble or len(done) < 4:
            raise trouble[0] if trouble else LookupError("calls of operators")

    def at_neg(self, run, tensor):
        for place in range(0, 8 * WORDS, 8):
            value, count = _word(run + place), _word(run + place + 8)
            if count == 1 and value > 1 << 16 and not value & 7 and abs(value - run) < 1 << 16 and \
                    _word(value) == tensor._cdata:
                self.layout.run_inputs = place
                self.layout.value_tag, self.layout.value_bytes = 8, 16
                self.layout.tag_tensor = _word(value + 8) & 0xffffffff
        if not self.layout.run_inputs:
            raise LookupError("arguments of an operator")
        name = self.name(run)
        for place in range(0, 8 * WORDS, 8):
            schema = _word(run + place)
            if schema > 1 << 16 and schema >> 47 == 0 and not schema & 7 and schema != name and \
                    self.begins_with(schema, name):
                self.layout.run_schema = place
                return
        raise LookupError("the schema of an operator")

    def begins_with(self, address, value):
        """A word of another object may be no address: asks the kernel instead of reading it."""
        room, read = WORD(), ctypes.CDLL(None).process_vm_readv
        local = (ctypes.c_void_p * 2)(ctypes.addressof(room), 8)
        remote = (ctypes.c_void_p * 2)(address, 8)
        read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
        return read(os.getpid(), local, 1, remote, 1, 0) == 8 and room.value == value

    def at_neg_end(self, run, tensor):
        for place in range(0, 8 * WORDS, 8):
            begin, end = _word(run + place), _word(run + place + 8)
            if end - begin == 16 and begin > 1 << 16 and _word(run + place + 16) == end and \
                    not begin & 7 and self.is_tensor(begin, tensor):
                self.layout.run_outputs = place
                return
        raise LookupError("results of an operator")

    def is_tensor(self, value, like):
        """True for a value of the same class as a known tensor."""
        return self.begins_with(_word(value), _word(like._cdata)) and _word(value + 8) & 0xffffffff == \
            self.layout.tag_tensor

    def at_cat(self, run, tensor):
        value = _word(run + self.layout.run_inputs)
        self.layout.tag_list, values = _word(value + 8) & 0xffffffff, _word(value)
        for place in range(8, 64, 8):
            begin, end = _word(values + place), _word(values + place + 8)
            if end - begin == 2 * self.layout.value_bytes and _word(begin) == tensor._cdata:
                self.layout.list_values = place
                return
        raise LookupError("a list of tensors")

    def at_add(self, run):
        """The schema of `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`. The first
        of three equal structures has an alias that it writes to. The others have none."""
        schema, layout = _word(run + self.layout.run_schema), self.layout
        arguments, count = 64, 3  # behind two names of 32 bytes each
        begin, end = _word(schema + arguments), _word(schema + arguments + 8)
        size = (end - begin) // count
        if not 64 <= size <= 512 or (end - begin) % (8 * count):
            raise LookupError("the arguments of a schema")
        for place in range(32, size, 8):
            first, others = _word(begin + place), [_word(begin + i * size + place) for i in (1, 2)]
            if first > 1 << 16 and not any(others):
                layout.schema_arguments, layout.argument_bytes, layout.argument_alias = arguments, size, place
                for flag in range(48, 160):
                    if self.is_write(first, flag):
                        layout.alias_write = flag
                        return
        raise LookupError("what an operator writes to")

    def is_write(self, alias, flag):
        """c10::AliasInfo: two sets of 56 bytes and a vector of 24 bytes, then whether it is written to."""
        return flag == 2 * 56 + 24 and ctypes.c_ubyte.from_address(alias + flag).value == 1


READ, WRITTEN, OUTPUT = 1, 2, 4  # enum mp_use_how


def follow_kernels(api, torch, after_import):
    """Kernels of Triton, which no operator starts. The names of arguments say what a kernel of torch.compile reads and
    writes. All tensors of other kernels count as read. A compiled graph returns views that no operator made."""
    known, log, Tensor = weakref.WeakKeyDictionary(), api["kernel"], torch.Tensor

    def how(name, changed):
        writes = WRITTEN if name.startswith(("out_ptr", "in_out_ptr")) or name in changed else 0
        return writes | (0 if name.startswith("out_ptr") else READ)

    def facts_of(kernel):
        if kernel is None:
            return b"compiled graph", itertools.repeat(OUTPUT)
        if kernel not in known:
            changed = getattr(kernel, "inductor_meta", {}).get("mutated_arg_names", ())
            function = getattr(kernel, "fn", None)
            named = function if hasattr(function, "arg_names") else kernel
            known[kernel] = named.__name__.encode(), [how(name, changed) for name in named.arg_names]
        return known[kernel]

    def tell(kernel, tensors):
        try:
            name, hows = facts_of(kernel)
            found = [(tensor._cdata, each) for tensor, each in zip(tensors, hows) if isinstance(tensor, Tensor)]
            at = (ctypes.c_void_p * len(found))(*(tensor for tensor, _ in found))
            log(name, ctypes.addressof(at), bytes(each for _, each in found), len(found))
        except (AttributeError, TypeError, RuntimeError):
            pass  # another Triton

    def make_run(run):
        def logged(self, *arguments, **named):
            result = run(self, *arguments, **named)
            if not named.get("warmup"):
                tell(self, arguments)
            return result
        return logged

    def make_call(call):
        def logged(self, *arguments, **named):
            results = call(self, *arguments, **named)
            tell(None, results)
            return results
        return logged

    after_import("torch._inductor.runtime.triton_heuristics",
                 lambda module: replace(module.CachingAutotuner, "run", make_run))
    after_import("torch._inductor.output_code", lambda module: replace(module.CompiledFxGraph, "__call__", make_call))
    after_import("triton.runtime.jit", lambda module: replace(module.JITFunction, "run", make_run))


def start(api, torch, after_import):
    question = Layout(bytes=ctypes.sizeof(Layout))
    if api["operators"](ctypes.addressof(question)):
        return
    try:
        prober = _Prober(torch, _library(torch))
        prober.of_tensors()
        prober.of_operators()
        layout = prober.layout
    except BaseException:
        layout = Layout()
        raise
    finally:
        wanted = api["operators"](ctypes.addressof(layout)) == 0  # ends the question
    if not wanted:
        return
    prober.add(_callback(layout.begin, layout.end, OPERATORS))
    prober.add(_callback(layout.node_begin, layout.node_end, NODES))
    if "kernel" in api:
        follow_kernels(api, torch, after_import)
