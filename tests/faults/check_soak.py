#!/usr/bin/env python3
"""Random hostile programs (soak.c), each alone and recorded: they print the same and end the same, none hangs, and the
recording can be read. `check_soak.py [--runs N] [--first SEED] [--jobs N]`; a program alone is `soak SEED ACTS PLUGIN`.
"""

import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

FAULTS = harness.BUILD / "tests" / "faults"
WATCHDOG = 120  # beyond whatever a program takes on a busy machine: what it ends was stuck
ACTS = 3


def outcome(command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
    except subprocess.TimeoutExpired:
        return "stuck", ""
    return (run.returncode, run.stdout), run.stderr


def differs(seed):
    """The fault that a seed's program shows when recorded, or None."""
    program = [str(FAULTS / "soak"), str(seed), str(ACTS), str(FAULTS / "plugin.so")]
    alone, _ = outcome(program)
    with tempfile.TemporaryDirectory(prefix="memprof-soak-") as folder:
        return compare(seed, program, alone, pathlib.Path(folder))


def compare(seed, program, alone, folder):
    path = folder / "soak.mp"
    recorded, said = outcome([harness.MEMPROF, "snapshot", "--quiet", "--force", "-o", str(path), "--", *program])
    if alone != recorded and recorded != "stuck":
        # skip a program that ends differently alone, because the machine is busy
        if outcome(program)[0] != alone:
            return None
    wrong = None if alone == recorded else f"alone {alone}, recorded {recorded}\n{said}"
    for made in folder.glob("*.mp"):
        if not wrong and harness.memprof("info", made).returncode not in (0, 4):
            wrong = f"{made.name} cannot be read"
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--first", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"soak: {options.runs} programs from seed {options.first}", flush=True)
    failed = 0
    seeds = range(options.first, options.first + options.runs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, wrong in zip(seeds, pool.map(differs, seeds)):
            if wrong:
                failed += 1
                print(f"seed {seed}: {wrong}", flush=True)
            if (seed - options.first + 1) % 500 == 0:
                print(f"soak: {seed - options.first + 1} done, {failed} differ", flush=True)
    print(f"soak: {failed} of {options.runs} differ")
    harness.asserted.held(options.runs and not failed, "see above")


if __name__ == "__main__":
    harness.asserted.script(main)
