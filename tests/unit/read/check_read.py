#!/usr/bin/env python3
"""Recordings read by programs: libmemprof-read.so from C, and python/reader/memprof.py. Tables are held against the SQLite
export and against answers of commands, frames against the tables, and bad files against the commands' sentences."""
import collections
import contextlib
import functools
import io
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import asserted
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402
from harness import BUILD, DATA, make_recording  # noqa: E402
sys.path.insert(0, str(ROOT / "python/reader"))
try:
    import numpy
except ImportError:  # a Python with PyTorch has it
    python = harness.python_with_torch()
    if not python or os.path.realpath(python) == os.path.realpath(sys.executable):
        print("no Python here has NumPy")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])
os.environ["PATH"] = f"{BUILD}:{os.environ['PATH']}"
import memprof  # noqa: E402

REAL = ("silmont_small.pickle", "niu_fb_200_mixed.pickle", "sidnb13_transformer.pt.trace.json")
# Tables of the SQLite export that have all rows of ours, with the columns that have the same name and meaning in both.
SAME = {
    "tracks": "name device layer pool size_basis start_bytes peak_bytes peak_ns end_bytes reserved_peak_bytes",
    "blocks": "kind address bytes alloc_event alloc_ns alloc_step free_event free_ns free_step thread region module role"
              " label requested_bytes stream pool track_id",
    "events": "time_ns type track_id thread block_id bytes name",
    "steps": "step name start_ns end_ns first_event end_event",
    "regions": "name thread start_ns end_ns",
    "resizes": "block_id event_id bytes",
    "labels": "block_id event_id role label",
    "samples": "counter time_ns bytes",
    "notes": "text",
}


def rows_of(table, names):
    """Rows as Python values, None where a number is unknown."""
    columns = []
    for name in names:
        known = table.known(name)
        columns.append([value if is_known else None for value, is_known in zip(table[name].tolist(), known)])
    return list(zip(*columns))


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


