#!/usr/bin/env python3
"""Names of sites. Functions of C++ have names without types, with and without debugging information. Lines of notebooks
have the numbers of the cell and of the line in it."""

import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness

PROGRAMS = harness.SOURCE / "tests" / "e2e" / "programs"
PYTHON = harness.python_with_torch()

# Allocates 4 KiB, and replaces the file argv[2] by argv[1]. With argv[3] it then keeps running.
REPLACED = """
#include <memprof.h>
#include <stdio.h>
#include <unistd.h>
static char memory[4096];
__attribute__((noinline)) void FUNCTION(unsigned pool) { memprof_alloc(pool, memory, sizeof memory); __asm__ volatile(""); }
int main(int count, char **words) {
    FUNCTION(memprof_pool("mine", -1));
    int status = rename(words[1], words[2]);
    if (count > 3) usleep(500000);
    return status; }
"""


class Names(harness.TestCase):
    def record(self, *command):
        recording = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--force", "-o", recording, "--", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        truth = [line.split(" ", 1) for line in done.stdout.splitlines()]
        self.assertGreater(len(truth), 1)
        return recording, {int(size): name for size, name in truth}

    def texts(self, recording):
        """The lines of each site of `peak`, by the bytes of its one block."""
        sites = harness.answer("peak", recording, "-n", "0")["sites"]
        said = harness.memprof("peak", recording, "-n", "0").stdout.split("\n\n")[1].splitlines()[1:]
        found = []
        for line in said:
            line, begins = re.subn(r"^ *[\d.]+ %  +[\d.]+ \w+ +\d+ +", "", line)
            if begins:
                found.append([])
            found[-1].append(line.strip())
        self.assertEqual(len(found), len(sites))
        return {site["bytes"] // site["blocks"]: lines for site, lines in zip(sites, found)}

    def of_cpp(self, source, *options):
        program = self.folder / "program"
        subprocess.run(["g++", "-std=c++20", "-O1", "-fno-inline", "-pthread", "-I", harness.SOURCE / "include", *options, "-o",
                        program, PROGRAMS / source, "-ldl"], check=True)
        time.sleep(0.05)  # without a build-id, a file of the kernel tick in which the program starts may be a newer one
        recording, truth = self.record(program)
        found = self.texts(recording)
        self.assertEqual(found.keys(), truth.keys())
        for size, name in truth.items():
            # the first line is made(), which all sites share
            yield name, re.sub(r"  +\S+$", "", found[size][1])

    @harness.unittest.skipUnless(shutil.which("g++"), "no g++ here")
    def test_of_cpp(self):
        for source in ("names_of_templates.cpp", "names_of_closures.cpp"):
            for name, said in self.of_cpp(source):
                with self.subTest(source=source, name=name):
                    self.assertEqual(said, name)

    @harness.unittest.skipUnless(shutil.which("g++"), "no g++ here")
    def test_of_cpp_with_debugging_information(self):
        """Debugging information names some functions only by the last part of their name."""
        for source in ("names_of_templates.cpp", "names_of_closures.cpp"):
            for name, said in self.of_cpp(source, "-g"):
                with self.subTest(source=source, name=name):
                    self.assertTrue(name == said or name.endswith(f"::{said}"), said)

    @harness.unittest.skipUnless(shutil.which("g++"), "no g++ here")
    def test_of_cpp_without_build_id(self):
        """The program has ended before memprof looks for its file."""
        for name, said in self.of_cpp("names_of_closures.cpp", "-Wl,--build-id=none"):
            with self.subTest(name=name):
                self.assertEqual(said, name)

    @harness.unittest.skipUnless(shutil.which("g++"), "no g++ here")
    def test_of_another_program_of_that_name(self):
        """If a program without a build-id replaces its own file by another program, the new file gives no names,
        whether the program has ended or not."""
        other, program, recording = self.folder / "other", self.folder / "program", self.folder / "run.mp"
        for lives_on in ([], ["on"]):
            with self.subTest(lives_on=lives_on):
                for path, text in ((other, "not_of_this_one"), (program, "of_this_one")):
                    subprocess.run(["gcc", "-x", "c", "-O1", "-Wl,--build-id=none", "-I", harness.SOURCE / "include", "-o", path,
                                    "-", "-ldl"], input=REPLACED.replace("FUNCTION", text), text=True, check=True)
                done = harness.memprof("snapshot", "--force", "-o", recording, "--", program, other, program, *lives_on)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = harness.memprof("peak", recording, "-n", "0").stdout
                self.assertNotIn("not_of_this_one", said)
                notes = harness.answer("info", recording)["coverage"]["notes"]
                noted = [note for note in notes if note.startswith(f"no symbols of {program}: ")]
                self.assertNotEqual("of_this_one" in said, bool(noted))

    @harness.unittest.skipUnless(PYTHON, "no Python here has torch")
    def test_of_cells(self):
        for what in ("functions", "classes", "expressions"):
            for names in ("kernel", "input"):
                recording, truth = self.record(PYTHON, PROGRAMS / "cells.py", what, names)
                found = self.texts(recording)
                for size, place in truth.items():
                    with self.subTest(what=what, names=names, size=size):
                        self.assertRegex(found[size][0], rf"  {re.escape(place)}( |$)")


if __name__ == "__main__":
    harness.main()
