#!/usr/bin/env python3
"""The answers of `memprof doctor` on this machine, on a machine with a GPU (the stand-ins), and on odd ones."""

import os
import pathlib

import harness

STAND_INS = harness.BUILD / "src" / "softgpu" / "lib"
STATES = {"ok", "limited", "absent"}


class Doctor(harness.TestCase):
    def examine(self, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in ("CUDA_HOME", "CUDA_PATH")}
        environment.update({"PATH": str(self.folder)} | variables)  # no Pythons, which take long to start
        result = harness.memprof("doctor", "--json", env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        report = harness.json.loads(result.stdout)
        self.assertEqual(report["schema"], "memprof.doctor/1")
        for check in report["checks"]:
            self.assertIn(check["state"], STATES)
            self.assertEqual(check["advice"] is None, check["state"] == "ok", check)
        return report["checks"]

    def one(self, checks, name):
        found = [check for check in checks if check["name"] == name]
        self.assertTrue(found, f"no line on {name}")
        return found[0]

    def test_here(self):
        checks = self.examine(PATH=os.environ["PATH"])
        for name in ("driver", "CUPTI", "python", "recorder", "shared memory", "ptrace"):
            self.one(checks, name)
        self.assertEqual(self.one(checks, "recorder")["found"], str(harness.BUILD / "libmemprof.so"))
        text = harness.memprof("doctor")
        self.assertEqual(text.returncode, 0)
        for check in checks:
            self.assertIn(check["name"], text.stdout)

    @harness.needs("plan")
    def test_a_machine_with_gpus(self):
        checks = self.examine(LD_LIBRARY_PATH=str(STAND_INS), SOFTGPU_DEVICES="2")
        self.assertRegex(self.one(checks, "driver")["found"], r"^\d+\.\d+\S*, CUDA 13\.0$")
        self.assertEqual(self.one(checks, "driver")["state"], "ok")
        devices = [check["found"] for check in checks if check["name"] == "device"]
        self.assertEqual(len(devices), 2)
        self.assertRegex(devices[1], r"^1 .*, 8.00 GiB, GPU-")

    @harness.needs("plan")
    def test_a_driver_that_does_not_start(self):
        driver = self.one(self.examine(LD_LIBRARY_PATH=str(STAND_INS), SOFTNVML_FAIL="9"), "driver")
        self.assertEqual(driver["state"], "limited")
        self.assertIn("Driver Not Loaded", driver["found"])

    @harness.needs("plan")
    def test_cupti_by_its_answer(self):
        library = harness.BUILD / "tests" / "softgpu" / "cupti-13.0" / "libcupti.so.13"
        cupti = self.one(self.examine(LD_LIBRARY_PATH=str(STAND_INS), MEMPROF_CUPTI=str(library)), "CUPTI")
        self.assertRegex(cupti["found"], rf"^13\.0\.\d, {library}$")
        self.assertEqual(cupti["state"], "ok")
        cupti = self.one(self.examine(LD_LIBRARY_PATH=str(STAND_INS), MEMPROF_CUPTI=str(library),
                                      SOFTCUPTI_HELD_BY="Nsight Systems"), "CUPTI")
        self.assertEqual(cupti["state"], "limited")
        self.assertIn("held by Nsight Systems", cupti["advice"])
        cupti = self.one(self.examine(LD_LIBRARY_PATH=str(STAND_INS), MEMPROF_CUPTI=str(library),
                                      SOFTCUPTI_ERROR="15"), "CUPTI")
        self.assertIn("newer than the driver", cupti["advice"])

    def test_libraries_that_are_none(self):
        (self.folder / "text.so").write_text("no library")
        (self.folder / "libnvidia-ml.so.1").write_text("no library")
        checks = self.examine(MEMPROF_CUPTI=str(self.folder / "text.so"), LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual(self.one(checks, "driver")["state"], "absent")

    def script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def test_pythons_that_are_none_or_unknown(self):
        torch = f"{self.folder}/torch"
        for printed, state, found in (("7\\n3.7.1\\n0\\n/old/python\\n\\n\\n", "limited", "3.7.1, /old/python"),
                                      ("16\\n3.16.0\\n1\\n/new/python\\n\\n\\n", "limited",
                                       "3.16.0 free-threaded, /new/python"),
                                      ("13\\n3.13.9", "ok", "3.13.9, "),  # ends early
                                      (f"12\\n3.12.0\\n0\\n/known/python\\n{torch}\\n2.9\\n", "ok", "3.12.0, /known/python")):
            self.script("python3", f"#!/bin/sh\nprintf '{printed}'\n")
            python = self.one(self.examine(PATH=f"{self.folder}:/bin"), "python")
            self.assertEqual((python["state"], python["found"]), (state, found))
        self.script("python3", "#!/bin/sh\nkill -SEGV $$\n")
        self.assertEqual(self.one(self.examine(PATH=f"{self.folder}:/bin"), "python")["state"], "absent")

    def test_no_python(self):
        self.assertEqual(self.one(self.examine(PATH=str(self.folder)), "python")["state"], "absent")

    def test_torch_and_its_hooks(self):
        stand_in = pathlib.Path(harness.program("c10_stand_in.so"))
        (self.folder / "torch" / "lib").mkdir(parents=True)
        os.symlink(stand_in, self.folder / "torch" / "lib" / "libc10.so")
        self.script("python3", f"#!/bin/sh\nprintf '12\\n3.12.0\\n0\\n/p\\n{self.folder}/torch\\n2.9.0+cu130\\n'\n")
        torch = self.one(self.examine(PATH=f"{self.folder}:/bin"), "torch")
        self.assertEqual((torch["state"], torch["found"]), ("limited", "2.9.0+cu130, hooks of 1.9"))
        self.assertIn("no forward line", torch["advice"])
        # the recorder defines only the functions that it wraps
        os.symlink(harness.BUILD / "libmemprof.so", self.folder / "torch" / "lib" / "libtorch_cpu.so")
        self.assertEqual(self.one(self.examine(PATH=f"{self.folder}:/bin"), "torch"), torch)

    @harness.unittest.skipUnless(harness.python_with_torch(), "no Python here has torch")
    def test_a_real_torch(self):
        folder = pathlib.Path(harness.python_with_torch()).parent
        checks = self.examine(PATH=f"{folder}:/bin")
        states = [check for check in checks if check["name"] == "torch"]
        self.assertTrue(states)
        for torch in states:
            self.assertEqual(torch["state"], "ok", torch)
            self.assertIn("forward lines for backward", torch["found"])

    def test_other_tools(self):
        checks = self.examine(CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so", NVTX_INJECTION64_PATH="/x.so")
        found = [check for check in checks if check["name"] == "environment"]
        self.assertEqual(len(found), 2)
        self.assertIn("driver hooks", found[0]["advice"])


if __name__ == "__main__":
    harness.main()
