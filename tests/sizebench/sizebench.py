#!/usr/bin/env python3
"""How well `memprof size` knows what a batch needs: real PyTorch trainings of many kinds, recorded at three small batch
sizes, then run at larger ones, each in a process of its own, where a counter that shares no code with memprof says what
they really took (tests/e2e/oracle). Beside it, the same from a line and from a power law through the three totals.

    sizebench.py [--short | --more] [--json] [--cache DIR] [KIND ...]

What was recorded and counted is kept in the cache, as long as the programs stay as they are. --short takes a few kinds
and sizes and fails where an answer is wrong; it is a test. --more takes only what follows the table of kinds: quadratic
terms from two and three probes, a caller that was edited between probes, programs that take more or less from run to run;
it fails where an answer is wrong or refused, or an interval does not have what was counted.
"""

import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

MODELS = pathlib.Path(__file__).resolve().with_name("models.py")
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
PROBES = (4, 8, 12)
PAIRS = (16, 24, 32, 48, 64, 96, 128, 160, 191)  # each also with the next larger one
SHORT, SHORT_PAIRS = ("collate", "siamese"), (95,)
PARTS = (0.0, 0.25, 0.5, 0.75, 0.999)  # capacities between what a batch needs and what the next one needs
TWO_PROBES = ((4, 16), (8, 16), (4, 32), (8, 32))
TWO_ASKED = ((16, 32), (8, 64), (16, 64), (32, 96), (12, 128))
TWO_KINDS = ("encoder", "decoder", "seq2seq", "lstm")
# Of the length, at a batch of 4: attention takes its square.
LENGTHS, LENGTHS_ASKED = (16, 32, 48), (24, 64, 96, 128, 192)
LENGTH_KINDS = ("encoder", "decoder", "seq2seq", "generate")
SQUARE_KINDS = ("contrastive", "siamese", "mlp")  # of the batch
EDITED_KINDS = ("mlp", "encoder", "resnet", "accumulation")
CHANCE_ASKED, CHANCE_RUNS = (16, 24, 48, 96), 5


def kinds(which):
    return re.findall(r"\w+", re.search(rf"^{which} = \(([^)]*)\)", MODELS.read_text(), re.M).group(1))


class Runs:
    """Recordings and counts, made where the cache has them not."""

    def __init__(self, folder, python):
        self.folder, self.python = folder, python
        self.source = MODELS.read_text()
        folder.mkdir(parents=True, exist_ok=True)

    def command(self, kind, batch, length):
        return [self.python, str(MODELS), kind, "--batch", str(batch), "--length", str(length)]

    def name(self, kind, batch, length, ending):
        # Until the program of this kind, or what all share, is another.
        parts = re.split(r"^(?=def |class |TUNING)", self.source, flags=re.M)
        own = [part for part in parts if part.startswith((f"def {kind}(", "def fit("))]
        own += [part for part in parts if part.startswith("class ")]
        version = hashlib.sha256("".join(own).encode()).hexdigest()[:12]
        return self.folder / f"{version}-{kind}-{batch}x{length}{ending}"

    def record(self, kind, batch, length=32):
        path = self.name(kind, batch, length, ".mp")
        if not path.exists():
            unfinished = path.with_suffix(".part")
            result = harness.memprof("snapshot", "--force", "--quiet", "-o", unfinished, "--",
                                     *self.command(kind, batch, length))
            if result.returncode:
                sys.exit(f"sizebench: {kind} at {batch} failed: {result.stderr}")
            unfinished.rename(path)
        return path

    def record_edited(self, kind, batch):
        """A remark on top, and the call of the kind elsewhere."""
        path = self.name(kind, batch, 32, "-edited.mp")
        if not path.exists():
            script = path.with_suffix(".py")
            script.write_text(self.source.replace("import argparse\n", "# a remark\nimport argparse\n", 1).replace(
                "    globals()[options.kind]", "    assert options.steps\n\n    globals()[options.kind]", 1))
            folder = path.with_suffix("")
            folder.mkdir(exist_ok=True)
            script = script.rename(folder / MODELS.name)
            harness.memprof("snapshot", "--force", "--quiet", "-o", path, "--", self.python, script, kind, "--batch",
                            batch, "--length", 32)
        return path

    def count(self, kind, batch, length=32, run=0):
        path = self.name(kind, batch, length, f"-{run}.json" if run else ".json")
        if not path.exists():
            unfinished = path.with_suffix(".part")
            subprocess.run(self.command(kind, batch, length), check=True, stdin=subprocess.DEVNULL,
                           env=dict(os.environ, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(unfinished)))
            unfinished.rename(path)
        return json.loads(path.read_text())["devices"][0]["peak_bytes"]


