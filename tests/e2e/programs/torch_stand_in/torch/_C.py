"""The functions of torch._C that torch.cuda.memory calls, by version; and malloc and free for the program."""
import ctypes
import os
import threading
import time

import naive_allocator
import torch

VERSION = tuple(int(part) for part in os.environ["STAND_IN_TORCH"].split("."))
GIB = 1 << 30
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"}

_c10 = ctypes.CDLL(os.environ["STAND_IN_C10"])
_report = _c10.stand_in_report
_report.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
                    ctypes.c_int]
calls = []  # what was called, for the test
warned = []  # what PyTorch would write to stderr
faults = os.environ.get("STAND_IN_FAULT", "")


class Device:
    def __init__(self, index):
        settings = {"expandable_segments": True} if "expandable" in os.environ.get("STAND_IN_SETTINGS", "") else {}
        self.index, self.allocator = index, naive_allocator.Allocator(80 * GIB, 80 * GIB, settings)
        self.allocator.next_segment, self.allocator.next_reservation = 0x7f00_0000_0000, 0x6000_0000_0000
        self.ring = []
        self.truth = []  # what was asked for, in order

    def note(self, action, address, size, stream, pool):
        if not _history or action in _history["skip"]:
            return
        now = time.time_ns() // 1000 + 60_000_000 * ("clock" in faults)
        entry = {"action": action, "addr": address, "size": size, "stream": stream}
        if VERSION >= (2, 2):
            entry["time_us"] = now
        if _history["context"]:
            entry["frames"] = [{"name": "somewhere", "filename": "x.py", "line": 1}]
        if VERSION >= (2, 10):
            entry.update(compile_context="N/A", user_metadata="", pool_id=(pool >> 32, pool & 0xffffffff))
        self.ring.append(entry)
        del self.ring[:-_history["max_entries"]]

    def take_trace(self):
        for entry in self.allocator.trace:
            self.note(*entry)
        self.allocator.trace.clear()


_devices = []
_history = None
_pid = 0  # that initialized CUDA
_annotating = None  # since 2.8: the thread, or ALL, in which each record_function calls what notes it in the history
ALL = 0


def _cuda_init():
    global _pid
    _pid = os.getpid()
    _devices.extend(Device(index) for index in range(2))


def malloc(size, stream=0, pool=0, device=0):
    torch.cuda._lazy_init()
    here = _devices[device]
    if pool:
        here.allocator.begin(pool, naive_allocator.ANY_STREAM)
    block = here.allocator.malloc(size, stream)
    if pool:
        here.allocator.end(pool)
    here.take_trace()
    here.truth.append((block[1].address, block[1].size, size, stream, pool))
    _report(1 if VERSION < (2,) else 0, block[1].address, block[1].size, here.allocator.allocated(),
            here.allocator.reserved(), 1, device)
    return device, block


def free(handle):
    device, block = handle
    here = _devices[device]
    address, taken = block[1].address, block[1].size
    left = here.allocator.allocated() - taken
    _report(1 if VERSION < (2,) else 0, address, -taken, left, here.allocator.reserved(), 1, device)
    here.allocator.free(block)
    here.take_trace()


# ---- the history

def _annotate(enabled, of_all):
    global _annotating
    if VERSION >= (2, 8) and enabled and _annotating is None:
        _annotating = ALL if of_all else threading.get_ident()
    elif not enabled and _annotating is not None:
        if _annotating not in (ALL, threading.get_ident()):
            warned.append("Requested callback is not found")
        _annotating = None


def note_region():
    """The callback of each record_function asks CUDA for the device, and CUDA fails in a forked child."""
    if _history and _annotating in (ALL, threading.get_ident()) and os.getpid() != _pid:
        warned.append("Exception in RecordFunction callback: CUDA error: initialization error")


