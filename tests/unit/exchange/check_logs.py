#!/usr/bin/env python3
"""Logs of other programs: RMM's logs, and databases of Nsight Systems in its documented schema, old and new, compared
with sums made by hand. Others are cut, have flipped bits or make no sense. One is a real export without memory
events."""
import gzip
import json
import pathlib
import random
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from harness import DATA, memprof  # noqa: E402

PID, OTHER = 4711, 4712
UTC = 1_687_813_257_637_297_504

OLD = """
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
                                           deviceId INTEGER NOT NULL,
 contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT
 NULL, memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
 globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, unresolved INTEGER,
 originalIP INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, uuid TEXT, cuDevice INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
 textId INTEGER);
"""
NEW = OLD + """
ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ADD COLUMN streamId INTEGER;
ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ADD COLUMN localMemoryPoolAddress INTEGER;
ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ADD COLUMN localMemoryPoolSize INTEGER;
ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ADD COLUMN localMemoryPoolUtilizedSize INTEGER;
CREATE TABLE CUDA_GPU_MEMORY_POOL_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL,
 address INTEGER NOT NULL, operationType INTEGER NOT NULL, poolType INTEGER NOT NULL, correlationId INTEGER,
 minBytesToKeep INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
 localMemoryPoolUtilizedSize INTEGER);
"""


