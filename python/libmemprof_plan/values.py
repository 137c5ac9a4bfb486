"""Under `memprof plan`, follows values that the host itself put on the device: the CPU computes with them.

Kernels of the stand-in GPU compute nothing. But programs decide by values that need no GPU: a mask of ones, a count
from `torch.full`, a tensor copied from the host. A storage on the device whose contents follow from the host has a
shadow in the host's memory. An operator with only known tensors also runs on their shadows. An unknown operator that
writes to a tensor ends its shadow. If the program reads such a tensor, the driver returns the shadow's value, and the
plan does not count it as guessed.

Choices, conditions and counts of unknown values are guessed (guesses.py), and what other ranks send is taken to be what
this rank has. Their shadows remember that: the driver returns their values, and the plan counts them as guessed.

The dispatcher calls this module for the followed operators, through a key that PyTorch leaves free. A TorchDispatchMode
would be no replacement: under a mode, backward formulas avoid in-place operators, so memory would differ.
"""

import contextlib
import ctypes
import itertools
import mmap
import os
import sys
import threading

from libmemprof_plan import collectives, guesses, ranks

OURS = (os.path.dirname(__file__), os.path.join(os.path.dirname(sys.modules["torch"].__file__), ""))
KEY = "TESTING_ONLY_GenericMode"
MAPPED_LEAST = 1 << 17  # bytes: a mapping costs a system call
MOST = 1 << 21         # elements of a shadow: larger ones cost the CPU's time
# Shadows of storages that are gone are swept after this many entries, or bytes: their memory must not look like growth
# of the program. A sweep of 64 entries takes 20 us.
SWEPT_LEAST, MADE_MOST = 64, 1 << 20
MOST_FLOATS = 1 << 16  # larger ones on the host are left out by the plan (SMALLEST_LEFT_OUT)
MOST_GUESSED = 1 << 24  # one_hot() of 16 000 tokens, 8 of 128 experts each

CONSTANTS = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
FILLED = {"full_like": 1, "new_full": 2}  # the position of the value
FACTORIES = set("full arange linspace logspace eye tril_indices triu_indices scalar_tensor".split())
COMPUTED = set("""
    eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ add sub rsub subtract mul
    multiply div divide true_divide floor_divide remainder fmod neg negative abs absolute sign maximum minimum clamp clip
    clamp_min clamp_max where isin isnan isinf isfinite floor ceil round trunc pow square sqrt rsqrt reciprocal exp log
    log2 cos sin nan_to_num lerp cumsum cumprod cummax cummin sum prod mean max min amax amin argmax argmin aminmax any
    all count_nonzero sort argsort msort topk flip roll cat concat stack hstack vstack repeat tile gather take
    take_along_dim index_select index masked_select nonzero _unique2 unique_dim unique_consecutive repeat_interleave
    searchsorted bucketize tril triu diff scatter scatter_add scatter_reduce masked_fill masked_scatter index_fill
    index_add index_copy index_put constant_pad_nd pad bincount histc isclose equal is_nonzero item _local_scalar_dense to _to_copy
    clone contiguous copy fill zero reshape flatten ravel _is_all_true _is_any_true""".split())
# True: an operand that is true everywhere decides the result. False: an operand that is zero everywhere does.
DECIDES = {"bitwise_or": True, "logical_or": True, "__or__": True, "bitwise_and": False, "logical_and": False,
           "__and__": False, "mul": False, "multiply": False}
