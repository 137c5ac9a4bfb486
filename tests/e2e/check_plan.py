#!/usr/bin/env python3
"""`memprof plan` without PyTorch: a program that calls NVIDIA's runtime directly, planned on GPUs that this machine
lacks. The program itself knows how much it allocated. tests/plan compares plans of PyTorch with recordings from real
GPUs."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness

MIB, GIB = 1 << 20, 1 << 30

# argv: GiB to allocate in blocks of 1 GiB; the action afterwards
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
if "set" in sys.argv:
    assert cuda.cudaMemset(pointers[0], 7, size(1 << 20)) == 0 and cuda.cudaMemset(pointers[0], 5, size(6)) == 0
    print(read(pointers[0], 6).hex(), read(pointers[0], 8).hex())
if "major" in sys.argv:
    value = ctypes.c_int()
    cuda.cudaDeviceGetAttribute(ctypes.byref(value), 75, 0)
    print(value.value)
    cuda.cudaGetDeviceCount(ctypes.byref(value))
    print(value.value)
if "environment" in sys.argv:
    import os
    print("LD_PRELOAD=" + os.environ["LD_PRELOAD"])
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

    def test_names_of_devices(self):
        listed = harness.memprof("plan", "--device", "list").stdout.splitlines()
        self.assertGreaterEqual(len(listed), 46)
        self.assertTrue(all(" GiB  " in line and "; total: " in line for line in listed))
        total = {line.split()[0]: float(line.split()[1]) for line in listed}
        for name, key in (("4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("NVIDIA GeForce RTX 5080", "rtx5080"),
                          ("H100", "h100-80gb"), ("A10G", "a10g"), ("NVIDIA L40S", "l40s"),
                          ("a100:40", "a100-40gb"), ("H100-80", "h100-80gb")):
            whole = int(self.plan("--device", name, arguments=["0"]).stdout.split()[0])
            self.assertAlmostEqual(whole / GIB, total[key], 2, name)
        for name, near in (("4070x", "rtx4070"), ("rtx409", "rtx4090"), ("h10", "h100-80gb"), ("24", "t4")):
            said = self.plan("--device", name, status=2).stderr
            self.assertRegex(said, f"there is no device {name}; the nearest names are .*{near}.*; or give its bytes")

    def test_an_estimated_total_is_called_one(self):
        for name, said in (("rtx4080", 1), ("l40s", 0), ("24GiB", 0)):
            self.assertEqual(self.plan("--device", name, arguments=["1"]).stderr.count("is an estimate: "), said, name)

    def test_keys_of_a_device_file_have_bounds(self):
        path = self.folder / "my.dev"
        for line, said in (("cc = 89abc", "give a number from 50 to 199"), ("sms = -5", "give a number from 1 to 4096"),
                           ("context = 2TiB", "give bytes, such as 80GiB, from 0 to"), ("colour = red", "what is colour?"),
                           ("name = a;cc=70", "a name has no semicolon"), ("total", "write [NAME]")):
            path.write_text(f"[mine]\ntotal = 24GiB\n{line}\n")
            self.assertIn(f"my.dev, line 3: ", found := self.plan("--device", path, status=2).stderr)
            self.assertIn(said, found)
        path.write_text("[mine]\nname = Mine\ncc = 89\n")
        self.assertIn("[mine] has no total", self.plan("--device", path, status=2).stderr)

    def test_fits(self):
        result = self.plan("--device", "a100-40gb", arguments=["30"])
        whole, free, failed = map(int, result.stdout.split())
        self.assertEqual((whole, whole - free, failed), (42298834944, 424 * MIB, 0))
        self.assertIn("fits, with 8.98 GiB to spare: reserved 30.0 GiB, allocated 30.0 GiB", result.stderr)
        for words in ("PyTorch", "optimizer", "batch"):
            self.assertNotIn(words, result.stderr)
        info = harness.answer("info", self.path)
        plan = info["plan"]
        self.assertEqual((plan["device"], plan["total_bytes"], plan["values"]), ("a100-40gb", 42298834944, "zeros"))
        self.assertEqual(plan["read_backs"], [])
        self.assertEqual([one["bytes"] for one in plan["estimated"]], [424 * MIB])
        said = harness.memprof("report", self.path).stdout.split("\n")
        self.assertEqual(said[2:4], ["PLANNED  on a100-40gb, 39.4 GiB, without a GPU: nothing was computed",
                                     "  depends on no value read from the device"])
        for command in ("report", "peak", "leaks", "steps", "frag"):
            coverage = harness.answer(command, self.path)
            coverage = coverage.get("coverage") or coverage["info"]["coverage"]
            self.assertTrue(any("planned on a100-40gb" in note for note in coverage["notes"]), command)

    def test_a_context_alone(self):
        """A server may end because the device is too small, before it allocates anything."""
        result = self.plan("--device", "2GiB", arguments=["0"])
        self.assertIn("of the 1.50 GiB that the context leaves on 2GiB, the command allocated nothing", result.stderr)

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

    def test_values_that_were_set(self):
        """A small memset value is known when it is read back. A value that crosses two memsets is not put together."""
        for values in ("zeros", "host"):
            lines = self.plan("--device", "4GiB", "--values", values, arguments=["1", "set"]).stdout.split("\n")
            self.assertEqual(lines[1], f"{'05' * 6} {'00' * 8}")

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
        self.assertIn("the command has no {batch}", result.stderr)
        result = harness.memprof("plan", "--device", "24GiB", "--size", "other=8", *command, "8", "strict", "{other}")
        self.assertEqual(result.returncode, 1)
        self.assertIn("memory does not depend on other: 4, 8 and 128 need the same (reserved ", result.stderr)

    def test_largest_that_is_interrupted(self):
        """No files and no process remain, even of the run that was going on."""
        (self.folder / "program.py").write_text("import pathlib, sys, time\npathlib.Path(sys.argv[2]).touch()\ntime.sleep(60)")
        left, begun = self.folder / "tmp", self.folder / "begun"
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            left.mkdir()
            running = subprocess.Popen([harness.MEMPROF, "plan", "--size", "batch=8", "--", sys.executable,
                                        self.folder / "program.py", "8", begun], env=dict(os.environ, TMPDIR=str(left)),
                                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                       # default handling, as in a terminal: background shells and nohup ignore these
                                       # signals
                                       preexec_fn=lambda: [signal.signal(of, signal.SIG_DFL)
                                                           for of in (signal.SIGINT, signal.SIGHUP)])
            while not begun.exists():
                self.assertIsNone(running.poll())
                time.sleep(0.02)
            begun.unlink()
            if number == signal.SIGINT:  # as a terminal sends it
                os.killpg(running.pid, number)
            else:
                running.send_signal(number)
            said = running.communicate(timeout=harness.TIMEOUT)[1]
            self.assertEqual(said, "memprof: interrupted while it ran with batch 8\n")
            self.assertEqual(running.returncode, 1 if number == signal.SIGINT else -number)
            left.rmdir()

    def test_mistakes(self):
        for options, said in ((["--device", "h1000"], "there is no device h1000; the nearest names are h100-80gb, "),
                              (["--devices", "99"], "give a number from 1 to 8"),
                              (["--values", "nines"], "give zeros, ones or host"),
                              (["--world-size", "2", "--rank", "2"], "there are 2 ranks, from 0")):
            result = self.plan(*options, arguments=["0"], status=2)
            self.assertIn(said, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
        for device, said in (("24", "there is no device 24; the nearest names are"),
                             ("400MiB", "400 MiB is too little: the CUDA context alone takes 512 MiB; a size needs a unit, as in"),
                             ("24GiBB", "there is no device 24GiBB; the nearest names are"),
                             ("/nowhere/gpu", "cannot read /nowhere/gpu: No such file"),
                             (self.folder / "program.py", "program.py, line 2: write [NAME], and then KEY = VALUE")):
            result = self.plan("--device", device, arguments=["0"], status=2)
            self.assertIn(said, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
        for count in ("0", "two", "-1"):
            self.assertIn(f"--devices {count}: give a number from 1 to 8",
                          self.plan("--devices=" + count, arguments=["0"], status=2).stderr)
        self.assertIn("needs a command", harness.memprof("plan").stderr)
        result = harness.memprof("plan", "-o", self.path, "--", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("nothing was planned: the command used no CUDA device", result.stderr)

    def test_libraries_by_run_path(self):
        """As in PyTorch's wheels, a library that needs libcudart.so.12 has a run path to one in the same folder."""
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

    def test_conditions_of_another_pytorch(self):
        """Kernels that compute true or false are known for PyTorch 2.6. The plan calls values less sure under other
        versions."""
        (self.folder / "condition.c").write_text(
            "int read_is_nonzero(int (*copy)(void *, const void *, unsigned long, int), const void *at)\n"
            "{ char truth = 1; int failed = copy(&truth, at, 1, 2); return failed ? -1 : truth; }\n")
        subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", self.folder / "condition.so",
                        self.folder / "condition.c"], check=True)
        (self.folder / "torch").mkdir()
        program = self.folder / "program.py"
        program.write_text("import torch\n" + PROGRAM.replace("sys.exit(", "print(ctypes.CDLL(sys.argv[2]).read_is_nonzero("
                                                              "cuda.cudaMemcpy, pointers[0]))\nsys.exit("))
        for version, cuda, known in (("2.6.0+debian", "12.4", True), ("2.15.0+cu132", "13.2", True), ("2.13.0", "13.7", True),
                                     ("2.8.0+cu128", "12.8", False), ("2.60.0", "12.40", False)):
            (self.folder / "torch" / "__init__.py").write_text(
                f"__version__ = '{version}'\nclass version:\n    cuda = '{cuda}'\nclass distributed:\n"
                "    def is_available(): return False\nclass nn:\n    class init: pass\nclass Tensor: pass\n")
            result = self.plan(arguments=["1", self.folder / "condition.so"])
            self.assertEqual(result.stdout.splitlines()[1], "0")
            plan = harness.answer("info", self.path)["plan"]
            self.assertEqual(([one["use"] for one in plan["read_backs"]], plan["kernels_known"]), (["way"], known))
            said = f"conditions are known for PyTorch 2.6, 2.7, 2.9, 2.11, 2.13 and 2.15: with {version} some may be false"
            self.assertEqual(said in result.stderr, not known, result.stderr)
            self.assertEqual(result.stderr.count("plan was never tried with"), not known or cuda == "13.7")
            self.assertEqual(f"tried with PyTorch {version} (only with" in result.stderr, not known)
            self.assertEqual(f"CUDA {cuda} (only with 12.4, 12.6, " in result.stderr, cuda in ("13.7", "12.40"))
            self.assertEqual("conditions are known for PyTorch" in harness.memprof("info", self.path).stdout,
                             not known)

    def test_the_command_cannot_run_or_fails(self):
        result = harness.memprof("plan", "-o", self.path, "--", "/nowhere/python3")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (127, 1), result.stderr)
        said = self.plan(arguments=["nonsense"], status=1).stderr
        self.assertIn("memprof: the command failed, with status 1 before it allocated on the device", said)
        self.assertIn("memprof: nothing was planned", said)
        (self.folder / "program.py").write_text(PROGRAM.replace("sys.exit(", "sys.exit(3 or "))
        said = self.plan(arguments=["1"], status=3).stderr
        self.assertIn("unknown whether it fits: until it failed, it reserved 1.00 GiB", said)
        self.assertNotIn(": fits", said)


    def script(self, text, *options, status=0, **more):
        (self.folder / "program.py").write_text(PROGRAM.split("free, whole = total()")[0] + text)
        result = harness.memprof("plan", "-o", self.path, "--force", *options, "--", sys.executable,
                                 self.folder / "program.py", **more)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def test_functions_that_are_not_imitated(self):
        result = self.script("take(1 << 20)\ndriver = ctypes.CDLL('libcuda.so.1')\nfor _ in range(2):\n"
                             "    print(cuda.cudaArrayGetPlane(), driver.cuArrayGetPlane())\n"
                             "cuda.cudaGetErrorString.restype = ctypes.c_char_p\nprint(cuda.cudaGetErrorString(801))\n")
        self.assertEqual(result.stdout, "801 801\n" * 2 + "b'operation not supported'\n")
        line = 1 + (self.folder / "program.py").read_text().split("\n").index(
            "    print(cuda.cudaArrayGetPlane(), driver.cuArrayGetPlane())")
        names = ["libcudart's cudaArrayGetPlane()", "libcuda's cuArrayGetPlane()"]
        for name in names:
            self.assertEqual(result.stderr.count(f"the stand-in GPU does not imitate {name}"), 1, result.stderr)
        self.assertEqual(result.stderr.count(f"program.py:{line}  print(cuda."), 2, result.stderr)
        self.assertEqual([one["function"] for one in harness.answer("info", self.path)["plan"]["not_imitated"]], names)
        said = harness.memprof("info", self.path).stdout
        for name in names:
            self.assertIn(f"not imitated, memory unknown: {name}  program.py:{line}", said)

    def test_a_runtime_that_is_linked_in(self):
        said = self.script("table, driver = ctypes.c_void_p(), ctypes.CDLL('libcuda.so.1')\nfor number in 'ff', '6b', '6b':\n"
                           "    print(driver.cuGetExportTable(ctypes.byref(table), bytes.fromhex(\n"
                           "        number + 'd5fb6c5bf4e74a8987d93912fd9df9')))\n")
        self.assertEqual(said.stdout, "500\n" * 3)
        self.assertEqual(said.stderr.count("has NVIDIA's CUDA runtime built in, as pip's CuPy has"), 1, said.stderr)

    def test_autotuning_is_told_apart(self):
        said = self.script("import libmemprof\ntake(3 << 20)\nfor name in ('CachingAutotuner.benchmark_all_configs (dynamo_timed)',"
                           " 'InductorBenchmarker.benchmark_gpu (dynamo_timed)'):\n"
                           "    with libmemprof.region(name):\n        take(1 << 20)\n").stderr
        self.assertIn("memprof: of that, autotuning holds 2.00 MiB; a run that finds its choices in a cache", said)
        self.assertNotIn("autotuning", self.script("take(1 << 20)\n").stderr)

    def test_how_programs_end(self):
        ends = {"sys.exit(3)": (3, "the command failed, with status 3"),
                "raise RuntimeError('no config')": (1, "the command failed, with status 1"),
                "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": (143, "the command was ended by SIGTERM"),
                "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": (139, "the command was ended by SIGSEGV")}
        for text, (status, said) in ends.items():
            with self.subTest(text=text):
                stderr = self.script(text, status=status).stderr
                self.assertIn(f"memprof: {said} before it used a CUDA device\nmemprof: nothing was planned: the command used "
                              "no CUDA device, and imported neither PyTorch nor JAX\n", stderr)
                stderr = self.script("take(1 << 30)\n" + text, status=status).stderr
                self.assertIn(f"memprof: {said}: the plan is of what it did until then\n", stderr)
                self.assertIn("unknown whether it fits: until it failed, it reserved 1.00 GiB", stderr)

    def test_what_programs_do(self):
        (self.folder / "typed").write_text("yes\n")
        with open(self.folder / "typed") as typed:
            result = self.script("take(1 << 30); print('asked', input())", stdin=typed)
        self.assertEqual(result.stdout, "asked yes\n")
        workers = ("import multiprocessing\ntake(1 << 30)\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n"
                   "    print(sum(pool.map(abs, range(-3, 4))))")
        result = self.script(workers)
        self.assertEqual(result.stdout, "12\n")
        self.assertIn("fits, with 77.7 GiB to spare: reserved 1.00 GiB", result.stderr)
        nvml = ("nvml, name = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.create_string_buffer(96)\nat = ctypes.c_void_p()\n"
                "memory = (ctypes.c_ulonglong * 3)()\nassert not nvml.nvmlInit_v2()\n"
                "assert not nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(at))\ntake(1 << 30)\n"
                "assert not nvml.nvmlDeviceGetName(at, name, 96) + nvml.nvmlDeviceGetMemoryInfo(at, memory)\n"
                "for unmeasured in ('UtilizationRates', 'Temperature', 'PowerUsage', 'EncoderUtilization'):\n"
                "    assert getattr(nvml, 'nvmlDeviceGet' + unmeasured)(at, 0, memory) == 3, unmeasured\n"
                "print(name.value.decode(), *memory)")
        total = 42298834944
        self.assertEqual(self.script(nvml, "--device", "a100-40gb").stdout.rsplit(" ", 3),
                         ["NVIDIA A100-SXM4-40GB", str(total), str(total - 1448 * MIB), f"{1448 * MIB}\n"])

    def test_visible_devices(self):
        """The program sets CUDA_VISIBLE_DEVICES itself. The user's own setting is ignored (test_device)."""
        text = ("import os; os.environ['CUDA_VISIBLE_DEVICES'] = 'SEEN'\ncount = ctypes.c_int()\n"
                "cuda.cudaGetDeviceCount(ctypes.byref(count))\nprint(count.value)\nif count.value: take(1 << 30)")
        for seen, count in (("0", 1), ("2,3", 2), ("1,9,2", 1)):
            result = self.script(text.replace("SEEN", seen), "--devices", "4")
            self.assertEqual(result.stdout, f"{count}\n")
            self.assertIn("fits, with 77.7 GiB to spare", result.stderr)
        for seen in ("", "-1", "4,5,6,7"):
            result = self.script(text.replace("SEEN", seen), "--devices", "4")
            self.assertEqual(result.stdout, "0\n")
            self.assertIn("nothing was planned: the command saw no device, since it set CUDA_VISIBLE_DEVICES to what is not "
                          "there; --devices N gives it N of them", result.stderr)


