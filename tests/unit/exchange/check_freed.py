#!/usr/bin/env python3
"""Sites of frees in made-up traces, compared with a replay that shares no code with memprof. A free has a stack of its
own, or the stack of its alloc. Some frees are delayed because another stream uses the block. Import and export keep
everything."""
import collections
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import START, Case, frame, without_file


class Trace:
    """Blocks of many sites, some used by other streams. The allocation that finds the streams done completes their
    frees."""

    def __init__(self, seed, own_stacks):
        r = random.Random(seed)
        stacks = [[frame(s * 7 + k + 1) for k in range(1 + s % 5)] for s in range(12)]
        self.entries, waiting, live = [], [], {}
        self.sites = {}  # by address, each used once: bytes, site, index of alloc, of the free; whose free it was
        for i in range(400):
            caller = r.choice(stacks)
            if waiting and r.random() < 0.2:
                address, size = waiting.pop(r.randrange(len(waiting)))
                self.say("free_completed", address, size, caller)
                self.sites[address]["died"] = len(self.entries) - 1
            elif live and r.random() < 0.45:
                address = r.choice(list(live))
                size, stack = live.pop(address)
                by = caller if own_stacks else stack
                self.say("free_requested", address, size, by)
                self.sites[address]["by"] = by if own_stacks else None
                if r.random() < 0.3:
                    waiting.append((address, size))
                else:
                    self.say("free_completed", address, size, by)
                    self.sites[address]["died"] = len(self.entries) - 1
            else:
                address, size = 0x7f0000000000 + i * 0x10000, r.randrange(1, 0x10000)
                live[address] = size, caller
                self.say("alloc", address, size, caller)
                self.sites[address] = {"bytes": size, "site": caller, "born": len(self.entries) - 1, "died": None,
                                       "by": None}
        self.snapshot = {"segments": [], "device_traces": [self.entries], "allocator_settings": {},
                         "external_annotations": []}

    def say(self, action, address, size, stack):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": stack,
                             "time_us": START + len(self.entries)})

    def at_peak(self):
        """{stack that freed them: [bytes, blocks]} of the blocks that live at the peak, for each site."""
        def live(moment):
            return [b for b in self.sites.values() if b["born"] <= moment and (b["died"] is None or b["died"] > moment)]
        peak = max(range(len(self.entries)), key=lambda moment: sum(b["bytes"] for b in live(moment)))
        found = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
        for block in live(peak):
            site = found[names(block["site"])]
            if block["died"] is None or block["by"] is None:
                continue
            site[names(block["by"])][0] += block["bytes"]
            site[names(block["by"])][1] += 1
        return {site: {by: tuple(sums) for by, sums in frees.items()} for site, frees in found.items()}


def names(stack):
    return tuple((line.get("name") or line.get("function"), line["line"] or 0) for line in stack)


class Freed(Case):
    def freed(self, answer):
        for site in answer["sites"]:
            shares = [(share["bytes"], share["blocks"]) for share in site.get("freed_at", [])]
            self.assertEqual(shares, sorted(shares, reverse=True))
        return {names(site["stack"]): {names(share["stack"]): (share["bytes"], share["blocks"])
                                       for share in site.get("freed_at", [])} for site in answer["sites"]}

    def test_stacks_of_their_own(self):
        for seed in range(8):
            trace = Trace(seed, own_stacks=True)
            path = self.dump(trace.snapshot)
            answer = without_file(self.answer("peak", "-n", "0", path))
            self.assertEqual(self.freed(answer), trace.at_peak(), seed)
            self.memprof("import", "--force", path, "-o", self.folder / "made.mp")
            self.assertEqual(without_file(self.answer("peak", "-n", "0", self.folder / "made.mp")), answer)
            self.memprof("export", "--force", self.folder / "made.mp", "-o", self.folder / "again.pickle", "--format", "pytorch")
            again = without_file(self.answer("peak", "-n", "0", self.folder / "again.pickle"))
            # The file listed no segments, and a snapshot needs some.
            self.assertEqual(again["sites"], answer["sites"])
            self.assertEqual((again["peak_bytes"], again["peak_ns"], again["blocks"]),
                             (answer["peak_bytes"], answer["peak_ns"], answer["blocks"]))

    def test_stacks_that_are_those_of_the_allocs(self):
        """Each free has its alloc's stack, even if the completion of a delayed free has the stack of the thread that
        noticed it."""
        trace = Trace(5, own_stacks=False)
        answer = self.answer("peak", self.dump(trace.snapshot))
        self.assertTrue(answer["sites"])
        for site in answer["sites"]:
            self.assertNotIn("freed_at", site)

    def test_in_words(self):
        text = self.memprof("peak", "-n", "0", self.dump(Trace(1, own_stacks=True).snapshot)).stdout
        said = [line for line in text.splitlines() if "freed at" in line]
        with_frees = [site for site in Trace(1, own_stacks=True).at_peak().values() if site]
        self.assertEqual(len(said), len(with_frees))
        self.assertTrue(any("; others at " in line for line in said), text)


if __name__ == "__main__":
    asserted.main()
