#!/usr/bin/env python3
"""Every advice of tests/advise against the change really made, as one table: kind, cases, within 2 %, within 10 %, promised and
not there; then the misses.

    all.py [--no-cuda] [NAME...]     of the trainings of programs.py that are named; without one, of all (hours on two cores)
    all.py --sum FILE...             of what earlier runs printed, as of a few trainings each
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROW = re.compile(r"^(\S+) +(\S*) +(\S+) +says +(-?\d+) +saves +(-?\d+) +of +\d+")
CHECKS = (("CPU", "check_checkpoint.py", "--all"), ("CPU", "check_lifetimes.py", "--all"),
          ("CUDA", "check_cuda.py", "--table"))


def kind_of(change):
    return "checkpoint" if change.startswith("checkpoint:") else "setting" if ":" in change else "lifetime"


def rows_of(lines):
    where = None
    for line in lines:
        where = line.split()[1] if line.startswith("== ") else where
        found = ROW.match(line)
        if found:
            yield where, kind_of(found[3]), int(found[4]), int(found[5]), line.rstrip()


def run(where, script, option, names):
    """What a check prints, line by line, behind one that says where it ran."""
    variables = {"BENCH_NAMES": " ".join(names)} if names else {}
    process = subprocess.Popen([sys.executable, HERE / script, option, *(names if where == "CPU" else ())], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **variables})
    for line in [f"== {where} {script}\n", *process.stdout]:
        print(line, end="", flush=True)
        yield line
    if process.wait():
        print(f"{script}: status {process.returncode}")


def table(found):
    counted = collections.defaultdict(lambda: [0, 0, 0, 0])
    for where, kind, said, real, _ in found:
        for i, holds in enumerate((True, abs(said - real) <= 0.02 * real, abs(said - real) <= 0.1 * real, real <= 0)):
            counted[where, kind][i] += holds
    print(f"\n{'':5} {'kind':12} cases  within 2 %  within 10 %  promised and not there")
    for (where, kind), (cases, two, ten, none) in sorted(counted.items()):
        print(f"{where:5} {kind:12} {cases:5}  {two:10}  {ten:11}  {none}")
    print("\nfurther away than 2 %:")
    for _, kind, said, real, line in found:
        if abs(said - real) > 0.02 * real:
            print(line)


def main(names):
    if "--sum" in sys.argv:
        table(list(rows_of(line for name in names for line in open(name))))
    else:
        table([row for where, script, option in CHECKS if where != "CUDA" or "--no-cuda" not in sys.argv
               for row in rows_of(run(where, script, option, names))])


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if not name.startswith("-")])
