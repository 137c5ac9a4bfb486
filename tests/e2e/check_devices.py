#!/usr/bin/env python3
"""A device's total and the recording's own bytes, on the stand-ins of NVML and of libc10. Checks the mapping of device
numbers, the uses of a device's memory, and the messages if NVML fails."""

import os
import sys

import cuda_stand_in
import harness

MIB = 1 << 20
TOTAL = 8 << 30


@harness.needs("plan")
class Devices(harness.TestCase):
    def record(self, *devices, nvml=True, read=True, options=(), **variables):
        self.path = self.folder / "run.mp"
        if not nvml or not read:
            variables["GPU_USER_UNREAD"] = "1"
        environment = dict(os.environ, SOFTGPU_ON="1", SOFTGPU_STATE=str(self.folder / "state"), **variables)
        if nvml:
            environment["LD_LIBRARY_PATH"] = str(harness.BUILD / "src" / "softgpu" / "lib")
        result = harness.memprof("snapshot", "--force", "--no-symbols", "-o", self.path, *options, "--",
                                 harness.program("gpu_user"), harness.program("c10_stand_in.so"),
                                 self.folder / "state", *devices, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = result.stderr
        return harness.answer("info", self.path)

    def notes(self, info):
        return " ".join(info["coverage"]["notes"])

    def parts(self, use):
        return {part["name"]: part["bytes"] for part in use["parts"]}

    def test_every_byte_of_the_total(self):
        info = self.record("0=0", SOFTNVML_OTHERS=str(512 * MIB))
        self.assertEqual(info["devices"], [{"id": "cuda:0", "uuid": info["devices"][0]["uuid"],
                                            "name": info["devices"][0]["name"], "total_bytes": TOTAL}])
        self.assertRegex(info["devices"][0]["uuid"], "^GPU-[0-9a-f-]{36}$")
        use, = info["device_use"]
        self.assertEqual((use["id"], use["in_use_bytes"], use["process_bytes"], use["others_bytes"]),
                         ("cuda:0", 940 * MIB, 428 * MIB, 512 * MIB))
        self.assertEqual(self.parts(use), {"tensors": 100 * MIB, "cached, free": 28 * MIB,
                                           "other processes": 512 * MIB, "unattributed": 300 * MIB})
        self.assertEqual(use["unattributed_bytes"], 300 * MIB)
        self.assertEqual(info["coverage"]["unattributed_bytes"], 300 * MIB)
        for command in ("peak", "leaks", "report", "steps"):
            self.assertEqual(harness.answer(command, self.path)["coverage"]["unattributed_bytes"], 300 * MIB)
        self.assertIn("unattributed 300 MiB", self.said)
        self.assertNotIn("NVML", self.notes(info))
        text = harness.memprof("report", self.path).stdout
        self.assertIn("DEVICE  940 MiB of 8.00 GiB in use on cuda:0", text)
        self.assertIn("tensors 100 MiB | cached, free 28.0 MiB | other processes 512 MiB | unattributed 300 MiB", text)
        counters = {sample["counter"]: sample["peak_bytes"] for sample in info["samples"]}
        self.assertEqual((counters["cuda:0/device"], counters["cuda:0/process"], counters["cuda:0/before"]),
                         (940 * MIB, 428 * MIB, 512 * MIB))

    def test_a_program_of_the_driver(self):
        """The known parts are blocks, the context and the total, on the stand-in driver."""
        script = cuda_stand_in.WAIT_FOR_A_READING + """if True:
            import ctypes
            cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
            context, device = ctypes.c_void_p(), ctypes.c_int()
            made = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
                    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context),
                    cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(50 << 20))]
            wait_for_a_reading()
            raise SystemExit(any(made))
        """
        lib, cupti = harness.BUILD / "src" / "softgpu" / "lib", harness.BUILD / "tests" / "softgpu" / "cupti-13.0"
        environment = dict(os.environ, SOFTGPU_ON="1", SOFTGPU_STATE=str(self.folder / "state"), SOFTNVML_OTHERS=str(512 * MIB),
                           LD_LIBRARY_PATH=f"{lib}:{cupti}")
        for way in ("cupti", "hooks"):
            path = self.folder / f"{way}.mp"
            result = harness.memprof("snapshot", "-o", path, "--capture", way, "--", sys.executable, "-c", script,
                                     env=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            use, = harness.answer("info", path)["device_use"]
            parts = self.parts(use)
            self.assertEqual((use["in_use_bytes"], use["handed_out_bytes"]), (626 * MIB, 50 * MIB), way)
            self.assertEqual((parts.pop("context"), parts.pop("other processes")), (64 * MIB, 512 * MIB))
            self.assertEqual(list(parts.values()), [50 * MIB])
            self.assertEqual(use["unattributed_bytes"], 0)

    def test_processes_that_nvml_does_not_name(self):
        info = self.record("0=0", SOFTNVML_OTHERS=str(512 * MIB), SOFTNVML_PROCESSES="hidden")
        use, = info["device_use"]
        self.assertEqual((use["in_use_bytes"], use["process_bytes"], use["others_bytes"]), (940 * MIB, None, None))
        self.assertEqual(self.parts(use), {"tensors": 100 * MIB, "cached, free": 28 * MIB,
                                           "in use before": 512 * MIB, "unattributed": 300 * MIB})
        self.assertIn("NVML names no process", self.notes(info))

    def test_processes_without_numbers(self):
        info = self.record("0=0", SOFTNVML_PROCESSES="none")
        use, = info["device_use"]
        self.assertEqual((use["in_use_bytes"], use["process_bytes"], use["others_bytes"]), (428 * MIB, None, None))
        self.assertIn("without numbers", self.notes(info))

    def test_processes_of_whom_some_are_not_known(self):
        """If a process's bytes are unknown, so is the sum. A process that is listed twice counts once."""
        for which, process, others in (("some", 428 * MIB, None), ("crowd", None, None),
                                       ("drawing", 428 * MIB, 512 * MIB)):
            info = self.record("0=0", SOFTNVML_OTHERS=str(512 * MIB), SOFTNVML_PROCESSES=which)
            use, = info["device_use"]
            self.assertEqual((use["in_use_bytes"], use["process_bytes"], use["others_bytes"]),
                             (940 * MIB, process, others), which)
            counters = {sample["counter"] for sample in info["samples"]}
            self.assertEqual("cuda:0/system" in counters, which == "drawing", which)

    def test_two_devices(self):
        info = self.record("0=0", "2=2", SOFTGPU_DEVICES="3")
        self.assertEqual([use["id"] for use in info["device_use"]], ["cuda:0", "cuda:2"])
        self.assertEqual([use["process_bytes"] for use in info["device_use"]], [428 * MIB] * 2)
        self.assertEqual(info["coverage"]["unattributed_bytes"], 600 * MIB)
        self.assertEqual(len({device["uuid"] for device in info["devices"]}), 2)

    def test_devices_by_what_is_visible(self):
        every = {device["id"]: device["uuid"]
                 for device in self.record("0=0", "1=1", "2=2", SOFTGPU_DEVICES="3")["devices"]}
        first, second, third = (every[f"cuda:{i}"] for i in range(3))
        for visible, wanted in (("2,0", [third, first]), (f"{second},{first}", [second, first]),
                                (f"{third[:8]},1", [third, second])):
            info = self.record(*(f"{[first, second, third].index(uuid)}={i}" for i, uuid in enumerate(wanted)),
                               SOFTGPU_DEVICES="3", CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual([device["uuid"] for device in info["devices"]], wanted, visible)
            self.assertEqual([use["process_bytes"] for use in info["device_use"]], [428 * MIB] * 2)

    def test_an_instance(self):
        info = self.record("0=0", SOFTNVML_MIG="2")
        self.assertEqual(info["devices"][0]["total_bytes"], TOTAL // 2)
        self.assertRegex(info["devices"][0]["uuid"], "^MIG-")
        self.assertEqual(info["device_use"][0]["process_bytes"], 428 * MIB)

    def test_a_device_that_cannot_be_told(self):
        info = self.record("0=0", CUDA_VISIBLE_DEVICES="GPU-ffff", read=False)
        self.assertEqual(info["devices"][0]["uuid"], None)
        self.assertEqual(info["device_use"][0]["in_use_bytes"], None)
        self.assertIn("which GPU cuda:0 was is not known", self.notes(info))

    def test_without_a_driver(self):
        info = self.record("0=0", nvml=False)
        use, = info["device_use"]
        self.assertEqual((use["in_use_bytes"], use["handed_out_bytes"]), (None, 128 * MIB))
        self.assertEqual(self.parts(use), {"tensors": 100 * MIB, "cached, free": 28 * MIB})
        self.assertIsNone(info["coverage"]["unattributed_bytes"])
        self.assertNotIn("unattributed", self.said)

    def test_nvml_that_does_not_start(self):
        info = self.record("0=0", SOFTNVML_FAIL="9", read=False)
        self.assertIsNone(info["device_use"][0]["in_use_bytes"])
        self.assertIn("NVML does not start: Driver Not Loaded (error 9)", self.notes(info))


if __name__ == "__main__":
    harness.main()
