"""own_tests.py OUT FOLDER [NAME...]: runs tests of FOLDER/test_cuda.py one after the other. Appends a line of JSON to
OUT for each: the result, then live bytes and blocks as PyTorch and memprof count them. Without names: all tests about
memory that have no line in OUT. A test that ends the process has no result."""
import gc
import json
import pathlib
import re
import signal
import sys
import unittest

out, folder, *names = sys.argv[1:]
sys.argv = ["test_cuda.py"]
sys.path.insert(0, folder)

import test_cuda  # noqa: E402
import torch  # noqa: E402

try:
    import libmemprof
except ImportError:
    libmemprof = None

CASES = ("TestCuda", "TestCudaMallocAsync", "TestBlockStateAbsorption", "TestMemPool")
ABOUT_MEMORY = re.compile(
    "mem|alloc|oom|graph|pool|snapshot|expandable|stream|pinned|caching|reserved|stats|segment|absor|gc|block|leak|cudart|"
    "resize|copy|cat|free|storage|bytes")
SECONDS = 90


def about_memory():
    begun = {json.loads(line)["name"] for line in open(out)} if pathlib.Path(out).exists() else set()
    found = [f"{case}.{name}" for case in CASES for name in dir(getattr(test_cuda, case)) if name.startswith("test_")]
    return [name for name in found if name not in begun and
            (ABOUT_MEMORY.search(name) or not name.startswith("TestCuda."))]


def write(**row):
    with open(out, "a") as file:
        file.write(json.dumps(row) + "\n")


def too_late(*_):
    raise TimeoutError(SECONDS)


signal.signal(signal.SIGALRM, too_late)
for name in names or about_memory():
    write(name=name)
    case, method = name.split(".")
    result = unittest.TestResult()
    signal.alarm(SECONDS)
    try:
        getattr(test_cuda, case)(method).run(result)
        ended = "skipped" if result.skipped else "passed" if result.wasSuccessful() else "failed"
    except BaseException:
        ended = "failed"
    signal.alarm(0)
    gc.collect()
    torch.cuda.synchronize()
    counted = [torch.cuda.memory_allocated(0), torch.cuda.memory_stats(0).get("allocation.all.current", 0)]
    stats = libmemprof.stats("cuda:0/torch") if libmemprof and libmemprof.active() else None
    write(name=name, ended=ended, counted=counted, recorded=stats and [stats.live_bytes, stats.live_blocks])
