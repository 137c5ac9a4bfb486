#!/usr/bin/env python3
"""Recordings of every form that the format has had stay readable, and say what they said. formats/NAME.json is what the
memprof of its time told of formats/NAME.mp; the same figures are also worked out by the reader that is made from
docs/FORMAT.md alone (tests/unit/format/read_mp.py), event by event.

    check_recordings.py --tell FILE.mp...     writes FILE.json anew: what $MEMPROF says
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "unit" / "format")]
sys.dont_write_bytecode = True
import harness  # noqa: E402
import read_mp  # noqa: E402

LAYERS = ("driver", "torch", "app")
ALLOC, FREE, RESIZE, STEP = 1, 2, 3, 5
UNKNOWN = 2**64 - 1
FILES = sorted((HERE / "formats").glob("*.mp"))


def figures_of(info):
    """What must never change of what `memprof info --json` says."""
    keys = ("id", "allocs", "frees", "peak_bytes", "end_bytes")
    return {"tracks": [{key: track[key] for key in keys} for track in info["tracks"]], "steps": info["steps"]["count"],
            "host": info["process"]["host"], "exit": info["process"]["exit"]}


def rows_of(columns):
    names = [name for name, values in columns.items() if isinstance(values, (list, tuple))]
    return [dict(zip(names, row)) for row in zip(*(columns[name] for name in names))]


class Reader:
    """A whole recording, replayed."""

    def __init__(self, path):
        start, chunks, end = read_mp.walk(read_mp.load_zstd(), path.read_bytes())
        assert end
        read_mp.check_index(chunks, end)
        self.strings, self.devices, self.tracks, self.host = [], [], [], start["host"]
        self.steps, self.exit = 0, None
        self.live, self.sums, self.seen_events = {}, {}, False
        chunks = [(kind, meta, columns) for _, _, kind, meta, columns in chunks]
        self.book_unseen([read_mp.events_of(meta, columns) for kind, meta, columns in chunks if kind == "events"],
                         [rows_of(columns) for kind, _, columns in chunks if kind == "base"][:1])
        for kind, meta, columns in chunks:
            take = getattr(self, "take_" + kind.replace(" ", "_"), None)
            if take:
                take(meta, columns)

    def book_unseen(self, chunks, bases):
        """Blocks of which only the end was seen were there from the start."""
        known = {row["block"] for base in bases for row in base}
        for event in (event for events in chunks for event in events):
            if event["type"] == ALLOC:
                known.add(event["block"])
            elif event["type"] in (FREE, RESIZE) and event["block"] not in known:
                known.add(event["block"])
                if event["type"] == FREE:
                    self.begin(event["track"], event["block"], event["bytes"])

    def sum_of(self, track):
        return self.sums.setdefault(track, {"allocs": 0, "frees": 0, "peak_bytes": 0, "end_bytes": 0})

    def begin(self, track, block, size):
        size = 0 if size == UNKNOWN else size
        self.live[block] = size
        of = self.sum_of(track)
        of["end_bytes"] += size
        of["peak_bytes"] = max(of["peak_bytes"], of["end_bytes"])

    def take_strings(self, _, columns):
        self.strings += read_mp.strings_of(columns)

    def take_devices(self, _, columns):
        for row in rows_of(columns):
            if row["name"] not in self.devices:
                self.devices.append(row["name"])

    def take_tracks(self, _, columns):
        self.tracks += rows_of(columns)

    def take_past_peaks(self, _, columns):
        """Of the time before a bounded recording's first event."""
        for row in rows_of(columns):
            self.sum_of(row["track"])["peak_bytes"] = row["bytes"]

    def take_base(self, _, columns):
        for row in rows_of(columns) if not self.seen_events else []:
            self.begin(row["track"], row["block"], row["bytes"])

    def take_events(self, meta, columns):
        self.seen_events = True
        for event in read_mp.events_of(meta, columns):
            # The end of an optimizer's work is no step where the program marks its own.
            self.steps += event["type"] == STEP and self.strings[event["name"]] != "torch.optim"
            if event["type"] == ALLOC:
                self.begin(event["track"], event["block"], event["bytes"])
                self.sum_of(event["track"])["allocs"] += 1
            elif event["type"] == FREE:
                of = self.sum_of(event["track"])
                of["frees"] += 1
                of["end_bytes"] -= self.live.pop(event["block"])

    def take_exit(self, _, columns):
        self.exit = self.strings[columns["text"][0]]

    def figures(self):
        tracks = []
        for i, track in enumerate(self.tracks):
            device, name = self.strings[self.devices[track["device"]]], self.strings[track["name"]]
            tracks.append({"id": "/".join(filter(None, (device, LAYERS[track["layer"]], name))), **self.sum_of(i)})
        return {"tracks": tracks, "steps": self.steps, "host": self.host or None, "exit": self.exit or None}