def _turn(enabled, context, max_entries, clear=False, skip=(), of_all=False):
    global _history
    calls.append("on" if enabled else "off")
    if "history" in faults or "backend" in faults:
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory")
    if set(skip) - ACTIONS:
        raise RuntimeError(f"unknown action {skip}")
    _annotate(enabled, of_all)
    if not enabled or clear or VERSION < (2, 2):
        for device in _devices:
            device.ring.clear()
    _history = {"context": context, "max_entries": max(1, max_entries), "skip": set(skip)} if enabled else None


if VERSION < (2, 1):
    if VERSION < (2,):
        def _cuda_recordMemoryHistory(enabled):
            _turn(enabled, "all", 1)
    else:
        def _cuda_recordMemoryHistory(enabled, record_context, record_context_cpp, alloc_trace_max_entries,
                                      alloc_trace_record_context):
            _turn(enabled, record_context or alloc_trace_record_context, alloc_trace_max_entries)
else:
    def _cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history=False, compile_context=False,
                                    global_record_annotations=False, *more):
        assert enabled in (None, "state", "all") and context in (None, "state", "alloc", "all")
        assert stacks in ("python", "all") and len(more) == (0 if VERSION < (2, 10) else 1 if VERSION < (2, 13) else 3)
        _turn(enabled, context, max_entries if enabled == "all" else 1, clear_history, more[0] if more else (),
              global_record_annotations)

    def _cuda_record_memory_history_legacy(enabled, record_context, trace_alloc_max_entries, trace_alloc_record_context,
                                           record_context_cpp, *more):
        _turn(enabled, record_context, trace_alloc_max_entries)

    def _cuda_isHistoryEnabled():
        if "backend" in faults:
            raise RuntimeError("cudaMallocAsync does not yet support recordHistory.")
        return _history is not None


def _segments():
    listed = []
    for device in _devices:
        # each run of mapped pages of an expandable segment counts as a segment
        for segment in sorted(device.allocator.segments, key=lambda segment: segment.blocks[0].address):
            runs, run = [], None
            for block in segment.blocks:
                if block.state == "unmapped":
                    run = None
                    continue
                if run is None:
                    run = []
                    runs.append(run)
                run.append(block)
            for run in runs:
                blocks = [dict(size=block.size, state={"allocated": "active_allocated", "free": "inactive"}.get(
                    block.state, "active_pending_free")) for block in run]
                if VERSION >= (2, 1):
                    for block, row in zip(run, blocks):
                        requested = block.requested if block.state != "free" else 0
                        row.update(address=block.address, requested_size=requested, frames=[])
                made = dict(device=device.index, address=run[0].address, total_size=sum(block.size for block in run),
                            allocated_size=0, active_size=0, stream=segment.stream,
                            segment_type="small" if segment.small else "large", blocks=blocks)
                if VERSION >= (2, 1):
                    made.update(is_expandable=bool(segment.page), segment_pool_id=(segment.pool >> 32,
                                                                                  segment.pool & 0xffffffff))
                listed.append(made)
    return listed


def _cuda_memorySnapshot(mempool_id=None):
    calls.append("snapshot")
    if "backend" in faults or "snapshot" in faults and _devices[0].truth:
        raise RuntimeError("no snapshot")
    if "busy" in faults:
        time.sleep(0.2)  # others have the processor
    if VERSION < (2,):
        return _segments()
    with_traces = not (isinstance(mempool_id, tuple) and len(mempool_id) == 3 and not mempool_id[2])
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1}
    if VERSION >= (2, 13):
        settings["trace_alloc_max_entries"] = _history["max_entries"] if _history else 1
    annotations = [{"stage": "START", "name": "x", "device": 0, "time_us": 1}] if _history else []
    traces = [list(device.ring) if with_traces else [] for device in _devices]
    found = {"segments": _segments(), "device_traces": traces, "allocator_settings": settings,
             "external_annotations": annotations}
    for device in _devices:
        device.note("snapshot", 0, device.allocator.allocated(), 0, 0)
    return found
