#!/usr/bin/env python3
"""What every command says of every recording here, as text and as JSON, in every way that it can be asked: kept in
golden/NAME.txt, and compared whole. Of long answers the beginning is kept, and a sum over all of it.

    make golden      in the build folder: writes golden/NAME.txt anew. Read the diff before you commit it: it is the test.
"""
import base64
import difflib
import gzip
import hashlib
import json
import os
import pathlib
import pickle
import random
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("e2e", "sizebench", "unit/analysis", "unit/exchange")]
sys.dont_write_bytecode = True
import harness  # noqa: E402
import made_inputs  # noqa: E402
import naive_allocator  # noqa: E402
import snapshots  # noqa: E402
from check_reserved import Training  # noqa: E402
from check_torch_replay import snapshot_of  # noqa: E402

KEPT_LINES, LINE_MAX = 30, 300
GROUPS = ("stack:1", "stack:2", "function", "file", "library", "module", "region", "category", "size", "stream", "pool",
          "thread")
FILTERS = ("size>4KiB", "size<=4KiB", "fn~linear", "fn!~linear", "file~train", "module~layers", "region=forward",
           "category=activations", "role=parameter", "role=none", "label~weight", "layer=torch", "kind=host", "step=2..5",
           "size>1KiB,region~ward")
WINDOWS = (("--from", "50%"), ("--to", "50%"), ("--from", "20%", "--to", "70%"), ("--from", "step:2", "--to", "step:3"))


# Of these all is asked, of others, which are much like them, what is usual.
RICH = ("1-allocator-calls.mp", "1-modules.mp", "1-segments.mp", "2-folded.mp", "leaking.mp", "held.mp", "network.mp",
        "made.pickle", "oom.pickle", "profiled.pt.trace.json", "systems.sqlite")
BATCHES = (4, 8, 12)
RULES = "mine = linear|forward\n# a remark\nothers = ^at::\n"
SUPPRESSIONS = "leak:remember\nleak:*empty*\n"
MIB = 1 << 20


def usual(name):
    for command in ("report", "peak", "leaks", "steps", "frag", "advise", "info"):
        yield command, name
        yield command, "--json", name
    yield "leaks", "--outstanding", "--json", name
    for kind in ("csv", "jsonl"):
        yield "export", "--format", kind, "-o", "-", name
    if not name.endswith(".mp"):
        yield "import", "-o", "out.mp", name


def questions(name):
    """All that is asked of a recording."""
    yield from usual(name)
    if name not in RICH:
        return
    for command in ("peak", "leaks"):
        for group in GROUPS:
            yield command, "--group", group, name
        for sort in ("bytes", "blocks", "peak", "growth"):
            yield command, "--sort", sort, "-n", "4", name
        yield command, "--full-stacks", name
        yield command, "--group", "category", "--rules", "rules", name
        for window in WINDOWS:
            yield command, "--json", "-n", "3", *window, name
        for expression in FILTERS:
            yield command, "-n", "3", "--filter", expression, name
    yield "leaks", "--outstanding", name
    for window in WINDOWS:
        yield "steps", *window, name
    yield "steps", "--group", "category", name
    yield "frag", "--replay", "recorded", name
    yield "frag", "--replay", "expandable_segments:True", name
    yield "info", "--sizes", name
    yield "leaks", "--fail", "--suppressions", "suppressions", name
    yield "report", "--from", "20%", "--to", "step:4", "--filter", "size>4KiB", name
    for form in ("markdown", "html"):
        yield "report", "--format", form, name
    for page in ("trace_plot", "segment_plot"):
        yield page, "-o", "out.html", name
    for window in WINDOWS:
        yield "trace_plot", "-o", "out.html", *window, name
        yield "chrome_trace", "-o", "-", *window, name
        yield "flamegraph", "-o", "out.pb.gz", *window, name
        yield "frag", *window, name
    yield "flamegraph", "-o", "out.html", name
    yield "chrome_trace", "--merge", "profiled.pt.trace.json", "-o", "out.json", name
    yield "export", "--format", "jsonl", "--from", "step:2", "--to", "80%", "--filter", "fn~a", "-o", "-", name
    yield "export", "--format", "pytorch", "-o", "out.pickle", name
    for of in ("peak", "outstanding", "allocated", "at:50%"):
        yield "flamegraph", "--format", "folded", "--of", of, "-o", "-", name
    yield "flamegraph", "--format", "speedscope", "-o", "-", name
    yield "flamegraph", "-o", "out.pb.gz", name
    yield "chrome_trace", "-o", "-", name
    yield "export", "-o", "out.json", "--format", "pytorch", name
    yield "export", "--format", "sqlite", "-o", "out.db", name
    yield "compare", name, name
    yield "anonymize", "-o", "out.mp", name


