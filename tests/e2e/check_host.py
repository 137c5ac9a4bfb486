#!/usr/bin/env python3
"""`snapshot --host`: the C allocator's blocks on cpu/malloc. The bytes that a program keeps, by its own count, are
within the recording's stated error. Blocks of PyTorch's CPU allocator are only on cpu/torch. Without the option nothing
is hooked."""

import glob
import math
import os
import subprocess
import sys
import unittest

import harness

HEAP = harness.program("heap")
PYTHON = harness.python_with_torch()
MEAN = 512 << 10


def allocators():
    """The allocators: the C library's own, and others to preload."""
    patterns = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so*")
    return [None] + [path for pattern in patterns for path in sorted(glob.glob(f"/usr/lib/*/{pattern}"))[:1]]


# Names that shm_open() takes or refuses, at the lengths where glibc's answers change.
NAMES = """import ctypes, os
library, folder, own = ctypes.CDLL(None, use_errno=True), f"memprof-test-{os.getppid()}", os.O_RDWR
os.mkdir("/dev/shm/" + folder)
for name in ["", "/", "/a/b", "/" + folder, "//none", *("/" + "x" * length for length in (253, 255, 256, 259, 260, 5000))]:
    ctypes.set_errno(0)
    print(library.shm_open(name.encode(), own, 0o600), ctypes.get_errno())
os.rmdir("/dev/shm/" + folder)
"""


