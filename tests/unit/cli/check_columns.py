#!/usr/bin/env python3
"""--columns and --format of every command that has them: names, order, and CSV compared with JSON."""
import csv
import io
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402

# Command, operands, and where its first table is in JSON.
TABLES = (("peak", ("leaking",), "sites"), ("leaks", ("leaking",), "findings"), ("steps", ("leaking",), "steps"),
          ("compare", ("train", "leaking"), "sites"), ("info", ("leaking",), "tracks"), ("frag", ("leaking",), "segments"),
          ("holders", ("held",), "sites"), ("peak", ("train", "leaking"), "processes"),
          ("steps", ("train", "leaking"), "steps"), ("advise", ("leaking",), "changes"), ("leaks", ("train", "leaking"), "findings"))


class Columns(harness.TestCase):
    def setUp(self):
        super().setUp()
        for name in ("train", "leaking", "held"):
            subprocess.run([harness.BUILD / "tests/unit/cli/make_recording", self.folder / f"{name}.mp", name], check=True)

    def run_of(self, command, operands, *options):
        return harness.memprof(command, *(self.folder / f"{name}.mp" for name in operands), *options)

    def names(self, command, operands):
        done = self.run_of(command, operands, "--columns", "bytes,nosuch" if command == "peak" else "nosuch")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        told = re.fullmatch(r'memprof: --columns: there is no column "nosuch"; there are (.*)\n', done.stderr)
        self.assertTrue(told, done.stderr)
        return told.group(1).split(", ")

    @harness.needs("jobs")
    def test_each_name_is_a_column(self):
        for command, operands, _ in (*TABLES, ("report", ("leaking",), None)):
            names = self.names(command, operands)
            self.assertEqual(len(names), len(set(names)), command)
            self.assertGreater(len(names), 3)
            for name in names:
                done = self.run_of(command, operands, "--columns", name)
                self.assertIn(done.returncode, (0, 4), (command, name, done.stderr))  # a job of both is not whole

    def test_order_and_titles(self):
        def head(*options):
            lines = self.run_of("peak", ("leaking",), "-n", "1", *options).stdout.splitlines()
            return lines[lines.index("") + 1].split()
        self.assertEqual(head(), ["share", "bytes", "blocks", "site"])
        self.assertEqual(head("--columns", "blocks,born-in,bytes"), ["blocks", "born", "in", "bytes"])
        self.assertEqual(head("--columns", "birth_periods,share"), ["born", "in", "share"])  # a key does, too
        self.assertEqual(head("--columns", "site,bytes"), ["bytes", "site"])  # stacks take the rest of the line
        row = self.run_of("peak", ("leaking",), "-n", "1", "--columns", "blocks,bytes").stdout
        self.assertIn("\n      40  40.0 MiB\n", row)

    def test_tables_without_a_chosen_column_are_left_out(self):
        text = self.run_of("steps", ("leaking",), "--columns", "region,p95").stdout
        self.assertNotIn("begins", text)
        self.assertRegex(text, r"\n  region +p95\n  forward +[\d.]+ MiB\n")
        self.run_of("steps", ("leaking",), "--columns", "region,count", "-o", self.folder / "regions.csv")
        self.assertEqual((self.folder / "regions.csv").read_bytes(), b"region,count\r\nforward,40\r\nbackward,40\r\n")

    @harness.needs("jobs")
    def test_json_has_all_keys(self):
        for command, operands, _ in TABLES:
            whole = self.run_of(command, operands, "--json").stdout
            self.assertEqual(self.run_of(command, operands, "--json", "--columns", self.names(command, operands)[0]).stdout,
                             whole)

    @harness.needs("jobs")
    def test_csv_has_the_numbers_of_json(self):
        compared = 0
        for command, operands, key in TABLES:
            rows = json.loads(self.run_of(command, operands, "--json").stdout)[key] or []
            told = self.run_of(command, operands, "--format", "csv").stdout
            self.assertGreater(len(told.splitlines()[0].split(",")), 3, told)  # its heads, though there are no rows
            table = list(csv.DictReader(io.StringIO(told)))
            self.assertEqual(len(table), len(rows), command)
            for row, cells in zip(rows, table):
                for name, cell in cells.items():
                    value = row.get(name)
                    if isinstance(value, bool):
                        self.assertEqual(cell, str(value).lower(), (command, name))
                    elif isinstance(value, float):
                        self.assertAlmostEqual(float(cell), value, places=5)
                    elif isinstance(value, int) and name not in ("blocks", "process"):  # names, for people
                        self.assertEqual(cell, str(value), (command, name))
                    elif value is None and name in row:
                        self.assertEqual(cell, "", (command, name))
                    compared += isinstance(value, int)
        self.assertGreater(compared, 300)
        told = self.run_of("compare", ("leaking", "train"), "--columns", "change,blocks", "-n", "1", "--format", "csv").stdout
        self.assertEqual(told, "delta_bytes,blocks\n-38797312,-37\n")

    @harness.needs("jobs")
    def test_forms_by_the_ending_of_a_file(self):
        for command, operands, _ in TABLES:
            for ending, begins in ((".md", "## "), (".html", "<!doctype html>"), (".csv", "")):
                out = self.folder / f"out{ending}"
                self.assertIn(self.run_of(command, operands, "-o", out).returncode, (0, 4), (command, ending))
                self.assertTrue(out.read_text().startswith(begins), (command, ending))
        done = self.run_of("peak", ("train",), "--format", "rtf")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are text, markdown, html and csv", done.stderr)


if __name__ == "__main__":
    asserted.main()
