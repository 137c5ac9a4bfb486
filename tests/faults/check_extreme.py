#!/usr/bin/env python3
"""Recordings that are legal but extreme. Every command ends on each of them, within bounds of processor time and
memory. Only quadratic work, or a copy of everything for each item, exceeds the bounds.

    check_extreme.py [KIND...] only these kinds

tools/test --long makes them five times as large, and runs more commands."""

import pathlib
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

LONG = harness.asserted.LONG
COUNT = 500000 if LONG else 100000
SECONDS = (150 if LONG else 30) * (10 if harness.SANITIZED else 1)  # of processor time; the slowest takes a quarter
ROOM = 4 << 30
MAKE = harness.BUILD / "tests" / "faults" / "make_extreme"
HERE = pathlib.Path(__file__).resolve().parent


def commands(path, out):
    """Every command that reads a recording; `out` is removed before each."""
    reading = [["report", "--json"], ["report", "--format", "html"], ["leaks"], ["frag"], ["advise"], ["peak", "--group", "region"],
               ["compare", path]]
    writing = [["trace_plot"], ["chrome_trace"], ["flamegraph", "--format", "pprof"], ["export", "--format", "pytorch"],
               ["export", "--format", "sqlite"], ["export", "--format", "csv"], ["recover"], ["anonymize"]]
    if LONG:
        reading += [["info"], ["report"], ["peak"], ["steps"], ["peak", "--group", "module"], ["peak", "--group", "category"]]
        writing += [["flamegraph"], ["flamegraph", "--format", "folded"], ["flamegraph", "--format", "speedscope"],
                    ["export", "--format", "jsonl"]]
    for words in reading:
        yield [*words, path]
    for words in writing:
        yield [*words, path, "-o", out]
    yield ["size", "--capacity", "80GiB", f"4={path}", f"8={path}"]


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not harness.SANITIZED:  # which needs terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))


def run(name, command, out, *hidden):
    """Runs the command. Returns a complaint, or None."""
    out.unlink(missing_ok=True)
    result = subprocess.run([harness.MEMPROF, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
    if result.returncode in (0, 1, 3, 4):
        return []
    words = " ".join(str(word) for word in command if word not in (*hidden, out))
    said = result.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["(nothing said)"]
    print(f"{name}: {words}: status {result.returncode}: {said[0][:200]}", flush=True)
    return [name]


def check(name, path, out):
    return [wrong for command in commands(path, out) for wrong in run(name, command, out, path)]


def main():
    wrong = []
    kinds = subprocess.run([MAKE], capture_output=True, text=True, check=True).stdout.split()
    chosen = [kind for kind in kinds if not sys.argv[1:] or kind in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="memprof-extreme-") as name:
        folder = pathlib.Path(name)
        for kind in chosen:
            path = folder / f"{kind}.mp"
            subprocess.run([MAKE, kind, str(COUNT), path], check=True)
            wrong += check(kind, str(path), folder / "out")
            path.unlink()
        for path in [] if sys.argv[1:] else sorted((HERE.parent / "recordings" / "slow").glob("*.mp")):  # what took minutes, or for ever
            wrong += check(path.name, str(path), folder / "out")
        for path in [] if sys.argv[1:] else sorted((HERE.parent / "recordings" / "slow").glob("*.json.gz")):
            other = path.with_suffix("").with_suffix(".other")
            wrong += run(path.name, ["size", "--capacity", "80GiB", f"4={other}", f"8={path}", f"12={other}"], folder / "out")
    print(f"{len(chosen)} kinds: {len(wrong)} wrong")
    harness.asserted.held(chosen and not wrong, "see above")


if __name__ == "__main__":
    harness.asserted.script(main)
