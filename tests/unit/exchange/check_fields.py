#!/usr/bin/env python3
"""The tables of memprof-formats(7), field by field: for each field of another program's file, whether a change of the
field changes the imported recording, as the table says. A lost field, or a field in no table, fails."""
import collections
import json
import pathlib
import re
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

import check_logs
import check_told
from snapshots import MIB, START, Case

for folder in ("unit/format", "e2e"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / folder))
sys.dont_write_bytecode = True
import read_mp  # noqa: E402
from harness import make_recording, python_with_torch  # noqa: E402

MANUAL = pathlib.Path(__file__).resolve().parents[3] / "src" / "cli" / "memprof-formats.7"


def table_of(section):
    """{field: kept} of the table under a heading."""
    text = MANUAL.read_text().rsplit(f".SS {section}\n", 1)[1].split("\n.SS ")[0]
    rows = re.search(r"^\.TS\n.*?^in the (?:file|recording)\tkept\n(.*?)^\.TE", text, re.S | re.M)[1]
    return {field: verdict == "kept" for row in rows.splitlines()
            for fields, verdict in [row.split("\t")] for field in fields.split(", ")}


class Fields(Case):
    def told(self, path):
        """Everything in the recording: its exported lines without the file's name, and the times in `memprof info`."""
        recording = self.folder / "made.mp"
        run = self.memprof("import", "--force", path, "-o", recording)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = self.memprof("export", "--format", "jsonl", "-o", "-", recording).stdout
        info = self.answer("info", recording)
        info["file"] = None
        return lines, json.dumps(info)

    def check(self, section, base, other):
        """`base` and `other`: fields with values; `self.write(fields)` makes the file."""
        table = table_of(section)
        self.assertEqual(set(table), set(base), section)
        before = self.told(self.write(base))
        kept = {field: self.told(self.write({**base, field: other[field]})) != before for field in base}
        self.assertEqual(kept, table)

    def test_rmm(self):
        base = {"Thread": "7", "Time": "01:02:03:000004", "Action": "allocate", "Pointer": "0x7000", "Size": "512",
                "Stream": "0x2"}
        other = {"Thread": "8", "Time": "01:02:04:000004", "Action": "allocate failure", "Pointer": "0x9000",
                 "Size": "1024", "Stream": "0x3"}

        def write(fields):
            path = self.folder / "rmm.csv"
            path.write_text(",".join(fields) + "\n1,01:02:02:000000,allocate,0x100,256,0x2\n" + ",".join(fields.values()) + "\n")
            return path
        self.write = write
        self.check("RMM log", base, other)

    def test_nsight(self):
        base = {"start": 5_000_000, "globalPid": check_logs.pid_of(check_logs.PID), "deviceId": 0, "contextId": 1,
                "address": 0x7F0000000000, "pc": 0, "bytes": 4096, "memKind": 2, "memoryOperationType": 0, "name": "a",
                "correlationId": 1, "streamId": 7, "localMemoryPoolAddress": 0x5500, "localMemoryPoolSize": 1 << 20,
                "localMemoryPoolUtilizedSize": 1 << 10}
        other = {"start": 6_000_000, "globalPid": check_logs.pid_of(check_logs.OTHER), "deviceId": 1, "contextId": 2,
                 "address": 0x7F1000000000, "pc": 99, "bytes": 8192, "memKind": 1, "memoryOperationType": 1, "name": "b",
                 "correlationId": 2, "streamId": 8, "localMemoryPoolAddress": None, "localMemoryPoolSize": 1 << 21,
                 "localMemoryPoolUtilizedSize": 1 << 11}

        def write(fields):
            path = self.folder / "x.sqlite"
            path.unlink(missing_ok=True)
            db = sqlite3.connect(path)
            db.executescript(check_logs.NEW)
            put = f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})"
            db.execute(put, [{**fields, **first}[field] for first in ({"start": 1, "address": 0x100, "memoryOperationType": 0},)
                             for field in fields])
            db.execute(put, list(fields.values()))
            db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "cudaMalloc"), (2, "cudaMallocAsync")])
            db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, ?, ?, ?, 0, NULL)",
                           [(check_logs.pid_of(check_logs.PID) | 77, number, number) for number in (1, 2)])
            db.commit()
            db.close()
            return path
        self.write = write
        self.check("Nsight Systems", base, other)

    def test_kineto(self):
        base = {"ts": 10, "tid": 5, "Addr": 0x7000, "Bytes": 512, "Total Allocated": 1536, "Total Reserved": 1 << 20,
                "Device Id": 0, "Device Type": 1, "Ev Idx": 3,
                "finished": False}
        other = {"ts": 20, "tid": 6, "Addr": 0x9000, "Bytes": 1024, "Total Allocated": 2048, "Total Reserved": 1 << 21,
                 "Device Id": 1, "Device Type": 0, "Ev Idx": 4,
                 "finished": True}

        def event(fields):
            return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": fields["tid"],
                    "ts": fields["ts"], "args": {key: value for key, value in fields.items() if key not in ("ts", "tid")}}

        def write(fields):
            path = self.folder / "x.json"
            path.write_text(json.dumps({"traceEvents": [event({**base, "ts": 1, "Addr": 0x100, "Bytes": 1024, "Total Allocated": 1024}), event(fields)]}))
            return path
        self.write = write
        self.check("Kineto trace", base, other)

    def test_kineto_of_the_installed_pytorch(self):
        """Every field of its profiler's [memory] events is in the table, and the trace is read."""
        python = python_with_torch()
        if python is None:
            self.skipTest("no PyTorch is here")
        program = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
    kept = [torch.ones(1000) for _ in range(8)]