def affine(points):
    xs, ys = zip(*points)
    x, y = statistics.mean(xs), statistics.mean(ys)
    slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a in xs)
    return lambda batch: y + slope * (batch - x)


def power(points):
    line = affine([(math.log(x), math.log(y)) for x, y in points])
    return lambda batch: math.exp(line(math.log(batch)))


def largest_by(curve, capacity):
    low, high = 0, 1 << 24
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if curve(middle) <= capacity else (low, middle)
    return low


class Row:
    """What came out for one kind."""

    def __init__(self, kind):
        self.kind = kind
        self.errors, self.widths, self.covered = [], [], []
        self.ratios, self.asked, self.unsure, self.wrong = [], 0, 0, 0
        self.fits = {"affine": ([], []), "power": ([], [])}  # errors, ratios
        self.refused = None

    def judge(self):
        return {"kind": self.kind, "refused": self.refused,
                "max_error": max(self.errors, default=None), "median_error": median(self.errors),
                "median_width": median(self.widths), "coverage": mean(self.covered),
                "cases": len(self.ratios), "least_ratio": min(self.ratios, default=None),
                "most_ratio": max(self.ratios, default=None), "wrong": self.wrong, "asked": self.asked,
                "unsure": self.unsure,
                **{f"{name}_{what}": worst(values) for name, both in self.fits.items()
                   for what, values in zip(("error", "ratio"), both)}}


def median(values):
    return statistics.median(values) if values else None


def mean(values):
    return sum(values) / len(values) if values else None


def worst(values):
    return max(values, key=abs, default=None)


def ask(paths, capacity, predict, two=False):
    operands = [f"{size}={path}" for size, path in paths.items()]
    result = harness.memprof("size", "--capacity", int(capacity), "--margin", "0", *operands, "--predict",
                             ",".join(map(str, predict)), "--json")
    return json.loads(result.stdout) if result.returncode == 0 else result.stderr.strip()


def measure(runs, kind, pairs):
    row = Row(kind)
    paths = {size: runs.record(kind, size) for size in PROBES}
    sizes = sorted({size for pair in pairs for size in (pair, pair + 1)})
    truth = {size: runs.count(kind, size) for size in sizes}
    answer = ask(paths, 1 << 40, sizes)
    if isinstance(answer, str):
        row.refused = answer
        return row
    totals = [(probe["batch"], probe["allocated_bytes"]) for probe in answer["probes"]]
    curves = {"affine": affine(totals), "power": power(totals)}
    predicted = {entry["batch"]: entry for entry in answer["predictions"]}
    for size in sizes:
        entry, real = predicted[size], truth[size]
        row.errors.append(abs(entry["allocated_bytes"] - real) / real)
        row.widths.append((entry["high_bytes"] - entry["low_bytes"]) / real)
        row.covered.append(entry["low_bytes"] <= real <= entry["high_bytes"])
        for name, curve in curves.items():
            row.fits[name][0].append((curve(size) - real) / real)
    for pair in pairs:
        room = truth[pair + 1] - truth[pair]
        if room <= 0 or min(truth[size] for size in sizes if size > pair) <= truth[pair]:
            continue  # what fits is then not decided by the batch
        for part in PARTS:
            capacity = truth[pair] + int(part * room)
            found = ask(paths, capacity, sizes)
            row.ratios.append((found["max_batch"] or 0) / pair)
            for name, curve in curves.items():
                row.fits[name][1].append(largest_by(curve, capacity) / pair - 1)
            for entry in found["predictions"]:
                if entry["batch"] not in truth:
                    continue
                row.asked += 1
                row.unsure += entry["fits"] == "unsure"
                fits = truth[entry["batch"]] <= capacity
                row.wrong += (entry["fits"] == "yes" and not fits) or (entry["fits"] == "no" and fits)
    return row


