#!/usr/bin/env python3
"""Faulty programs, broken records, and a CUPTI that is busy or fails later, on the stand-ins of tests/softgpu. The
program runs on, and the recording says what happened."""

import subprocess

import cuda_stand_in as stand_in
import harness


class Faults(stand_in.TestCase):
    """Programs that misuse CUDA, or that are disturbed."""

    ways_in = (("hooks", {"options": ("--capture", "hooks")}),
               ("cupti", {"options": ("--capture", "cupti"), "cupti": "13.0"}))

    def check(self, fault, **how):
        for name, way in self.ways_in:
            with self.subTest(way=name):
                self.assert_same_ledger(self.run_program(stand_in.program("faults"), "lookup", fault, **way, **how))

    def test_double_free(self):
        self.check("double_free")

    def test_unknown_free(self):
        self.check("unknown_free")

    def test_context_destroyed_under_live_blocks(self):
        self.check("lost_context")

    def test_fork(self):
        self.check("fork")

    def test_use_after_fork(self):
        self.check("fork_and_use")

    def test_fork_out_of_a_signal_handler(self):
        """The child returns into the middle of a hook, with the parent's tables and spool."""
        for follow in ("yes", "no"):
            with self.subTest(follow=follow):
                result = self.run_program(stand_in.program("faults"), "lookup", "fork_in_recorder",
                                          options=("--capture", "hooks", "--follow", follow))
                forks, contexts, blocks = map(int, result.stdout.split())
                self.assertEqual(forks, 60, "it was not interrupted in the recorder")
                # each of the parent's calls once, and none of a child's
                info = harness.answer("info", result.recording)
                self.assertTrue(info["coverage"]["complete"], info["coverage"])
                tracks = {track["id"]: (track["allocs"], track["frees"], track["end_bytes"]) for track in info["tracks"]}
                self.assertEqual(tracks["cuda:0/driver"], (blocks, blocks, 0))
                self.assertEqual(tracks["cuda:0/driver/contexts"][:2], (contexts + 1, contexts))

    def test_driver_that_was_unloaded(self):
        for how in ("dlopen", "lookup"):
            with self.subTest(how=how):
                self.assert_same_ledger(self.run_program(stand_in.program("faults"), how, "reload",
                                                         options=("--capture", "hooks")))

    def test_use_before_the_recorder_has_started(self):
        """Calls from constructors of the program's libraries are not recorded; all later calls are."""
        folders = f"{stand_in.LIB}:{stand_in.SOFTGPU / 'programs'}"
        result = self.run_program(stand_in.program("early"), options=("--capture", "hooks"), LD_LIBRARY_PATH=folders)
        track = harness.answer("info", result.recording, status=(0, 4))["tracks"]
        self.assertEqual([entry["allocs"] for entry in track if entry["id"] == "cuda:0/driver"], [10])

    def test_first_calls_under_the_loaders_lock(self):
        """A plug-in's constructor waits for a thread that uses the driver. dlerror() still reports the program's own
        errors."""
        for how in ("linked", "dlopen", "lookup", "lookup_v1"):
            with self.subTest(how=how):
                result = self.run_program(stand_in.program("under_lock"), how,
                                          harness.BUILD / "tests" / "faults" / "plugin.so",
                                          options=("--capture", "hooks"))
                self.assertEqual(result.stdout, "done\n")
                self.assert_same_ledger(result)

    def test_end_of_no_capture(self):
        self.check("stray_end")

    def test_kill(self):
        self.check("kill", status=128 + 9)
        result = self.run_program(stand_in.program("faults"), "lookup", "kill", cupti="13.0", status=128 + 9)
        self.assertIn("without flushing CUPTI", self.notes(result))

    def test_out_of_memory(self):
        """Each function that runs out of memory leaves an event with the requested bytes, on the track that the block
        would have had."""
        symbols = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemHostAlloc",
                   "cuMemAllocHost_v2", "cuArrayCreate_v2", "cuArray3DCreate_v2",
                   "cuMipmappedArrayCreate", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
                   "cuMemAllocFromPoolAsync_ptsz", "cuMemCreate", "cuGraphAddMemAllocNode")
        for name, way in self.ways_in:
            with self.subTest(way=name):
                result = self.run_program(stand_in.program("faults"), "lookup", "refusals", **way,
                                          SOFTGPU_FAIL=",".join(f"{symbol}:1" for symbol in symbols))
                refused = [entry for entry in stand_in.read_ledger(result.ledger)[0] if entry.sign == "!"]
                self.assertEqual(len(refused), len(symbols))
                self.assert_same_ledger(result)


