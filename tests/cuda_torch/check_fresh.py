#!/usr/bin/env python3
"""Programs on PyTorch's real CUDA allocator: programs/fresh.py, documented.py and daily.py. All but some of fresh.py
were written without looking at memprof. Every allocation, with requested size and stream, the totals, out-of-memories
and the segments at the end agree with PyTorch's own data."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed

GIB = 1 << 30
CONF = "PYTORCH_CUDA_ALLOC_CONF"
PROGRAMS = {
    "retries": {"SOFTGPU_MEMORY": GIB, CONF: "garbage_collection_threshold:0.6"},
    "bisect": {"SOFTGPU_MEMORY": 2 * GIB, CONF: "max_split_size_mb:64"},
    "two_devices": {"SOFTGPU_DEVICES": 2},
    "data_parallel": {"SOFTGPU_DEVICES": 2},
    "graphs_of_sizes": {},
    "captured_training": {CONF: "expandable_segments:True"},
    "pools_and_streams": {"SOFTGPU_EVENT_MS": 20},
    "producers": {"SOFTGPU_MEMORY": GIB // 8},
    "generation": {CONF: "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
    "loader": {},
    "accumulation": {CONF: "expandable_segments:True,roundup_power2_divisions:2"},
    "odd_sizes": {CONF: "max_split_size_mb:21"},
    "grown_on_streams": {CONF: "expandable_segments:True"},
    "full_devices": {"SOFTGPU_DEVICES": 2, "SOFTGPU_MEMORY": GIB // 4},
    "shared_pools": {},
    "compiled_eager": {},
    "compiled_aot_eager": {},
    "profiled": {},
    "other_settings": {},
    "offloaded": {},
    "jagged": {},
    "raw_blocks": {"SOFTGPU_DEVICES": 2},
    "moving_limits": {"SOFTGPU_DEVICES": 3, "SOFTGPU_MEMORY": GIB // 4},
    "side_captures": {},
    "broken_capture": {},
    "own_pool": {},
    "smaller_batches": {"SOFTGPU_MEMORY": GIB, CONF: "expandable_segments:True,garbage_collection_threshold:0.7"},
    "stages": {"SOFTGPU_DEVICES": 2},
    "paged": {"SOFTGPU_EVENT_MS": 15},
    "experts": {CONF: "roundup_power2_divisions:[64:8,256:4,>:1],release_lock_on_cudamalloc:True"},
    "finalizers": {},
    "beams": {CONF: "max_split_size_mb:32,max_non_split_rounding_mb:40"},
    "chat": {CONF: "garbage_collection_threshold:0.8"},
    "actor_and_critic": {"SOFTGPU_DEVICES": 2, CONF: "expandable_segments:True"},
    "resumed": {},
}
DOCUMENTED = {
    "fused_step": {},
    "plugged_pool": {},
    "per_sample": {},
    "prefetched": {"SOFTGPU_EVENT_MS": 5},
    "moved_limits": {"SOFTGPU_MEMORY": GIB, CONF: "expandable_segments:True"},
    "replicas": {"SOFTGPU_DEVICES": 2},
}
DAILY = {
    "server": {},
    "trainer": {"SOFTGPU_MEMORY": GIB, CONF: "garbage_collection_threshold:0.8"},
    "sleeping": {CONF: "expandable_segments:True"},
    "workers": {"SOFTGPU_DEVICES": 2, "SOFTGPU_MEMORY": GIB // 4},
    "trees": {},
    "notebook": {CONF: "roundup_power2_divisions:4"},
}
PROGRAMS.update(DOCUMENTED)
PROGRAMS.update(DAILY)


def file_of(name):
    return "documented" if name in DOCUMENTED else "daily" if name in DAILY else "fresh"


SHORT = ("retries", "two_devices", "generation", "grown_on_streams", "trees")
TOGETHER = 8  # programs that are children of one process


class Fresh(bed.TestCase):
    def compare(self, run):
        self.assertIsNone(run.truth["failure"])
        self.assertNotIn("_fix_weakref", run.said)  # PyTorch's warning of objects that a look at holders found
        self.assert_totals(run)
        for device in range(len(run.truth["devices"])):
            self.assert_requests(run, device)
            self.assert_end(run, device)

    def test_programs(self):
        names = list(PROGRAMS) if bed.harness.asserted.LONG else SHORT
        for first in range(0, len(names), TOGETHER):
            some = names[first:first + TOGETHER]
            runs = self.execute_each(*((file_of(name), (name,), PROGRAMS[name]) for name in some))
            for name, run in zip(some, runs):
                with self.subTest(name):
                    self.compare(run)


if __name__ == "__main__":
    bed.main()