def measure_two(runs, kind):
    """The errors with two variables, and how many intervals hold the truth."""
    paths = {f"{batch}x{length}": runs.record(kind, batch, length) for batch, length in TWO_PROBES}
    answer = ask(paths, 1 << 40, [f"{batch}x{length}" for batch, length in TWO_ASKED])
    row = Row(f"{kind} x length")
    if isinstance(answer, str):
        row.refused = answer
        return row
    for entry in answer["predictions"]:
        at = (entry["batch"], entry["second"])
        if at not in TWO_ASKED:
            continue
        real = runs.count(kind, *at)
        row.errors.append(abs(entry["allocated_bytes"] - real) / real)
        row.widths.append((entry["high_bytes"] - entry["low_bytes"]) / real)
        row.covered.append(entry["low_bytes"] <= real <= entry["high_bytes"])
    return row


def judge_at(row, answer, truth):
    """`truth`: bytes of one run or several, by size."""
    if isinstance(answer, str):
        row.refused = answer
        return row
    for entry in answer["predictions"]:
        for real in truth.get(entry["batch"], ()):
            row.errors.append(abs(entry["allocated_bytes"] - real) / real)
            row.widths.append((entry["high_bytes"] - entry["low_bytes"]) / real)
            row.covered.append(entry["low_bytes"] <= real <= entry["high_bytes"])
    return row


def ask_each(row, paths, truth):
    """The bounds, then with capacities of what each size took at most whether that size and others fit."""
    judge_at(row, ask(paths, 1 << 40, sorted(truth)), truth)
    for size in sorted(truth) if not row.refused else ():
        capacity = max(truth[size])
        for entry in ask(paths, capacity, sorted(truth))["predictions"]:
            if entry["batch"] not in truth:
                continue
            row.asked += 1
            row.unsure += entry["fits"] == "unsure"
            row.wrong += (entry["fits"] == "yes" and max(truth[entry["batch"]]) > capacity) or (
                entry["fits"] == "no" and min(truth[entry["batch"]]) <= capacity)
    return row


def measure_lengths(runs, kind, probes):
    truth = {length: [runs.count(kind, 4, length)] for length in LENGTHS_ASKED}
    paths = {length: runs.record(kind, 4, length) for length in LENGTHS[:probes]}
    return ask_each(Row(f"{kind}, length, {probes} probes"), paths, truth)


def measure_from_two(runs, kind):
    truth = {size: [runs.count(kind, size)] for size in PAIRS}
    return ask_each(Row(f"{kind}, 2 probes"), {size: runs.record(kind, size) for size in PROBES[:2]}, truth)


def measure_edited(runs, kind):
    paths = {size: runs.record(kind, size) for size in PROBES}
    paths[PROBES[1]] = runs.record_edited(kind, PROBES[1])
    return ask_each(Row(f"{kind}, edited"), paths, {size: [runs.count(kind, size)] for size in PAIRS})


def measure_chance(runs, kind):
    truth = {size: [runs.count(kind, size, run=run) for run in range(1, CHANCE_RUNS + 1)] for size in CHANCE_ASKED}
    return ask_each(Row(f"{kind}, {CHANCE_RUNS} runs each"), {size: runs.record(kind, size) for size in PROBES}, truth)


def percent(value, digits=2):
    return "-" if value is None else "over 1000 %" if value > 10 else f"{100 * value:.{digits}f} %"


