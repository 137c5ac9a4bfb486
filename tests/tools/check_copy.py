#!/usr/bin/env python3
"""tools/debian-root's copy of the sources, which other Debians build: after any change of the tree it is what git would
commit, and what changed is newer than what was made of it before."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True
import asserted  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Copy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree, self.copy = pathlib.Path(folder.name, "tree"), pathlib.Path(folder.name, "there", "copy")
        (self.tree / "src").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.write("a.c", "a\n")
        self.write("src/b with space.c", "b\n")
        self.write("run", "#!/bin/sh\n").chmod(0o755)
        self.write(".gitignore", "*.o\n")
        self.write("a.o", "made\n")
        self.update()

    def write(self, name, text, age=0):
        path = self.tree / name
        path.write_text(text)
        os.utime(path, (path.stat().st_mtime - age,) * 2)
        return path

    def update(self):
        subprocess.run(["sh", "-euc", '. "$0/tools/debian-root"; copy_source "$1" "$2"', SOURCE, self.tree, self.copy],
                       check=True)

    def files(self):
        return {str(path.relative_to(self.copy)): path.read_text() for path in self.copy.rglob("*") if path.is_file()}

    def test_as_committed(self):
        self.assertEqual(self.files(), {"a.c": "a\n", "src/b with space.c": "b\n", "run": "#!/bin/sh\n",
                                        ".gitignore": "*.o\n"})
        self.assertTrue(os.access(self.copy / "run", os.X_OK))

    def test_changes(self):
        made = self.copy / "made.o"
        made.write_text("object\n")
        same = (self.copy / "src/b with space.c").stat().st_mtime_ns
        before = made.stat().st_mtime_ns
        self.write("a.c", "changed before it was built\n", age=3600)
        self.write("new.c", "new\n", age=3600)
        (self.tree / "run").chmod(0o644)
        self.update()
        self.assertGreaterEqual((self.copy / "a.c").stat().st_mtime_ns, before)
        self.assertEqual((self.copy / "src/b with space.c").stat().st_mtime_ns, same)
        self.assertEqual(self.files()["a.c"], "changed before it was built\n")
        self.assertEqual(self.files()["new.c"], "new\n")
        self.assertFalse(os.access(self.copy / "run", os.X_OK))
        self.assertEqual(self.files()["made.o"], "object\n")

    def test_removals(self):
        (self.copy / "made.o").write_text("object\n")
        (self.tree / "src/b with space.c").unlink()
        (self.tree / "a.c").rename(self.tree / "c.c")
        self.update()
        self.assertEqual(self.files(), {"c.c": "a\n", "run": "#!/bin/sh\n", ".gitignore": "*.o\n",
                                        "made.o": "object\n"})


if __name__ == "__main__":
    asserted.main()
