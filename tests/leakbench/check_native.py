#!/usr/bin/env python3
"""A C++ program without marked steps (programs/ring.cpp): its frames are the steps, and the bytes that it never frees
are the leak. `--step-at` takes functions of Python. For a C++ program it says so and how to mark steps there; the
frames are found as without it."""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PROGRAM = harness.SOURCE / "tests" / "leakbench" / "programs" / "ring.cpp"
FRAMES, IN_RING, KEY_BYTES = 400, 32, 64 << 10


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
