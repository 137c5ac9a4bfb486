#!/usr/bin/env python3
"""Leak figures for tools/bench, outside of its table: one JSON list of rows.

    measure.py MEMPROF PYTHON|- LEAKER RECORDING [--quick]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
RATE_EVENTS = 200  # of a step of the leaker below
MEMPROF, PYTHON, LEAKER, RECORDING = sys.argv[1:5]
QUICK = "--quick" in sys.argv


def leaks(*arguments):
    """The answer, and its processor seconds."""
    process = subprocess.Popen([MEMPROF, "leaks", "--json", *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    answer = process.stdout.read()
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return json.loads(answer), usage.ru_utime + usage.ru_stime


def alarms(folder):
    """Training programs without leaks: all steps, and the number of suspected ones."""
    steps = 200 if QUICK else 2000
    run = subprocess.run([MEMPROF, "snapshot", "--quiet", "-o", folder / "%p.mp", "--", PYTHON, PROGRAMS / "clean.py",
                          "--steps", str(steps)], capture_output=True, text=True, check=True,
                         env=dict(os.environ, OMP_NUM_THREADS="1"))
    verdicts = [leaks(folder / f"{line.split()[1]}.mp")[0]["verdict"] for line in run.stdout.splitlines()]
    return len(verdicts) * steps, verdicts.count("leak"), verdicts.count("clean")


class Leaker:
    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen([MEMPROF, "snapshot", "--quiet", "-o", folder / "leaker.mp", "--force", "--",
                                         LEAKER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *orders):
        for order in orders:
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "done\n":
                sys.exit(f"measure: the leaker did not take \"{order}\"")

    def collector_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def live(folder):
    """The collector's share of a core at 100 000 events a second, and the time for an answer meanwhile."""
    leaker, seconds, steps = Leaker(folder), 3 if QUICK else 20, 0
    leaker.tell(f"rest {(RATE_EVENTS - 4) // 2}", "pace 1800", "run 200")
    began, cpu = time.monotonic(), leaker.collector_s()
    while time.monotonic() - began < seconds:
        leaker.tell("run 100")
        steps += 100
    each = (leaker.collector_s() - cpu) / (steps * RATE_EVENTS)
    asked = time.monotonic()
    answer, _ = leaks("--pid", leaker.process.pid)
    took = time.monotonic() - asked
    leaker.end()
    return each * 100_000 * 100, took * 1000, answer["verdict"]


def main():
    rows = []

    def row(what, value, unit, goal=None, note=""):
        rows.append({"what": what, "value": value, "unit": unit, "goal": goal, "note": note})

    with tempfile.TemporaryDirectory(prefix="memprof-measure-") as name:
        folder = pathlib.Path(name)
        if PYTHON != "-":
            steps, accused, clean = alarms(folder)
            row(f"alarms in {steps:,} clean steps of PyTorch", accused, "", 0, f"{clean} programs called clean")
        seconds = sorted(leaks(RECORDING)[1] for _ in range(1 if QUICK else 3))
        row("leaks of 10 M events", seconds[len(seconds) // 2], "s", 2)
        smallest = Leaker(folder)
        smallest.tell("size 512", "run 60")
        smallest.end()
        finding = leaks(folder / "leaker.mp")[0]["findings"]
        row("a leak of 512 B a step: found, bytes a step", finding[0]["bytes_per_step"] if finding else 0, "bytes")
        share, took, verdict = live(folder)
        row("collector at 100 000 events/s, live rule and all", share, "% of a core", 10)
        row("leaks --pid while it runs, wall", took, "ms", None, verdict)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