def contents_of(path):
    """All that a recording holds, by kind, whatever chunks it came in."""
    found = {}
    for _, _, kind, meta, columns in read_mp.walk(read_mp.load_zstd(), path.read_bytes())[1]:
        rows = (read_mp.events_of(meta, columns) if kind == "events" else read_mp.strings_of(columns) if kind == "strings"
                else [] if kind == "index" else rows_of(columns))
        found.setdefault(kind, []).extend(rows)
    return {kind: rows for kind, rows in found.items() if rows}


GONE = {"segments": ("more",), "segment parts": ("keys", "stack", "more"), "trace": ("time", "stack", "more")}


def without_gone(contents):
    """Less the columns and kinds that are read no more."""
    kept = {kind: [{name: value for name, value in row.items() if name not in GONE.get(kind, ())} for row in rows]
            if kind in GONE else rows for kind, rows in contents.items()}
    if "trace" in kept:
        kept["calls"] = kept.pop("trace")
    return {kind: rows for kind, rows in kept.items() if kind not in ("peaks", "boundaries", "open regions")}


class Recordings(unittest.TestCase):
    def test_they_say_what_they_said(self):
        self.assertGreaterEqual(len(FILES), 3)
        for path in FILES:
            with self.subTest(path.name):
                self.assertEqual(figures_of(harness.answer("info", path)), json.loads(path.with_suffix(".json").read_text()))

    def test_the_reader_made_from_the_description_agrees(self):
        for path in FILES:
            with self.subTest(path.name):
                self.assertEqual(Reader(path).figures(), json.loads(path.with_suffix(".json").read_text()))

    def test_every_command_reads_them(self):
        with tempfile.TemporaryDirectory(prefix="memprof-test-") as name:
            out = pathlib.Path(name)
            for path in FILES:
                for words in (["report"], ["peak"], ["leaks"], ["steps"], ["frag"], ["compare", path],
                              ["flamegraph", "-o", out / "f.folded"], ["chrome_trace", "-o", out / "c.json"],
                              ["trace_plot", "-o", out / "t.html"], ["export", "--format", "csv", "-o", out / "e.csv"]):
                    with self.subTest(path=path.name, command=words[0]):
                        result = harness.memprof(*words, path)
                        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_copy_made_now_says_the_same(self):
        with tempfile.TemporaryDirectory(prefix="memprof-test-") as name:
            for path in FILES:
                with self.subTest(path.name):
                    copy = pathlib.Path(name) / path.name
                    result = harness.memprof("recover", path, "-o", copy)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    said = json.loads(path.with_suffix(".json").read_text())
                    self.assertEqual(figures_of(harness.answer("info", copy)), said)
                    self.assertEqual(Reader(copy).figures(), said)
                    before, after = without_gone(contents_of(path)), contents_of(copy)
                    for kind in before:
                        self.assertEqual(after.get(kind), before[kind], kind)


def tell(paths):
    for path in map(pathlib.Path, paths):
        said = subprocess.run([harness.MEMPROF, "info", path, "--json"], check=True, capture_output=True, text=True).stdout
        path.with_suffix(".json").write_text(json.dumps(figures_of(json.loads(said)), indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tell"]:
        tell(sys.argv[2:])
    else:
        harness.main()
