#!/usr/bin/env python3
"""memprof without its parts records and reports, and says for each of their commands what it was built without. The short
form has this build's objects without the parts (memprof-core). The long form configures and builds the tree so."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

BUILD = pathlib.Path(os.getcwd())
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
#include <memprof.h>
int main(void)
{
    static char blocks[3];
    uint32_t pool = memprof_pool("own", -1);
    for (int i = 0; i < 3; i++)
        memprof_alloc(pool, &blocks[i], 1000);
    memprof_free(pool, &blocks[0]);
    return 0;
}
"""


class Core(unittest.TestCase):
    def run_in(self, folder, *words, status=0):
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=folder)
        self.assertEqual(done.returncode, status, done.stdout[-2000:] + done.stderr[-2000:])
        return done

    def check(self, memprof, folder):
        """Tries a memprof without parts; `folder` for its files."""
        (folder / "program.c").write_text(PROGRAM)
        compiler = os.environ.get("CC", "cc").split()
        self.run_in(folder, *compiler, "-I", SOURCE / "include", "-o", "program", "program.c", "-ldl")
        self.run_in(folder, memprof, "snapshot", "-o", "run.mp", "--", "./program")
        self.assertIn("2.93 KiB", self.run_in(folder, memprof, "report", "run.mp").stdout)
        peak = json.loads(self.run_in(folder, memprof, "peak", "run.mp", "--json").stdout)
        self.assertEqual((peak["peak_bytes"], peak["blocks"]), (3000, 3))
        done = self.run_in(folder, memprof, "peak", "run.mp", "run.mp", status=2)
        self.assertIn("peak reads one recording", done.stderr)
        listed = self.run_in(folder, memprof, "--help").stdout
        for command, part in asserted.commands_of_parts().items():
            done = self.run_in(folder, memprof, command, status=1)
            self.assertEqual(done.stderr, f"memprof: this build has no {command}: configure it with --enable-{part}\n")
            self.assertNotRegex(listed, rf"(?m)^  {command} ")
        said = self.run_in(folder, memprof, "--version").stdout
        self.assertEqual(set(re.search("^built without (.*)$", said, re.MULTILINE)[1].split(", ")),
                         set(asserted.commands_of_parts().values()))

    def test_the_core_is_whole(self):
        self.assertTrue(asserted.commands_of_parts())
        with tempfile.TemporaryDirectory() as folder:
            self.check(BUILD / "memprof-core", pathlib.Path(folder))

    def test_a_build_without_parts(self):
        disabled = [f"--disable-{part}" for part in sorted(set(asserted.commands_of_parts().values()))]
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder) / "build"
            build.mkdir()
            compiler = "ccache gcc" if os.environ.get("CC", "").startswith("ccache") else os.environ.get("CC", "cc")
            self.run_in(build, SOURCE / "configure", "-q", f"CC={compiler}", *disabled)
            self.run_in(build, "make", "-s", "all")
            self.check(build / "memprof", pathlib.Path(folder))


if __name__ == "__main__":
    asserted.main()