class Host(harness.TestCase):
    def record(self, *command, options=("--host",), env=None):
        path = self.folder / "host.mp"
        alone = subprocess.run(command, capture_output=True, text=True, env=os.environ | (env or {}))
        recorded = subprocess.run([harness.MEMPROF, "snapshot", "-o", path, "--force", *options, "--", *command],
                                  capture_output=True, text=True, env=os.environ | (env or {}))
        self.assertEqual((recorded.returncode, recorded.stdout), (alone.returncode, alone.stdout), recorded.stderr)
        self.assertNotIn("no file written", recorded.stderr)
        return path, int(recorded.stdout.split()[-1])

    def outstanding(self, path):
        return harness.answer("leaks", path, "--outstanding", "--track", "cpu/malloc")["outstanding"]

    def assertIsEstimate(self, estimate, truth, block):
        """Asserts that the estimate is within six standard errors. A correct estimate fails with a probability below
        1e-8."""
        share = 1 - math.exp(-block / MEAN)
        deviation = math.sqrt(truth / block * (1 - share) / share) * block
        self.assertLess(abs(estimate - truth), 6 * deviation + 1, (estimate, truth, deviation))

    def test_each_function_under_each_allocator(self):
        names = ("malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
                 "new", "new_aligned")
        for allocator in allocators():
            with self.subTest(allocator=allocator):
                path, kept = self.record(HEAP, "family", env={"LD_PRELOAD": allocator} if allocator else None)
                outstanding = self.outstanding(path)
                self.assertIsEstimate(outstanding["bytes"], kept, 4096)
                by_maker = {}
                for site in outstanding["sites"]:
                    maker = next((frame["function"] for frame in site["stack"]
                                  if frame["function"].startswith("from_")), "")
                    by_maker[maker] = by_maker.get(maker, 0) + site["bytes"]
                for name in names:
                    self.assertIsEstimate(by_maker.get("from_" + name, 0), kept / len(names), 4096)

    def test_threads_whose_blocks_another_frees(self):
        path, kept = self.record(HEAP, "threads")
        self.assertIsEstimate(self.outstanding(path)["bytes"], kept, 4096)

    def test_a_forked_child_has_its_own(self):
        path, kept = self.record(HEAP, "fork")
        child, = glob.glob(str(self.folder / "host.*.mp"))
        for file in (path, child):
            self.assertIsEstimate(self.outstanding(file)["bytes"], kept, 4096)
            self.assertEqual(harness.answer("info", file)["coverage"]["dropped"], 0)

    def test_without_the_option_nothing_is_hooked(self):
        look = "print(sum('libmemprof-malloc' in line for line in open('/proc/self/maps')) > 0)"
        for options, there in (((), "False"), (("--host",), "True")):
            result = harness.memprof("snapshot", "-o", self.folder / "maps.mp", "--force", *options, "--",
                                     sys.executable, "-c", look)
            self.assertEqual(result.stdout.split(), [there])

    def test_shm_open_answers_as_the_librarys_own(self):
        program = self.folder / "names.py"
        program.write_text(NAMES)
        own = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
        recorded = harness.memprof("snapshot", "-o", self.folder / "run.mp", "--force", "--", sys.executable, program)
        self.assertEqual(recorded.stdout, own)

    def test_small_programs_have_no_file(self):
        path = self.folder / "shell.mp"
        result = harness.memprof("snapshot", "-o", path, "--host", "--", "sh", "-c", f"{HEAP} family; true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(harness.answer("info", path)["process"]["command"].startswith(HEAP))

    def test_the_command_has_the_name_that_was_asked_for(self):
        """A compiler that the command starts allocates first."""
        program = self.folder / "builds.py"
        program.write_text(
            "import ctypes\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
            "for _ in range(4000):\n"
            "    libc.malloc(4000)\n")
        path = self.folder / "builds.mp"
        result = harness.memprof("snapshot", "-o", path, "--host", "--", "sh", "-c",
                                 f"{HEAP} family > /dev/null; exec {sys.executable} {program}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(harness.answer("info", path)["process"]["command"].split()[1], str(program))
        other, = self.folder.glob("builds.*.mp")
        self.assertTrue(harness.answer("info", other)["process"]["command"].startswith(HEAP))
        self.assertIn("builds.mp", result.stderr.split("Next: ")[1])

    def test_native_code_is_told_in_its_own_words(self):
        """Blocks of many sizes, which nothing frees: no cache of shapes, no Python, no tensors."""
        path, _ = self.record(HEAP, "sizes")
        texts = [harness.memprof(command, path).stdout for command in ("leaks", "report")]
        texts.append(harness.memprof("advise", path).stderr)
        self.assertIn("native: ", texts[0])
        self.assertIn("(--host)", texts[2])
        for words in ("tensor", "libmemprof.step()", "shape_cache", "loss", "--sample"):
            self.assertNotIn(words, "".join(texts))
        path, _ = self.record(HEAP, "family")
        self.assertIn("unknown: no steps were found; call memprof_step() ", harness.memprof("leaks", path).stdout)

    def test_a_leak_of_native_code_has_its_python_line(self):
        program = self.folder / "grows.py"
        program.write_text(
            "import ctypes, libmemprof\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
            "def keep():\n"
            "    for _ in range(500):\n"
            "        libc.malloc(4000)\n"
            "for step in range(60):\n"
            "    libmemprof.step()\n"
            "    keep()\n"
            "print(60 * 500 * 4000)\n")
        path = self.folder / "grows.mp"
        result = harness.memprof("snapshot", "-o", path, "--host", "--", sys.executable, program)
        self.assertEqual(result.returncode, 0, result.stderr)
        leaks = harness.answer("leaks", path)
        self.assertEqual(leaks["verdict"], "leak")
        finding = leaks["findings"][0]
        self.assertEqual(finding["class"], "native")  # tensors and graphs are not mentioned
        lines = [frame["line"] for frame in finding["stack"] if frame["file"] and frame["file"].endswith("grows.py")]
        self.assertEqual((finding["track"], lines), ("cpu/malloc", [6, 9]))
        self.assertLess(abs(finding["bytes_per_step"] - 500 * 4000), 500 * 4000 / 3)

    def test_files_in_shared_memory_without_steps(self):
        """No loop is seen, but the counter says what files in /dev/shm took, unless the program removed them."""
        program = self.folder / "frames.py"
        program.write_text("import os, sys, time\nfrom multiprocessing import shared_memory\n"
                           "for number in range(40):\n"
                           "    segment = shared_memory.SharedMemory(create=True, size=1 << 20)\n"
                           "    segment.buf[:] = bytes(1 << 20)\n    segment.close()\n"
                           "    if sys.argv[1] == 'removed':\n        segment.unlink()\n    time.sleep(0.02)\n"
                           "print(0)\n")
        for what in ("left", "removed"):
            path, _ = self.record(sys.executable, program, what)
            reason = harness.answer("leaks", path)["reason"] or ""
            self.assertEqual("; files in /dev/shm took 40.0 MiB at the end" in reason, what == "left", reason)

    def test_results_of_one_call_are_no_sure_leak(self):
        """Without looks, what the program frees later may be wanted. What it never frees is not."""
        program = self.folder / "joined.py"
        program.write_text("import ctypes, os, sys\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
                           "def collect():\n    parts = []\n    for number in range(60):\n"
                           "        if sys.argv[1] == 'kept':\n            parts.append(bytearray(1 << 20))\n"
                           "        else:\n            libc.malloc(1 << 20)\n"
                           "    return sum(map(len, parts))\nprint(collect())\n")
        for what in ("kept", "lost"):
            path, _ = self.record(sys.executable, program, what)
            said = harness.memprof("leaks", path).stdout
            self.assertIn("native, possible" if what == "kept" else "native, ", said)
            self.assertEqual("or results of one request" in said, what == "kept", said)

    @unittest.skipUnless(PYTHON, "no PyTorch")
    def test_tensors_are_not_counted_twice(self):
        program = self.folder / "both.py"
        program.write_text(
            "import torch\n"
            "kept = [torch.ones(1 << 20) for _ in range(40)]\n"
            "import ctypes\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
            "for _ in range(40):\n"
            "    libc.malloc(1 << 20)\n"
            "print(len(kept) * 4 << 20)\n")
        path = self.folder / "both.mp"
        result = harness.memprof("snapshot", "-o", path, "--host", "--", PYTHON, program)
        self.assertEqual(result.returncode, 0, result.stderr)
        tracks = {track["id"]: track for track in harness.answer("info", path)["tracks"]}
        self.assertGreaterEqual(tracks["cpu/torch"]["peak_bytes"], 160 << 20)
        sites = self.outstanding(path)["sites"]
        by_line = {}
        for site in sites:
            for frame in site["stack"]:
                if frame["file"] and frame["file"].endswith("both.py"):
                    by_line[frame["line"]] = by_line.get(frame["line"], 0) + site["bytes"]
        self.assertIsEstimate(by_line.get(7, 0), 40 << 20, 1 << 20)
        self.assertLess(by_line.get(2, 0), 12 << 20)  # memprof learns from the first tensor where PyTorch allocates
        self.assertEqual(harness.answer("peak", path)["track"], "cpu/torch")
        files = {frame["file"] or "" for site in harness.answer("peak", path, "--track", "cpu/malloc", "-n", "0")["sites"]
                 for frame in site["stack"]}
        self.assertIn("torch/__init__.py", " ".join(files))  # torch's import, which memprof's own start follows
        self.assertFalse([file for file in files if file.endswith("/start/sitecustomize.py")])

    def holding(self, text):
        """(the rows that looks counted, by path, and the program's output)."""
        program, path = self.folder / "holding.py", self.folder / "holding.mp"
        program.write_text(text)
        result = harness.memprof("snapshot", "-o", path, "--force", "--host", "--holders", "--", PYTHON, program)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {row["name"]: row for row in harness.answer("leaks", path)["census"] if row["what"] == "bytes"}, result.stdout

    @unittest.skipUnless(PYTHON, "no Python with torch")
    def test_what_holds_arrays_and_bytes(self):
        rows, _ = self.holding(HOLDING)
        for name, size in (("main().views[*]", 60 << 20), ("main().store.frames[*].image", 30 << 20),
                           ("main().raw[*]", 120 * 200_000)):
            self.assertAlmostEqual(rows[name]["last"], size, delta=size // 100, msg=name)
            self.assertLess(rows[name]["first"], size // 4)
            self.assertGreater(rows[name]["looks"], 3)
        self.assertFalse([name for name in rows if "ring" in name], "a full ring does not grow")
        rows, said = self.holding("import torch, libmemprof\n" + HOLDING.replace("np.dot", "libmemprof.step(); np.dot"))
        self.assertEqual(said, "120 1\n")  # PyTorch's looks take over
        self.assertAlmostEqual(rows["main().views[*]"]["last"], 60 << 20, delta=1 << 20)


HOLDING = """
import collections, signal, sys
import numpy as np

class Frame:
    def __init__(self):
        self.image = np.ones((256, 1024), np.uint8)

class Store:
    def __init__(self):
        self.frames, self.ring = {}, collections.deque([np.zeros(1 << 20, np.uint8) for _ in range(4)], maxlen=4)

def main():
    store, raw, views = Store(), [], []
    for step in range(120):
        store.frames[step] = Frame()
        store.ring.append(np.zeros(1 << 20, np.uint8))
        raw.append(b"x" * 200_000)
        views.append(np.ones((512, 128), np.float64)[:4])
        np.dot(np.ones((300, 300)), np.ones((300, 300)))
    print(len(raw), int(callable(signal.getsignal(signal.SIGURG))))

main()
"""


if __name__ == "__main__":
    harness.main()
