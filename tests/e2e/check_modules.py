#!/usr/bin/env python3
"""The module of every block, as tests/unit/format/read_mp.py reads it from the recording, equals the program's own
notes. Runs on every CPython found, with the pool of the C API and with PyTorch's tensors. $MEMPROF_TEST_PYTHONS names
more interpreters, separated by colons."""

import csv
import json
import signal
import sqlite3
import subprocess
import sys
import time

import cuda_stand_in
import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "unit" / "format"))
sys.dont_write_bytecode = True
import read_mp

PROGRAM = harness.SOURCE / "tests" / "e2e" / "programs" / "modules.py"
TORCH = harness.python_with_torch()
class Recording:
    """A file's facts about blocks: the module of each alloc, by address, and the labels by block."""

    def __init__(self, path):
        with open(path, "rb") as file:
            start, chunks, end = read_mp.walk(read_mp.load_zstd(), file.read())
        assert end
        self.modules, self.labels, self.addresses, self.failed, strings = {}, {}, {}, [], []
        for _, _, kind, meta, columns in chunks:
            if kind == "strings":
                strings += read_mp.strings_of(columns)
        for _, _, kind, meta, columns in chunks:
            if kind == "events":
                for event in read_mp.events_of(meta, columns):
                    if event["type"] == read_mp.OOM:
                        self.failed.append(strings[event["name"]])
                    if event["type"] == read_mp.ALLOC:
                        self.modules[event["address"]] = strings[event["name"]] or None
                        self.addresses[event["block"]] = event["address"]
            elif kind == "base":
                modules = columns.get("module", [0] * meta["count"])
                for address, block, module in zip(columns["address"], columns["block"], modules):
                    self.modules[address] = strings[module] or None
                    self.addresses[block] = address
            elif kind == "labels":
                for block, role, name in zip(columns["block"], columns["role"], columns["name"]):
                    self.labels.setdefault(block, []).append((role, strings[name]))