class Records(stand_in.TestCase):
    """Records in CUPTI's buffers are only compared with the callbacks; the recording does not need them."""

    def record(self, *arguments, **how):
        return self.run_program(stand_in.program("every_kind"), "lookup", *arguments, options=("--capture", "cupti"),
                                **how)

    def test_disorder(self):
        for version in ("12.6", "13.0"):
            result = self.record(cupti=version, SOFTCUPTI_DISORDER=1)
            self.assert_same_ledger(result)
            self.assertNotRegex(self.notes(result), "differed|had no memory record")

    def test_dropped(self):
        result = self.record(cupti="13.0", SOFTCUPTI_DROP=3)
        self.assert_same_ledger(result, variables=None)
        self.assertRegex(self.notes(result), "records were dropped by CUPTI")

    def test_cut_buffer(self):
        for version in stand_in.CUPTI:
            with self.subTest(version=version):
                cuda = stand_in.CUDA_OF.get(version, 13000)
                self.assert_same_ledger(self.record(cuda, cupti=version, SOFTCUPTI_CUT=1), variables=None)

    def test_unknown_kinds(self):
        for version in ("12.6", "13.0", "99"):
            with self.subTest(version=version):
                self.assert_same_ledger(self.record(cupti=version, SOFTCUPTI_STRANGE=1))
                result = self.record(cupti=version, SOFTCUPTI_STRANGE=2)
                self.assert_same_ledger(result, variables=None)
                self.assertRegex(self.notes(result), "records? of CUPTI could not be read")

    def test_disagreement(self):
        result = self.record(cupti="13.0", SOFTCUPTI_WRONG=1)
        self.assert_same_ledger(result, variables=None)
        self.assertRegex(self.notes(result), "memory records of CUPTI differed from their callbacks")

    def test_silence(self):
        result = self.record(cupti="13.0", SOFTCUPTI_SILENT=1)
        self.assert_same_ledger(result, variables=False)
        self.assertRegex(self.notes(result), "callbacks of CUPTI had no memory record")


class Fallback(stand_in.TestCase):
    """CUPTI is absent, busy, broken, or stops in the middle. The hooks record on, and the recording says so."""

    def record(self, *options, **how):
        return self.run_program(stand_in.program("every_kind"), "lookup", options=options, **how)

    def test_busy(self):
        result = self.record(cupti="13.0", SOFTCUPTI_HELD_BY="Nsight Systems")
        self.assert_same_ledger(result, variables=False)
        self.assertIn("Nsight Systems", self.notes(result))
        for version in ("11.2", "12.6"):
            result = self.record(cupti=version, SOFTCUPTI_HELD_BY="Nsight Systems")
            self.assert_same_ledger(result, variables=False)
            self.assertIn("CUPTI", self.notes(result))

    def test_absent(self):
        result = self.record()
        self.assert_same_ledger(result, variables=False)
        self.assertIn("CUPTI", self.notes(result))

    def test_errors(self):
        for error in (999, 15, 35):
            result = self.record(cupti="13.0", SOFTCUPTI_ERROR=error)
            self.assert_same_ledger(result, variables=False)
            self.assertIn("CUPTI", self.notes(result))

    def test_gone_in_the_middle(self):
        for fatal in (0, 1):
            for after in (1, 2, 77, 150):
                with self.subTest(fatal=fatal, after=after):
                    result = self.record(cupti="13.0", SOFTCUPTI_GONE_AFTER=after, SOFTCUPTI_FATAL=fatal)
                    self.assert_same_ledger(result, variables=None)
                    self.assertIn("CUPTI", self.notes(result))

    def test_only_cupti_and_it_is_busy(self):
        """Nothing is recorded, so there is no file; the program's exit status is passed on."""
        result = self.record("--capture", "cupti", cupti="13.0", SOFTCUPTI_HELD_BY="Nsight Systems")
        self.assertIn("Nsight Systems", result.stderr)


class NoDriver(stand_in.TestCase):
    def test_program_runs_on(self):
        for variables in ({"LD_LIBRARY_PATH": "/nowhere"}, {"SOFTGPU_NO_DEVICE": 100}, {"SOFTGPU_VERSION": 9000}):
            with self.subTest(variables=variables):
                alone = subprocess.run([stand_in.program("runtime_kinds_static")], capture_output=True, text=True,
                                       env=stand_in.environment(**variables))
                result = self.run_program(stand_in.program("runtime_kinds_static"), status=alone.returncode,
                                          **variables)
                self.assertIn(alone.stderr, result.stderr)

    def test_injection_path_that_does_not_exist(self):
        """Another tool's injection path stays as it is, and the hooks record."""
        result = self.run_program(stand_in.program("every_kind"), "lookup", cupti="13.0",
                                  CUDA_INJECTION64_PATH="/nowhere/injected.so")
        self.assert_same_ledger(result, variables=False)


if __name__ == "__main__":
    harness.main()
