#!/usr/bin/env python3
"""The page's envelopes of private pools: the reserved bytes of each pool over time, compared with the trace's own
segments, whose pools this test knows."""
import json
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import MIB, START, Case, frame

POOLS = [(0, 0), (0, 1), (0, 2), (3, 0)]


class Pools:
    """Segments of 2 MiB, each of a pool, with a block in each. Some segments are from before the trace, some are
    released."""

    def __init__(self, seed, length=300):
        r = random.Random(seed)
        self.trace, self.points, held, next_address = [], {}, {}, 1 << 40
        level = dict.fromkeys(POOLS, 0)

        def reserved(pool, bytes_, at):
            level[pool] += bytes_
            line = self.points.setdefault(pool, [])
            if line and line[-1][0] == at:
                line.pop()
            line.append((at, level[pool]))

        for i in range(8):
            pool = POOLS[i % 4]
            held[next_address] = pool
            reserved(pool, 2 * MIB, 0)
            next_address += 8 * MIB
        for i in range(length):
            at = START + i + 1
            if held and r.random() < 0.45:
                address = r.choice(list(held))
                pool = held.pop(address)
                for action in ("free_requested", "free_completed"):
                    self.entry(action, address, MIB, at, pool)
                self.entry("segment_free", address, 2 * MIB, at, pool)
                reserved(pool, -2 * MIB, i)
            else:
                pool, address = r.choice(POOLS), next_address
                next_address += 8 * MIB
                self.entry("segment_alloc", address, 2 * MIB, at, pool)
                self.entry("alloc", address, MIB, at, pool)
                held[address] = pool
                reserved(pool, 2 * MIB, i)
        blocks = lambda address: [{"address": address, "size": MIB, "requested_size": MIB, "state": "active_allocated",
                                   "frames": [frame(1)]},
                                  {"address": address + MIB, "size": MIB, "requested_size": 0, "state": "inactive"}]
        self.snapshot = {"segments": [{"device": 0, "address": address, "total_size": 2 * MIB, "stream": 0,
                                       "segment_type": "large", "segment_pool_id": pool, "is_expandable": False,
                                       "blocks": blocks(address)} for address, pool in sorted(held.items())],
                         "device_traces": [self.trace]}
        del self.points[0, 0]  # what programs use unasked is no pool of its own

    def entry(self, action, address, size, at, pool):
        self.trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "pool_id": pool,
                           "frames": [frame(1)]})


class Envelopes(Case):
    def lines(self, snapshot):
        page = self.folder / "page.html"
        run = self.memprof("trace_plot", "--force", self.dump(snapshot), "-o", page)
        self.assertEqual(run.returncode, 0, run.stderr)
        header = json.loads(re.search(r'id="header">(.*?)</script>', page.read_text(), re.S)[1])
        tracks = {track["id"]: track["pools"] for track in header["tracks"]}
        unit = header["time_unit_ns"]
        self.assertEqual([pools for name, pools in tracks.items() if name != "cuda:0/torch" and pools], [])
        return {tuple(map(int, re.findall(r"\d+", line["pool"]))):
                (line["most"], [(time * unit // 1000, level) for time, level in zip(line["time"], line["bytes"])])
                for line in tracks.get("cuda:0/torch", [])}

    def test_against_the_trace(self):
        for seed in range(4):
            made = Pools(seed)
            want = {pool: (max(level for _, level in points), points) for pool, points in made.points.items()}
            self.assertEqual(self.lines(made.snapshot), want, seed)

    def test_without_pools(self):
        made = Pools(5)
        for row in [*made.snapshot["segments"], *made.trace]:
            row["segment_pool_id" if "blocks" in row else "pool_id"] = (0, 0)
        self.assertEqual(self.lines(made.snapshot), {})

    def test_of_many_points_the_highest_stay(self):
        made = Pools(6, length=40_000)
        for pool, (most, points) in self.lines(made.snapshot).items():
            truth = made.points[pool]
            self.assertEqual(most, max(level for _, level in truth))
            self.assertEqual(max(level for _, level in points), most)
            self.assertLessEqual(len(points), 8192)
            self.assertGreater(len(truth), 8192)


if __name__ == "__main__":
    asserted.main()