def pairs(names):
    for before, after in zip(names, names[1:]):
        yield "compare", before, after
        yield "compare", "--json", before, after
        yield "size", f"16={before}", f"32={after}"
        yield "size", "--json", "--predict", "64", "--capacity", "1MiB", f"8={before}", f"8={before}", f"16={after}"
        yield "compare", "--of", "outstanding", "--group", "function", before, after
        yield "flamegraph", "--format", "folded", "-o", "-", before, after
    for before, after in (("network.mp", "leaking.mp"), ("leaking.mp", "network.mp"), ("1-first.mp", "1-borders.mp")):
        for form in ("text", "markdown", "html"):
            yield "compare", "--format", form, "--fail", before, after
        for group in GROUPS:
            yield "compare", "-n", "4", "--group", group, before, after
        for sort in ("bytes", "blocks", "growth"):
            yield "compare", "-n", "4", "--sort", sort, "--of", "allocated", before, after
        yield "compare", "--fail", "--max-growth", "1000GiB", "--to", "60%", before, after
        yield "flamegraph", "-o", "out.html", before, after
    three = ("1-first.mp", "network.mp", "leaking.mp")
    yield "compare", *three
    yield "compare", "--json", *three
    yield "compare", "--format", "markdown", *three
    yield "size", "8=network.mp", "16=leaking.mp", "--capacity", "2GiB", "--margin", "10%"
    probes = [f"{batch}=batches/{batch}" for batch in BATCHES]
    yield "size", *probes
    for capacity in ("300MiB", "3GiB", "30GiB"):
        yield "size", "--json", "--capacity", capacity, "--predict", "1,6,13,64", *probes
        yield "size", "--capacity", capacity, "--margin", "0", "--predict", "6,200", *probes[:2]


def page_text(page):
    """What a page was given to show: the page's own code, which is always the same, says nothing of the recording."""
    flames = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)
    if flames:
        return json.dumps(json.loads(flames[1]), indent=1)
    lines = re.findall(r"<title>(.*?)</title>", page, re.S)
    header = json.loads(re.search(r'id="header">(.*?)</script>', page, re.S)[1])
    data = base64.b64decode("".join(re.findall(r'<script type="text/plain" id="d\d+">(.*?)</script>', page, re.S)))
    at, columns = 0, header.pop("columns")
    header.pop("bytes")
    for name, count, _, packed in columns:
        values = zlib.decompress(data[at:at + packed], -zlib.MAX_WBITS)
        at += packed
        lines.append(f"{name} {count} {values[:24].hex()} {hashlib.sha256(values).hexdigest()[:16]}")
    return "\n".join([*lines, json.dumps(header, indent=1)])


def text_of(path):
    """A file that was written, as text."""
    if path.suffix == ".db":
        with sqlite3.connect(path) as database:
            return "\n".join(database.iterdump())
    if path.suffix == ".mp":
        said = "".join(harness.memprof(*asked, path.name, cwd=path.parent, errors="backslashreplace").stdout
                       for asked in (("info", "--json"), ("frag", "--json", "--replay", "recorded"), ("leaks", "--json"),
                                     ("export", "--format", "jsonl", "-o", "-")))
        return re.sub('("path": "out.mp",\n *"bytes"): [0-9]+', r"\1: ...", said)  # how well it packs is no answer
    data = path.read_bytes()
    if path.suffix == ".html":
        return page_text(data.decode())
    if path.suffix == ".pickle":
        return json.dumps(pickle.loads(data), indent=1)
    return repr(gzip.decompress(data)) if path.suffix == ".gz" else data.decode(errors="backslashreplace")