class Modules(harness.TestCase):
    def check(self, path, record):
        wrong, named = [], 0
        modules = Recording(path).modules
        for address, expected in json.loads(record.read_text()).items():
            found = modules[int(address)]
            named += found is not None
            if found not in (expected if isinstance(expected, list) else [expected]):
                wrong.append((hex(int(address)), found, expected))
        self.assertFalse(wrong, f"{len(wrong)} of {len(modules)}: {wrong[:10]}")
        self.assertGreater(named, 50)

    def record(self, python, how, options=(), environment=None):
        path, record = self.folder / "run.mp", self.folder / "record.json"
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", path, *options, "--", python, PROGRAM, record, how,
                                  env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = result.stderr
        info = harness.answer("info", path)
        self.assertTrue(info["coverage"]["complete"], info["coverage"])
        self.assertFalse([note for note in info["coverage"]["notes"] if "python" in note], info["coverage"])
        return path, record

    def check_both(self, python, how):
        path, record = self.record(python, how)
        self.check(path, record)
        (child,) = self.folder.glob("run.[0-9]*.mp")
        self.check(child, record.with_name(record.name + ".child"))
        child.unlink()
        return path

    def test_every_interpreter(self):
        found = harness.interpreters()
        self.assertTrue(found)
        for version, python in found.items():
            with self.subTest(python=python):
                path = self.check_both(python, "pool")
                self.check_labels(path)
        print("modules read in", ", ".join("%d.%d" % version for version in sorted(found)), file=sys.stderr)

    def check_labels(self, path):
        recording = Recording(path)
        self.assertEqual(list(recording.labels.values()), [[(1, "net.weight"), (2, "net.grad")]])

    def test_exports(self):
        """All export formats have the same modules, without the root's name, which all paths share."""
        path, record = self.record(sys.executable, "pool")
        expected = {int(address): module for address, module in json.loads(record.read_text()).items()
                    if not isinstance(module, list)}
        expected = {address: module and module.split(".", 1)[1] for address, module in expected.items()}
        for form in ("csv", "jsonl", "sqlite"):
            result = harness.memprof("export", path, "-o", self.folder / form, "--format", form)
            self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.folder / "csv", newline="") as file:
            rows = {int(row["address"], 16): (row["module"] or None, row["role"] or None, row["label"] or None)
                    for row in csv.DictReader(file, strict=True)}
        for address, module in expected.items():
            self.assertEqual(rows[address][0], module)
        self.assertEqual([row[1:] for row in rows.values() if row[1]], [("gradient", "net.grad")])
        blocks = [json.loads(line) for line in (self.folder / "jsonl").read_text().splitlines()]
        self.assertEqual(rows, {int(block["address"], 16): (block["module"], block["role"], block["label"])
                                for block in blocks if block["type"] == "block"})
        database = sqlite3.connect(self.folder / "sqlite")
        found = database.execute("SELECT address, module, role, label FROM blocks")
        self.assertEqual(rows, {row[0]: row[1:] for row in found})
        self.assertEqual(database.execute("SELECT role, label FROM labels ORDER BY event_id").fetchall(),
                         [("parameter", "net.weight"), ("gradient", "net.grad")])
        database.close()

    def says(self, path, record):
        """Every block has the module and the last label that the model itself noted."""
        record = json.loads(record.read_text())
        table = self.folder / "table.csv"
        result = harness.memprof("export", path, "-o", table, "--format", "csv", "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(table, newline="") as file:
            found = {int(row["address"], 16): (row["module"], row["role"], row["label"])
                     for row in csv.DictReader(file, strict=True)}
        self.assertEqual(found, {
            int(address): ((module or "Net.").split(".", 1)[1], *record["labels"].get(address, ("", "")))
            for address, module in record["modules"].items()})

    def halves(self, *arguments, options=()):
        """Yields the collector in the middle of the program. Afterwards the program has ended."""
        self.path, self.all, self.middle = (self.folder / name for name in ("run.mp", "all.json", "middle.json"))
        collector = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", self.path, *options, "--", sys.executable,
                                      PROGRAM, self.all, "halves", self.middle, *arguments], stderr=subprocess.DEVNULL)
        self.addCleanup(collector.wait)
        self.addCleanup(collector.kill)
        self.wait_for(self.middle.exists)
        yield collector
        self.folder.joinpath("middle.json.go").touch()
        self.wait_for(self.all.exists)
        collector.wait()

    def test_live_before_the_window(self):
        for _ in self.halves("start", options=("--paused",)):
            pass
        self.says(self.path, self.all)

    def test_snapshot_of_now(self):
        now = self.folder / "now.mp"
        for _ in self.halves("snapshot", now):
            pass
        self.says(now, self.middle)
        self.says(self.path, self.all)

    def test_recovered(self):
        for collector in self.halves():
            program = harness.first_child(collector.pid)
            time.sleep(2.5)  # the first half is in the file, the second only in the spool
            collector.send_signal(signal.SIGKILL)
        self.wait_for(lambda: harness.is_gone(program))
        whole = self.folder / "whole.mp"
        result = harness.memprof("recover", self.path, "-o", whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.says(whole, self.all)

    @harness.unittest.skipUnless(TORCH, "no Python here has torch")
    def test_tensors(self):
        path = self.check_both(TORCH, "tensors")
        self.assertEqual(Recording(path).failed, ["Net.blocks.0.attn", "Net.blocks.1"])
        self.assertIn(", in blocks.0.attn", self.said)

    def test_blocks_of_the_driver(self):
        """Blocks of CUDA's driver, on the stand-in driver."""
        path, record = self.record(sys.executable, "driver", environment=cuda_stand_in.environment())
        self.check(path, record)

    def test_without_stacks(self):
        """Without Python frames there are no modules; nothing else changes."""
        path, record = self.record(sys.executable, "unasked", options=("--stacks", "none"))
        self.assertEqual(set(Recording(path).modules.values()), {None})


if __name__ == "__main__":
    harness.main()
