#!/usr/bin/env python3
"""Accuracy of `memprof size`. Real PyTorch trainings are recorded at batches of 4, 8 and 12, then run at larger ones,
each in its own process. A counter that shares no code with memprof counts their real memory
(tests/e2e/oracle).

    sizebench.py [--short] [--json] [--cache DIR] [KIND ...]

Recordings and counts are kept in the cache until the programs change. --short takes a few kinds; it is a test. Exits
with 1 if an answer is wrong:

* "yes", although a run of that batch takes more than the capacity
* "no", although a run of that batch fits
* a largest batch beyond the probes, of a program that is not called proved
* a count outside its interval
* an error of more than 0.5 % in a program that is called proved
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

MODELS = pathlib.Path(__file__).resolve().with_name("models.py")
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
PROBES, ASKED = (4, 8, 12), (16, 17, 24, 48, 96, 97)
SHORT = ("collate", "siamese", "epochs")
RUNS = 5  # of programs that take more or less from run to run


def kinds(which):
    return re.findall(r"\w+", re.search(rf"^{which} = \(([^)]*)\)", MODELS.read_text(), re.M).group(1))


class Runs:
    """Recordings and counts, made where the cache does not have them."""

    def __init__(self, folder, python):
        self.folder, self.python = folder, python
        self.source = MODELS.read_text()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, kind, batch, ending):
        # Named after the program of this kind and the parts that all share.
        parts = re.split(r"^(?=def |class |TUNING)", self.source, flags=re.M)
        own = [part for part in parts if part.startswith((f"def {kind}(", "def fit(", "class "))]
        version = hashlib.sha256("".join(own).encode()).hexdigest()[:12]
        return self.folder / f"{version}-{kind}-{batch}{ending}"

    def record(self, kind, batch):
        path = self.path(kind, batch, ".mp")
        if not path.exists():
            unfinished = path.with_suffix(".part")
            result = harness.memprof("snapshot", "--force", "--quiet", "-o", unfinished, "--", self.python, MODELS, kind,
                                     "--batch", batch)
            if result.returncode:
                sys.exit(f"sizebench: {kind} at {batch} failed: {result.stderr}")
            unfinished.rename(path)
        return path

    def count(self, kind, batch, run):
        path = self.path(kind, batch, f"-{run}.json")
        if not path.exists():
            unfinished = path.with_suffix(".part")
            subprocess.run([self.python, str(MODELS), kind, "--batch", str(batch)], check=True, stdin=subprocess.DEVNULL,
                           env=dict(os.environ, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(unfinished)))
            unfinished.rename(path)
        return json.loads(path.read_text())["devices"][0]["peak_bytes"]


def ask(paths, capacity):
    result = harness.memprof("size", "--capacity", capacity, "--margin", "0", "--json", "--predict",
                             ",".join(map(str, ASKED)), *(f"{batch}={path}" for batch, path in paths.items()))
    if result.returncode:
        sys.exit(f"sizebench: {result.stderr}")
    return json.loads(result.stdout)


def judge(need, truth, capacity):
    """True if one word of the answer is right, wrong, or none."""
    if need["fits"] == "unsure":
        return "unsure"
    right = max(truth) <= capacity if need["fits"] == "yes" else min(truth) > capacity
    return "right" if right else "wrong"


def measure(runs, kind, repeated):
    paths = {batch: runs.record(kind, batch) for batch in PROBES}
    truth = {batch: [runs.count(kind, batch, run) for run in range(RUNS if repeated else 1)] for batch in ASKED}
    answer = ask(paths, 1 << 40)
    needs = {need["batch"]: need for need in answer["predictions"]}
    counted = [(needs[batch], real) for batch in ASKED for real in truth[batch]]
    row = {"kind": kind, "proved": answer["proved"], "right": 0, "unsure": 0, "wrong": 0,
           "error": max(abs(need["allocated_bytes"] - real) / real for need, real in counted),
           "outside": sum(not need["low_bytes"] <= real <= need["high_bytes"] for need, real in counted), "about": []}
    for batch in ASKED:
        capacity = max(truth[batch])
        answer = ask(paths, capacity)
        row["about"].append(round(answer["about_batch"] / batch, 3))
        for need in answer["predictions"]:
            if need["batch"] in truth:
                row[judge(need, truth[need["batch"]], capacity)] += 1
        # Sure is what was probed, unless all of it is proved.
        row["wrong"] += answer["max_batch"] > PROBES[-1] and not answer["proved"]
    return row


def show(rows):
    heads = ("kind", "proved", "right", "unsure", "wrong", "error", "outside", "about, of the true one")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join((row["kind"], "yes" if row["proved"] else "no", str(row["right"]), str(row["unsure"]),
                                 str(row["wrong"]), f"{100 * row['error']:.2f} %", str(row["outside"]),
                                 f"{min(row['about'])} to {max(row['about'])}")) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=pathlib.Path, default=harness.BUILD / "sizebench-cache")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    options = parser.parse_args()
    python = harness.python_with_torch()
    if not python:
        print("no Python here has torch")
        sys.exit(77)
    runs, chance = Runs(options.cache, python), kinds("CHANCE")
    wanted = options.kinds or (SHORT if options.short else (*kinds("TUNING"), *kinds("TEST"), *chance))
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        rows = list(workers.map(lambda kind: measure(runs, kind, kind in chance), wanted))
    print(json.dumps(rows, indent=1)) if options.json else show(rows)
    bad = [row for row in rows if row["wrong"] or row["outside"] or (row["proved"] and row["error"] > 0.005)]
    if bad:
        sys.exit(f"sizebench: {bad}")


if __name__ == "__main__":
    main()
