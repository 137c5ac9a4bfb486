#!/usr/bin/env python3
"""No output replaces a protected file. Every command with -o (according to its help) writes to recordings, sources,
its own input and links, and to a folder or pipe. Then come the files that `memprof snapshot` writes."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

RECORDING = harness.SOURCE / "tests" / "recordings" / "formats" / "1-first.mp"
SOURCE_TEXT = "import torch\nprint('a day of work')\n"
WITHOUT_FILE = {"attach", "completion", "doctor", "help", "measure", "plan", "snapshot",
                "top"}  # what runs a command has tests of its own
MAKE_RECORDINGS = {"import", "recover", "anonymize", "merge"}  # they replace nothing without --force
MORE = {"flamegraph": ["--format", "folded"], "export": ["--format", "jsonl"]}


def commands_with(option):
    listed = subprocess.run([harness.MEMPROF, "help"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"^  ([a-z_]+)  ", listed, re.M):
        text = subprocess.run([harness.MEMPROF, name, "--help"], capture_output=True, text=True, check=True).stdout
        if f"--{option} " in text:
            yield name


class Outputs(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.input = self.folder / "input.mp"
        shutil.copy(RECORDING, self.input)

    def words(self, command):
        if command == "compare":
            return [command, self.input, self.input]
        if command == "size":
            return [command, "--capacity", "80GiB", f"4={self.input}", f"8={self.input}"]
        return [command, self.input, *MORE.get(command, [])]

    def commands(self):
        return [name for name in commands_with("output") if name not in WITHOUT_FILE]

    def write(self, command, output, *more, **options):
        return harness.memprof(*self.words(command), "-o", output, *more, **options)

    def works(self, command):
        """True if the command works here: commands without an answer for this recording write nothing."""
        result = self.write(command, self.folder / "works")
        made = result.returncode in (0, 3, 4) and (self.folder / "works").exists()
        (self.folder / "works").unlink(missing_ok=True)
        return made

    def assert_nothing_left(self, *known):
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(["input.mp", *known]))

    def test_there_are_commands(self):
        self.assertGreater(len([command for command in self.commands() if self.works(command)]), 12, self.commands())

    def test_what_must_stay(self):
        other = self.folder / "other.mp"
        source, program = self.folder / "train.py", self.folder / "program"
        shutil.copy(RECORDING, other)
        source.write_text(SOURCE_TEXT)
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        link = self.folder / "link"
        for command in self.commands():
            works = self.works(command)
            for kept in (other, source, program, self.input):
                before = kept.read_bytes()
                for path in (kept, link):
                    link.unlink(missing_ok=True)
                    link.symlink_to(kept)
                    with self.subTest(command=command, kept=kept.name, link=path is link):
                        result = self.write(command, path)
                        self.assertEqual(result.returncode, 1, result.stderr)
                        self.assertTrue(not works or path.name in result.stderr or kept.name in result.stderr, result.stderr)
                        self.assertEqual(kept.read_bytes(), before)
                        self.assertTrue(link.is_symlink())
            link.unlink()
            self.assert_nothing_left("other.mp", "train.py", "program")

    def test_a_link_to_nothing_makes_nothing(self):
        link, elsewhere = self.folder / "link", self.folder / "elsewhere"
        link.symlink_to(elsewhere)
        for command in self.commands():
            with self.subTest(command):
                result = self.write(command, link)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertTrue(link.is_symlink() and not elsewhere.exists())

    def test_a_folder(self):
        (self.folder / "folder").mkdir()
        for command in self.commands():
            for path in (self.folder / "folder", self.folder / "nosuch" / "x", f"{self.input}/x"):
                for force in ([], ["--force"]):
                    with self.subTest(command=command, path=path):
                        self.assertEqual(self.write(command, path, *force).returncode, 1)
        self.assert_nothing_left("folder")

    def test_a_pipe_gets_all_and_stays(self):
        pipe, plain = self.folder / "pipe", self.folder / "plain"
        os.mkfifo(pipe)
        for command in self.commands():
            if command in MAKE_RECORDINGS or not self.works(command):
                continue
            with self.subTest(command):
                got = []
                reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
                reader.start()
                result = self.write(command, pipe)
                if result.returncode == 1:
                    with open(pipe, "wb"):  # it refused before it opened it
                        pass
                reader.join()
                self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
                self.write(command, plain)
                self.assertEqual(len(got[0]), plain.stat().st_size)
                plain.unlink()

    def test_devices_and_stdout(self):
        for command in self.commands():
            if command in MAKE_RECORDINGS or not self.works(command):
                continue
            with self.subTest(command):
                before = os.stat("/dev/null")
                self.write(command, "/dev/null")
                self.assertEqual(os.stat("/dev/null").st_rdev, before.st_rdev)
                self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
                out = self.folder / "out"
                with open(out, "wb") as to:
                    to.write(b"before")
                    to.flush()
                    result = subprocess.run([harness.MEMPROF, *map(str, self.words(command)), "-o", "/dev/stdout"], stdout=to)
                self.assertIn(result.returncode, (0, 3, 4))
                self.assertEqual(out.read_bytes()[:6], b"before")
                self.assertGreater(out.stat().st_size, 6)
                out.unlink()

    def test_a_report_takes_the_place_of_a_report(self):
        out = self.folder / "report.txt"
        for command in self.commands():
            if command in MAKE_RECORDINGS or not self.works(command):
                continue
            with self.subTest(command):
                out.write_text("yesterday's")
                out.chmod(0o640)
                link = self.folder / "link"
                link.symlink_to(out)
                self.assertIn(self.write(command, link).returncode, (0, 3, 4))
                self.assertTrue(link.is_symlink())
                self.assertNotEqual(out.read_bytes(), b"yesterday's")
                self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o640)
                link.unlink()
        self.assert_nothing_left("report.txt")

    def test_the_umask_holds(self):
        for mask in (0o077, 0o027, 0o000):
            out = self.folder / "out"
            subprocess.run(["sh", "-c", f'umask {mask:o} && exec "$@"', "sh", harness.MEMPROF, "peak", str(self.input), "-o",
                            str(out)], check=False, stderr=subprocess.DEVNULL)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o666 & ~mask)
            out.unlink()

    def test_force_replaces_files_and_no_more(self):
        pipe, source = self.folder / "pipe", self.folder / "train.py"
        os.mkfifo(pipe)
        for command in self.commands():
            if not self.works(command):
                continue
            with self.subTest(command):
                source.write_text(SOURCE_TEXT)
                self.assertIn(self.write(command, source, "--force").returncode, (0, 3, 4))
                self.assertNotEqual(source.read_bytes(), SOURCE_TEXT.encode())

    def test_tensorboard(self):
        for name in ("train.py", "other.mp"):
            path = self.folder / name
            path.write_text(SOURCE_TEXT)
            result = harness.memprof("chrome_trace", self.input, "--tensorboard", path)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(path.read_text(), SOURCE_TEXT)


class Recordings(harness.TestCase):
    """Files that `memprof snapshot` writes while it runs."""

    def record(self, *options, command=None, **more):
        command = command or [harness.program("churn"), self.folder / "counters", "1", "200", "0"]
        return harness.memprof("snapshot", *options, "--", *command, **more)

    def test_what_a_command_runs_beside(self):
        recording, source, started = (self.folder / name for name in ("old.mp", "train.py", "started"))
        link = self.folder / "link"
        shutil.copy(RECORDING, recording)
        source.write_text(SOURCE_TEXT)
        link.symlink_to(recording)
        for command in ("snapshot", "plan"):
            for path in (recording, source, link, self.folder / "nosuch" / "x.mp"):
                with self.subTest(command=command, path=path.name):
                    result = harness.memprof(command, "-o", path, "--", "touch", started)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertFalse(started.exists(), "the command was started")
        self.assertEqual(recording.read_bytes(), RECORDING.read_bytes())
        self.assertEqual(source.read_text(), SOURCE_TEXT)

    def test_metrics_replace_nothing(self):
        source, recording, folder, pipe = (self.folder / name for name in ("train.py", "old.mp", "dir", "pipe"))
        link, victim, dangling = self.folder / "link", self.folder / "victim.prom", self.folder / "dangling.prom"
        source.write_text(SOURCE_TEXT)
        shutil.copy(RECORDING, recording)
        victim.write_text("a 1\n")
        folder.mkdir()
        os.mkfifo(pipe)
        link.symlink_to(victim)
        dangling.symlink_to(self.folder / "nosuch.prom")
        for path in (source, recording, folder, pipe, link, victim, dangling):
            with self.subTest(path.name):
                before = path.lstat()
                result = self.record("-o", self.folder / "run.mp", "--metrics", path)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertFalse((self.folder / "counters").exists(), "the command was started")
                self.assertEqual((path.lstat().st_ino, path.lstat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        self.assertEqual(victim.read_text(), "a 1\n")
        self.assertFalse((self.folder / "nosuch.prom").exists())

    def test_a_recording_waits_for_no_reader_of_a_pipe(self):
        """Somebody else has made a file of a name that memprof chooses."""
        pipe, whole = self.folder / "run.mp", self.folder / "whole.mp"
        os.mkfifo(pipe)
        self.assertIn("cannot hold a recording; the command was not started", self.record("-o", pipe, "--force").stderr)
        pipe.unlink()
        result = harness.memprof("snapshot", "-o", pipe, "--force", "--", "sh", "-c",
                                 f"mkfifo {pipe}; exec {harness.program('cycles')}")
        self.assertIn("No such device or address", result.stderr)
        self.assertTrue(stat.S_ISFIFO(pipe.lstat().st_mode))
        pipe.unlink()
        self.assertIn(harness.memprof("recover", pipe, "-o", whole).returncode, (0, 4))
        self.assertGreater(harness.answer("info", whole, status=(0, 4))["coverage"]["events"], 0)

    def test_metrics_of_a_killed_run_are_replaced(self):
        path = self.folder / "m.prom"
        path.write_text("# TYPE memprof_live_bytes gauge\n")
        result = self.record("-o", self.folder / "run.mp", "--metrics", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(path.exists())

    def test_metrics_leave_what_came_meanwhile(self):
        """A file that another program has made under the name meanwhile stays."""
        path, other = self.folder / "m.prom", self.folder / "other"
        script = f'while [ ! -s "{path}" ]; do sleep 0.05; done; echo mine > "{other}"; mv "{other}" "{path}"'
        result = self.record("-o", self.folder / "run.mp", "--metrics", path,
                             command=["sh", "-c", f'"{harness.program("churn")}" "{self.folder}/counters" 1 200 0; {script}'])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(path.read_text(), "mine\n")

    def test_metrics_leave_nothing_and_follow_no_planted_link(self):
        folder, victim = self.folder / "metrics", self.folder / "victim"
        folder.mkdir()
        victim.write_text("victim")
        path = folder / "m.prom"
        process = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", str(self.folder / "run.mp"), "--metrics", str(path), "--",
                                    "sh", "-c", f'while [ ! -s "{path}" ]; do sleep 0.05; done'], stderr=subprocess.PIPE)
        (folder / f"m.prom.{process.pid}").symlink_to(victim)  # as its temporary files were once called
        self.assertEqual(process.communicate(timeout=harness.TIMEOUT) and process.returncode, 0)
        self.assertEqual(victim.read_text(), "victim")
        self.assertEqual([entry.name for entry in folder.iterdir()], [f"m.prom.{process.pid}"])

    def test_recordings_replace_nothing(self):
        source, link, dangling = self.folder / "train.py", self.folder / "link.mp", self.folder / "dangling.mp"
        source.write_text(SOURCE_TEXT)
        link.symlink_to(source)
        dangling.symlink_to(self.folder / "nosuch.mp")
        for path in (source, link, dangling):
            with self.subTest(path.name):
                self.record("-o", path)
                self.assertEqual(source.read_text(), SOURCE_TEXT)
                self.assertTrue(path is source or path.is_symlink())
                self.assertFalse((self.folder / "nosuch.mp").exists())

    def test_force_makes_a_new_file(self):
        """The old recording stays for readers that have it open, and under its other names."""
        path, other = self.folder / "run.mp", self.folder / "other.mp"
        shutil.copy(RECORDING, path)
        os.link(path, other)
        self.assertEqual(self.record("--force", "-o", path).returncode, 0)
        self.assertEqual(other.read_bytes(), RECORDING.read_bytes())
        self.assertNotEqual(path.read_bytes(), RECORDING.read_bytes())

    def test_snapshots_that_a_program_asks_for(self):
        source, link, fresh = self.folder / "train.py", self.folder / "link.mp", self.folder / "fresh.mp"
        source.write_text(SOURCE_TEXT)
        link.symlink_to(source)
        program = ("import libmemprof as mp\nmp.step(); mp.mark('x')\n"
                   f"for path in ({str(source)!r}, {str(link)!r}, {str(fresh)!r}): mp.snapshot(path)\n")
        result = self.record("-o", self.folder / "run.mp", command=[sys.executable, "-c", program], cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(source.read_text(), SOURCE_TEXT)
        self.assertTrue(link.is_symlink())
        self.assertEqual(harness.memprof("info", fresh).returncode, 0)
        self.assertEqual(sorted(entry.name for entry in self.folder.iterdir()), ["fresh.mp", "link.mp", "run.mp", "train.py"])


if __name__ == "__main__":
    harness.main()