class Safety(unittest.TestCase):
    setUp, plan = Plan.setUp, Plan.plan

    def stand_ins(self):
        """The variables by which `memprof plan` makes a program find the stand-ins."""
        shown = self.plan("--device", "4GiB", arguments=["0", "environment"]).stdout
        return dict(line.split("=", 1) for line in shown.splitlines()[1:] if "=" in line)

    def test_nobody_else_finds_it(self):
        result = harness.memprof("snapshot", "-o", self.path, "--", sys.executable, self.folder / "program.py", "1")
        self.assertNotEqual(result.returncode, 0, "a libcudart.so.12 was found outside plan")
        folder = pathlib.Path(self.stand_ins()["LD_PRELOAD"].split(":")[0]).parent
        searched = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        self.assertNotIn(str(folder), searched + os.environ.get("LD_LIBRARY_PATH", ""))

    def test_beside_a_real_gpu(self):
        """With NVIDIA's kernel module loaded, a program that finds the stand-in by mistake gets a message; plan
        works."""
        as_with_gpu = ["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /proc/driver && "
                       "mkdir /proc/driver/nvidia && : > /proc/driver/nvidia/version && exec \"$@\"", "sh"]
        if subprocess.run([*as_with_gpu, "true"], capture_output=True).returncode:
            self.skipTest("no namespace of mounts may be made here")
        command = [sys.executable, self.folder / "program.py", "1"]
        preload = self.stand_ins()["LD_PRELOAD"]
        result = subprocess.run([*as_with_gpu, *command], capture_output=True, text=True,
                                env=dict(os.environ, LD_PRELOAD=preload))
        self.assertIn("this machine has a GPU, and the stand-in's libcuda was found in place of NVIDIA's", result.stderr)
        self.assertNotEqual(result.returncode, 0)
        result = subprocess.run([*as_with_gpu, harness.MEMPROF, "plan", "-o", self.path, "--force", "--device", "4GiB", "--",
                                 *command], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(": fits, with", result.stderr)

    def test_over_a_real_driver(self):
        """A libcuda.so.1 that is not the stand-in's: the runtime's stand-in does not work over it."""
        compiler = os.environ.get("CC", "cc").split()
        (self.folder / "libcuda.c").write_text("int cuInit(unsigned flags) { return 0; }")
        subprocess.run([*compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", self.folder / "libcuda.so.1",
                        self.folder / "libcuda.c"], check=True)
        runtime = next(path for path in self.stand_ins()["LD_PRELOAD"].split(":") if path.endswith("libcudart.so.12"))
        script = f"import ctypes; print(ctypes.CDLL('{runtime}').cudaGetDeviceCount(ctypes.byref(ctypes.c_int())))"
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=str(self.folder)))
        self.assertEqual(result.stdout, "35\n")  # cudaErrorInsufficientDriver
        self.assertIn("found NVIDIA's driver and will not use it", result.stderr)


if __name__ == "__main__":
    harness.main()
