#!/usr/bin/env python3
"""The ABI that memprof and its stand-ins declare, compared with NVIDIA's own libraries. No GPU is needed for this.
Skipped without a CUDA toolkit ($CUDA_HOME, /usr/local/cuda)."""

import glob
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

import cuda_stand_in as stand_in
import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "softgpu" / "nvidia"))
import declarations  # noqa: E402

TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
NVIDIA = harness.SOURCE / "tests" / "softgpu" / "nvidia"
COMPILER = shlex.split(os.environ.get("CC", "gcc"))

# The runtime's calls that the recorder must see: all that allocate, free or reserve memory.
MEMORY = re.compile(
    r"cu(Mem(Alloc|Free|Host(Alloc|Register|Unregister)|Address|Create|Release|Map$|Unmap|ImportFrom|Retain)"
    r"|MemPool(Create|Destroy|TrimTo|Import)|DeviceSetMemPool|DeviceGet(Default)?MemPool|Mem(GetDefault|Get|Set)MemPool"
    r"|Array(3D)?Create|ArrayDestroy|MipmappedArray(Create|Destroy)|Ipc(Open|Close)MemHandle"
    r"|ImportExternalMemory|ExternalMemoryGetMapped|DestroyExternalMemory|Multicast(Create|Bind|Unbind)"
    r"|Graph(Create|Clone|Destroy$|AddMem(Alloc|Free)|AddNode|Instantiate|Launch|ExecDestroy)|DeviceGraphMemTrim"
    r"|Stream(BeginCapture|EndCapture|Create|Destroy)|Event(Create|Destroy)|Ctx(Create|Destroy)"
    r"|DevicePrimaryCtx(Retain|Release|Reset)|Module(Load|Unload)|Library(LoadData|LoadFromFile|Unload))")


def library(pattern):
    found = sorted(path for folder in ("lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64")
                   for path in glob.glob(str(TOOLKIT / folder / pattern)))
    if not found:
        raise unittest.SkipTest(f"no {pattern} in {TOOLKIT}")
    return found[0]


