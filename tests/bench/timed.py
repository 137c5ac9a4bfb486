"""Runs a PyTorch script and prints, as the last line, processor and wall time of it in ns, without the import of torch.
For tools/bench.

    timed.py SCRIPT [ARGUMENT...]
"""

import json
import resource
import runpy
import sys
import time

import torch  # noqa: F401: its import is not what is measured


def main():
    del sys.argv[0]
    processor, wall = time.process_time_ns(), time.perf_counter_ns()
    runpy.run_path(sys.argv[0], run_name="__main__")
    processor, wall = time.process_time_ns() - processor, time.perf_counter_ns() - wall
    print(json.dumps({"count": 1, "cpu_ns": processor, "wall_ns": wall,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
