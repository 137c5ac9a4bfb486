#!/usr/bin/env python3
"""CUDA without a GPU: programs on the stand-ins of tests/softgpu under `memprof snapshot`, by CUPTI and by hooks,
compared block by block with the stand-in driver's own ledger."""

import json
import sys

import cuda_stand_in as stand_in
import harness

WAYS = ("dlopen", "lookup", "lookup_v1", "threads")


class EveryKind(stand_in.TestCase):
    """The ledger is the same for all ways to call the driver, and for all ways to record it."""

    def check(self, variables=True, **how):
        for way in WAYS:
            with self.subTest(way=way):
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), way, **how), variables)
        with self.subTest(way="linked"):
            self.assert_same_ledger(self.run_program(stand_in.program("every_kind_linked"), "linked", **how), variables)

    def test_hooks(self):
        self.check(options=("--capture", "hooks"), variables=False)

    def test_hooks_by_addresses_that_are_not_exported(self):
        self.check(options=("--capture", "hooks"), variables=False, SOFTGPU_INNER=1)

    def test_cupti(self):
        self.check(options=("--capture", "cupti"), cupti="13.0")

    def test_every_version_of_cupti(self):
        for version in stand_in.CUPTI:
            with self.subTest(version=version):
                cuda = stand_in.CUDA_OF.get(version, 13000)
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "lookup", cuda,
                                                         options=("--capture", "cupti"), cupti=version))

    def test_calls_that_an_old_cupti_does_not_know(self):
        """Hooks record calls that an old CUPTI does not report."""
        for version in ("11.2", "11.6"):
            with self.subTest(version=version):
                self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "lookup", cupti=version))

    def test_auto(self):
        self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "dlopen", cupti="13.0"))
        self.assert_same_ledger(self.run_program(stand_in.program("every_kind"), "dlopen"), variables=False)

    def test_runtime(self):
        for program in ("runtime_kinds", "runtime_kinds_static"):
            for how in ({"options": ("--capture", "hooks")}, {"options": ("--capture", "cupti"), "cupti": "12.6"}):
                with self.subTest(program=program, how=how):
                    self.assert_same_ledger(self.run_program(stand_in.program(program), **how))


