#!/usr/bin/env python3
"""The matrix of kills: who (the program, the collector, both) x how x when. After each kill, every event whose hook had
returned occurs once: in the file, or in the file that `memprof recover` makes of file and spool. If only the collector
was killed, the program ends by itself. The program counts its events itself (tests/e2e/programs/churn.c).

A short form of some 70 kills; the long form (tools/test --long): more than 500, and a table."""

import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

if harness.SANITIZED:  # whoever is killed dies of the signal, not of a report about it
    os.environ["ASAN_OPTIONS"] += ":handle_segv=0:handle_abort=0"

ALL = harness.asserted.LONG
AT_ONCE = 4
THREADS = 3
DEADLINE_S = 120
FAULT_POINT = harness.BUILD / "tests/faults/fault_point.so"
TELL_EVENTS = harness.BUILD / "tests/faults/tell_events"
ABORT, LEAVE, TAKE_ALL_MEMORY = 1, 2, 3  # enum death
RING_RECORDS = 16384
MEMORY_GROUPS = pathlib.Path("/sys/fs/cgroup/memory")

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGTERM": signal.SIGTERM, "SIGABRT": signal.SIGABRT}
# The number of tries of each case in the short and in the long form. The moments:
#
# - before the first event, and while attaching
# - under load, with full rings, and in the middle of a write
# - at the end
MATRIX = {
    "program": {
        "start": ("SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT"),
        "attach": ("SIGKILL", "SIGSEGV", "abort()", "_exit()"),
        "load": ("SIGKILL", "SIGSEGV", "SIGTERM", "abort()", "_exit()", "memory"),
        "full": ("SIGKILL", "SIGTERM"),
        "write": ("SIGKILL", "SIGABRT"),
        "end": ("SIGKILL", "SIGTERM"),
    },
    "collector": {
        "start": ("SIGKILL", "SIGSTOP", "socket"),
        "attach": ("SIGKILL", "SIGABRT", "SIGSTOP", "memory"),
        "load": ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGSTOP"),
        "full": ("SIGKILL", "SIGSTOP"),
        "write": ("SIGKILL", "SIGABRT", "SIGSTOP"),
        "end": ("SIGKILL", "SIGABRT", "SIGSTOP"),
    },
    "both": {
        "start": ("SIGKILL",),
        "attach": ("SIGKILL",),
        "load": ("SIGKILL", "SIGABRT", "memory"),
        "full": ("SIGKILL",),
        "write": ("SIGKILL",),
        "end": ("SIGKILL",),
    },
}
TIMES = 12 if ALL else 2


class Wrong(Exception):
    pass


class Control:
    """The program's counters, and the words by which the test controls it."""
    WORDS = {"waits": 0, "open": 1, "death": 2, "recorded": 3, "done": 4}

    def __init__(self, path):
        self.path = path

    def words(self, row):
        try:
            with open(self.path, "rb") as file:
                file.seek(64 * row)
                data = file.read(64)
        except FileNotFoundError:
            data = b""
        return struct.unpack("<8Q", data.ljust(64, b"\0"))

    def __getitem__(self, name):
        return self.words(0)[self.WORDS[name]]

    def __setitem__(self, name, value):
        with open(self.path, "r+b") as file:
            file.seek(8 * self.WORDS[name])
            file.write(struct.pack("<Q", value))

    def threads(self):
        return [self.words(1 + i)[:3] for i in range(THREADS)]

    def events(self):
        return sum(allocs + frees for allocs, frees, _ in self.threads())