ASKED_OFTEN = 1000
ASKS = {"item", "_local_scalar_dense", "is_nonzero"}
READS = ASKS | {"to", "_to_copy"}  # their first argument
# The result may be known even if no tensor on the device is, or the program asks for a value.
SOURCES = READS | FACTORIES | {*CONSTANTS, *FILLED, "fill_", "zero_", "copy_"}
# Operators that read values back before they make their result.
COUNTS = {
    "equal": lambda result, *_: int(result),
    "nonzero": lambda result, *_: result.shape[0],
    "repeat_interleave": lambda result, *_: result.numel(),
    "_unique2": lambda result, *_: result[0].shape[0],
    "unique_dim": lambda result, of, dim, *_: result[0].shape[dim],
    "unique_consecutive": lambda result, of, inverse=False, counts=False, dim=None: result[0].shape[dim or 0],
    # The largest value; its test of the smallest one then passes, too.
    "bincount": lambda result, *_: result.shape[0] - 1,
}
# Origins of values, with the driver's numbers (softgpu.h); the larger one of the operands' counts.
KNOWN, SPREAD, RECEIVED = 0, 2, 3
CONDITION = 4  # a guessed condition: it selects a share, but what holds for all or any is the driver's guess
TOTALS = {"sum", "cumsum", "count_nonzero", "mean"}  # numbers that follow from the share
TOLD = (KNOWN, None, SPREAD, RECEIVED, SPREAD)  # to the driver
TRUTHS = {"all", "any", "_is_all_true", "_is_any_true", "equal", "isclose", "is_nonzero", "max", "min", "amax", "amin", "aminmax"}
INDEXED = {"scatter", "scatter_add", "scatter_reduce", "index_add"}  # arguments: self, dim, index, ...
# They call operators that are followed, and that may know more: here the lengths alone, or a condition's nonzero().
MADE_OF_OTHERS = {"aten::repeat_interleave.self_Tensor", "aten::where"}
# In-place operators that change only the tensor itself: its values stay.
SHAPES = set("detach_ requires_grad_ t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ set_".split())
EXCHANGED_MOST = 1 << 16  # src/softgpu/nccl/exchange.h
RUNNING = ("running_mean", "running_var")
DISTRIBUTED = ("c10d", "_c10d_functional")
MASKED = {"index", "index_put", "index_put_", "_index_put_impl_", "masked_select"}


def _base(name):
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