class WhatIsTold(stand_in.TestCase):
    """A recording's facts other than its blocks."""

    hooks = {"options": ("--capture", "hooks")}
    cupti = {"options": ("--capture", "cupti"), "cupti": "13.0"}

    def sites(self, recording, track):
        """Bytes by site at the track's peak, without modules' variables, which only CUPTI reports."""
        sites = harness.answer("peak", recording, "--track", track, "--filter", "fn!~modules")["sites"]
        return sorted((site["bytes"], [(frame["function"], frame["file"], frame["line"]) for frame in site["stack"]])
                      for site in sites)

    def test_stacks_are_the_programs_own(self):
        """Stacks begin with neither the driver's nor the recorder's frames, and are the same by CUPTI and by hooks."""
        tracks = ("cuda:0/driver", "cuda:0/driver/pool", "cuda:0/driver/nodes", "cuda:0/driver/graph", "cpu/driver",
                  "cuda:0/driver/managed", "cuda:0/driver/mapped")
        seen = []
        for how in (self.hooks, self.cupti):
            result = self.run_program(stand_in.program("every_kind"), "lookup", **how)
            seen.append({track: self.sites(result.recording, track) for track in tracks})
        for size, stack in sum(seen[0].values(), []):
            self.assertTrue(stack[0][1] and stack[0][1].endswith("every_kind.c"), stack)
        for track in tracks:
            with self.subTest(track=track):
                self.assertEqual(seen[0][track], seen[1][track])

    def reserved_peaks(self, ledger):
        held, peaks = {}, {}
        for line in ledger.read_text().splitlines():
            sign, kind, device, pool, size = line.split()
            if sign != "=":
                continue
            track = stand_in.track_name(int(device), stand_in.TRACKS[kind])
            held[track, pool] = int(size)
            peaks[track] = max(peaks.get(track, 0), sum(size for (of, _), size in held.items() if of == track))
        return peaks

    def test_what_pools_hold(self):
        for how in (self.hooks, self.cupti, {"cupti": "13.0"}):
            with self.subTest(how=how):
                result = self.run_program(stand_in.program("every_kind"), "lookup", **how)
                wanted = self.reserved_peaks(result.ledger)
                self.assertEqual(set(wanted), {"cuda:0/driver/pool", "cuda:1/driver/pool", "cuda:0/driver/graph"})
                tracks = {track["id"]: track for track in harness.answer("info", result.recording)["tracks"]}
                if "cupti" in how.get("options", ((),))[-1]:
                    del wanted["cuda:0/driver/graph"]  # CUPTI has no record of it
                for track, peak in wanted.items():
                    self.assertEqual(tracks[track]["reserved_peak_bytes"], peak, track)

    def test_devices_are_known_by_uuid(self):
        for how in (self.hooks, self.cupti):
            for visible, first in (("1", 1), ("1,0", 1), ("GPU-60", 1), ("0,1", 0)):
                with self.subTest(how=how, visible=visible):
                    result = self.run_program(stand_in.program("runtime_kinds"), CUDA_VISIBLE_DEVICES=visible,
                                              status=None, **how)
                    devices = {device["id"]: device for device in harness.answer("info", result.recording)["devices"]}
                    self.assertTrue(devices["cuda:0"]["uuid"].startswith(f"GPU-{0x50 + 16 * first:x}"), devices)

    def test_processes_of_a_command(self):
        """Each process has a recording, equal to its own ledger."""
        program = stand_in.program("runtime_kinds")
        command = "; ".join(f"SOFTGPU_LEDGER={self.folder}/ledger{i} {program}" for i in (0, 1))
        result = self.run_program("sh", "-c", command, **self.hooks)
        recordings = sorted(path for path in self.folder.glob("*.mp") if ".oom." not in path.name)
        self.assertEqual(len(recordings), 2)
        ledgers = [stand_in.runs_of(stand_in.read_ledger(self.folder / f"ledger{i}")[0]) for i in (0, 1)]
        found = [stand_in.runs_of(stand_in.read_recording(recording)) for recording in recordings]
        self.assertCountEqual(found, ledgers)
        self.assertEqual(result.stdout, "")

    def test_python(self):
        for how in (self.hooks, self.cupti):
            with self.subTest(how=how):
                result = self.run_program(sys.executable, harness.SOURCE / "tests/softgpu/programs/from_python.py",
                                          stand_in.CUDA / "libcudart.so.13", **how)
                self.assert_same_ledger(result)
                sites = harness.answer("peak", result.recording, "--track", "cuda:0/driver")["sites"]
                named = {(site["bytes"], frame["function"]) for site in sites for frame in site["stack"]}
                self.assertIn((500000, "make_buffer"), named)
                self.assertIn((3000000, "make_weights"), named)

    def test_memory_that_sleeps_beneath_pytorch(self):
        for how in ({"options": ("--capture", "hooks,torch")},
                    {"options": ("--capture", "cupti,torch"), "cupti": "13.0"}):
            for seed in (1, 2, 3):
                with self.subTest(how=how, seed=seed):
                    result = self.run_program(
                        sys.executable, harness.SOURCE / "tests/softgpu/programs/sleeping.py",
                        stand_in.LIB / "libcuda.so.1", harness.program("c10_stand_in.so"), seed, **how)
                    truth = json.loads(result.stdout)
                    use = harness.answer("info", result.recording)["device_use"][0]
                    self.assertGreater(truth["most"], 0)
                    self.assertEqual(use["unbacked_most_bytes"], truth["most"])
                    self.assertEqual(use["unbacked_end_bytes"], truth["end"])
                    peak = harness.answer("peak", result.recording, "--track", "cuda:0/torch")
                    self.assertEqual(peak["unbacked_bytes"], truth["at_peak"])


if __name__ == "__main__":
    harness.main()