class Nvidia(stand_in.TestCase):
    maxDiff = None

    def compile(self, source, *arguments):
        program = self.folder / (source.removesuffix(".c") + str(len(arguments)))
        subprocess.run([*COMPILER, "-D_GNU_SOURCE", "-o", program, NVIDIA / source, f"-I{harness.SOURCE / 'tests'}",
                        f"-I{harness.SOURCE / 'src'}", *arguments, "-ldl", "-lpthread", "-lrt"], check=True)
        return program

    def output(self, *command, **options):
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    # Each stand-in: least number of functions to compare, NVIDIA's headers, the folder, options for the compiler.
    LIBRARIES = {
        "driver": (100, ["cuda.h"], "driver", []),
        "runtime": (70, ["cuda_runtime_api.h"], "runtime", ["-DSOFTRT_VERSION=13000"]),
        "cublas": (10, ["cublas_v2.h", "cublasLt.h"], "blas", ["-DSOFTBLAS_VERSION=130000"]),
        "cudnn": (15, ["cudnn.h"], "dnn", []),
        "nccl": (10, ["nccl.h"], "nccl", []),
    }

    def nvidia(self, *headers):
        missing = [name for name in headers if not (TOOLKIT / "include" / name).exists()]
        if missing:
            self.skipTest(f"no {missing[0]} in {TOOLKIT}")
        return declarations.Headers(headers, [f"-I{TOOLKIT / 'include'}"])

    def test_layouts(self):
        """Each struct and enumerator of the driver and the runtime that src/softgpu declares."""
        theirs = self.nvidia("cuda.h", "cuda_runtime_api.h")
        ours = declarations.Headers(["softgpu/runtime/types.h"], [f"-I{harness.SOURCE / 'src'}"])
        text = declarations.preprocessed(COMPILER, ours)
        types, names = declarations.structs(text), declarations.enumerators(text)
        for older in ("struct device_properties_11", "struct device_properties_12"):
            del types[older]
        self.assertGreater(len(types), 20)
        self.assertGreater(len(types["struct device_properties_13"]), 80)
        self.assertGreater(len(names), 80)
        found = declarations.layout(COMPILER, ours, self.folder, types, names)
        right = declarations.layout(COMPILER, theirs, self.folder, types, names,
                                    {"struct device_properties_13": "struct cudaDeviceProp"})
        for begun in ("struct_cudaPointerAttributes", "struct_cudaFuncAttributes"):  # ours has the first members only
            self.assertLessEqual(found.pop("size:" + begun), right.pop("size:" + begun))
        self.assertEqual(found, right)

    def test_numbers_that_are_handed_on(self):
        options = self.nvidia("cuda.h", "cuda_runtime_api.h", "library_types.h").options
        result = subprocess.run([*COMPILER, *options, "-include", "library_types.h", "-fsyntax-only", NVIDIA / "same_numbers.c"],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_functions(self):
        """Each function of a stand-in has parameters and a result of the same sizes as NVIDIA's function of that
        name."""
        for library_name, (least, headers, folder, options) in self.LIBRARIES.items():
            with self.subTest(library=library_name):
                theirs = self.nvidia(*headers)
                declared = declarations.functions(COMPILER, theirs, self.folder)
                options = [f"-I{harness.SOURCE / 'src'}", f"-I{harness.SOURCE / 'include'}", *options]
                found = {}
                for source in sorted((harness.SOURCE / "src" / "softgpu" / folder).glob("*.c")):
                    ours = declarations.Headers([source], options)
                    defined = declarations.functions(COMPILER, ours, self.folder, defined=True)
                    found |= declarations.passed(COMPILER, ours, self.folder,
                                                 {name: defined[name] for name in set(defined) & set(declared)})
                self.assertGreaterEqual(len(found), least)
                self.assertEqual(found, declarations.passed(COMPILER, theirs, self.folder,
                                                            {name: declared[name] for name in found}))

    def test_callback_names(self):
        told = self.output(self.compile("callback_names.c"), library("libcupti.so*"))
        self.assertRegex(told, r"^\d{3} asked, 0 wrong\n$")

    def test_walker(self):
        """NVIDIA's library reads the stand-in's records as the recorder does."""
        cupti = library("libcupti.so.13")
        for more in ({}, {"SOFTCUPTI_DISORDER": 1}, {"SOFTCUPTI_STRANGE": 1}):
            with self.subTest(more=more):
                result = self.run_program(stand_in.program("every_kind"), "lookup", options=("--capture", "cupti"),
                                          cupti="13.0", SOFTCUPTI_WALKER=cupti, **more)
                self.assert_same_ledger(result)
                self.assertNotRegex(self.notes(result), "differed|had no memory record")
        for more in ({"SOFTCUPTI_CUT": 1}, {"SOFTCUPTI_STRANGE": 2}):
            with self.subTest(more=more):
                self.assert_same_ledger(self.run_program(
                    stand_in.program("every_kind"), "lookup", options=("--capture", "cupti"), cupti="13.0",
                    SOFTCUPTI_WALKER=cupti, **more), variables=None)

    def lookups(self, *command):
        """Runs a program with the runtime under memprof's hooks. Returns its look-ups in the stand-in driver."""
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        self.run_program(*command, options=("--capture", "hooks"), SOFTGPU_LOOKUPS=asked)
        return asked.read_text()

    def hooks(self):
        found = [path for path in (harness.BUILD / "libmemprof-hooks.so",) if path.exists()]
        self.assertTrue(found, "libmemprof-hooks.so is not built")
        return found[0]

    def assert_all_caught(self, asked):
        lines = asked.splitlines()
        names = {line.split()[0] for line in lines}
        self.assertGreaterEqual(len(names), 300)
        # every look-up reached the driver through the hooks
        self.assertEqual({os.path.basename(line.split()[3]) for line in lines}, {"libmemprof-hooks.so"})
        answers = self.output(self.compile("who_answers.c"), input=asked,
                              env=stand_in.environment(LD_PRELOAD=f"{harness.BUILD / 'libmemprof.so'}:{self.hooks()}"))
        rows = [line.split() for line in answers.splitlines()]
        caught = {name for name, _, _, where in rows if os.path.basename(where) == "libmemprof-hooks.so"}
        self.assertEqual([row for row in rows if MEMORY.match(row[0]) and row[0] not in caught], [])
        # each form of a name: by version, and for per-thread default streams
        self.assertEqual([row for row in rows if row[0] in caught and "libmemprof" not in row[3]], [])
        memory = {name for name in names if MEMORY.match(name)}
        print(f"{len(lines)} questions, {len(names)} names, {len(memory)} of memory, all caught; {len(caught)} in all")

    def test_runtime_shared(self):
        program = self.compile("call_runtime.c")
        self.assert_all_caught(self.lookups(program, library("libcudart.so.1[0-9]")))

    def test_runtime_static(self):
        static = library("libcudart_static.a")
        self.assert_all_caught(self.lookups(self.compile("call_runtime.c", "-DRUNTIME_IS_STATIC", static)))


if __name__ == "__main__":
    harness.main()
