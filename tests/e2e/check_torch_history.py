#!/usr/bin/env python3
"""PyTorch's own history on CUDA, on a stand-in of torch with the signatures of each version. Every block has the
requested size, stream and pool. The program does not notice, and a failure turns the history off."""

import csv
import json
import os
import subprocess
import sys
import unittest

import harness

PROGRAMS = harness.SOURCE / "tests" / "e2e" / "programs"
PROGRAM = PROGRAMS / "torch_requests.py"
VERSIONS = ("1.13.1", "2.0.1", "2.1.0", "2.6.0", "2.9.1", "2.10.0", "2.11.0", "2.14.1")
NEWEST = VERSIONS[-1]
RUN = ("2.6", "2.9", "2.11")  # of those: where the history is read by default, since tests/cuda_torch ran there
ASKED = ("--torch-history",)  # without it, on the version alone that was really run
NAIVE = harness.SOURCE / "tests" / "unit" / "analysis"


def number(version):
    return tuple(int(part) for part in version.split("."))


class History(harness.TestCase):
    def environment(self, version, **more):
        return dict(os.environ, PYTHONPATH=f"{PROGRAMS / 'torch_stand_in'}:{NAIVE}", PYTHONDONTWRITEBYTECODE="1",
                    STAND_IN_TORCH=version, STAND_IN_C10=harness.program("c10_stand_in.so"), **more)

    def plain(self, version, *arguments, **more):
        done = subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True,
                              env=self.environment(version, **more), timeout=harness.TIMEOUT)
        return json.loads(done.stdout)

    def recorded(self, version, *arguments, options=(), asked=ASKED, **more):
        """Runs the program. Returns the program's answer, the recording's blocks on each device in order, and the
        coverage."""
        path = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--follow", "all", "--quiet", "--force", "-o", path, *asked, *options, "--", sys.executable,
                               PROGRAM, *arguments, env=self.environment(version, **more), cwd=self.folder)
        self.assertEqual(done.returncode, 137 if "killed" in arguments else 0, done.stderr)
        self.snapshot = path
        coverage = harness.answer("info", path)["coverage"]
        notes = [note for note in coverage["notes"] if "history" in note]
        return json.loads(done.stdout), self.blocks(path), notes

    def blocks(self, path):
        table = self.folder / "blocks.csv"
        harness.memprof("export", path, "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as rows:
            blocks = list(csv.DictReader(rows))
        return [[row for row in blocks if row["track"] == f"cuda:{device}/torch"] for device in (0, 1)]

    def compare(self, answer, devices):
        """Asserts that blocks have the program's sizes, streams and pools. Returns the number of blocks with a history,
        and of all blocks."""
        told = count = 0
        for truth, blocks in zip(answer["truth"], devices):
            self.assertEqual(len(truth), len(blocks))
            for (address, size, requested, stream, pool), block in zip(truth, blocks):
                self.assertEqual((int(block["address"], 16), int(block["bytes"])), (address, size))
                count += 1
                if block["requested_bytes"]:
                    told += 1
                    self.assertEqual((block["requested_bytes"], block["stream"], block["pool"]),
                                     (str(requested), str(stream), f"{pool >> 32},{pool & 0xffffffff}"))
        return told, count

    def test_every_version(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                answer, devices, notes = self.recorded(version, 6, 60)
                told, count = self.compare(answer, devices)
                if number(version) < (2, 1):
                    self.assertIn("records none without stacks", "".join(notes))
                    self.assertNotIn("on", answer["calls"])
                    self.assertEqual(told, 0)
                elif number(version) < (2, 2):  # without times, only blocks that live at a reading have sizes
                    self.assertEqual(notes, [])
                    self.assertGreaterEqual(told, 20)
                else:
                    self.assertEqual(notes, [])
                    self.assertEqual(told, count, "some blocks are not told of")

    def test_expandable_segments(self):
        answer, devices, notes = self.recorded(NEWEST, 6, 60, STAND_IN_SETTINGS="expandable")
        self.assertEqual((self.compare(answer, devices), notes), ((380, 380), []))

    def test_segments(self):
        """The segments at the end, and the answer of `memprof frag` about them, equal the allocator's."""
        answer, devices, _ = self.recorded("2.6.0", 6, 60)
        frag = harness.answer("frag", self.snapshot, "--track", "cuda:0/torch")
        self.assertEqual(frag["reserved_bytes"], sum(segment["bytes"] for segment in frag["segments"]))
        live = [block for block in devices[0] if not block["free_ns"]]
        self.assertEqual(frag["allocated_bytes"], sum(int(block["bytes"]) for block in live))
        self.assertEqual({segment["stream"] for segment in frag["segments"]}, {0, 0x7fff12345678})
        self.assertEqual({segment["pool"] for segment in frag["segments"]}, {"0,0", "1,7"})
        peak = harness.answer("peak", self.snapshot, "--track", "cuda:0/torch", "--group", "stream")
        self.assertEqual(peak["rounding"], {"known_bytes": peak["peak_bytes"], "by_site_bytes": 0,
                                            "requested_bytes": peak["requested_peak_bytes"]})
        then = [block for block in devices[0] if int(block["alloc_ns"]) <= peak["peak_ns"]
                and (not block["free_ns"] or int(block["free_ns"]) > peak["peak_ns"])]
        self.assertEqual(peak["requested_peak_bytes"], sum(int(block["requested_bytes"]) for block in then))
        track = self.track(self.snapshot, "cuda:0/torch")
        self.assertEqual(track["requested_peak_bytes"], peak["requested_peak_bytes"])
        self.assertIn("was requested; PyTorch's allocator rounded that up by",
                      harness.memprof("peak", self.snapshot, "--track", "cuda:0/torch").stdout)
        self.assertEqual({site["group"] for site in peak["sites"]}, {"0", str(0x7fff12345678)})
        self.assertIn("  0x7fff12345678", harness.memprof("peak", self.snapshot, "--track", "cuda:0/torch", "--group",
                                                           "stream").stdout)

    def test_replays_are_exact(self):
        """A replay with the recorded settings, written differently, reserves exactly the recorded bytes."""
        for settings in ("", "expandable"):
            self.recorded(NEWEST, 6, 60, STAND_IN_SETTINGS=settings)
            for device in ("cuda:0/torch", "cuda:1/torch"):
                same = "expandable_segments:" + ("True" if settings else "False")
                replay = harness.answer("frag", self.snapshot, "--track", device, "--replay", same)["replay"]
                track = self.track(self.snapshot, device)
                self.assertEqual(replay["reserved_peak_bytes"], track["reserved_peak_bytes"])

    def test_exported_for_pytorch(self):
        """The exported snapshot has requested sizes and streams, like PyTorch's own."""
        answer, devices, _ = self.recorded("2.6.0", 6, 60)
        path = self.folder / "snapshot.json"
        self.assertEqual(harness.memprof("export", self.snapshot, "--format", "pytorch", "-o", path).returncode, 0)
        for truth, trace in zip(answer["truth"], json.loads(path.read_text())["device_traces"]):
            self.assertEqual([[entry["addr"], entry["size"], entry["stream"]] for entry in trace
                              if entry["action"] == "alloc"], [[row[0], row[2], row[3]] for row in truth])

    def test_batches_are_exact(self):
        """With requested sizes, predictions for larger batches are exact to the byte."""
        program = PROGRAMS / "torch_batch.py"
        probes = []
        for batch in (4, 6, 9, 13):
            path = self.folder / f"{batch}.mp"
            harness.memprof("snapshot", "--follow", "all", "--quiet", "-o", path, "--", sys.executable, program, batch,
                            env=self.environment("2.6.0"))
            probes.append(f"{batch}={path}")
        answer = harness.answer("size", "--capacity", "80GiB", *probes, "--predict", "32,64")
        for prediction in answer["predictions"][:2]:
            truth = subprocess.run([sys.executable, program, str(prediction["batch"])], check=True, capture_output=True,
                                   text=True, env=self.environment("2.6.0")).stdout
            allocated, reserved = map(int, truth.split())
            self.assertEqual([prediction["allocated_bytes"], prediction["reserved_bytes"]], [allocated, reserved])
            # on CUDA a larger batch may use scratch memory that no probe used
            self.assertGreaterEqual(prediction["high_bytes"], reserved)
            # beyond the probes, the lower bound has no rounding, so it is at most the allocated bytes
            self.assertLessEqual(prediction["low_bytes"], allocated)
            self.assertGreater(prediction["low_bytes"], allocated * 0.99)

    def test_only_where_it_was_run(self):
        """For versions of PyTorch that were never tested on CUDA, the history is read only on request; otherwise the
        recording says why not."""
        for version in VERSIONS:
            with self.subTest(version=version):
                answer, devices, notes = self.recorded(version, 2, 40, asked=())
                if version.rpartition(".")[0] in RUN:
                    self.assertGreater(self.compare(answer, devices)[0], 0)
                    self.assertEqual(notes, [])
                else:
                    self.assertEqual((answer["calls"], self.compare(answer, devices)[0]), ([], 0))
                    self.assertEqual(len(notes), 1)
                    self.assertIn(f"with torch {version} that was never run on CUDA", notes[0])
                    self.assertIn("--torch-history", notes[0])

    def test_off(self):
        for options in (("--no-torch-history",), ("--no-shim",), ("--sample", "64KiB")):
            answer, devices, notes = self.recorded(NEWEST, 2, 40, options=options)
            self.assertEqual(answer["calls"], [])
            self.assertEqual(notes, [])
        answer, devices, notes = self.recorded(NEWEST, 2, 40, options=("--no-torch-history",))
        self.assertEqual(self.compare(answer, devices), (0, 100))
        self.assertEqual(harness.answer("peak", self.snapshot)["rounding"], None)
        self.assertEqual(self.track(self.snapshot, "cuda:0/torch")["requested_peak_bytes"], None)

    def test_the_program_sees_nothing(self):
        for version in ("2.1.0", "2.11.0", NEWEST):
            for what in ("looks", "dump", "late", "own", "threads"):
                with self.subTest(version=version, what=what):
                    plain = self.plain(version, 6, 40, what)
                    answer, devices, notes = self.recorded(version, 6, 40, what)
                    self.assertEqual(answer["seen"], plain["seen"])
                    self.assertEqual(answer["truth"], plain["truth"])
                    self.compare(answer, devices)
                    if what == "own":  # never turned on or off, nor looked at, but by the program
                        self.assertEqual(answer["calls"], plain["calls"])
                        self.assertEqual(len(notes), 1)
                        self.assertIn("the program records PyTorch's own history itself", notes[0])
                    else:
                        self.assertEqual(notes, [])

    def test_cuda_that_is_there_already(self):
        answer, devices, notes = self.recorded(NEWEST, 6, 60, STAND_IN_SETTINGS="early")
        self.assertEqual((self.compare(answer, devices), notes), ((380, 380), []))

    def test_allocators_without_history(self):
        """cudaMallocAsync and pluggable allocators: the program gets the same answers from them as without memprof."""
        for version in ("2.6.0", NEWEST):
            plain = self.plain(version, 2, 40, "asks", STAND_IN_FAULT="backend")
            answer, devices, notes = self.recorded(version, 2, 40, "asks", STAND_IN_FAULT="backend")
            self.assertIn("does not yet support", plain["seen"]["asks"][0])
            self.assertEqual(answer["seen"], plain["seen"])
            self.assertEqual(answer["calls"], plain["calls"])
            self.assertEqual(len(notes), 1, notes)
            self.assertIn("without PyTorch's own history", notes[0])

    def test_what_fails_turns_it_off(self):
        plain = self.plain("2.6.0", 6, 40)
        for fault in ("history", "snapshot"):
            answer, devices, notes = self.recorded("2.6.0", 6, 40, STAND_IN_FAULT=fault)
            self.assertEqual(answer["truth"], plain["truth"])
            self.assertEqual(len(notes), 1, notes)
            self.assertIn("without PyTorch's own history", notes[0])
            self.assertLessEqual(answer["calls"].count("snapshot"), 2)
            self.compare(answer, devices)

    def compare_last(self, answer, devices):
        """A file that lacks older blocks gives the same numbers: its first blocks are those live at its beginning."""
        told = count = 0
        for truth, blocks in zip(answer["truth"], devices):
            base = [block for block in blocks if not block["alloc_ns"]]
            later = truth[len(truth) - (len(blocks) - len(base)):]
            rows = [(row, block) for row, block in zip(later, blocks[len(base):])]
            before = {row[0]: row for row in truth[:len(truth) - len(later)]}
            for row, block in rows + [(before[int(block["address"], 16)], block) for block in base]:
                count += 1
                if block["requested_bytes"]:
                    told += 1
                    self.assertEqual((block["requested_bytes"], block["stream"]), (str(row[2]), str(row[3])))
        return told, count

    def test_a_bounded_file(self):
        answer, devices, _ = self.recorded("2.6.0", 30, 60, options=("--max-events", "200"))
        told, count = self.compare_last(answer, devices)
        self.assertLess(count, 800)
        self.assertEqual(told, count)
        self.assertGreater(sum(not block["alloc_ns"] for blocks in devices for block in blocks), 10)

    def test_a_snapshot_of_now(self):
        answer, _, _ = self.recorded("2.6.0", 4, 60, "now")
        devices = self.blocks(self.folder / "now.mp")
        self.assertEqual(self.compare(answer, devices), (len(answer["truth"][0]) + len(answer["truth"][1]),) * 2)
        frag = harness.answer("frag", self.folder / "now.mp", "--track", "cuda:0/torch")
        self.assertTrue(all(segment["pool"] for segment in frag["segments"]))

    def test_a_schedule(self):
        """The file's base has the history of blocks that live when the window opens."""
        done = harness.memprof(
            "snapshot", "--follow", "all", "--quiet", *ASKED, "-o", self.folder / "run.mp", "--schedule", "wait=1,active=2,repeat=1", "--",
            sys.executable, PROGRAM, 12, 60, env=self.environment("2.6.0"))
        truth = {row[0]: row for row in json.loads(done.stdout)["truth"][0][:10]}
        base = [block for block in self.blocks(self.folder / "run.mp")[0] if not block["alloc_ns"]]
        self.assertGreaterEqual(len(base), 10)
        known = [block for block in base if int(block["address"], 16) in truth]
        self.assertEqual(len(known), 10)
        self.assertEqual({block["requested_bytes"] for block in known},
                         {str(truth[int(block["address"], 16)][2]) for block in known})

    def test_killed_and_recovered(self):
        """Recovery joins the entries that were in the spool before the kill."""
        answer, devices, notes = self.recorded("2.6.0", 6, 60, "killed")
        told, count = self.compare(answer, devices)
        self.assertEqual(notes, [])
        self.assertGreater(told, 0)

    def test_a_forked_child(self):
        for version in ("2.6.0", NEWEST):
            answer, devices, notes = self.recorded(version, 4, 40, "fork")
            self.assertEqual((answer["seen"]["fork"], notes), (0, []))
            self.compare(answer, devices)

    def test_a_clock_that_is_off(self):
        """The recording says how many entries matched. Only segments then give facts, about live blocks."""
        answer, devices, notes = self.recorded("2.6.0", 6, 60, STAND_IN_FAULT="clock")
        self.assertIn("only 0 were found", "".join(notes))
        told, count = self.compare(answer, devices)
        self.assertLess(told, count / 2)
        self.assertGreaterEqual(told, 20)

    def test_a_busy_machine(self):
        """A reading that takes long because the machine is busy does not make the history shorter."""
        answer, devices, notes = self.recorded("2.6.0", 3, 700, "looks", STAND_IN_FAULT="busy")
        self.assertEqual((self.compare(answer, devices), notes), ((2120, 2120), []))

    def test_more_than_the_ring_holds(self):
        """If the ring forgot entries, facts are known only of their blocks that are live; all known facts are right."""
        answer, devices, notes = self.recorded("2.6.0", 1, 3500, "short")
        told, count = self.compare(answer, devices)
        self.assertEqual(count, 3520)
        self.assertGreater(told, 2000)
        self.assertLess(told, 3520)
        self.assertEqual(notes, [])


if __name__ == "__main__":
    harness.main()