class _Shadows:
    """Shadows by storage. A weak reference shows whether an address still belongs to the same storage."""

    def __init__(self, torch):
        self.torch = torch
        self.of = {}  # StorageImpl -> (weak reference, bytes of the host, or None: never known again, version, origin)
        self.swept_at, self.made = SWEPT_LEAST, 0  # entries at the next sweep; bytes made since the last one
        self.here = threading.local()

    def is_gradient(self, tensor):
        """Its storage must not become a Python object: from PyTorch 2.10 on, this object counts as an owner. Autograd
        would then add to a copy of a gradient, not in place."""
        return tensor.is_floating_point() and self.here.backward

    def look_where(self):
        """Called before an operator. A recomputed part of a checkpoint has its own graph, which does not count as
        backward here."""
        self.here.backward = not self.torch.is_grad_enabled() and self.torch._C._current_graph_task_id() != -1

    def bytes_of(self, tensor):
        if self.is_gradient(tensor):
            return None
        storage = tensor.untyped_storage()
        found = self.of.get(storage._cdata)
        known = found and found[1] is not None and found[1].numel() == storage.nbytes()
        return found[1] if known and found[2] == self.version_of(tensor) else None

    def version_of(self, tensor):
        """Counts the operators' writes, also of operators that are not followed."""
        return None if tensor.is_inference() else tensor._version

    def view(self, tensor):
        """The tensor's values in the host's memory; None: unknown."""
        of = self.bytes_of(tensor)
        if of is None:
            return None
        return of.view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def origin(self, tensor):
        return self.of[tensor.untyped_storage()._cdata][3]

    def begin(self, tensor, origin, is_zero):
        """Memory for the values of a tensor with its own storage; None: it is too large. Zeros take no memory until
        they change."""
        if self.is_gradient(tensor):
            return None
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        most = MOST if is_zero else MOST_GUESSED if origin else MOST_FLOATS - 1 if tensor.is_floating_point() else MOST
        before = self.of.get(storage._cdata)
        if tensor.is_complex() or count > most or storage.nbytes() % tensor.element_size() or (
                before and before[1] is None):
            return None
        self.forget(tensor)
        room = self.zeros(storage.nbytes())
        self.of[storage._cdata] = (storage._weak_ref(), room, self.version_of(tensor), origin)
        self.made += room.numel()
        if len(self.of) > self.swept_at or self.made > MADE_MOST:
            self.sweep()
        return self.view(tensor)

    def zeros(self, count):
        """Bytes that take no memory until they are written. torch.zeros() writes them, and thousands of moments of an
        optimizer would fill the host."""
        if count < MAPPED_LEAST:
            return self.torch.zeros(count, dtype=self.torch.uint8, device="cpu")
        pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return self.torch.frombuffer(pages, dtype=self.torch.uint8)

    def renew(self, tensor, origin):
        """The tensor was written to. The same will be written to its shadow."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if tensor.numel() * tensor.element_size() < storage.nbytes():
            origin = max(origin, self.of[address][3])
        self.of[address] = (*self.of[address][:2], self.version_of(tensor), origin)

    def forget(self, tensor, for_good=False):
        if self.is_gradient(tensor) and not for_good:  # its version says that it was written to
            return
        storage = tensor.untyped_storage()
        if self.of.get(storage._cdata, (None, None))[1] is not None:
            self.release(storage._cdata)
        if for_good and storage._cdata not in self.of:
            self.of[storage._cdata] = (storage._weak_ref(), None, None, KNOWN)

    def release(self, address):
        self.torch.UntypedStorage._free_weak_ref(self.of.pop(address)[0])

    def sweep(self):
        for address in [at for at, one in self.of.items() if self.torch.UntypedStorage._expired(one[0])]:
            self.release(address)
        self.swept_at, self.made = max(SWEPT_LEAST, 2 * len(self.of)), 0


class _Follower:
    def __init__(self, torch, answer):
        self.torch, self.answer, self.answers = torch, answer, None
        self.groups, self.awaited = 0, []  # groups of collectives that have begun, and buffers that they will have set
        self.shadows = _Shadows(torch)
        self.guesses = guesses.of(torch, self.view)
        self.here, self.address_of, self.exchanged = self.shadows.here, torch._C.TensorBase.data_ptr, None
        self.key = torch._C._dispatch_key_parse(KEY)
        self.keys = torch._C.DispatchKeySet(self.key)
        self.strange = 0
        for name in ("Python", "FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize", "Conjugate", "Negative"):
            self.strange |= torch._C.DispatchKeySet(torch._C._dispatch_key_parse(name)).raw_repr()
        self.asked = {}  # (file, line) -> how often
        self.waiting = None  # PyTorch's class of results that wait for a collective: a wrapper hides its tensor
        self.places = {}  # operator -> positions and names of the arguments that it writes to

    def register(self):
        """For operators that are computed here, or that write to a tensor; all others pass. A fallback in Python for
        all operators does not work: PyTorch does not find it under an active mode, or for a subclass of Tensor."""
        torch = self.torch
        self.libraries = [torch.library.Library("_", "IMPL", KEY)]
        self.libraries[0].fallback(torch.library.fallthrough_kernel)
        spaces = {}
        for schema in torch._C._jit_get_all_schemas():
            space, _, name = schema.name.partition("::")
            full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
            if space not in ("aten", *DISTRIBUTED) or space != "aten" and name in collectives.WAITS or (
                    full in MADE_OF_OTHERS or not torch._C._dispatch_has_kernel(full)):
                continue
            writes = space in DISTRIBUTED or name not in SHAPES and any(
                one.name in RUNNING or one.alias_info is not None and one.alias_info.is_write
                for one in schema.arguments)
            if writes or _base(name) in COMPUTED or name in (CONSTANTS | FILLED) or name in FACTORIES or (
                    name in self.guesses or self.makes(schema, full)):
                if space not in spaces:
                    spaces[space] = torch.library.Library(space, "IMPL", KEY)
                spaces[space].m.impl(full, KEY, self.follower_of(space, name, schema.overload_name or "default"))
        self.libraries += spaces.values()
        self.leave_out_higher_order()
        self.include()

    def makes(self, schema, full):
        """An operator with kernels of its own, which may begin with another operator's result, such as zeros. This
        inner result is no result of the operator, and must not be followed."""
        return not self.torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd") and any(
            one.alias_info is None and "Tensor" in str(one.type) for one in schema.returns)

    def leave_out_higher_order(self):
        """Python's dispatcher takes no fallback for the key: the first such operator would fail."""
        kind, fall_through = self.torch._ops.HigherOrderOperator, self.torch._ops.HigherOrderOperator.fallthrough
        initialize, key = kind.__init__, self.key

        def __init__(operator, *arguments, **named):
            initialize(operator, *arguments, **named)
            fall_through(operator, key)

        kind.__init__ = __init__
        for operator in self.torch._ops._higher_order_ops.values():
            fall_through(operator, key)

    def follower_of(self, *name):
        operator = None

        def follow(*arguments, **named):
            nonlocal operator
            if operator is None:
                operator = self.torch.ops
                for part in name:
                    operator = getattr(operator, part)
            return self(operator, *arguments, **named)

        return follow

    def include(self, included=True):
        """Sets the state for the calling thread and for autograd's threads that work for it; returns the former
        state."""
        before = self.torch._C._dispatch_tls_is_dispatch_key_included(self.key)
        self.torch._C._dispatch_tls_set_dispatch_key_included(self.key, included)
        return before

    # ---- which operators are followed ----

    def view(self, tensor):
        return self.shadows.view(tensor) if tensor.is_cuda and self.is_plain(tensor) else None

    def is_plain(self, tensor):
        return tensor.layout is self.torch.strided and not (
            self.torch._C._dispatch_keys(tensor).raw_repr() & self.strange)

    def tensors_of(self, arguments):
        for one in arguments:
            if isinstance(one, self.torch.Tensor):
                yield one
            elif isinstance(one, (list, tuple)):
                yield from self.tensors_of(one)

    def on_device(self, arguments):
        return [one for one in self.tensors_of(arguments) if one.is_cuda and self.is_plain(one)]

    def written(self, operator, arguments, named):
        """The arguments that the operator's schema marks as written. Schemas of collectives do not mark theirs, nor do
        some of batch norms."""
        places = self.places.get(operator)
        if places is None:
            silent = operator.namespace in (*DISTRIBUTED, "symm_mem")
            places = self.places[operator] = [
                (i, one.name) for i, one in enumerate(operator._schema.arguments)
                if silent or one.name in RUNNING or (one.alias_info is not None and one.alias_info.is_write)]
        return self.on_device([arguments[i] if i < len(arguments) else named.get(name) for i, name in places])

    def is_idle(self):
        """True if another mode would see the computations here, or if tensors are wrapped."""
        return self.torch._C._len_torch_dispatch_stack() or self.torch._C._functorch.peek_interpreter_stack() is not None

    # ---- an operator ----

    def __call__(self, operator, *arguments, **named):
        if self.waiting and any(type(one) is self.waiting for one in arguments):  # autograd needs the wrapper
            arguments = [one.trigger_wait() if type(one) is self.waiting and not one.requires_grad else one
                         for one in arguments]
        if operator.namespace in DISTRIBUTED:
            return (self.exchange if self.exchanged else self.collect)(operator, arguments, named)
        with self.torch._C._ExcludeDispatchKeyGuard(self.keys):
            # With another active mode, the tensor that the operator writes to gets a new version afterwards.
            if self.is_idle():
                return operator(*arguments, **named)
            self.shadows.look_where()
            if not self.may_know(operator, arguments, named):
                return operator(*arguments, **named)
            written, computed, known = self.written(operator, arguments, named), None, []
            self.here.origin = KNOWN
            try:
                with self.quietly():
                    computed = self.compute(operator, arguments, named)
                    known = [self.shadows.view(one) for one in written if computed is not None]
            except Exception:  # not known, or the host refuses what the device may not
                computed = None
            if computed is None:
                for one in written:
                    self.shadows.forget(one, for_good=self.is_capturing())
            if operator._opname in ASKS and (computed is None or self.here.origin) and self.on_device(arguments):
                self.count_question()
            try:
                result = operator(*arguments, **named)
            finally:
                if self.answers is not None:
                    self.answers = self.answer(None, 0, KNOWN)
            if computed is not None:
                self.keep(computed, written or self.on_device([result]), known, is_fresh=not written)
            elif operator._opname in self.guesses:
                self.guess(operator, arguments, named, written or self.on_device([result]))
            return result

    def guess(self, operator, arguments, named, targets):
        if not targets or targets[0].numel() > MOST_GUESSED:
            return
        try:
            with self.quietly():
                values, is_condition = self.guesses[operator._opname](operator, arguments, named, targets)
                self.here.origin = CONDITION if is_condition else SPREAD
                self.keep(values, targets, [])
        except Exception:  # nothing to choose from, or arguments that are not known here
            pass

    def may_know(self, operator, arguments, named):
        """False for most operators of a program: none of their tensors on the device has a shadow. This check must be
        cheap."""
        if operator._opname in SOURCES or operator._opname in self.guesses or operator.namespace != "aten":
            return True
        of = self.shadows.of
        try:
            with self.torch._C.DisableTorchFunction():
                return any(one.is_cuda and not self.shadows.is_gradient(one) and one.untyped_storage()._cdata in of
                           for one in self.tensors_of((*arguments, *named.values())))
        except Exception:  # a tensor without a storage
            return True

    @contextlib.contextmanager
    def quietly(self):
        torch = self.torch
        with torch._C._InferenceMode(False), torch._C.DisableTorchFunction(), torch.no_grad():
            yield

    def compute(self, operator, arguments, named):
        """The values of the result, or of the written tensors, in order; None or an error: unknown. Gives the driver
        the values that the operator will read back."""
        name, base = operator._opname, _base(operator._opname)
        if operator.namespace != "aten":
            return None
        if name in CONSTANTS or name in FILLED or name in FACTORIES:
            return self.made(name, operator, arguments, named)
        if base not in COMPUTED and name not in MASKED:
            return None
        tensors = list(self.tensors_of(list(arguments) + list(named.values())))
        if not any(one.is_cuda for one in tensors):
            return [self.hosted(tensors[0])] if base in READS and tensors else None  # perhaps to the device
        if name in MASKED:
            self.count_mask(name, arguments)
        if base in READS:
            value = self.hosted(arguments[0])
            if base in ASKS and value.dtype is self.torch.bool and self.here.origin == CONDITION:
                return None
            self.give(value)
            return [value]
        if name == "copy_":
            if not arguments[0].is_cuda:
                self.give(self.hosted(arguments[1]))
            return [self.copied(self.hosted(arguments[1]))]
        if name in ("fill_", "zero_"):
            return [0 if name == "zero_" else self.hosted(arguments[1])]
        try:
            if base in INDEXED:
                self.adopt(arguments)
            known = [self.hosted(one) for one in arguments]
        except LookupError:
            return self.decided(base, arguments)
        if name != base:
            known[0] = known[0].clone()  # the shadow is written once the operator has succeeded
        named = {key: self.hosted(one) for key, one in named.items() if key != "out"}
        if self.here.origin == CONDITION and base in TRUTHS:
            return None
        if base == "histc":  # the host's has no integers
            known[0] = known[0].double()
        result = operator(*known, **named)
        if self.here.origin == CONDITION and base in TOTALS:
            self.here.origin = SPREAD
        if base in COUNTS:
            self.give(self.torch.tensor(COUNTS[base](result, *known), device="cpu"))
        return result if isinstance(result, (list, tuple)) else [result]

    def adopt(self, arguments):
        """An unknown index, as a compiled router returns, is a choice among the elements that it may select."""
        of, dim, index = arguments[:3]
        if not index.is_cuda or index.dtype is not self.torch.int64 or self.view(index) is not None or not index.numel():
            return
        for one in (of, *arguments[3:]):
            self.hosted(one)
        count = of.shape[dim]
        values = (self.torch.arange(index.numel(), device="cpu") + count // 2) % count
        self.here.origin = SPREAD
        self.keep([values.reshape(index.shape)], [index], [])

    def decided(self, base, arguments):
        """One operand alone may decide the result: if it is true (for a false one: false), the other does not
        matter."""
        if base not in DECIDES or not all(isinstance(one, self.torch.Tensor) for one in arguments[:2]):
            return None
        for one in arguments[:2]:
            shadow = self.view(one)
            if shadow is None or one.is_floating_point() or one.shape != arguments[0].shape:
                continue
            self.here.origin = self.shadows.origin(one)
            if not DECIDES[base] and not shadow.any():
                return [0]
            if DECIDES[base] and one.dtype is self.torch.bool and shadow.all():
                return [1]
        return None

    def hosted(self, value):
        """An argument with shadows in place of tensors; raises LookupError if one is unknown."""
        if isinstance(value, self.torch.Tensor):
            shadow = None
            if self.is_plain(value):
                shadow = self.shadows.view(value) if value.is_cuda else value.detach()
            if shadow is None:
                raise LookupError
            if value.is_cuda:
                self.here.origin = max(self.here.origin, self.shadows.origin(value))
            return shadow
        return [self.hosted(one) for one in value] if isinstance(value, (list, tuple)) else value

    def copied(self, values):
        """The clone of a batch or of weights would cost the CPU's time, and no shadow is that large."""
        if values.numel() > (MOST_GUESSED if self.here.origin else MOST):
            raise LookupError
        return values.clone()

    def made(self, name, operator, arguments, named):
        if name in CONSTANTS:
            return [CONSTANTS[name]]
        if name in FILLED:
            return [arguments[FILLED[name]] if len(arguments) > FILLED[name] else named["fill_value"]]
        if named.get("device") is None or self.torch.device(named["device"]).type != "cuda":
            return None
        return [operator(*arguments, **dict(named, device="cpu", pin_memory=False))]

    def collect(self, operator, arguments, named):
        """A collective of one rank alone. What it has itself stands for what the others send."""
        name, group = operator._opname, self.group_of((*arguments, *named.values()))
        rank, size = group.rank(), group.size()
        sends = size == 1 or _base(name) == "broadcast" and arguments[2 if name == "broadcast_" else 1] == rank
        with self.torch._C._ExcludeDispatchKeyGuard(self.keys):
            self.shadows.look_where()
            rows = collectives.rows(name, arguments, rank)
            values = [self.of_own(own) for _, own, _ in rows or ()]
            result = operator(*arguments, **named)
            results = self.tensors_of([result])
            rows = [(next(results) if to is None else to, own, part) for to, own, part in rows or ()]
            for one in self.on_device([to for to, _, _ in rows]) or self.written(operator, arguments, named):
                self.shadows.forget(one)
            for (to, own, part), (value, origin) in zip(rows, values):
                self.here.origin = origin if sends else max(origin, RECEIVED)
                with contextlib.suppress(LookupError), self.quietly():
                    value = collectives.filled(value, to, part, size)
                    if to.is_cuda:
                        self.keep([value], [to], [], is_fresh=to is not own)
                    elif not sends:  # the host may read it at once, without the driver
                        to.copy_(value)
                        ranks.say_received()
            return result

    def of_own(self, tensor):
        """Its values before a collective, and their origin; None: they are unknown, or too many."""
        self.here.origin = KNOWN
        try:
            with self.quietly():
                return self.copied(self.hosted(tensor)), self.here.origin
        except LookupError:
            return None, KNOWN

    def group_of(self, arguments):
        distributed = self.torch._C._distributed_c10d
        for one in arguments:
            if isinstance(one, self.torch.ScriptObject) and "ProcessGroup" in str(one._type()):
                return distributed.ProcessGroup.unbox(one)
        name = [one for one in arguments if isinstance(one, str)][-1]
        return distributed._resolve_process_group(name)

    def exchange(self, operator, arguments, named):
        """The stand-in of NCCL exchanges small data between the ranks: it gets this rank's from the driver."""
        with self.torch._C._ExcludeDispatchKeyGuard(self.keys):
            self.shadows.look_where()
            small = [one for one in self.written(operator, arguments, named)
                     if 0 < one.numel() * one.element_size() <= EXCHANGED_MOST and one.is_contiguous()]
            for one in small:
                shadow = self.shadows.view(one)
                if shadow is not None:
                    self.exchanged.softgpu_put(self.address_of(one), shadow.data_ptr(),
                                               one.numel() * one.element_size(), TOLD[self.shadows.origin(one)])
            for one in self.written(operator, arguments, named):
                self.shadows.forget(one)
            result = operator(*arguments, **named)
            small += [one for one in self.on_device([result]) if operator.namespace == "_c10d_functional"
                      and 0 < one.numel() * one.element_size() <= EXCHANGED_MOST]
            self.awaited += small
            if not self.groups:
                self.take_exchanged()
            return result

    def take_exchanged(self):
        awaited, self.awaited = self.awaited, []
        for one in awaited:
            with self.quietly():
                value = self.torch.empty(one.shape, dtype=one.dtype, device="cpu")
                origin = self.exchanged.softgpu_known(self.address_of(one), value.data_ptr(),
                                                      one.numel() * one.element_size())
                self.here.origin = origin
                if origin >= 0:
                    self.keep([value], [one], [])

    def follow_groups(self, module):
        """Calls of a group take place at its end (ncclGroupEnd)."""
        coalescing = module._coalescing_manager

        @contextlib.contextmanager
        def _coalescing_manager(*arguments, **named):
            self.groups += 1
            try:
                with coalescing(*arguments, **named) as manager:
                    yield manager
            finally:
                self.groups -= 1
                self.take_exchanged()

        module._coalescing_manager = _coalescing_manager

    # ---- answers for the driver ----

    def count_mask(self, name, arguments):
        """Needs only the mask: the selected elements may be unknown."""
        masks = arguments[1] if name != "masked_select" else [arguments[1]]
        masks = [one for one in masks if one is not None and one.dtype is self.torch.bool]
        if len(masks) == 1 and masks[0].is_cuda:
            shadow = self.hosted(masks[0])
            if name == "masked_select":
                shadow = shadow.expand(self.torch.broadcast_shapes(shadow.shape, arguments[0].shape))
            self.give(self.torch.count_nonzero(shadow))

    def count_question(self):
        """Names the line of a question, once: a loop may wait for a value that never comes."""
        frame = sys._getframe(2)
        while frame.f_back and frame.f_code.co_filename.startswith(OURS):
            frame = frame.f_back
        line = (frame.f_code.co_filename, frame.f_lineno)
        self.asked[line] = self.asked.get(line, 0) + 1
        if self.asked[line] == ASKED_OFTEN:
            print(f"memprof: {line[0]}:{line[1]} has read {ASKED_OFTEN} values that plan can only guess; a loop that waits "
                  "for one never ends. End it by a count, or try --values ones", file=sys.stderr, flush=True)

    def give(self, tensor):
        """The bytes in memory; PyTorch first copies a tensor with holes to one piece."""
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        self.answers = tensor if span == tensor.numel() else tensor.contiguous()
        self.answer(self.answers.data_ptr(), self.answers.numel() * self.answers.element_size(),
                    TOLD[self.here.origin])

    # ---- the result ----

    def keep(self, values, targets, known, is_fresh=False):
        """`known`: the earlier shadows of the written tensors. `is_fresh`: the operator made the targets' storages, which
        may be larger than they are: unique() makes room for all."""
        if not targets:  # on the host alone, perhaps in a forked worker, where CUDA answers nothing
            return
        capturing = self.is_capturing()
        for to, value, shadow in itertools.zip_longest(targets, values[:len(targets)], known):
            try:
                with self.quietly():
                    if not known and self.shadows.bytes_of(to) is not None:
                        continue  # an argument, or a view of one: long() of a tensor of that type
                    if capturing or not self.put(to, value, shadow, is_fresh):
                        self.shadows.forget(to, for_good=capturing)
            except Exception:
                self.shadows.forget(to)

    def is_capturing(self):
        """True if replays will write to what is written now."""
        return self.torch.cuda.is_current_stream_capturing()

    def put(self, to, value, shadow, is_fresh):
        if value is None:
            return False
        is_zero, is_new = isinstance(value, int) and value == 0, shadow is None
        if not is_new:
            self.shadows.renew(to, self.here.origin)
        elif not self.shadows.is_gradient(to) and (
                is_fresh or to.numel() * to.element_size() >= to.untyped_storage().nbytes()):
            shadow = self.shadows.begin(to, self.here.origin, is_zero)
        if shadow is not None and not (is_new and is_zero):
            shadow.copy_(value) if isinstance(value, self.torch.Tensor) else shadow.fill_(value)
        return shadow is not None


def start(torch, after_import):
    """If PyTorch lacks a feature that this needs, nothing is followed, and values are guessed."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.softgpu_answer.argtypes, driver.softgpu_answer.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], None
    follower = _Follower(torch, driver.softgpu_answer)
    if "SOFTGPU_MESSAGES" in os.environ:
        follower.exchanged = driver
        driver.softgpu_known.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64]
        driver.softgpu_put.argtypes, driver.softgpu_put.restype = [*driver.softgpu_known.argtypes, ctypes.c_int], None
        after_import("torch.distributed.distributed_c10d", follower.follow_groups)
    after_import("torch.distributed._functional_collectives",
                 lambda module: setattr(follower, "waiting", getattr(module, "AsyncCollectiveTensor", None)))
    follower.register()
    begin = threading.Thread._bootstrap_inner

    def _bootstrap_inner(thread):
        follower.include()
        begin(thread)

    threading.Thread._bootstrap_inner = _bootstrap_inner
    _ask_large_numbers_as_signed(torch)
    _forget_what_others_write(torch, follower)
    after_import("torch._subclasses.fake_tensor", lambda module: _leave_out_fakes(module.FakeTensorMode, follower))


def _leave_out_fakes(mode, follower):
    """Compilers trace with tensors without values, and the dispatcher in Python does not know the key."""
    enter, leave, of = mode.__enter__, mode.__exit__, threading.local()

    def __enter__(self):
        of.before = getattr(of, "before", []) + [follower.include(False)]
        return enter(self)

    def __exit__(self, *of_error):
        try:
            return leave(self, *of_error)
        finally:
            follower.include(of.before.pop())

    mode.__enter__, mode.__exit__ = __enter__, __exit__


def _ask_large_numbers_as_signed(torch):
    """A kernel in Python cannot return a number from 2**63 on, such as a seed."""
    item, as_float = torch.Tensor.item, torch.Tensor.__float__

    def is_large(tensor):
        return type(tensor) is torch.Tensor and tensor.dtype is torch.uint64

    torch.Tensor.item = lambda tensor: tensor.view(torch.int64).item() % 2**64 if is_large(tensor) else item(tensor)
    # PyTorch warns about the caller's line if the tensor has a gradient, and would name this one: so it has none.
    torch.Tensor.__float__ = lambda tensor: float(tensor.item()) if is_large(tensor) else as_float(
        tensor.detach() if tensor.requires_grad else tensor)


def _forget_what_others_write(torch, follower):
    """Code that asks for an address passes it to a kernel that the dispatcher does not know: Triton, ctypes."""
    address_of = torch.Tensor.data_ptr

    def data_ptr(tensor):
        try:
            if tensor.is_cuda and follower.is_plain(tensor):
                follower.shadows.look_where()
                follower.shadows.forget(tensor)
        except Exception:  # a tensor without a storage
            pass
        return address_of(tensor)

    torch.Tensor.data_ptr = data_ptr
