#!/usr/bin/env python3
"""`frag --replay SETTINGS` of a recording against the same program, really run under those settings: what PyTorch's own
allocator had reserved at most. Programs whose order of frees is the same in each run: nothing of autograd's threads."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

CONF = "PYTORCH_CUDA_ALLOC_CONF"
PROGRAMS = {
    "stress": ("stress", (1, 1, 1500)),
    "odd_sizes": ("fresh", ("odd_sizes",)),
    "generation": ("fresh", ("generation",)),
    "graph": ("graph", ()),
    "graphs_of_sizes": ("fresh", ("graphs_of_sizes",)),
    "mempool": ("mempool", ()),
}
SETTINGS = ("expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
            "garbage_collection_threshold:0.6")


class Replay(bed.TestCase):
    def reserved(self, name, **variables):
        program, arguments = PROGRAMS[name]
        run = self.execute(program, *arguments, **variables)
        return run, run.truth["devices"][0]["stats"]["reserved_bytes.all.peak"]

    def compare(self, name):
        run, reserved = self.reserved(name)
        path = run.path.rename(self.folder / "without.mp")
        found, real = {}, {}
        for settings in ("", *SETTINGS):
            replay = harness.answer("frag", path, "--track", "cuda:0/torch", "--replay", settings)["replay"]
            found[settings] = replay["reserved_peak_bytes"]
            real[settings] = self.reserved(name, **{CONF: settings})[1] if settings else reserved
        self.assertEqual(found, real)


# PyTorch 2.6 tells the pool of a segment alone: that of one which was given back before a reading is not known, and its
# blocks are replayed as if they were in the common pool. In stress two of the four settings differ by 1.5 and 4.9 %: why is
# not known yet.
DIFFER = ("mempool", "stress")
QUICK = ("generation", "graphs_of_sizes")  # the others with MEMPROF_CUDA_TORCH=all
for name_ in PROGRAMS if os.environ.get("MEMPROF_CUDA_TORCH") == "all" else QUICK:
    test_ = lambda self, name=name_: self.compare(name)
    setattr(Replay, f"test_{name_}", unittest.expectedFailure(test_) if name_ in DIFFER else test_)

if __name__ == "__main__":
    bed.main()
