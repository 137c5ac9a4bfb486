#!/usr/bin/env python3
"""A recorded program gets no file through memprof that it could not make itself."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

# Gives rights up, tries to make the file itself, then asks memprof for it.
PROGRAM = """
import ctypes, os, sys
import libmemprof as mp
way, path, jail = sys.argv[1:]
libc = ctypes.CDLL(None)
for step in range(20):
    mp.step()
if way == "root":
    os.chroot(jail)
    os.chdir("/")
if way == "namespace" and libc.unshare(0x10000000):
    sys.exit(77)
if way in ("root", "user"):
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
try:
    with open(path, "x"):
        own = True
    os.unlink(path)
except OSError:
    own = False
print(own, mp.snapshot(path))
"""


@unittest.skipUnless(os.geteuid() == 0, "only root can give rights up")
class OfTheProgram(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)
        self.script = self.folder / "program.py"
        self.script.write_text(PROGRAM)
        self.jail = self.folder / "jail"
        self.jail.mkdir()

    def ask(self, way, path, *options):
        result = harness.memprof("snapshot", "--quiet", "-o", self.folder / "run.mp", "--force",
                                 *options, "--", sys.executable, self.script, way, path, self.jail)
        if result.returncode == 77:
            self.skipTest("no user namespace can be made here")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip(), result.stderr

    def test_who_gave_rights_up_gets_no_more(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0o700)
        os.chown(closed, 1234, 1234)
        for way in ("user", "root", "namespace"):
            with self.subTest(way=way):
                said, messages = self.ask(way, closed / "new.mp")
                self.assertEqual(said, "False False")
                self.assertIn("pid ", messages)
                self.assertIn("new.mp", messages)
                if way != "root":
                    self.assertIn("may not write", messages)
                self.assertEqual(list(closed.iterdir()), [])
                self.assertTrue(harness.answer("info", self.folder / "run.mp")["coverage"]["complete"])

    def test_what_it_may_make_is_its_own(self):
        opened = self.folder / "opened"
        opened.mkdir()
        opened.chmod(0o777)
        said, _ = self.ask("user", opened / "new.mp")
        self.assertEqual(said, "True True")
        self.assertEqual((opened / "new.mp").stat().st_uid, 65534)
        self.assertEqual(os.listdir(opened), ["new.mp"])
        harness.answer("info", opened / "new.mp")

    def test_a_path_is_one_of_its_own_root(self):
        inside = self.jail / "out"
        inside.mkdir()
        inside.chmod(0o777)
        said, _ = self.ask("root", "/out/new.mp")
        self.assertEqual(said, "True True")
        harness.answer("info", inside / "new.mp")

    def test_only_a_file_is_replaced(self):
        for there in ("device", "folder", "link", "file"):
            with self.subTest(there=there):
                path = self.folder / there
                if there == "device":
                    os.mknod(path, 0o020666, os.makedev(1, 7))
                elif there == "folder":
                    path.mkdir()
                elif there == "link":
                    path.symlink_to(self.folder / "nowhere")
                else:
                    path.write_text("x")
                before = path.lstat().st_mode
                said, messages = self.ask("", path)
                self.assertEqual(said, "False True" if there == "file" else "False False")
                self.assertEqual(path.lstat().st_mode, before)
                if there != "file":
                    self.assertIn("is already there", messages)


if __name__ == "__main__":
    harness.main()
