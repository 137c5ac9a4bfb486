#!/usr/bin/env python3
"""`memprof plan` without PyTorch: a program that calls NVIDIA's runtime by its own names, planned on GPUs that are not
here. What it took is known by the program itself; tests/plan holds plans of PyTorch against recordings from real GPUs."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import harness

MIB, GIB = 1 << 20, 1 << 30

# argv: GiB to take in blocks of 1 GiB; what to do then
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so.12")
size, pointers = ctypes.c_size_t, []
def total():
    free, whole = size(), size()
    assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(whole)) == 0
    return free.value, whole.value
def take(bytes):
    at = ctypes.c_void_p()
    status = cuda.cudaMalloc(ctypes.byref(at), size(bytes))
    pointers.append(at)
    return status
def read(at, count):
    to = (ctypes.c_ubyte * count)()
    assert cuda.cudaMemcpy(to, at, size(count), 2) == 0
    return bytes(to)
free, whole = total()
failed = sum(take(1 << 30) != 0 for _ in range(int(sys.argv[1])))
print(whole, free, failed)
if "read" in sys.argv:
    for _ in range(3):
        print(read(pointers[0], 8).hex())
    data = (ctypes.c_ubyte * 8)(*range(8))
    assert cuda.cudaMemcpy(pointers[0], data, size(8), 1) == 0
    print(read(pointers[0], 8).hex())
    class Dim(ctypes.Structure):
        _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
    assert cuda.cudaLaunchKernel(None, Dim(1, 1, 1), Dim(1, 1, 1), None, size(0), None) == 0
    print(read(pointers[0], 8).hex())
if "major" in sys.argv:
    value = ctypes.c_int()
    cuda.cudaDeviceGetAttribute(ctypes.byref(value), 75, 0)
    print(value.value)
    cuda.cudaGetDeviceCount(ctypes.byref(value))
    print(value.value)
sys.exit(bool(failed) and "strict" in sys.argv)
"""


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "program.py").write_text(PROGRAM)
        self.path = self.folder / "plan.mp"

    def plan(self, *options, arguments=(), status=0, **environment):
        result = harness.memprof("plan", "-o", self.path, "--force", *options, "--", sys.executable,
                                 self.folder / "program.py", *arguments, env=dict(os.environ, **environment))
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def test_fits(self):
        result = self.plan("--device", "a100-40gb", arguments=["30"])
        whole, free, failed = map(int, result.stdout.split())
        self.assertEqual((whole, whole - free, failed), (42298834944, 512 * MIB, 0))
        self.assertIn("fits, with 8.89 GiB to spare: reserved 30.0 GiB, allocated 30.0 GiB", result.stderr)
        info = harness.answer("info", self.path)
        plan = info["plan"]
        self.assertEqual((plan["device"], plan["total_bytes"], plan["values"]), ("a100-40gb", 42298834944, "zeros"))
        self.assertEqual(plan["read_backs"], [])
        self.assertEqual([one["bytes"] for one in plan["estimated"]], [512 * MIB])
        for command in ("report", "peak", "leaks", "steps", "frag"):
            coverage = harness.answer(command, self.path)
            coverage = coverage.get("coverage") or coverage["info"]["coverage"]
            self.assertTrue(any("planned on a100-40gb" in note for note in coverage["notes"]), command)

    def test_runs_out_where_it_would(self):
        result = self.plan("--device", "24GiB", arguments=["30", "strict"], status=1)
        whole, free, failed = map(int, result.stdout.split())
        self.assertEqual((whole, failed), (24 * GIB, 30 - 23))
        self.assertIn("does not fit: memory ran out 7 times", result.stderr)

    def test_values(self):
        lines = self.plan("--device", "4GiB", arguments=["1", "read"]).stdout.split("\n")[1:]
        self.assertEqual(lines[:5], ["00" * 8] * 3 + ["0001020304050607", "00" * 8])
        read_backs = harness.answer("info", self.path)["plan"]["read_backs"]
        self.assertEqual(sum(one["count"] for one in read_backs), 4)
        self.assertEqual({frame["function"] for one in read_backs for frame in one["stack"]} & {"read"}, {"read"})
        lines = self.plan("--device", "4GiB", "--values", "ones", arguments=["1", "read"]).stdout.split("\n")[1:]
        self.assertEqual(lines[0], "0100000000000000")
        lines = self.plan("--device", "4GiB", "--values", "host", arguments=["1", "read"]).stdout.split("\n")[1:]
        self.assertEqual(lines[4], "0001020304050607")

    def test_device(self):
        lines = self.plan("--device", "rtx4090", "--devices", "4", arguments=["0", "major"],
                          CUDA_VISIBLE_DEVICES="7").stdout.split()
        self.assertEqual(lines[3:], ["8", "4"])
        (self.folder / "own").write_text("# mine\n[mine]\ntotal = 3GiB\ncontext = 1GiB\ncc = 75\n")
        lines = self.plan("--device", self.folder / "own", arguments=["3", "major"]).stdout.split()
        self.assertEqual(lines, [str(3 * GIB), str(2 * GIB), "1", "7", "1"])

    def test_largest(self):
        command = ["--", sys.executable, self.folder / "program.py"]
        for operands in (["{batch}", "strict"], ["8", "strict"]):
            result = harness.memprof("plan", "--device", "24GiB", "--size", "batch=8", "--json", *command, *operands)
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["schema"], answer["max_batch"]), ("memprof.size/1", 23))
            self.assertEqual({probe["fits"] for probe in answer["probes"] if probe["batch"] in (23, 24)}, {"yes", "no"})
        result = harness.memprof("plan", "--size", "batch=8", *command, "9")
        self.assertEqual(result.returncode, 2)
        self.assertIn("{batch} stands nowhere in the command", result.stderr)

    def test_mistakes(self):
        for options, said in ((["--device", "h1000"], "there is no device h1000; known are t4,"),
                              (["--devices", "99"], "a number from 1 to 8 is wanted"),
                              (["--values", "nines"], "zeros, ones or host is wanted"),
                              (["--world-size", "2", "--rank", "2"], "there are 2 ranks, from 0")):
            result = self.plan(*options, arguments=["0"], status=2)
            self.assertIn(said, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("needs a command", harness.memprof("plan").stderr)
        result = harness.memprof("plan", "-o", self.path, "--", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("nothing was planned: the command used no CUDA device", result.stderr)

    def test_libraries_by_run_path(self):
        """As in the wheels of PyTorch: what wants libcudart.so.12 has a run path to a libcudart.so.12 beside it."""
        compiler = os.environ.get("CC", "cc").split()
        there = self.folder / "site-packages" / "nvidia" / "cuda_runtime" / "lib"
        there.mkdir(parents=True)
        (self.folder / "theirs.c").write_text("int cudaGetDeviceCount(int *n) { *n = 77; return 0; }")
        (self.folder / "theirs.map").write_text("libcudart.so.12 { global: *; };")
        (self.folder / "torch.c").write_text("int cudaGetDeviceCount(int *); int count(void) { int n = -1; "
                                             "return cudaGetDeviceCount(&n) ? -2 : n; }")
        subprocess.run([*compiler, "-shared", "-fPIC", "-o", there / "libcudart.so.12", self.folder / "theirs.c",
                        "-Wl,-soname,libcudart.so.12", f"-Wl,--version-script,{self.folder / 'theirs.map'}"], check=True)
        for tags in ("enable", "disable"):  # RUNPATH, RPATH
            subprocess.run([*compiler, "-shared", "-fPIC", "-o", self.folder / f"libtorch_{tags}.so",
                            self.folder / "torch.c", there / "libcudart.so.12", f"-Wl,--{tags}-new-dtags",
                            "-Wl,-rpath,$ORIGIN/site-packages/nvidia/cuda_runtime/lib"], check=True)
            script = f"import ctypes; print(ctypes.CDLL('{self.folder}/libtorch_{tags}.so').count())"
            plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual(plain.stdout.strip(), "77", plain.stderr)
            result = harness.memprof("plan", "-o", self.path, "--force", "--devices", "3", "--", sys.executable, "-c", script)
            self.assertEqual(result.stdout.strip(), "3", result.stderr)

    def test_pytorch_without_cuda(self):
        (self.folder / "torch").mkdir()
        (self.folder / "torch" / "__init__.py").write_text(
            "__version__ = '2.7.1+cpu'\nclass version:\n    cuda = None\n")
        result = harness.memprof("plan", "-o", self.path, "--", sys.executable, "-c", "import torch", cwd=self.folder,
                                 env=dict(os.environ, PYTHONPATH=str(self.folder)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("this PyTorch (2.7.1+cpu) is built without CUDA", result.stderr)

    def test_nobody_else_finds_it(self):
        result = harness.memprof("snapshot", "-o", self.path, "--", sys.executable, self.folder / "program.py", "1")
        self.assertNotEqual(result.returncode, 0, "a libcudart.so.12 was found outside plan")


if __name__ == "__main__":
    harness.main()
