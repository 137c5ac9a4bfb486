#!/usr/bin/env python3
"""make_kineto_seeds.py FOLDER: inputs for fuzz_export: small Kineto traces, old and new."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/exchange"))
sys.dont_write_bytecode = True
from check_kineto import memory, span

TRACES = {
    "new": [span("ProfilerStep#1", 0, 90, "user_annotation"), span("forward", 5, 60, "user_annotation"),
            span("train.py(3): main", 6, 50, "python_function"), span("aten::mm", 8, 9, **{"Input Dims": [[2, 3], []]}),
            memory(10, 512, 4096, 1512, 2048), memory(20, 64, -8192, 1576, 2048), memory(30, -512, 4096, 1064, 2048),
            memory(40, 1 << 40, None, 1064, 2048, name="[OutOfMemory]"),
            {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "ts": 0, "args": {"name": "thread 7 (python)"}}],
    "old": [span("aten::zeros", 8, 9, "Operator", "7", **{"Call stack": "a.py(3): f;b.py(4): g"}), memory(10, 512),
            memory(12, 512), memory(20, -512), memory(30, -64)],
    "odd": [memory(10, 512, 4096, 1512), memory(12, 512, 4096, 1600), memory(14, 512, 4200, 9000),
            memory(16, -100, 77, 100), memory(11, 64, 4096, 64, device=(0, -1))],
}


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, events in TRACES.items():
        properties = [{"id": 0, "name": "GPU", "totalGlobalMem": 1 << 36}]
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}, file)


if __name__ == "__main__":
    main()
