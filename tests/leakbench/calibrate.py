#!/usr/bin/env python3
"""How often a finding is right, by the confidence that it states: one table over every program here whose right answer
is known. tests/leakbench/calibrate.py [--short] [--strict] [LIST...].

A finding is right if its program leaks. The stack of a program's first finding must have the line that leaks, if that
is known; further findings are other blocks of the same leak. With --strict each must have it.

A LIST has programs of others. A line begins with `leak` or `clean`, then `plan` or `snapshot`. Then come the
interpreter, the program and its arguments, relative to the list's folder. Or `recording` and a recording's path follow
the first word. Exit status 1: fewer than 99 % of the certain findings are right, or fewer than 90 % of the probable
ones."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PROGRAMS = harness.SOURCE / "tests" / "leakbench" / "programs"
DATA = os.environ.get("MEMPROF_TEST_DATA")
# Programs whose parts are processes of their own; with --mended they leak nothing.
LEAKING, CLEAN = ("classic.py", "reports.py"), ("buffers.py", "clean.py")
GOALS = {"certain": 0.99, "probable": 0.9}


def answers(folder, program, *arguments, options=()):
    """(part, the last word that it printed, the answer of memprof leaks) for each part of a program."""
    python = harness.python_with_torch()
    said = harness.record_whole(folder / "%p.mp", (python, PROGRAMS / program, *arguments), "--force", *options)
    for part, pid, *more in map(str.split, said.splitlines()):
        yield part, more[-1] if more else "", harness.answer("leaks", folder / f"{pid}.mp")


def guilty_lines(program, part):
    return {number for number, line in enumerate((PROGRAMS / program).read_text().splitlines(), 1)
            if line.endswith(f"# LEAK {part}")}


def is_at(finding, program, lines):
    return bool(lines & {frame["line"] for frame in finding["stack"] if (frame["file"] or "").endswith(program)})


class Table:
    def __init__(self, strict):
        self.strict = strict
        self.said = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))  # source, confidence
        self.wrong, self.verdicts = [], collections.Counter()

    def add(self, source, part, leaks, leaks_truly, at=None):
        for place, finding in enumerate(leaks["findings"]):
            if finding["class"] in ("retained_once", "fragmentation", "bounded", "garbage", "kept"):
                continue
            right = leaks_truly and (at is None or (place and not self.strict) or finding["class"] == "hidden" or at(finding))
            row = self.said[source][finding["confidence"]]
            row[0] += bool(right)
            row[1] += 1
            if not right:
                self.wrong.append(f"{source} {part}: {finding['confidence']}, {finding['class']}, finding {place + 1}")

    def add_numbers(self, source, confidence, right, of):
        row = self.said[source][confidence]
        row[0], row[1] = row[0] + right, row[1] + of

    def print(self):
        words = ("certain", "probable", "possible")
        print(f"| {'programs':<44} | {' | '.join(f'{word:<11}' for word in words)} |")
        print(f"|{'-' * 46}|{'|'.join('-' * 13 for _ in words)}|")
        sums, met = {word: [0, 0] for word in words}, True
        for source, row in self.said.items():
            print(f"| {source:<44} | {' | '.join(f'{row[word][0]} of {row[word][1]:<5}'.ljust(11) for word in words)} |")
            for word in words:
                sums[word] = [a + b for a, b in zip(sums[word], row[word])]
        print(f"| {'all':<44} | {' | '.join(f'{right} of {of}'.ljust(11) for right, of in sums.values())} |")
        for word, goal in GOALS.items():
            met &= sums[word][0] >= goal * sums[word][1]
        print(*self.wrong, *(f"{source}: {right}, said {said}: {count}" for (source, right, said), count in
                             sorted(self.verdicts.items())), sep="\n")
        return met


def bench(table, short):
    """Simulated traces have no holders, so none of their findings is certain."""
    said = subprocess.run([harness.BUILD / "tests/leakbench/leakbench", *["--short"] * short], capture_output=True,
                          text=True).stdout
    for right, of in re.findall(r"places (\d+) of (\d+) right", said):
        table.add_numbers("leakbench: simulated traces", "probable", int(right), int(of))


def others(table, path, folder):
    for line in filter(None, path.read_text().splitlines()):
        right, mode, *words = line.split()
        recording = path.parent / words[0] if mode == "recording" else folder / "other.mp"
        if mode != "recording":
            words[0] = shutil.which(words[0]) or path.parent / words[0]
            options = ("--device", "a10") if mode == "plan" else ("--holders",)
            subprocess.run([harness.MEMPROF, mode, *options, "--force", "-o", recording, "--", *words], cwd=path.parent,
                           capture_output=True, timeout=600)
        result = harness.memprof("leaks", "--json", recording)
        if result.returncode in (0, 4):
            leaks = json.loads(result.stdout)
            table.add(f"others: {path.stem}", line, leaks, right == "leak")
            table.verdicts[path.stem, right, leaks["verdict"]] += 1


def main():
    short, table = "--short" in sys.argv, Table("--strict" in sys.argv)
    lists = [pathlib.Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    python = harness.python_with_torch()
    bench(table, short)
    with tempfile.TemporaryDirectory(prefix="memprof-calibrate-") as name:
        folder = pathlib.Path(name)
        for program in LEAKING:
            for options in ((), ("--holders",)):
                for part, _, leaks in answers(folder, program, options=options):
                    lines = guilty_lines(program, part)
                    table.add(f"leaking {program} {' '.join(options)}", part, leaks, True,
                              lambda finding: is_at(finding, program, lines))
                if options or not short:
                    for part, _, leaks in answers(folder, program, "--mended", options=options):
                        table.add(f"mended {program}", part, leaks, False)
        for part, _, leaks in answers(folder, "clean.py", "--steps", "60" if short else "200", options=("--holders",)):
            table.add("clean.py", part, leaks, False)
        for fill in ("80",) if short else ("40", "80", "97"):
            for part, _, leaks in answers(folder, "buffers.py", "--fill", fill, "--steps", "400", options=("--holders",)):
                table.add("buffers.py, full after 40 to 97 % of 400 steps", part, leaks, False)
        for steps in ("12", "60"):
            for part, _, leaks in answers(folder, "rates.py", "--steps", steps, options=("--holders",)):
                table.add("rates.py", part, leaks, True)
        for part, kept, leaks in answers(folder, "heaps.py"):
            table.add("heaps.py: the process's heap", part, leaks, int(kept) > 0)
        for part in re.findall("^def ((?:bounded|unsure|leak)_[a-z]*)", (PROGRAMS / "bounds.py").read_text(), re.M):
            harness.record_whole(folder / "bounds.mp", (python, PROGRAMS / "bounds.py", part), "--holders", "--force")
            table.add("bounds.py", part, harness.answer("leaks", folder / "bounds.mp"), part.startswith("leak"))
        for part in re.findall("^def ((?:wanted|doubt|leak)_[a-z_]*)", (PROGRAMS / "wanted.py").read_text(), re.M):
            harness.record_whole(folder / "wanted.mp", (python, PROGRAMS / "wanted.py", part), "--holders", "--force")
            table.add("wanted.py", part, harness.answer("leaks", folder / "wanted.mp"), not part.startswith("wanted"))
        for path in sorted(pathlib.Path(DATA).glob("*")) if DATA else ():
            result = harness.memprof("leaks", "--json", path)
            if result.returncode in (0, 4) and path.suffix in (".pickle", ".gz", ".json"):
                table.add("recordings by others", path.name, json.loads(result.stdout), False)
        for path in lists:
            others(table, path, folder)
    return 0 if table.print() else 1


if __name__ == "__main__":
    sys.exit(main())
