#!/usr/bin/env python3
"""The tables of memprof export: read with Python's sqlite3, csv and json and by SQLite's shell, and compared with the
commands' answers about the same recording."""
import collections
import csv
import gzip
import io
import json
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402
from harness import DATA, make_recording  # noqa: E402

REAL = ("silmont_small.pickle", "niu_fb_200_mixed.pickle", "sidsoc_train.pickle", "bolong_cl128.pickle",
        "sidnb13_transformer.pt.trace.json", "kineto_resnet50_w0.pt.trace.json.gz")


def memprof(*arguments, **more):
    return harness.memprof(*arguments, text=False, **more)


def ask(command, path, *options):
    return json.loads(memprof(command, path, "--json", *options).stdout)


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-tables-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for kind in ("train", "leaking", "hostile", "nothing"):
            make_recording(self.folder / f"{kind}.mp", kind)

    def recordings(self):
        yield from (self.folder / f"{kind}.mp" for kind in ("train", "leaking", "hostile"))
        if DATA:
            yield from (pathlib.Path(DATA) / name for name in REAL)

    def export(self, path, kind, *options, end=""):
        out = self.folder / f"out.{kind}{end}"
        done = memprof("export", path, "-o", out, "--format", kind, *options)
        self.assertIn((done.returncode, done.stdout), ((0, b""), (4, b"")), done.stderr)
        return out

    def database(self, path, *options):
        db = sqlite3.connect(self.export(path, "sqlite", *options))
        self.addCleanup(db.close)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        return db

    def sites_of(self, db, view, track=None):
        """Sites by symbolised stack, as in JSON."""
        stacks = collections.defaultdict(list)
        for stack, *frame in db.execute("SELECT stack_id, function, file, line, module, language FROM stack_frames"
                                        " JOIN frames ON frames.id = frame_id ORDER BY stack_id, position"):
            stacks[stack].append((None,) * 5 if frame[0] == "[frames left out]" else tuple(frame))
        sums = collections.Counter()
        counts = collections.Counter()
        where, names = (" WHERE track = ?", (track,)) if track else ("", ())
        for name, stack, size, blocks in db.execute(f"SELECT track, stack_id, bytes, blocks FROM {view}{where}", names):
            sums[name, tuple(stacks[stack])] += size or 0
            counts[name, tuple(stacks[stack])] += blocks
        return {key: (sums[key], counts[key]) for key in counts}

    def sites_in(self, answer):
        found = collections.Counter(), collections.Counter()
        for site in answer["sites"]:
            frames = tuple((frame["function"] or None, frame["file"], frame["line"], frame["module"],
                            frame["language"]) for frame in site["stack"])
            track = site.get("track", answer.get("track"))
            found[0][track, frames] += site["bytes"] or 0
            found[1][track, frames] += site["blocks"]
        return {key: (found[0][key], found[1][key]) for key in found[1]}

    def test_peak_and_outstanding(self):
        for path in self.recordings():
            with self.subTest(path=path.name):
                db = self.database(path)
                peak = ask("peak", path)
                self.assertEqual(self.sites_of(db, "peak_sites", peak["track"]), self.sites_in(peak))
                for track in ask("info", path)["tracks"]:
                    row = db.execute("SELECT peak_bytes, peak_ns, end_bytes, start_bytes, reserved_peak_bytes"
                                     " FROM tracks WHERE name = ?", (track["id"],)).fetchone()
                    known = track["base_bytes"]
                    self.assertEqual(row[:3], (track["peak_bytes"], track["peak_ns"], track["end_bytes"]))
                    self.assertIn(known, (None, row[3]))
                    self.assertEqual(row[4], track["reserved_peak_bytes"])
                    levels = [size for size, in db.execute("SELECT bytes FROM levels WHERE track = ? ORDER BY event_id",
                                                           (track["id"],))]
                    self.assertEqual(max([row[3], *levels]), track["peak_bytes"])
                    self.assertEqual((levels or [row[3]])[-1], track["end_bytes"])
                    outstanding = ask("leaks", path, "--track", track["id"])["outstanding"]
                    mine = self.sites_of(db, "outstanding_sites", track["id"])
                    self.assertEqual((sum(v[0] for v in mine.values()), sum(v[1] for v in mine.values())),
                                     (outstanding["bytes"], outstanding["blocks"]))

    def test_steps_and_regions(self):
        db = self.database(self.folder / "train.mp")
        steps = ask("steps", self.folder / "train.mp")
        self.assertEqual(db.execute("SELECT step, start_ns, end_ns FROM steps ORDER BY step").fetchall(),
                         [(row["step"], row["start_ns"], row["end_ns"]) for row in steps["steps"]])
        for row in steps["steps"]:
            inside, = db.execute("SELECT peak_bytes FROM step_peaks WHERE step = ? AND track = ?",
                                 (row["step"], steps["track"])).fetchone()
            self.assertLessEqual(inside, row["peak_bytes"])
        for region in steps["regions"]:
            self.assertEqual(db.execute("SELECT count(*), sum(end_ns - start_ns) FROM regions WHERE name = ?",
                                        (region["name"],)).fetchone(), (region["count"], region["total_ns"]))
        # A block is born in the innermost region that is open on its thread.
        for name, at, thread in db.execute("SELECT region, alloc_ns, thread FROM blocks WHERE region IS NOT NULL"):
            self.assertIn((name,), db.execute("SELECT name FROM regions WHERE start_ns <= ? AND end_ns >= ?",
                                              (at, at)).fetchall())

    def test_a_part(self):
        path = self.folder / "leaking.mp"
        whole, part = self.database(path), self.database(path, "--from", "step:3", "--to", "step:5")
        first, end, low, high = part.execute("SELECT first_event, end_event, from_ns, to_ns FROM recording").fetchone()
        self.assertEqual(part.execute("SELECT min(id), max(id), count(*) FROM events").fetchone(),
                         (first, end - 1, end - first))
        self.assertEqual(part.execute("SELECT id FROM blocks ORDER BY id").fetchall(), whole.execute(
            "SELECT id FROM blocks WHERE (alloc_event IS NULL OR alloc_event < ?) AND (free_event IS NULL OR"
            " free_event >= ?) ORDER BY id", (end, first)).fetchall())
        peak = ask("peak", path, "--from", "step:3", "--to", "step:5")
        self.assertEqual(self.sites_of(part, "peak_sites", peak["track"]), self.sites_in(peak))
        self.assertEqual(part.execute("SELECT peak_bytes, peak_ns FROM tracks WHERE name = ?",
                                      (peak["track"],)).fetchone(), (peak["peak_bytes"], peak["peak_ns"]))
        self.assertTrue(all(low <= at <= high for at, in part.execute("SELECT time_ns FROM events")))

    def test_a_filter(self):
        path = self.folder / "leaking.mp"
        db = self.database(path, "--filter", "size>=1MiB,layer=torch")
        peak = ask("peak", path, "--filter", "size>=1MiB,layer=torch")
        self.assertEqual(self.sites_of(db, "peak_sites", peak["track"]), self.sites_in(peak))
        self.assertEqual(db.execute("SELECT min(bytes) >= 1048576, count(DISTINCT layer) FROM blocks JOIN tracks"
                                    " ON tracks.id = track_id").fetchone(), (1, 1))
        self.assertEqual(db.execute("SELECT filter FROM recording").fetchone(), ("size>=1MiB,layer=torch",))
        lines = self.export(path, "csv", "--filter", "size>=1MiB,layer=torch").read_text().count("\n")
        self.assertEqual(db.execute("SELECT count(*) + 1 FROM blocks").fetchone(), (lines,))

    def test_no_cell_is_a_formula(self):
        names = ["=cmd|'/C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "plain", "=a,b\"c"]
        frames = [[{"name": name, "filename": name, "line": 1}] for name in names]
        trace = [{"action": "alloc", "addr": 0x7f0000000000 + 512 * i, "size": 512, "stream": 0, "time_us": 100 + i,
                  "frames": frames[i]} for i in range(len(names))]
        snapshot = {"segments": [], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}
        path = self.folder / "formulas.json"
        path.write_text(json.dumps(snapshot))
        text = self.export(path, "csv").read_bytes().decode()
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        self.assertEqual([row["function"] for row in rows],
                         [name if name == "plain" else "'" + name for name in names])
        for row in rows:
            for cell in row.values():
                self.assertFalse(cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell)

    def test_csv_and_json_lines_say_the_same(self):
        for path in self.recordings():
            with self.subTest(path=path.name):
                db = self.database(path)
                rows = db.execute(
                    "SELECT b.id, t.name, kind, address, bytes, alloc_ns, free_ns, alloc_step, free_step, thread,"
                    " region, folded FROM blocks b JOIN tracks t ON t.id = track_id LEFT JOIN stacks s ON s.id ="
                    " stack_id ORDER BY b.id").fetchall()
                text = self.export(path, "csv").read_bytes().decode("utf-8", "replace")
                number = lambda word: int(word) if word else None
                read = [(int(row["block"]), row["track"], row["kind"], int(row["address"], 16),
                         *(number(row[key]) for key in ("bytes", "alloc_ns", "free_ns", "alloc_step", "free_step",
                                                        "thread")), row["region"] or None, row["stack"] or None)
                        for row in csv.DictReader(io.StringIO(text, newline=""), strict=True)]
                self.assertEqual(read, [(*row[:10], row[10] or None, row[11] or None) for row in rows])

                packed = self.export(path, "jsonl", end=".gz")
                lines = [json.loads(line) for line in gzip.open(packed, "rt", encoding="utf-8")]
                self.assertEqual(lines[0]["schema"], "memprof.jsonl/1")
                seen, blocks = {}, []
                for line in lines:
                    if line["type"] == "stack":
                        seen[line["stack"]] = line["frames"]
                    elif line["type"] == "block":
                        self.assertIn(line["stack"], {*seen, None})
                        blocks.append((line["block"], line["track"], line["kind"], int(line["address"], 16),
                                       *(line[key] for key in ("bytes", "alloc_ns", "free_ns", "alloc_step",
                                                               "free_step", "thread", "region"))))
                self.assertEqual(blocks, [row[:11] for row in rows])
                others = collections.Counter(line["type"] for line in lines)
                for kind in ("step", "region_begin", "region_end", "oom", "mark", "reserved"):
                    self.assertEqual(others[kind], db.execute("SELECT count(*) FROM events WHERE type = ?",
                                                              (kind,)).fetchone()[0])

    @unittest.skipUnless(shutil.which("sqlite3"), "no sqlite3")
    def test_the_shell_reads_it(self):
        out = self.export(self.folder / "train.mp", "sqlite")
        views = subprocess.run(["sqlite3", "-bail", out, "SELECT name FROM sqlite_master WHERE type = 'view'"],
                               capture_output=True, text=True, check=True).stdout.split()
        self.assertGreaterEqual(len(views), 8)
        for view in views:
            done = subprocess.run(["sqlite3", "-bail", out, f"SELECT count(*) FROM {view}"], capture_output=True,
                                  text=True, check=True)
            self.assertGreater(int(done.stdout), 0, view)

    def test_nothing_in_it(self):
        db = self.database(self.folder / "nothing.mp")
        self.assertEqual(db.execute("SELECT count(*) FROM peak_sites").fetchone(), (0,))
        self.assertEqual(self.export(self.folder / "nothing.mp", "csv").read_text().count("\n"), 1)

    def test_what_cannot_be_written(self):
        path = self.folder / "leaking.mp"
        done = memprof("export", path, "-o", "-", "--format", "sqlite")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"name a file", done.stderr)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

        for kind in ("sqlite", "csv", "jsonl"):
            out = self.folder / f"full.{kind}"
            done = memprof("export", path, "-o", out, "--format", kind, preexec_fn=small_files)
            self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
            self.assertRegex(done.stderr, rb"\Amemprof: cannot write [^\n]*\n\Z")
            self.assertEqual([each.name for each in self.folder.glob("full.*")], [])
        done = memprof("export", path, "-o", self.folder / "x", "--format", "parquet")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"sqlite", done.stderr)
        done = memprof("export", path, "-o", self.folder / "x", "--format", "pytorch", "--from", "1s")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    asserted.main()