def shorten(text):
    lines = text.splitlines()
    if len(lines) <= KEPT_LINES and all(len(line) <= LINE_MAX for line in lines):
        return lines
    kept = [line if len(line) <= LINE_MAX else line[:LINE_MAX] + " ..." for line in lines[:KEPT_LINES]]
    return kept + [f"... {len(lines)} lines, {len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()}"]


def ask(arguments, folder):
    result = harness.memprof(*arguments, cwd=folder, env=dict(os.environ, TZ="UTC", LC_ALL="C.UTF-8"),
                             errors="backslashreplace")
    lines = [f"$ memprof {shlex.join(arguments)}" + (f"    # {result.returncode}" if result.returncode else "")]
    said = re.sub("<style>.*?</style>", "<style>...</style>", result.stdout, flags=re.S)  # it is viz/'s
    lines += shorten(said) + ["! " + line for line in result.stderr.splitlines()]
    for path in sorted(folder.glob("out.*")):
        lines += shorten(text_of(path))
        path.unlink()
    return lines + [""]


def out_of_memory():
    """A snapshot of PyTorch's after a request for which there was room, but in no one place."""
    draw, allocator, live = random.Random(7), naive_allocator.Allocator(192 * MIB, 1 << 40, {}), []
    for _ in range(400):
        try:
            if draw.random() < 0.6:
                live.append(allocator.malloc(draw.choice([700, 40000, 900000, 3 * MIB, 11 * MIB]), draw.choice([0, 0, 9])))
            elif live:
                allocator.free(live.pop(draw.randrange(len(live))))
        except naive_allocator.OutOfMemory:
            break
    return snapshot_of(allocator, {})


def make_recordings(folder):
    """The recordings that are kept, and those that are made: NAME.mp in the folder."""
    for path in sorted((HERE / "formats").glob("*.mp")):
        if path.name != "1-imported.mp":  # check_recordings.py reads it; made.pickle is asked the same
            shutil.copy(path, folder)
    for kind in ("training", "leaking", "held", "network", "hostile", "cut", "dropped", "nothing"):
        subprocess.run([harness.BUILD / "tests/unit/cli/make_recording", folder / f"{kind}.mp", kind], check=True)
    for name, snapshot in (("made", snapshots.Made(3, devices=2, host=True).snapshot), ("oom", out_of_memory())):
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(snapshot, 4))
    made_inputs.make(folder)
    (folder / "batches").mkdir()
    for batch in BATCHES:
        (folder / f"batches/{batch}").write_bytes(pickle.dumps(Training(3).snapshot(batch), 4))
    (folder / "rules").write_text(RULES)
    (folder / "suppressions").write_text(SUPPRESSIONS)
    return sorted(path.name for path in folder.glob("*.*"))


def answers(name, folder):
    wanted = pairs(sorted(path.name for path in folder.glob("*.*"))) if name == "pairs" else questions(name)
    return "\n".join(line for arguments in wanted for line in ask(arguments, folder))


class Golden(unittest.TestCase):
    maxDiff = None

    def test_every_answer(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            files = make_recordings(folder)
            for each in [*files, "pairs"]:
                with self.subTest(each):
                    golden = HERE / "golden" / (pathlib.Path(each).stem + ".txt")
                    got, wanted = answers(each, folder), golden.read_text()
                    diff = list(difflib.unified_diff(wanted.splitlines(), got.splitlines(), str(golden), "now",
                                                     lineterm="", n=2)) if got != wanted else []
                    self.assertFalse(diff, "the answers differ (see the head of check_golden.py):\n" +
                                     "\n".join(diff[:120]))


def tell(names):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for each in [*make_recordings(folder), "pairs"]:
            stem = pathlib.Path(each).stem
            if not names or stem in names:
                (HERE / "golden" / f"{stem}.txt").write_text(answers(each, folder))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tell"]:
        (HERE / "golden").mkdir(exist_ok=True)
        tell(sys.argv[2:])
    else:
        harness.main()