def wait_for(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Wrong(f"waited in vain: {what}")
        time.sleep(0.001)


class Group:
    """A control group with a memory limit: the kernel kills processes that exceed it."""

    def __init__(self, pids, room):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memprof-test-", dir=MEMORY_GROUPS))
        for pid in pids:
            (self.folder / "cgroup.procs").write_text(str(pid))
        used = int((self.folder / "memory.usage_in_bytes").read_text())
        (self.folder / "memory.limit_in_bytes").write_text(str(used + room))

    def remove(self):
        deadline = time.monotonic() + 20
        while self.folder.exists() and time.monotonic() < deadline:
            try:
                self.folder.rmdir()
            except OSError:
                time.sleep(0.05)


def can_bound_memory():
    try:
        Group([], 1 << 20).remove()
        return True
    except OSError:
        return False


class Case:
    def __init__(self, who, when, how, seed):
        self.who, self.when, self.how = who, when, how
        self.name = f"{who} {when} {how} {seed}"
        self.chance = random.Random(self.name)
        self.group = None
        self.longest_ns = self.dropped = self.counted = 0

    # ---- one case -----------------------------------------------------------------------------------------------

    def run(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memprof-test-"))
        self.file = self.folder / "run.mp"
        self.control = Control(self.folder / "counters")
        self.collector = self.program = None
        try:
            self.start()
            self.strike()
            self.settle()
            self.check()
        except Wrong as wrong:
            return f"{self.name}: {wrong}\n    {self.said()}"
        except subprocess.TimeoutExpired as late:
            return f"{self.name}: {late}\n    {self.said()}"
        finally:
            self.tidy()
        return None

    def start(self):
        environment = dict(os.environ)
        if self.when in ("write", "end") and self.who != "program" or self.when == "write":
            number = self.chance.randint(1, 12 if self.when == "write" else 6)
            where = self.chance.choice(("before", "half", "after"))
            hit = signal.SIGSTOP if self.who == "program" or self.how == "SIGSTOP" else SIGNALS[self.how]
            environment["MEMPROF_FAULT_POINT"] = f"{'any' if self.when == 'write' else 'end'}:{number}:{where}:{int(hit)}"
            environment["LD_PRELOAD"] = str(FAULT_POINT)
        # programs that must end by themselves make a fixed number of events; the others run until they are killed
        ends = self.who == "collector" or self.when == "end"
        events = -1 if not ends else 60000 if self.when == "full" else self.chance.choice((3000, 60000))
        pause_us = self.chance.choice((0, 0, 50)) if events != 60000 else 0
        options = [] if self.when == "end" else ["--no-symbols"]
        with open(self.folder / "said", "wb") as said:
            self.collector = subprocess.Popen(
                [harness.MEMPROF, "snapshot", "-o", str(self.file), *options, "--", harness.program("churn"),
                 str(self.control.path), str(THREADS), str(events), str(pause_us), "wait"],
                stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        wait_for(lambda: self.control["waits"] or self.collector.poll() is not None, "the program did not start")
        self.program = harness.first_child(self.collector.pid)

    def strike(self):
        if self.when == "start":
            self.hit()
            self.open_gate()
        elif self.when == "attach":
            if self.how == "memory" and self.who == "collector":
                self.group = Group([self.collector.pid], 2 << 20)
            elif self.how in ("abort()", "_exit()"):
                self.control["death"] = ABORT if self.how == "abort()" else LEAVE
            self.open_gate()
            time.sleep(self.chance.uniform(0, 0.004))
            self.hit()
        elif self.when == "load":
            self.open_gate()
            wait_for(lambda: self.control.events() or self.is_over(), "no event came")
            time.sleep(self.chance.uniform(0, 0.15))
            self.hit()
        elif self.when == "full":
            self.open_gate()
            wait_for(lambda: self.control.events() or self.is_over(), "no event came")
            self.collector.send_signal(signal.SIGSTOP)
            wait_for(lambda: self.control.events() > (THREADS + 1) * RING_RECORDS or self.is_over(), "rings are not full")
            self.hit()
        else:
            self.open_gate()
            if self.who == "program" and self.when == "write":
                wait_for(self.collector_stands, "no write came")
            if self.who == "program" and self.when == "end":
                wait_for(lambda: self.control["done"] or self.is_over(), "the program did not come to its end")
                time.sleep(self.chance.uniform(0, 0.002))
            self.hit()

    def open_gate(self):
        try:
            self.control["open"] = 1
        except FileNotFoundError:
            pass

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def hit(self):
        if self.who == "program":
            self.hit_program()
        elif self.who == "collector":
            self.hit_collector()
        elif self.how == "memory":
            self.group = Group([self.collector.pid, self.program], 8 << 20)
            self.control["death"] = TAKE_ALL_MEMORY
            wait_for(lambda: harness.is_gone(self.program), "the program has room for all it takes")
            self.send(self.collector.pid, signal.SIGKILL)
        elif self.when in ("write", "end"):
            wait_for(lambda: self.collector.poll() is not None, "no write came")
            self.send(self.program, SIGNALS[self.how])
        else:
            victims = [self.collector.pid, self.program]
            self.chance.shuffle(victims)
            for victim in victims:
                self.send(victim, SIGNALS[self.how])

    def hit_program(self):
        if self.how == "memory":
            self.group = Group([self.program], 8 << 20)
        deaths = {"abort()": ABORT, "_exit()": LEAVE, "memory": TAKE_ALL_MEMORY}
        if self.how in deaths:
            self.control["death"] = deaths[self.how]
        else:
            self.send(self.program, SIGNALS[self.how])

    def hit_collector(self):
        if self.how == "socket":
            for path in self.sockets():
                path.unlink()
        elif self.how == "SIGSTOP" and self.when not in ("write", "end"):
            self.collector.send_signal(signal.SIGSTOP)
        elif self.when in ("write", "end"):
            wait_for(lambda: self.collector_stands() or self.is_over(), "no write came")
        elif self.how != "memory":
            self.send(self.collector.pid, SIGNALS[self.how])

    def sockets(self):
        with open(f"/proc/{self.program}/environ", "rb") as environ:
            for entry in environ.read().split(b"\0"):
                if entry.startswith(b"MEMPROF_SESSION=1;"):
                    yield pathlib.Path(os.fsdecode(entry[len(b"MEMPROF_SESSION=1;"):]))

    def collector_stands(self):
        return harness.state_of(self.collector.pid) in "TtZ"

    def is_over(self):
        return self.collector.poll() is not None and harness.is_gone(self.program)

    def settle(self):
        """Waits until the program has ended by itself. A stopped collector is continued in half of the cases."""
        stopped = self.when == "full" and self.who == "program" or self.who == "program" and self.when == "write"
        if self.who == "collector" and self.how == "SIGSTOP":
            wait_for(lambda: self.control["done"], "the program hangs while its collector stands still")
            stopped = True
            if self.chance.random() < 0.5 and not harness.is_gone(self.collector.pid):
                self.collector.kill()
        if stopped:
            self.send(self.collector.pid, signal.SIGCONT)
        if self.who == "collector" and self.how not in ("SIGTERM",):
            wait_for(lambda: self.control["done"], "the program does not come to its end")
        wait_for(lambda: harness.is_gone(self.program), "the program does not end")
        self.collector.wait(DEADLINE_S)

    # ---- what is left ---------------------------------------------------------------------------------------------

    def said(self):
        try:
            return (self.folder / "said").read_text(errors="replace")[:600]
        except FileNotFoundError:
            return ""

    def check(self):
        threads = self.control.threads()
        self.counted = sum(allocs + frees for allocs, frees, _ in threads)
        self.longest_ns = max(longest for _, _, longest in threads)
        if self.control["recorded"] == 2:
            self.counted = 0  # the collector was gone before the program could attach: it runs unrecorded
        path = self.file
        if self.collector.returncode < 0:
            path = self.recover()
        if path is None:
            return
        if not path.exists():
            if self.counted:
                raise Wrong(f"{self.counted} events were handed over, and there is no file")
            return
        self.check_events(path, threads)

    def recover(self):
        """Recovers the recording. None: nothing was recorded, and nothing remains."""
        whole = self.folder / "whole.mp"
        result = harness.memprof("recover", self.file, "-o", whole)
        if result.returncode == 1 and not whole.exists() and not self.counted:
            return None
        if result.returncode not in (0, 4):
            raise Wrong(f"recover: {result.returncode}: {result.stderr}")
        info = harness.answer("info", whole, status=(0, 4))
        if (result.returncode == 4) != (info["coverage"]["dropped"] > 0):
            raise Wrong(f"recover exits with {result.returncode}, {info['coverage']['dropped']} are dropped: {result.stderr}")
        if self.file.exists() and "memprof recover" in harness.memprof("report", self.file).stderr:
            raise Wrong("the spool is still there")
        return whole

    def check_events(self, path, threads):
        info = harness.answer("info", path, status=(0, 4))
        dropped = self.dropped = info["coverage"]["dropped"]
        lines = subprocess.run([TELL_EVENTS, path], capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout
        found = {}
        for line in lines.splitlines():
            words = line.split()
            found[int(words[1])] = dict(zip(words[2::2], map(int, words[3::2])))
        recorded = sum(one["allocs"] + one["frees"] for one in found.values())
        in_flight = 0 if self.control["done"] else THREADS
        if not self.counted and not recorded:
            return
        if any(one["twice"] for one in found.values()):
            raise Wrong(f"events are there twice: {found}")
        if sum(one["missing"] for one in found.values()) > dropped:
            raise Wrong(f"events are missing: {found}, {dropped} dropped, counted {threads}")
        if not self.counted <= recorded + dropped <= self.counted + in_flight:
            raise Wrong(f"{self.counted} events were handed over, {recorded} are there, {dropped} were dropped")
        if not dropped and any(found.get(i + 1, {"allocs": 0})["allocs"] < allocs for i, (allocs, *_) in enumerate(threads)):
            raise Wrong(f"events are missing: {found}, counted {threads}")

    def tidy(self):
        for pid in (self.collector and self.collector.pid, self.program):
            if pid:
                self.send(pid, signal.SIGCONT)
                self.send(pid, signal.SIGKILL)
        if self.collector:
            self.collector.wait()
        if self.group:
            self.group.remove()
        for spool in pathlib.Path("/dev/shm").glob(f"memprof-{self.program}-*.spool"):
            spool.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def make_cases():
    cases = []
    memory = can_bound_memory()
    if not memory:
        print("no control groups can be made here: nobody is killed for memory")
    for who, moments in MATRIX.items():
        for when, hows in moments.items():
            for how in hows:
                if how != "memory" or memory:
                    cases += [Case(who, when, how, seed) for seed in range(TIMES)]
    return cases


def print_table(cases):
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for case in cases:
        row = rows[case.who, case.when, case.how]
        row[0] += 1
        row[1] += case.counted
        row[2] += case.dropped
        row[3] = max(row[3], case.longest_ns)
    print(f"{'who':10}{'when':8}{'how':9}{'kills':>6}{'handed over':>13}{'dropped':>9}{'longest call':>15}")
    for (who, when, how), (kills, counted, dropped, longest) in rows.items():
        print(f"{who:10}{when:8}{how:9}{kills:6}{counted:13}{dropped:9}{longest / 1e6:12.1f} ms")


def main():
    cases = make_cases()
    only = sys.argv[1:]
    if only:
        cases = [case for case in cases if all(word in case.name.split() for word in only)]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [said for said in pool.map(Case.run, cases) if said]
    if ALL:
        print_table(cases)
    for said in wrong:
        print(said)
    print(f"{len(cases)} kills in {time.monotonic() - begin:.0f} s, {sum(case.counted for case in cases)} events handed "
          f"over, {len(wrong)} cases went wrong")
    harness.asserted.held(cases and not wrong, "see above")


if __name__ == "__main__":
    harness.asserted.script(main)
