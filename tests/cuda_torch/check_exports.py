#!/usr/bin/env python3
"""Snapshots of PyTorch's real CUDA allocator: exported recordings agree with PyTorch's own snapshot, segment by segment
and block by block, and their traces replay exactly."""
import os
import pickle
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import check_fresh
import cuda_stand_in
import harness

sys.path.insert(0, str(bed.SOURCE / "tests" / "unit" / "exchange"))
from check_export import as_lists  # noqa: E402

# Programs whose export does not replay exactly, and why.
INEXACT = {
    "pools_and_streams": "when a stream had done with a block is not recorded: its free is told as complete at once; and "
                         "the pool of memory that was given back before it was looked at is not known before PyTorch 2.10",
    "paged": "when a stream had done with a block is not recorded",
    "prefetched": "when a stream had done with a block is not recorded",
    "plugged_pool": "the allocator that the program brings takes more of the driver than PyTorch asked it for, and what is "
                    "known of a segment that went is what the driver gave",
    "other_settings": "the program changes the allocator's settings while it runs; a snapshot has the last ones alone",
    "trees": "torch.compile's graph trees put a pool back to what it was, block by block, not in the order of allocations",
    "trainer": "as retries",
    "retries": "a limit by set_per_process_memory_fraction() is in no snapshot of PyTorch 2.6: the replay knows none",
}


class Exports(bed.TestCase):
    def compare(self, name):
        run = self.execute(check_fresh.file_of(name), name, options=("--free-stacks",), **check_fresh.PROGRAMS[name])
        path = self.folder / "exported.pickle"
        result = harness.memprof("export", run.path, "--force", "--format", "pytorch", "-o", path)
        self.assertIn(result.returncode, (0, 4), result.stderr)
        snapshot = pickle.loads(path.read_bytes())
        for device in range(len(run.truth["devices"])):
            frag = harness.answer("frag", run.path, "--track", f"cuda:{device}/torch", status=(0, 4))
            if frag["moment"] == "end":
                self.assert_segments(snapshot, run.truth, device)
        self.assertEqual(as_lists(snapshot["allocator_settings"]), run.truth["settings"])
        replay = harness.answer("frag", path, "--replay", "recorded", status=(0, 4))["replay"]
        self.assertEqual(bool(replay["differences"]), name in INEXACT, replay["first_difference"])
        self.assert_frees(run, snapshot)

    def assert_segments(self, snapshot, truth, device):
        """Everything but frames, and the last requested size of free memory."""
        def told(segments):
            return sorted(([{key: value for key, value in {**segment, "blocks": None}.items() if key != "frames"},
                            [{key: value for key, value in block.items() if key != "frames" and
                              (key, block["state"]) != ("requested_size", "inactive")} for block in segment["blocks"]]]
                           for segment in as_lists(segments) if segment["device"] == device),
                          key=lambda segment: segment[0]["address"])
        self.assertEqual(told(snapshot["segments"]), told(truth["devices"][device]["segments"]))

    def assert_frees(self, run, snapshot):
        """Entries of frees have the frees' own stacks (--free-stacks); some of these are no alloc's."""
        entries = [entry for trace in snapshot["device_traces"] for entry in trace]
        allocs = {id(entry.get("frames")) for entry in entries if entry["action"] == "alloc"}
        frees = [entry for entry in entries if entry["action"] == "free_completed" and "frames" in entry]
        if frees:
            self.assertTrue(any(id(entry["frames"]) not in allocs for entry in frees))


for name_ in check_fresh.PROGRAMS:
    setattr(Exports, f"test_{name_}", lambda self, name=name_: self.compare(name))


class OutOfMemory(bed.TestCase):
    def test_what_the_device_had_free(self):
        # The context's share is known only from readings of the device, which memprof takes now and then.
        run = self.execute(cuda_stand_in.WAIT_FOR_A_READING + """
import torch
kept = [torch.empty(300 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
wait_for_a_reading()
free = torch.cuda.mem_get_info()[0]
try:
    torch.empty(800 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("free", free)
""", SOFTGPU_MEMORY=1 << 30)
        free = int(run.output.split("free ")[1].split()[0])
        path = self.folder / "exported.pickle"
        harness.memprof("export", run.path, "--force", "--format", "pytorch", "-o", path)
        (oom,) = [entry for entry in pickle.loads(path.read_bytes())["device_traces"][0] if entry["action"] == "oom"]
        self.assertEqual((oom["device_free"], oom["size"]), (free, 800 << 20))


if __name__ == "__main__":
    bed.main()