def show(rows):
    heads = ("kind", "error max", "median", "interval", "holds", "largest, of the true one", "wrong", "unsure",
             "line: error", "largest", "power law: error", "largest")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        if row["refused"]:
            print(f"| {row['kind']} | {row['refused']} |" + " |" * (len(heads) - 2))
            continue
        ratio = "-" if row["least_ratio"] is None else f"{row['least_ratio']:.3f} to {row['most_ratio']:.3f}"
        cells = (row["kind"], percent(row["max_error"], 3), percent(row["median_error"], 3),
                 percent(row["median_width"]), percent(row["coverage"], 0), ratio, str(row["wrong"]),
                 percent(row["unsure"] / row["asked"] if row["asked"] else None, 1), percent(row["affine_error"], 1),
                 percent(row["affine_ratio"], 1), percent(row["power_error"], 1), percent(row["power_ratio"], 1))
        print("| " + " | ".join(cells) + " |")


def sum_up(name, rows):
    rows = [row for row in rows if not row.refused]
    together = Row(name)
    for row in rows:
        together.errors += row.errors
        together.widths += row.widths
        together.covered += row.covered
        together.ratios += row.ratios
        together.asked += row.asked
        together.unsure += row.unsure
        together.wrong += row.wrong
        for fit in together.fits:
            for to, values in zip(together.fits[fit], row.fits[fit]):
                to += values
    return together


def more_rows(runs, workers, wanted):
    def of(names):
        return [name for name in names if not wanted or name in wanted]
    rows = [*workers.map(lambda kind: measure_lengths(runs, kind, 2), of(LENGTH_KINDS))]
    rows += workers.map(lambda kind: measure_lengths(runs, kind, 3), of(LENGTH_KINDS))
    rows += workers.map(lambda kind: measure_from_two(runs, kind), of(SQUARE_KINDS))
    rows += workers.map(lambda kind: measure_edited(runs, kind), of(EDITED_KINDS))
    rows += workers.map(lambda kind: measure_chance(runs, kind), of(kinds("CHANCE")))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=pathlib.Path, default=harness.BUILD / "sizebench-cache")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    options = parser.parse_args()
    python = harness.python_with_torch()
    if not python:
        print("no Python here has torch")
        sys.exit(77)
    runs = Runs(options.cache, python)
    groups = {name: [kind for kind in kinds(name) if not options.more and
                     kind in (options.kinds or (SHORT if options.short else [kind]))] for name in ("TUNING", "TEST")}
    pairs = SHORT_PAIRS if options.short else PAIRS
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        rows = {name: list(workers.map(lambda kind: measure(runs, kind, pairs), group))
                for name, group in groups.items()}
        two = list(workers.map(lambda kind: measure_two(runs, kind),
                               [kind for kind in TWO_KINDS if not options.short and not options.more and
                                (not options.kinds or kind in options.kinds)]))
        more = more_rows(runs, workers, options.kinds) if options.more or not (options.short or options.kinds) else []
    sums = [sum_up("all that it was tuned on", rows["TUNING"]), sum_up("all others", rows["TEST"])]
    table = [row.judge() for row in rows["TUNING"] + rows["TEST"] + two + more + ([] if options.more else sums)]
    print(json.dumps(table, indent=1)) if options.json else show(table)
    if options.short:
        check(rows["TUNING"] + rows["TEST"])
    if options.more:
        check_more(more)


def check_more(rows):
    """No answer is wrong, and each interval has what was counted."""
    bad = [row.judge() for row in rows if row.wrong or row.refused or not all(row.covered)]
    if bad or not rows:
        sys.exit(f"sizebench: {bad or 'no such kind'}")


def check(rows):
    """What the short form promises."""
    for row in rows:
        answer = row.judge()
        bad = (answer["refused"] or answer["max_error"] > 0.005 or answer["wrong"] or answer["most_ratio"] > 1 or
               answer["least_ratio"] < 0.99 or answer["coverage"] < 0.95)
        if bad:
            sys.exit(f"sizebench: {answer}")


if __name__ == "__main__":
    main()
