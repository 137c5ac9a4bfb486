"""Makes allocations on a stand-in of PyTorch's CUDA allocator, and prints the request of each as JSON.

    torch_requests.py STEPS PER_STEP [WHAT]

WHAT is one of:

* own, late, dump, looks or asks: how the program itself uses PyTorch's history.
* threads: each step runs in its own thread, and the program's history in another.
* short: the history has a shorter ring.
* fork, now, killed: how the program ends. "now" writes a snapshot to now.mp.
"""
import json
import os
import random
import signal
import sys
import threading
import time

import torch
from torch import _C

memory = torch.cuda.memory
steps, per_step, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""
r = random.Random(5)
kept, seen = [], {}

if what == "own":
    memory._record_memory_history("all", context="all", max_entries=100_000)
kept += [_C.malloc(r.randrange(1, 3 << 20), device=d % 2) for d in range(20)]
if what == "short":
    history = sys.modules["libmemprof_torch"].parts["history"]
    history.read()
    history._entries = 8192
    history._empty()


def run_step(step):
    with torch.autograd.record_function(f"step {step}"):
        temporary = []
        for i in range(per_step):
            size = r.choice((r.randrange(1, 5000), r.randrange(1, 2 << 20), 4096, 1 << 20, 100))
            stream, pool = r.choice((0, 0, 0x7fff12345678)), r.choice((0, 0, 0, 1 << 32 | 7))
            temporary.append(_C.malloc(size, stream, pool, device=int(r.random() < 0.2)))
            if r.random() < 0.6:
                _C.free(temporary.pop(r.randrange(len(temporary))))
        for block in temporary:
            _C.free(block)


def run_in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def record_a_while():
    memory._record_memory_history("all", context="all", max_entries=1000)
    kept.append(_C.malloc(54321))
    seen["threads"] = [[entry["action"], entry["size"]] for entry in memory._snapshot()["device_traces"][0]]
    memory._record_memory_history(None)


for step in range(steps):
    if what == "threads":
        run_in_thread(run_step, step)
    else:
        run_step(step)
    if what == "late" and step == steps // 2:
        memory._record_memory_history("all", context="all", max_entries=1000)
        _C.malloc(12345)
        trace = memory._snapshot()["device_traces"][0]
        seen["late"] = [[entry["action"], entry["size"], "frames" in entry] for entry in trace
                        if not entry["action"].startswith("segment")]
        memory._record_memory_history(None)
    if what == "looks":
        shim = sys.modules.get("libmemprof_torch")
        if shim and shim.parts["history"]:
            shim.parts["history"].look()
        found = memory._snapshot()
        seen.setdefault("looks", []).append([_C._cuda_isHistoryEnabled(), found["device_traces"],
                                             found.get("external_annotations"), found["allocator_settings"]])
    time.sleep(0.001)
if what == "own":
    seen["own"] = [[entry["action"], entry["size"], "frames" in entry]
                   for entry in memory._snapshot()["device_traces"][0]]
elif what == "asks":
    seen["asks"] = []
    for ask in (_C._cuda_isHistoryEnabled, memory._snapshot, memory._record_memory_history):
        try:
            seen["asks"].append(bool(ask()))
        except RuntimeError as error:
            seen["asks"].append(str(error))
elif what == "threads":
    run_in_thread(record_a_while)
    seen["warned"] = _C.warned
elif what == "dump":
    seen["dump"] = memory._snapshot()["device_traces"]
elif what == "fork":
    child = os.fork()
    if not child:  # in which CUDA cannot be used
        with torch.autograd.record_function("in the child"):
            seen["child"] = len(memory._snapshot()["device_traces"][0])
        sys.exit(seen["child"] + len(_C.warned))
    seen["fork"] = os.waitpid(child, 0)[1]
elif what == "now":
    import libmemprof
    temporary = [_C.malloc(1000 + i) for i in range(50)]
    libmemprof.snapshot("now.mp")
    del temporary
print(json.dumps({"truth": [device.truth for device in _C._devices], "calls": _C.calls, "seen": seen}))
if what == "killed":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
