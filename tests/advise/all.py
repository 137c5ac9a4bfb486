#!/usr/bin/env python3
"""Every advice of tests/advise against the change really made, as one table: kind, cases, within 2 %, within 10 %, promised and
not there; then the misses.

    all.py [--no-cuda] [NAME...]     of the trainings of programs.py that are named; without one, of all (hours on two cores)
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROW = re.compile(r"^(\S+) +(\S*) +(\S+) +says +(-?\d+) +saves +(-?\d+) +of +\d+")
CHECKS = (("CPU", "check_checkpoint.py", "--all"), ("CPU", "check_lifetimes.py", "--all"), ("CPU", "check_estimates.py", "--all"),
          ("CUDA", "check_cuda.py", "--table"))
ESTIMATES = {"autocast", "quantized", "halves", "zero", "zero_2", "offload"}


def kind_of(change):
    return "checkpoint" if change.startswith("checkpoint:") else change if change in ESTIMATES else \
        "setting" if ":" in change else "lifetime"


def rows(where, script, option, names):
    variables = {"BENCH_NAMES": " ".join(names)} if names else {}
    run = subprocess.run([sys.executable, HERE / script, option, *(names if where == "CPU" else ())], capture_output=True,
                         text=True, env={**os.environ, **variables})
    print(run.stdout, end="", flush=True)
    if run.returncode:
        print(f"{script}: status {run.returncode}\n{run.stderr[-2000:]}")
    for line in run.stdout.splitlines():
        found = ROW.match(line)
        if found:
            yield where, kind_of(found[3]), int(found[4]), int(found[5]), line


def main(names):
    found = [row for where, script, option in CHECKS if where != "CUDA" or "--no-cuda" not in sys.argv
             for row in rows(where, script, option, names)]
    table = collections.defaultdict(lambda: [0, 0, 0, 0])
    for where, kind, said, real, _ in found:
        counts = table[where, kind]
        for i, holds in enumerate((True, abs(said - real) <= 0.02 * real, abs(said - real) <= 0.1 * real, real <= 0)):
            counts[i] += holds
    print(f"\n{'':5} {'kind':12} cases  within 2 %  within 10 %  promised and not there")
    for (where, kind), (cases, two, ten, none) in sorted(table.items()):
        print(f"{where:5} {kind:12} {cases:5}  {two:10}  {ten:11}  {none}")
    print("\nfurther away than 10 %:")
    for *_, said, real, line in found:
        if abs(said - real) > 0.1 * real:
            print(line)


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if not name.startswith("-")])