def pid_of(pid):
    return 1 << 48 | pid << 24


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memprof-logs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ask(self, command, path, *options):
        done = memprof(command, path, "--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def track(self, path, name):
        (track,) = [track for track in self.ask("info", path)["tracks"] if track["id"] == name]
        return track

    def refused(self, path, *words):
        done = memprof("info", path)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Amemprof: [^\n]*\n\Z")
        for word in words:
            self.assertIn(word, done.stderr)

    def unharmed(self, path):
        """Asserts that the file is read, or refused with one message."""
        done = memprof("info", path)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode:
            self.assertRegex(done.stderr, r"\Amemprof: [^\n]*\n\Z")
        return done.returncode


class Rmm(Case):
    def write(self, *lines, name="rmm.csv", header="Thread,Time,Action,Pointer,Size,Stream"):
        path = self.folder / name
        path.write_text("\n".join([header, *lines]) + "\n" if header else "\n".join(lines) + "\n")
        return path

    def test_random_log(self):
        pick = random.Random(7)
        live, lines, level, peak, allocs, now = {}, [], 0, 0, 0, 50_000_000_000
        for _ in range(3000):
            now += pick.randrange(1, 90_000)
            clock = f"{now // 3_600_000_000 % 24:02}:{now // 60_000_000 % 60:02}:{now // 1_000_000 % 60:02}.{now % 1_000_000:06}"
            thread = pick.choice((11, 12, 13))
            if live and pick.random() < 0.49:
                address = pick.choice(list(live))
                size = live.pop(address)
                level -= size
                lines.append(f"{thread},{clock},free,{address:#x},{size},0x2")
            else:
                address, size = pick.randrange(1 << 20) * 256 + 0x30A000000, pick.randrange(1 << 24)
                if address in live:
                    continue
                live[address] = size
                level += size
                allocs += 1
                peak = max(peak, level)
                lines.append(f"{thread},{clock},allocate,{address:#x},{size},0x2")
        path = self.write(*lines, name="rmm.log.dev3")
        track = self.track(path, "cuda:3/app/rmm")
        self.assertEqual((track["allocs"], track["peak_bytes"], track["end_bytes"], track["base_bytes"]),
                         (allocs, peak, level, 0))
        self.assertEqual(self.ask("leaks", path)["outstanding"]["blocks"], len(live))
        saved = self.folder / "saved.mp"
        self.assertEqual(memprof("import", path, "-o", saved).returncode, 0)
        self.assertEqual(self.track(saved, "cuda:3/app/rmm"), track)
        packed = self.folder / "packed.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        self.assertEqual(self.track(packed, "cuda:0/app/rmm")["peak_bytes"], peak)

    def test_failures_base_and_midnight(self):
        path = self.write("1,23:59:59:900000,allocate,0x100,50,0x0", "1,00:00:00:100000,free,0x900,70,0x0",
                          "1,00:00:01:000000,allocate failure,(nil),4096,0x0", "1,00:00:02:000000,allocate,0x100,20,0x0")
        info = self.ask("info", path)
        (track,) = info["tracks"]
        self.assertEqual((track["base_bytes"], track["peak_bytes"], track["end_bytes"], track["ooms"]), (70, 120, 20,
                                                                                                         1))
        self.assertEqual(info["process"]["duration_ns"], 2_100_000_000)
        self.assertIsNone(info["process"]["start_unix_ns"])
        notes = " ".join(info["coverage"]["notes"])
        for word in ("before the log begins: 1", "handed out again: 1", "which GPU", "no stacks", "which day"):
            self.assertIn(word, notes)

    def test_dated_without_header_and_stream(self):
        path = self.write("140573312345856,1634567890.123456,allocate,0x7f8a40000000,1024,0x7f8a38001020",
                          "140573312345856,1634567891.123456,deallocate,0x7f8a40000000,1024,0x7f8a38001020", header="")
        info = self.ask("info", path)
        self.assertEqual(info["process"]["start_unix_ns"], 1_634_567_890_123_456_000)
        self.assertEqual(self.ask("info", self.write("7,01:02:03.5,allocate,0x10,8"))["tracks"][0]["end_bytes"], 8)

    def test_bad_lines(self):
        good = "1,10:00:00.000001,allocate,0x100,50,0x0"
        start = len("Thread,Time,Action,Pointer,Size,Stream\n" + good + "\n")
        for bad in ("1,25:00:00.1,free,0x100,50,0x0", "1,10:00:00.1,grow,0x100,50,0x0",
                    "x,10:00:00.1,free,0x100,50,0x0",
                    "1,10:00:00.1,free,zz,50,0x0", "1,10:00:00.1,free,0x100,-50,0x0", "1,10:00,free,0x100,50,0x0",
                    "1,10:00:00.1,free,0x100,50x", "no line at all", "1,10:00:00.1,free\0,0x100,50,0x0", "9" * 5000):
            self.refused(self.write(good, bad), "line 3", f"byte {start}")
        self.refused(self.write(), "without a line")
        self.refused(self.write(good, "1,10:00:00.000002,fr", name="cut.csv"), "line 3")

    def test_random_bytes(self):
        pick = random.Random(3)
        text = bytearray(self.write(*(f"1,10:00:00.{i:06},allocate,{i * 64:#x},64,0x0" for i in range(40))).read_bytes())
        for _ in range(60):
            changed = bytearray(text)
            for _ in range(pick.randrange(1, 4)):
                changed[pick.randrange(len(changed))] = pick.randrange(256)
            path = self.folder / "changed.csv"
            path.write_bytes(changed)
            self.unharmed(path)


class Nsys(Case):
    def database(self, schema=NEW, name="x.sqlite"):
        path = self.folder / name
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        self.addCleanup(db.close)
        db.executescript(schema)
        return path, db

    def put(self, db, at, address, size, free=False, kind=2, device=0, pid=PID, name=None, correlation=None, **more):
        columns = {"start": at, "globalPid": pid_of(pid), "deviceId": device, "contextId": 1, "address": address,
                   "pc": 0,
                   "bytes": size, "memKind": kind, "memoryOperationType": int(free), "name": name,
                   "correlationId": correlation, **more}
        db.execute(f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS ({', '.join(columns)}) VALUES"
                   f" ({', '.join('?' * len(columns))})", tuple(columns.values()))

    def test_everything(self):
        path, db = self.database()
        self.put(db, 1_000_000, 0x7F0000000000, 1 << 20, correlation=10)
        self.put(db, 2_000_000, 0x7F0000100000, 1 << 21, device=1, correlation=11)
        self.put(db, 3_000_000, 0x7F1000000000, 4096, kind=1, correlation=12)
        self.put(db, 3_500_000, 0x7F2000000000, 8192, kind=4)
        self.put(db, 4_000_000, 0x7F3000000000, 256, kind=5, name="lookup_table")
        self.put(db, 5_000_000, 0x7F0000000000, 1 << 20, free=True)
        self.put(db, 6_000_000, 0x7F4000000000, 512, localMemoryPoolAddress=0x5500, localMemoryPoolSize=1 << 25)
        self.put(db, 7_000_000, 0x7F4000000200, 1024, localMemoryPoolAddress=0x6600, localMemoryPoolSize=1 << 24)
        self.put(db, 8_000_000, 0x7F9900000000, 99, free=True)
        self.put(db, 8_600_000, 0x7F1000000000, 4096, free=True, kind=7)  # of unknown kind: the pinned block
        self.put(db, 9_000_000, 1, 1 << 40, pid=OTHER)
        db.execute("INSERT INTO CUDA_GPU_MEMORY_POOL_EVENTS VALUES (8500000, ?, 0, 0x5500, 2, 1, NULL, 0, 0, 0, 0)",
                   (pid_of(PID),))
        strings = {1: "cudaMalloc_v3020", 2: "alloc_weights(int)", 3: "/opt/app/train", 4: "main", 5: "forward",
                   6: "cudaMallocHost"}
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", strings.items())
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, ?)",
                       [(1, 2, pid_of(PID) | 77, 10, 1, 900), (1, 2, pid_of(PID) | 78, 12, 6, None),
                        (1, 2, pid_of(OTHER) | 79, 11, 1, 900)])
        db.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, 0, 0, ?)",
                       [(900, 1, 3, 0), (900, 2, 3, 1), (900, 4, 3, 2)])
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (UTC,))
        db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100', 42297524224, '74e1-uuid', 0)")
        db.execute("INSERT INTO PROCESSES VALUES (?, ?, './train')", (pid_of(PID), PID))
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)",
                       [(500_000, 4_500_000, 59, None, pid_of(PID) | 77, 5), (600_000, 700_000, 59, "other",
                                                                              pid_of(OTHER), None),
                        (1_500_000, None, 34, "half", pid_of(PID) | 77, None), (1, None, 75, "domain", pid_of(PID),
                                                                                None)])
        db.commit()
        info = self.ask("info", path)
        self.assertEqual((info["file"]["format"], info["process"]["pid"], info["process"]["command"]), ("nsys", PID,
                                                                                                        "./train"))
        self.assertEqual(info["process"]["start_unix_ns"], UTC + 500_000)
        self.assertEqual(info["process"]["duration_ns"], 8_100_000)
        (gpu,) = [device for device in info["devices"] if device["id"] == "cuda:0"]
        self.assertEqual((gpu["name"], gpu["uuid"], gpu["total_bytes"]), ("NVIDIA A100", "74e1-uuid", 42297524224))
        sums = {track["id"]: (track["base_bytes"], track["peak_bytes"], track["end_bytes"],
                              track["reserved_peak_bytes"])
                for track in info["tracks"]}
        self.assertEqual(sums, {"cuda:0/driver": (99, (1 << 20) + 256 + 99, 256, None),
                                "cuda:1/driver": (0, 1 << 21, 1 << 21, None), "cpu/driver": (0, 4096, 0, None),
                                "cuda:0/driver/managed": (0, 8192, 8192, None),
                                "cuda:0/driver/pool": (0, 1536, 1536, (1 << 25) + (1 << 24))})
        peak = self.ask("peak", path, "--track", "cuda:0/driver")
        self.assertEqual((peak["peak_ns"], peak["regions"]), (3_500_000, ["forward"]))
        stacks = {site["bytes"]: [frame["function"] for frame in site["stack"]] for site in peak["sites"]}
        self.assertEqual(stacks, {1 << 20: ["cudaMalloc_v3020", "alloc_weights(int)", "main"], 256: ["lookup_table"],
                                  99: []})
        pinned = self.ask("peak", path, "--track", "cpu/driver")["sites"]
        self.assertEqual([frame["function"] for frame in pinned[0]["stack"]], ["cudaMallocHost"])
        notes = " ".join(info["coverage"]["notes"])
        self.assertIn("other processes, left out: 1", notes)
        self.assertIn("before the log begins: 1", notes)
        saved = self.folder / "saved.mp"
        self.assertEqual(memprof("import", path, "-o", saved).returncode, 0)
        self.assertEqual(self.ask("info", saved)["tracks"], info["tracks"])

    def test_a_pool_whose_address_is_no_other_number(self):
        path, db = self.database()
        for at, address, pool, size in ((1, 0x7F4000000000, 1 << 48, 1 << 20), (2, 0x7F4000000200, 0x5500, 1 << 21)):
            self.put(db, at * 1_000_000, address, 512, localMemoryPoolAddress=pool, localMemoryPoolSize=size)
        db.commit()
        (track,) = self.ask("info", path)["tracks"]
        self.assertEqual((track["id"], track["end_bytes"], track["reserved_peak_bytes"]),
                         ("cuda:0/driver/pool", 1024, (1 << 20) + (1 << 21)))

    def test_a_pool_whose_low_bits_are_0(self):
        """The size of a pool whose low address bits are 0 is still known after many other sizes."""
        path, db = self.database()
        pools = [1 << 48, *range(0x5500, 0x5500 + 200 * 256, 256), 1 << 48]
        for number, pool in enumerate(pools):
            self.put(db, (number + 1) * 1_000_000, 0x7F4000000000 + number * 512, 512, localMemoryPoolAddress=pool,
                     localMemoryPoolSize=1 << 20)
        self.put(db, 900_000_000, 0x7F5000000000, 512, localMemoryPoolAddress=1, localMemoryPoolSize=1 << 20)
        db.commit()
        (track,) = self.ask("info", path)["tracks"]
        self.assertEqual((track["id"], track["reserved_peak_bytes"]),
                         ("cuda:0/driver/pool", (len(set(pools)) + 1) << 20))

    def test_rows_in_any_order(self):
        """Since 2025.6 exported rows may be in any order."""
        path, db = self.database()
        pick, now, live = random.Random(25), 1_000_000, []
        for number in range(600):
            now += pick.randrange(1, 50_000)
            if live and pick.random() < 0.45:
                self.put(db, now, *live.pop(pick.randrange(len(live))), free=True, correlation=number)
            else:
                live.append((0x7F0000000000 + number * (1 << 20), pick.randrange(1, 1 << 20)))
                self.put(db, now, *live[-1], correlation=number)
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, f"function_{i}") for i in range(1, 30)])
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, ?)",
                       [(1, 2, pid_of(PID) | 77, i, 1 + i % 29, 1 + i % 50) for i in range(600)])
        db.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, 0, 0, ?)",
                       [(chain, 1 + (chain * 7 + depth) % 29, 3, depth) for chain in range(1, 51) for depth in range(4)])
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)",
                       [(900_000 + i * 200_000, 900_000 + i * 200_000 + 150_000, 59, None, pid_of(PID) | 77, 1 + i % 29)
                        for i in range(60)])
        db.commit()
        before = [self.ask(command, path, *more) for command, *more in self.ALL]
        self.assertGreater(len(before[1]["sites"]), 20)
        for _ in range(3):
            for table in ("CUDA_GPU_MEMORY_USAGE_EVENTS", "StringIds", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_CALLCHAINS",
                          "NVTX_EVENTS"):
                rows = db.execute(f"SELECT * FROM {table}").fetchall()
                pick.shuffle(rows)
                db.execute(f"DELETE FROM {table}")
                db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            db.commit()
            after = [self.ask(command, path, *more) for command, *more in self.ALL]
            for old, new in zip(before, after):
                old.get("info", old)["file"] = new.get("info", new)["file"] = None
                self.assertEqual(new, old)

    ALL = (("info",), ("peak", "-n", "0"), ("leaks", "-n", "0"), ("steps",), ("report",))

    def test_old_schema_against_sums(self):
        path, db = self.database(OLD)
        pick = random.Random(5)
        live, level, peak, at = {}, 0, 0, 0
        for _ in range(2000):
            at += pick.randrange(3)
            if live and pick.random() < 0.5:
                address = pick.choice(list(live))
                size = live.pop(address)
                level -= size
                self.put(db, at, address, size, free=True)
            else:
                address, size = pick.randrange(1 << 16) << 12, pick.randrange(1, 1 << 20)
                if address in live:
                    continue
                live[address] = size
                level += size
                peak = max(peak, level)
                self.put(db, at, address, size)
        db.commit()
        track = self.track(path, "cuda:0/driver")
        self.assertEqual((track["peak_bytes"], track["end_bytes"], track["base_bytes"]), (peak, level, 0))
        notes = " ".join(self.ask("info", path)["coverage"]["notes"])
        for word in ("does not tell blocks of memory pools", "no backtraces"):
            self.assertIn(word, notes)

    def test_all_at_zero(self):
        path, db = self.database()
        for i in range(5):
            self.put(db, 0, i << 20, 100)
        db.commit()
        self.assertIn("all its memory events are at 0", " ".join(self.ask("info", path)["coverage"]["notes"]))

    def test_a_clock_at_its_end(self):
        """No sum of the file's times overflows: a sanitizer would end memprof."""
        path, db = self.database()
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", ((1 << 63) - 1,))
        for at in (1000, (1 << 63) - 1):
            self.put(db, at, at & ~0xfff, 100)
        db.commit()
        self.assertEqual(self.unharmed(path), 0)

    def test_what_is_none(self):
        path, db = self.database()
        db.commit()
        self.refused(path, "no memory events", "--cuda-memory-usage=true")
        path, db = self.database("CREATE TABLE cats (name TEXT)")
        self.refused(path, "no export of Nsight Systems")
        path, db = self.database("CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL"
                                 " SELECT start + 1 FROM n) SELECT start, 1 AS globalPid FROM n")
        self.refused(path, "no export of Nsight Systems")
        # Computed in a table that is read later, under a name in other letters, too.
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 1 AS symbol FROM n"
        chains = NEW[NEW.index("CREATE TABLE CUDA_CALLCHAINS"):].split(";")[0]
        for computed in (f"CREATE VIEW CUDA_CALLCHAINS AS {endless}", f"CREATE VIEW cuda_callchains AS {endless}",
                         "CREATE VIRTUAL TABLE CUDA_CALLCHAINS USING fts5(id, symbol)",
                         "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER AS (length(zeroblob(400000000))))"):
            path, db = self.database(NEW.replace(chains, computed))
            self.put(db, 1, 4096, 100)
            db.commit()
            self.refused(path, "CUDA_CALLCHAINS is a view, a virtual table or has computed columns")
        packed = self.folder / "x.sqlite.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        self.refused(packed, "gunzip")
        if DATA:
            self.refused(pathlib.Path(DATA) / "pipit_saxpy_emptymem.sqlite", "no memory events",
                         "--cuda-memory-usage=true")

    def allocs(self, path):
        return sum(track["allocs"] for track in self.ask("info", path)["tracks"])

    def test_nothing_is_made_or_changed_beside_a_database(self):
        """A database that claims to have journals, which SQLite would make, or open for writing."""
        path, db = self.database()
        for i in range(30):
            self.put(db, i, i << 12, 100 + i)
        db.commit()
        db.execute("PRAGMA journal_mode = wal")
        db.execute("UPDATE PROCESSES SET pid = 1")
        db.commit()
        db.close()
        odd = self.folder / "a b?c#d%41.sqlite"
        odd.write_bytes(path.read_bytes())
        path.unlink()
        self.assertEqual(self.allocs(odd), 30)
        self.assertEqual(list(self.folder.iterdir()), [odd])
        journals = [self.folder / f"{odd.name}-{end}" for end in ("wal", "shm", "journal")]
        for journal in journals:
            journal.write_text("a day of work")
        self.refused(odd, "-wal", "sqlite3")
        journals[0].write_bytes(b"")
        self.refused(odd, "-journal", "sqlite3")
        self.assertEqual([journal.read_text() for journal in journals], ["", *["a day of work"] * 2])
        for done in (b"", bytes(512)):
            journals[2].write_bytes(done)
            self.assertEqual(self.allocs(odd), 30)
        self.assertEqual([journal.read_bytes() for journal in journals], [b"", b"a day of work", bytes(512)])

    def test_rows_that_only_a_journal_has(self):
        """SQLite's own journals, of a program that still works or was killed."""
        for mode, seen in (("wal", 40), ("delete", 30)):
            folder = self.folder / mode
            folder.mkdir()
            path, db = self.database()
            for i in range(30):
                self.put(db, i, i << 12, 100 + i)
            db.commit()
            db.execute(f"PRAGMA journal_mode = {mode}")
            db.execute("PRAGMA cache_size = 1")
            for i in range(30, 40):
                self.put(db, i, i << 12, 100 + i)
            if mode == "wal":
                db.commit()
            else:  # pages that are not committed, in the file already: more than the cache holds
                db.execute("CREATE TABLE more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
                           " i < 2000) SELECT i, hex(randomblob(50)) FROM n")
            for part in [path, pathlib.Path(f"{path}-wal"), pathlib.Path(f"{path}-journal")]:
                if part.exists():
                    (folder / part.name).write_bytes(part.read_bytes())
            db.rollback()
            db.close()
            path.unlink()
            copy = folder / path.name
            link = self.folder / f"{mode}.link.sqlite"
            link.symlink_to(copy)
            before = {part.name: part.read_bytes() for part in folder.iterdir()}
            self.assertEqual(len(before), 2)
            for one in (copy, link):
                self.refused(one, f"{mode if mode == 'wal' else 'journal'}", "sqlite3", ".tables")
            self.assertEqual({part.name: part.read_bytes() for part in folder.iterdir()}, before)
            joined = sqlite3.connect(copy)
            joined.execute("SELECT name FROM sqlite_schema").fetchall()
            joined.close()
            self.assertEqual(self.allocs(copy), seen)
            self.assertEqual(self.allocs(link), seen)

    def test_cut_and_flipped(self):
        path, db = self.database()
        for i in range(300):
            self.put(db, i, i << 12, 100 + i)
        db.commit()
        db.close()
        whole = path.read_bytes()
        pick = random.Random(11)
        outcomes = set()
        for turn in range(80):
            data = bytearray(whole)
            if turn % 2:
                for _ in range(pick.randrange(1, 30)):
                    data[pick.randrange(16, len(data))] = pick.randrange(256)
            else:
                del data[pick.randrange(16, len(data)):]
            path.write_bytes(data)
            outcomes.add(self.unharmed(path))
        self.assertIn(1, outcomes)


if __name__ == "__main__":
    asserted.main()