made.export_chrome_trace(sys.argv[1])
"""
        trace = self.folder / "made.pt.trace.json"
        subprocess.run([python, "-c", program, trace], check=True, capture_output=True)
        made = json.loads(trace.read_text())
        memory = [event for event in (made["traceEvents"] if isinstance(made, dict) else made) if event["name"] == "[memory]"]
        if not memory:
            self.skipTest("this PyTorch was built without Kineto")
        args = set().union(*(event["args"] for event in memory))
        self.assertEqual(args - set(table_of("Kineto trace")), set())
        (track,) = self.answer("info", trace)["tracks"]
        self.assertEqual(track["allocs"], sum(event["args"]["Bytes"] > 0 for event in memory))


    def test_chrome(self):
        """The parts of a recording that a Chrome trace of it contains."""
        first, other = [{"name": "f", "filename": "/a.py", "line": 3}], [{"name": "g", "filename": "/a.py", "line": 9}]
        base = {"time": START + 3, "address": 0x7000, "bytes": 512, "device": 0, "reserved bytes": 2 * MIB,
                "region": "forward", "step": "ProfilerStep#1", "failure": 1 << 30, "stack": first, "freed at": first,
                "stream": 0, "pool": (0, 0), "metadata": "a", "requested bytes": 500}
        changed = {"time": START + 4, "address": 0x9000, "bytes": 1024, "device": 1, "reserved bytes": 4 * MIB,
                   "region": "backward", "step": "warm up", "failure": 1 << 31, "stack": other, "freed at": other,
                   "stream": 7, "pool": (0, 1), "metadata": "b", "requested bytes": 300}

        def write(fields):
            trace = [{"action": action, "addr": fields["address"], "size": fields["bytes"], "time_us": at,
                      "stream": fields["stream"], "pool_id": fields["pool"], "frames": stack,
                      "user_metadata": fields["metadata"]}
                     for action, at, stack in (("alloc", fields["time"], fields["stack"]),
                                               ("free_requested", START + 8, fields["freed at"]),
                                               ("free_completed", START + 8, fields["freed at"]))]
            held = {"action": "alloc", "addr": 1 << 20, "size": 64, "time_us": START + 2, "frames": first}
            block = {"address": 1 << 20, "size": 512, "requested_size": fields["requested bytes"], "frames": first,
                     "state": "active_allocated"}
            segment = {"device": fields["device"], "address": 1 << 20, "total_size": fields["reserved bytes"],
                       "segment_type": "large", "stream": 0, "frames": [], "blocks": [block]}
            traces = [[], []]
            traces[fields["device"]] = [held, *trace, {"action": "oom", "device_free": 9, "size": fields["failure"],
                                                       "time_us": START + 9, "frames": first}]
            marks = [{"stage": stage, "name": fields[name], "device": 0, "time_us": START + at}
                     for stage, name, at in (("START", "step", 1), ("START", "region", 2), ("END", "region", 9),
                                             ("END", "step", 9))]
            return self.dump({"segments": [segment], "device_traces": traces, "allocator_settings": {},
                              "external_annotations": marks})

        def told(path):
            run = self.memprof("chrome_trace", "--force", path, "-o", self.folder / "out.json")
            self.assertEqual(run.returncode, 0, run.stderr)
            return (self.folder / "out.json").read_text()
        self.write, self.told = write, told
        self.check("Chrome trace", base, changed)

    def test_recordings(self):
        """The rows that recover and anonymize preserve, counted by chunk with an independent reader."""
        rows = re.search(r"^in the recording\trecover\tanonymize\n(.*?)^\.TE", MANUAL.read_text(), re.S | re.M)[1]
        table = {kind: verdicts for row in rows.splitlines() for kinds, *verdicts in [row.split("\t")]
                 for kind in kinds.split(", ")}
        self.assertEqual(set(table), set(read_mp.KINDS.values()))
        zstd, met = read_mp.load_zstd(), collections.Counter()

        def counts(path):
            found = collections.Counter()
            for _, _, kind, meta, _ in read_mp.walk(zstd, path.read_bytes())[1]:
                found[kind] += meta.get("count", 0)
            return found
        self.memprof("import", self.dump(check_told.Values().snapshot()), "-o", self.folder / "told.mp")
        for name in ("train", "held", "used"):
            make_recording(self.folder / f"{name}.made.mp", name)
            self.memprof("anonymize", self.folder / f"{name}.made.mp", "-o", self.folder / f"{name}.mp")  # as memprof writes it
        self.assertGreater(counts(self.folder / "held.mp")["holders"], 0)
        for name in ("told", "train", "held", "used"):
            path = self.folder / f"{name}.mp"
            whole, made = counts(path), {}
            cut = self.put("cut.mp", path.read_bytes()[:-40])
            for i, command in enumerate(("recover", "anonymize")):
                out = self.folder / f"{command}.mp"
                run = self.memprof(command, "--force", (cut, path)[i], "-o", out)
                self.assertEqual(run.returncode, (4, 0)[i], run.stderr)  # 4: a part
                made[i] = counts(out)
                for kind, verdicts in table.items():
                    if verdicts[i] == "kept":
                        self.assertEqual(made[i][kind], whole[kind], (name, command, kind))
            met += whole
        self.assertEqual({kind for kind, (_, verdict) in table.items() if verdict == "kept" and not met[kind]},
                         {"past", "past peaks", "past sites", "holders", "requests", "modules", "symbols", "labels"} - set(met))


if __name__ == "__main__":
    asserted.main()
