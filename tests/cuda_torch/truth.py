"""Runs a program and writes PyTorch's own data about its CUDA allocators: truth.py OUT HISTORY PROGRAM [ARGUMENT...]

OUT gets JSON: each device's statistics, segments, and a trace of PyTorch's own memory history. The trace is whole if
HISTORY is "history", else it has the entries that each reader got. The program's module lives until OUT is written. An
exception that ends the program is reported.
"""
import atexit
import ctypes
import gc
import json
import runpy
import sys
import time
import traceback


def leave():
    """Runs after all handlers that are registered later, and before Python frees the program's tensors."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Code of DTensor that runs in exit() has references to Python's objects.
    library = ctypes.PyDLL if "torch.distributed.tensor" in sys.modules else ctypes.CDLL
    library(None).exit(1 if failure else 0)


failure = None
atexit.register(leave)

import torch  # noqa: E402

snapshot_of, witnessed = torch._C._cuda_memorySnapshot, {}


def witness(*arguments):
    """Replaces _cuda_memorySnapshot, and so what memprof's shim finds there. Entries are returned once."""
    snapshot = snapshot_of(*arguments)
    for device, trace in enumerate(snapshot["device_traces"]):
        witnessed.setdefault(device, []).extend(entry for entry in trace if entry["action"] == "alloc")
    return snapshot


def snapshot_now():
    """Up to 2.6 it takes no argument."""
    try:
        return torch._C._cuda_memorySnapshot(None)
    except TypeError:
        return torch._C._cuda_memorySnapshot()


def settle():
    """Waits for autograd's threads, which may free the last tensors while the program's thread goes on."""
    before = None
    while (now := [torch.cuda.memory_stats(device)["allocation.all.freed"]
                   for device in range(torch.cuda.device_count())]) != before:
        before = now
        time.sleep(0.05)


out, history, program = sys.argv[1:4]
if history == "history":
    torch.cuda.memory._record_memory_history(context=None, max_entries=10_000_000)
else:
    torch._C._cuda_memorySnapshot = witness
sys.argv = sys.argv[3:]
module = None
try:
    module = runpy.run_path(program, run_name="__main__")
except Exception as exception:  # the program's frames hold its tensors until the end
    failure = exception
    traceback.print_exc()
gc.disable()  # reference cycles stay until the recording's end, too
native = torch.cuda.get_allocator_backend() == "native"
if native and torch.cuda.is_initialized():
    settle()
snapshot = snapshot_now() if native and torch.cuda.is_initialized() else {}
truth = {"failure": type(failure).__name__ if failure else None, "devices": [],
         "settings": {key: value for key, value in snapshot.get("allocator_settings", {}).items()
                      if not key.startswith("trace_")}}
for device in range(torch.cuda.device_count() if native and torch.cuda.is_initialized() else 0):
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    for segment in segments:
        segment.pop("frames", None)
        for block in segment["blocks"]:
            block.pop("frames", None)
    trace = snapshot["device_traces"][device] if history == "history" else witnessed.get(device, [])
    truth["devices"].append({"stats": dict(torch.cuda.memory_stats(device)), "segments": segments,
                             "trace": [{key: value for key, value in entry.items() if key != "frames"}
                                       for entry in trace]})
with open(out, "w") as file:
    json.dump(truth, file)
