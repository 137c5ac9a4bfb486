#!/usr/bin/env python3
"""--skip-frames: reports leave out frames by function, file or library."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness  # noqa: E402

# Each of its blocks is allocated through Slab::get(), and most also through Arena::make().
CPP = """#include <memprof.h>
#include <cstdlib>
static uint32_t pool;
struct Slab {
    __attribute__((noinline)) static void *get(size_t size)
    {
        void *block = malloc(size);
        memprof_alloc(pool, block, size);
        return block;
    }
};
struct Arena { __attribute__((noinline)) static void *make(size_t size) { void *b = Slab::get(size); asm volatile(""); return b; } };
__attribute__((noinline)) void *parse_header() { void *b = Arena::make(1000); asm volatile(""); return b; }
__attribute__((noinline)) void *load_table() { void *b = Arena::make(30000); asm volatile(""); return b; }
__attribute__((noinline)) void *direct() { void *b = Slab::get(5000); asm volatile(""); return b; }
int main()
{
    pool = memprof_pool("slab", MEMPROF_HOST);
    void *kept[] = {parse_header(), load_table()%s};
    for (void *block : kept) { memprof_free(pool, block); free(block); }
}
"""

PYTHON = """import torch
def my_framework_empty(size):
    return torch.zeros(size)
def load():
    return my_framework_empty(1000)
def step():
    return my_framework_empty(2000)
held = [load(), step()]
"""


class Skip(harness.TestCase):
    def record_cpp(self, more):
        if not shutil.which("g++"):
            self.skipTest("no g++")
        (self.folder / "slab.cc").write_text(CPP % more)
        subprocess.run(["g++", "-g", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls",
                        f"-I{harness.SOURCE}/include", self.folder / "slab.cc", "-o", self.folder / "slab", "-ldl"], check=True)
        harness.memprof("snapshot", "-o", self.folder / "slab.mp", "--", self.folder / "slab")

    def places(self, *arguments):
        """The functions that begin the rows of `peak`."""
        text = harness.memprof("peak", *arguments, self.folder / "slab.mp").stdout
        return [words[4] for words in map(str.split, text.splitlines()) if len(words) > 4 and words[1] == "%"]

    def groups(self, *arguments):
        rows = harness.answer("peak", "--group", "function", *arguments, self.folder / "slab.mp")["sites"]
        return sorted(row["group"].split("(")[0] for row in rows)

    def test_native(self):
        self.record_cpp(", direct()")
        self.assertEqual(self.groups(), ["Slab::get"])
        self.assertEqual(self.groups("--skip-frames", "^Slab::"), ["Arena::make", "direct"])
        self.assertEqual(self.groups("--skip-frames", "^(Slab|Arena)::"), ["direct", "load_table", "parse_header"])
        full = harness.memprof("peak", "--full-stacks", "--skip-frames", "Slab|Arena", self.folder / "slab.mp").stdout
        self.assertEqual((full.count("Slab::get"), full.count("Arena::make")), (3, 2))

    def test_a_library_without_symbols(self):
        self.record_cpp("")
        shutil.copy(self.folder / "slab", self.folder / "stripped")
        subprocess.run(["strip", self.folder / "stripped"], check=True)
        harness.memprof("snapshot", "--force", "-o", self.folder / "slab.mp", "--", self.folder / "stripped")
        self.assertIn("stripped+0x", harness.memprof("peak", self.folder / "slab.mp").stdout)
        self.assertNotIn("stripped+0x", harness.memprof("peak", "--skip-frames", "/stripped$",
                                                        self.folder / "slab.mp").stdout)

    def test_one_program_of_one_stack_keeps_its_frames(self):
        self.record_cpp("")
        text = harness.memprof("report", "--skip-frames", "load_table|parse_header", self.folder / "slab.mp").stdout
        self.assertIn("main", text)

    def test_python(self):
        python = harness.python_with_torch()
        if not python:
            self.skipTest("no Python with torch")
        (self.folder / "program.py").write_text(PYTHON)
        harness.memprof("snapshot", "-o", self.folder / "slab.mp", "--", python, self.folder / "program.py")
        self.assertEqual(self.groups(), ["my_framework_empty"])
        for regex in ("^my_framework", "framework_empty$"):
            self.assertEqual(self.groups("--skip-frames", regex), ["load", "step"])
        text = harness.memprof("peak", "--skip-frames", "^my_framework", self.folder / "slab.mp").stdout
        self.assertNotIn("my_framework", text)
        self.assertIn("my_framework", harness.memprof("peak", "--skip-frames", "^my_framework", "--full-stacks",
                                                      self.folder / "slab.mp").stdout)
        page = harness.memprof("trace_plot", "--skip-frames", "^my_framework", "-o", self.folder / "page.html",
                               self.folder / "slab.mp")
        self.assertEqual(page.returncode, 0, page.stderr)

    @harness.needs("jobs")
    def test_a_job(self):
        self.record_cpp(", direct()")
        job = self.folder / "job"
        job.mkdir()
        shutil.copy(self.folder / "slab.mp", job)
        self.assertIn("Slab::get", harness.memprof("peak", job).stdout)
        self.assertNotIn("Slab::get", harness.memprof("peak", "--skip-frames", "^Slab::", job).stdout)
        self.assertEqual(harness.memprof("peak", "--skip-frames", "a(b", job).returncode, 2)

    def test_an_expression_that_is_none(self):
        harness.make_recording(self.folder / "made.mp", "made")
        for command in ("peak", "report", "leaks", "compare"):
            paths = [self.folder / "made.mp"] * (2 if command == "compare" else 1)
            result = harness.memprof(command, "--skip-frames", "a(b", *paths)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertIn("--skip-frames", result.stderr)


if __name__ == "__main__":
    asserted.main()
