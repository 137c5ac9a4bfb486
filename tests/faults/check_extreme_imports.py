#!/usr/bin/env python3
"""Files of other programs that are legal but extreme: Nsight Systems' databases, traces of PyTorch's profiler, RMM's
logs. Each becomes a recording, or is refused with a message, within bounds of processor time and memory. Only quadratic
work, or a copy of everything for each item, exceeds the bounds. Reading the new recording stays within them, too.

    check_extreme_imports.py [KIND...] only these kinds

tools/test --long makes them five times as large, and runs more commands."""

import json
import pathlib
import sqlite3
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parent / "unit" / "exchange")]
import check_extreme  # noqa: E402
import check_logs  # noqa: E402
import harness  # noqa: E402

COUNT = check_extreme.COUNT // 2
PID = check_logs.pid_of(check_logs.PID)
READING = [["report", "--json"], ["leaks"]]
MORE = [["frag"], ["advise"], ["steps"], ["peak", "--group", "region"]] if check_extreme.LONG else []

# ---- Nsight Systems -------------------------------------------------------------------------------------------------


def row(i, process=PID, device=0, kind=2, name=None, pool=None, size=None):
    return (i, process, device, 1, i * 4096, 0, 64, kind, 0, name, i, pool, size)


def database(rows, **tables):
    def write(path):
        db = sqlite3.connect(path)
        db.executescript(check_logs.NEW)
        db.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, "
                       "memKind, memoryOperationType, name, correlationId, localMemoryPoolAddress, localMemoryPoolSize) "
                       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows())
        for table, (of_it, columns) in tables.items():
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", of_it())
        db.commit()
        db.close()
    return write


def each(make, count=COUNT):
    return lambda: (make(i) for i in range(count))


FEW = each(row, 10)
DATABASES = {
    "nsys-devices": database(each(lambda i: row(i, device=i))),
    "nsys-processes": database(each(lambda i: row(i, process=check_logs.pid_of(i)))),
    "nsys-pools": database(each(lambda i: row(i, pool=i, size=10 * i))),
    "nsys-variables": database(each(lambda i: row(i, kind=5, name=f"variable{i}"))),
    "nsys-gpus": database(each(lambda i: row(i, device=i % 1000)),
                          TARGET_INFO_GPU=(each(lambda i: (i, "model", 1, "uuid", i), 4 * COUNT), 5)),
    "nsys-nested-ranges": database(FEW, NVTX_EVENTS=(each(lambda i: (i, 2 * COUNT - i, 59, f"r{i}", PID | 1, None)), 6)),
    "nsys-ranges-of-threads": database(FEW, NVTX_EVENTS=(each(lambda i: (i, i + 1, 59, "r", PID | i, None)), 6)),
    "nsys-endless-backtrace": database(
        each(row, COUNT // 10),
        CUPTI_ACTIVITY_KIND_RUNTIME=(each(lambda i: (i, i + 1, 0, PID | 1, i, 1, 0, 7), COUNT // 10), 8),
        CUDA_CALLCHAINS=(each(lambda i: (7, i, 0, 0, 0, i)), 6), StringIds=(each(lambda i: (i, f"function{i}")), 2)),
}

# ---- PyTorch's profiler ---------------------------------------------------------------------------------------------


def span(name, start, length, category="cpu_op", **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, "args": arguments}


def memory(at, size, address, device=0, thread=1):
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": thread, "ts": at,
            "args": {"Bytes": size, "Addr": address, "Device Id": device, "Device Type": 1, "Total Allocated": 0,
                     "Total Reserved": 0, "Ev Idx": 0}}


def trace(*events):
    def write(path):
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [one for some in events for one in some()]}))
    return write


def python_frame(i, name, length, number, parent):
    return span(f"f.py({i}): {name}", i, length, "python_function", **{"Python id": number, "Python parent id": parent})


TRACES = {
    "kineto-devices": trace(each(lambda i: memory(i, 64, i * 4096, device=i))),
    "kineto-threads": trace(each(lambda i: memory(i, 64, i * 4096, thread=i))),
    "kineto-nested": trace(each(lambda i: span(f"op{i}", i, 2 * COUNT - 2 * i)),
                           each(lambda i: memory(COUNT + i / 1000, 64, i * 4096), COUNT // 10)),
    "kineto-overlapping": trace(each(lambda i: span(f"op{i}", i, COUNT)),
                                each(lambda i: memory(COUNT / 2 + i / 10, 64, i * 4096), COUNT // 10)),
    "kineto-at-once": trace(each(lambda i: span("op", 5, 10)), each(lambda i: memory(6, 64, i * 4096), COUNT // 10)),
    "kineto-deep-python": trace(each(lambda i: python_frame(i, f"f{i}", 2 * COUNT - 2 * i, i, i - 1)),
                                each(lambda i: memory(COUNT, 64, i * 4096), COUNT // 10)),
    "kineto-python-in-circles": trace(each(lambda i: python_frame(i, "f", 10, i % 7, (i + 1) % 7)),
                                      each(lambda i: memory(COUNT / 2, 64, i * 4096), COUNT // 10)),
    "kineto-frees-without-address": trace(each(lambda i: memory(i, i + 1, 0), COUNT // 2),
                                          each(lambda i: memory(COUNT + i, i - COUNT // 2, 0), COUNT // 2)),
    "kineto-frees-of-one-size": trace(each(lambda i: memory(i, 64, 0), COUNT // 2),
                                      each(lambda i: memory(COUNT + i, -64, 0), COUNT // 2)),
    "kineto-annotations": trace(each(lambda i: span(f"a{i}", i, 2 * COUNT - 2 * i, "user_annotation")),
                                each(lambda i: memory(COUNT, 64, 4096), 1)),
    "kineto-steps": trace(each(lambda i: span(f"ProfilerStep#{i}", i, 2, "user_annotation")),
                          each(lambda i: memory(i + .5, 64, 4096 + i * 4096))),
}

# ---- RMM ------------------------------------------------------------------------------------------------------------


def log(line):
    def write(path):
        with open(path, "w") as file:
            file.write("Thread,Time,Action,Pointer,Size,Stream\n")
            for i in range(COUNT):
                thread, action, pointer, stream = line(i)
                file.write(f"{thread},12:00:{i // 1000000:02}:{i % 1000000:06},{action},0x{pointer:x},64,0x{stream:x}\n")
    return write


LOGS = {
    "rmm-threads": log(lambda i: (i, "allocate", 256 * i + 256, 0)),
    "rmm-one-address": log(lambda i: (1, "allocate", 256, 0)),
    "rmm-frees": log(lambda i: (1, "free", 256 * i + 256, 0)),
    "rmm-streams": log(lambda i: (1, "allocate", 256 * i + 256, i)),
}


def check(name, write, folder):
    path, made = folder / name, folder / "made.mp"
    write(path)
    wrong = check_extreme.run(name, ["import", path, "-o", made], made)
    for command in [*READING, *MORE] if made.exists() else []:
        wrong += check_extreme.run(name, [*command, made], folder / "out", made)
    return wrong


def main():
    kinds = {**DATABASES, **TRACES, **LOGS}
    chosen = [kind for kind in kinds if not sys.argv[1:] or kind in sys.argv[1:]]
    wrong = []
    for kind in chosen:
        with tempfile.TemporaryDirectory(prefix="memprof-imports-") as folder:
            wrong += check(kind, kinds[kind], pathlib.Path(folder))
    print(f"{len(chosen)} kinds: {len(wrong)} wrong")
    harness.asserted.held(chosen and not wrong, "see above")


if __name__ == "__main__":
    harness.asserted.script(main)