class Reading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-read-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for kind in ("train", "leaking", "hostile", "nothing"):
            make_recording(self.folder / f"{kind}.mp", kind)

    def recordings(self):
        yield from (self.folder / f"{kind}.mp" for kind in ("train", "leaking", "hostile", "nothing"))
        if DATA:
            yield from (pathlib.Path(DATA) / name for name in REAL)

    def ask(self, command, path, *options):
        return json.loads(harness.memprof(command, path, "--json", *options).stdout)

    def test_tables_are_those_of_the_export(self):
        for path in self.recordings():
            out = self.folder / "out.sqlite"
            harness.memprof("export", path, "-o", out, "--format", "sqlite")
            db = sqlite3.connect(out)
            self.addCleanup(db.close)
            db.text_factory = lambda text: text.decode("utf-8", "replace")
            run = memprof.open(path)
            for name, columns in SAME.items():
                with self.subTest(path=path.name, table=name):
                    names = columns.split()
                    theirs = db.execute(f"SELECT {', '.join(names)} FROM {name}").fetchall()
                    theirs = [tuple(value if value != "" else None for value in row) for row in theirs]
                    self.assertEqual(rows_of(run.table(name), names), theirs)
            sites = {row[0]: row[1:] for row in db.execute("SELECT id, site, function, file, line FROM stacks")}
            stacks = run.stacks()
            mine = rows_of(stacks, ["site", "function", "file", "line"])
            self.assertEqual({number: mine[number] for number in sites}, sites)
            for number in list(sites)[:50]:
                frames = db.execute("SELECT function, file, line, module, language FROM stack_frames JOIN frames"
                                    " ON id = frame_id WHERE stack_id = ? ORDER BY position", (number,)).fetchall()
                self.assertEqual([tuple(line[key] for key in ("function", "file", "line", "module", "language"))
                                  for line in run.stack(number)], frames)

    def test_answers_of_commands(self):
        for path in self.recordings():
            with self.subTest(path=path.name):
                run, info = memprof.open(path), self.ask("info", path)
                blocks, tracks, events = run.blocks(), run.tracks(), run.events()
                self.assertEqual(run.info(), info)
                self.assertEqual(tracks["name"].tolist(), [track["id"] for track in info["tracks"]])
                for number, track in enumerate(info["tracks"]):
                    types = events["type"][events["track_id"] == number]
                    self.assertEqual((types == "alloc").sum(), track["allocs"])
                    self.assertEqual((types == "free").sum(), track["frees"])
                    peak, live = run.at_peak(track["id"]), run.outstanding(track["id"])
                    outstanding = self.ask("leaks", path, "--track", track["id"])["outstanding"]
                    known = live.known("bytes")
                    self.assertEqual((live["bytes"][known].sum(), len(live)),
                                     (outstanding["bytes"], outstanding["blocks"]))
                    self.assertEqual(peak["bytes"][peak.known("bytes")].sum(), track["peak_bytes"])
                if not len(tracks):
                    continue
                answer = self.ask("peak", path, "--group", "size")
                peak = run.at_peak()
                self.assertEqual(set(peak["track"]) | {answer["track"]}, {answer["track"]})
                self.assertEqual(len(peak), answer["blocks"])
                steps = self.ask("steps", path)
                self.assertEqual(len(run.steps()), len(steps["steps"]))
                for region in steps["regions"]:
                    self.assertEqual((run.regions()["name"] == region["name"]).sum(), region["count"])
                first = self.ask("peak", path, "-n", "1")["sites"]
                stacks = run.stacks()
                sums = collections.Counter()
                for stack, size in zip(peak["stack_id"].tolist(), peak["bytes"].tolist()):
                    frames = run.stack(stack)
                    sums[json.dumps([(f["function"] or None, f["file"], f["line"], f["module"]) for f in frames])] += size
                if first:
                    key = json.dumps([(f["function"], f["file"], f["line"], f["module"]) for f in first[0]["stack"]])
                    self.assertEqual(sums[key], first[0]["bytes"])
                self.assertEqual(len(stacks), len(stacks["site"]))
                self.assertEqual(run.leaks()["verdict"], self.ask("leaks", path)["verdict"])

    @unittest.skipUnless(any(map(importable, ("pandas", "polars", "pyarrow"))), "no pandas, polars or pyarrow here")
    def test_frames(self):
        for path in self.recordings():
            run = memprof.open(path)
            for name in run.tables:
                table = run.table(name)
                with self.subTest(path=path.name, table=name):
                    self.frames_are_the_table(table)
            if len(run.tracks()):
                self.frames_are_the_table(run.at_peak())

    def frames_are_the_table(self, table):
        wanted = rows_of(table, table.columns)
        if importable("pandas"):
            frame = table.to_pandas()
            self.assertEqual(list(zip(*(map(plain, frame[name]) for name in frame))), wanted)
        if importable("polars"):
            self.assertEqual(table.to_polars().rows(), wanted)
        if importable("pyarrow") and table._source is not None:
            import pyarrow
            batch = pyarrow.record_batch(table)
            batch.validate(full=True)
            self.assertEqual([tuple(row.values()) for row in batch.to_pylist()], wanted)

    def test_a_table_outlives_its_recording(self):
        run = memprof.open(self.folder / "train.mp")
        total = int(run.blocks()["bytes"].sum())
        column = run.blocks()["bytes"]
        del run
        self.assertEqual(int(column.sum()), total)
        self.assertRaises(ValueError, lambda: column.__setitem__(0, 1))

    def test_from_c_and_from_threads(self):
        program = self.folder / "read_all"
        subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", f"-I{ROOT}/include", "-o", program,
                        ROOT / "tests/unit/read/read_all.c", f"{BUILD}/libmemprof-read.so", "-lpthread"], check=True)
        for path in self.recordings():
            done = subprocess.run([program, path], env={**os.environ, "LD_LIBRARY_PATH": str(BUILD)},
                                  capture_output=True, text=True, check=True)
            version, *lines = done.stdout.splitlines()
            self.assertEqual(version, "1")
            run = memprof.open(path)
            self.assertEqual([line.split()[0] for line in lines], run.tables)
            length_of = functools.cache(lambda number: len(
                memprof._library.memprof_read_text(run._handle.pointer, number, None) or b""))
            for line in lines:
                name, rows, total = line.split()
                table = run.table(name)
                sums = sum(sum(map(length_of, values.tolist()) if sort == memprof._TEXT else values.tolist())
                           for sort, values in table._columns.values())
                self.assertEqual((len(table), sums % 2**64), (int(rows), int(total)))

    def test_bad_files(self):
        whole = (self.folder / "train.mp").read_bytes()
        cases = {"missing": None, "empty": b"", "noise": bytes(range(256)) * 40, "code": b"\x80\x04cos\nsystem\n(S'x'\ntR."}
        for name, content in cases.items():
            path = self.folder / f"{name}.mp"
            if content is not None:
                path.write_bytes(content)
            with self.subTest(name=name), self.assertRaises(memprof.Error) as failed:
                memprof.open(path)
            told = harness.memprof("info", path).stderr
            self.assertIn(str(failed.exception), told)
        cut = self.folder / "cut.mp"
        cut.write_bytes(whole[:len(whole) * 2 // 3])
        run = memprof.open(cut)
        self.assertEqual(run.table("recording")["complete"].tolist(), [0])
        self.assertEqual(run.blocks().known("alloc_event").sum(), sum(t["allocs"] for t in self.ask("info", cut)["tracks"]))
        with self.assertRaisesRegex(memprof.Error, "no table other; memprof_read_tables"):
            run.table("other")
        with self.assertRaisesRegex(memprof.Error, "no track cuda:7/torch: it has "):
            run.at_peak("cuda:7/torch")

    def test_many_threads(self):
        run, found = memprof.open(self.folder / "leaking.mp"), []
        threads = [threading.Thread(target=lambda: found.append([len(run.table(name)) for name in run.tables]))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [found[0]] * 8)

    def test_a_notebook_shows_the_page(self):
        page = memprof.open(self.folder / "train.mp")._repr_html_()
        self.assertIn("&lt;title&gt;", page)
        self.assertTrue(page.startswith("<iframe srcdoc="))

    def test_a_notebook_plans_a_cell(self):
        """The cell runs in a process of its own; a recording would be its value, as one by a command."""
        class Shell:
            def register_magic_function(self, function, kind, name):
                self.magic = {(kind, name): function}

        shell, said, source = Shell(), io.StringIO(), self.folder / "train.mp"
        memprof.load_ipython_extension(shell)
        cell = shell.magic["cell", "plan"]
        with contextlib.redirect_stdout(said):
            self.assertIsNone(cell("--device rtx4090", "print(6 * 7)"))  # no PyTorch, so no recording
            kept = cell("", f"import os, shutil; shutil.copy({str(source)!r}, os.path.dirname(__file__) + '/cell.mp')")
        self.assertRegex(said.getvalue(), r"(?s)^42\n.*nothing was planned")
        self.assertEqual(kept.peak(), memprof.open(source).peak())
        self.assertIn("<iframe", kept._repr_html_())


def plain(value):
    """A cell of a frame as a Python value."""
    import pandas
    return None if value is pandas.NA or value != value else value.item() if isinstance(value, numpy.generic) else value


if __name__ == "__main__":
    asserted.main()
