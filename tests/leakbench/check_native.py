#!/usr/bin/env python3
"""A C++ program without marked steps (programs/ring.cpp): its frames are the steps, and the bytes that it never frees
are the leak. In a C program whose loop is one line, each call is a step. `--step-at` takes functions of Python. For a C++ program it says so and how to mark steps there; the
frames are found as without it."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "ring.cpp"
FRAMES, IN_RING, KEY_BYTES = 400, 32, 64 << 10

CALLS = """
    #include <memprof.h>
    #include <stdlib.h>
    static uint32_t pool;
    static void *kept[1000];
    __attribute__((noinline)) static void *make(void) {
        void *block = malloc(4096); memprof_alloc(pool, block, 4096); return block; }
    static void drop(void *block) { if (block) memprof_free(pool, block); free(block); }
    int main(void) { pool = memprof_pool("pool", MEMPROF_HOST); for (int i = 0; i < 1000; i++) { BODY } return 0; }
"""
BODIES = {"kept[i] = make();": "leak",
          "if (i % 10) drop(make()); else kept[i] = make();": "leak",
          "drop(make());": "clean",
          "drop(kept[i % 100]); kept[i % 100] = make();": "clean",
          "void *block = make(); if (i < 200) kept[i] = block; else drop(block);": "clean"}


class Calls(harness.TestCase):
    def test_calls_of_one_line_are_steps(self):
        for body, verdict in BODIES.items():
            with self.subTest(body=body):
                program, recording = self.folder / "calls", self.folder / "calls.mp"
                subprocess.run([*os.environ.get("CC", "cc").split(), "-g", "-O1", "-I", harness.SOURCE / "include", "-o",
                                program, "-x", "c", "-", "-ldl"], input=CALLS.replace("BODY", body), text=True,
                               check=True)
                done = harness.memprof("snapshot", "--force", "-o", recording, "--", program)
                self.assertEqual(done.returncode, 0, done.stderr)
                leaks = harness.answer("leaks", recording)
                self.assertEqual(leaks["verdict"], verdict, leaks)
                self.assertEqual([(finding["class"], finding["confidence"]) for finding in leaks["findings"]],
                                 [("native", "possible")] * (verdict == "leak"))


@harness.unittest.skipUnless(shutil.which("g++"), "no g++ here")
class Ring(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "ring"
        subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-I", harness.SOURCE / "include", "-o", self.program, PROGRAM,
                        "-ldl"], check=True)

    def leaks(self, *arguments, options=()):
        recording = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--force", *options, "-o", recording, "--", self.program, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        leaks = harness.answer("leaks", recording)
        self.assertEqual(leaks["steps"], {"count": FRAMES, "source": "inferred"})
        self.assertEqual(leaks["outstanding"]["bytes"], int(done.stdout))
        return leaks, done.stderr

    def judge(self, **how):
        leaks, said = self.leaks("leak", **how)
        finding, = leaks["findings"]
        self.assertEqual((leaks["verdict"], finding["class"]), ("leak", "native"))
        self.assertLess(abs(finding["bytes_per_step"] - KEY_BYTES / 5), KEY_BYTES / 500)
        self.assertIn("capture", [frame["function"].partition("(")[0] for frame in finding["stack"] if frame["function"]])
        clean, _ = self.leaks(**how)
        self.assertEqual((clean["verdict"], clean["findings"]), ("clean", []))
        return said

    def test_frames_are_steps(self):
        self.assertNotIn("--step-at", self.judge())

    def test_step_at_is_for_python(self):
        said = self.judge(options=("--step-at", "process"))
        self.assertIn("--step-at process: no Python function of that name was seen to allocate", said)
        self.assertIn("memprof_step()", said)


if __name__ == "__main__":
    harness.main()
