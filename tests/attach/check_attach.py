#!/usr/bin/env python3
"""memprof attach, on running programs. The recording has what the programs did and what hooks see, with the same
stacks. A program stays unchanged, and a sentence says why it cannot be attached to."""

import csv
import itertools
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import cuda_stand_in as stand_in  # noqa: E402
import harness  # noqa: E402

csv.field_size_limit(1 << 30)
HERE = pathlib.Path(__file__).resolve().parent
CUDA_TORCH = HERE.parents[1] / "tools" / "cuda-torch"
CUDA = harness.BUILD / "src/softgpu/lib/libcuda.so.1"
ROUNDS, RATE = 2000, 500
# Each program works, and does what is counted when its standard input has a line.
TRAIN = """
import os, select, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
kept = []
def answer(i):
    loss = model(torch.randn(4, 16)).pow(2).mean()
    if i % 5 == 0:
        kept.append(loss.detach().clone())  # the leak
def serve():
    while not select.select([sys.stdin], [], [], 0)[0]:
        answer(1)
        time.sleep(0.02)
    begun = time.time()
    for i in range(300):
        answer(i)
        if i % 100 == 50:
            try:
                torch.empty(1 << 60)
            except RuntimeError:
                pass
        time.sleep(max(0, begun + i / 50 - time.time()))
print("ready", os.getpid(), flush=True)
serve()
"""
TRAIN_CUDA = """
import os, select, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)]).cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
kept = []
def answer(i):
    loss = model(torch.randn(4 + i % 3, 16).cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if i % 5 == 0:
        kept.append(loss.detach().clone())  # the leak
    if i % 50 == 0:
        kept.append(torch.empty(3 << 20, device="cuda"))  # takes a segment of the driver
def serve():
    while not select.select([sys.stdin], [], [], 0)[0]:
        answer(1)
        time.sleep(0.03)
    begun = time.time()
    for i in range(150):
        answer(i)
        time.sleep(max(0, begun + i / 30 - time.time()))
answer(1)
print("ready", os.getpid(), flush=True)
serve()
"""


KIDS = """
import ctypes, os, subprocess, sys, time
c10 = ctypes.CDLL(sys.argv[1])
take, report = c10._ZN3c109alloc_cpuEm, c10._ZN3c1025ProfiledCPUMemoryReporter3NewEPvm
take.restype, report.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
def work():
    number, left = 0, 100
    while left:
        left -= os.path.exists(sys.argv[2] + ".all")
        report(1, take(100 + number), 100 + number)
        number += 1
        time.sleep(0.01)
    with open(f"{sys.argv[2]}.{os.getpid()}", "w") as file:
        file.write(str(number))
if sys.argv[3:]:
    work()
    sys.exit()
print("ready", os.getpid(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
# EXEC
child = os.fork()
if not child:
    grandchild = os.fork()
    work()
    os._exit(os.wait()[1] if grandchild else 0)
subprocess.run(["true"])
other = subprocess.Popen([sys.executable, *sys.argv, "child"])
work()
os.waitpid(child, 0)
other.wait()
"""


# Runs a command for which the kernel refuses bpf(2).
WITHOUT_BPF = """
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 321), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]  # call 321: EPERM; else allowed
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def why_not():
    """Why nothing can be attached to here; None: it can."""
    if harness.SANITIZED:
        return "a sanitized memprof"
    said = subprocess.run([harness.MEMPROF, "attach", str(os.getpid())], capture_output=True, text=True).stderr
    return None if "has loaded neither" in said else said.strip()


class Attached(harness.TestCase):
    before = []

    def setUp(self):
        super().setUp()
        self.started = []
        compiler = os.environ.get("CC", "cc").split()
        self.c10, self.service = self.folder / "libc10.so", self.folder / "service"
        subprocess.run([*compiler, "-g", "-O1", "-shared", "-fPIC", "-o", self.c10, HERE / "c10.c"], check=True)
        subprocess.run([*compiler, "-g", "-O1", "-o", self.service, HERE / "service.c", "-ldl", "-lpthread"], check=True)
        self.recording = self.folder / "now.mp"
        self.environment = {**os.environ, "MEMPROF_BUILD": str(harness.BUILD)}

    def start(self, *words):
        started = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.stdin.close)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        self.started.append(started)
        return started, started.stdout.readline().split()

    def go(self):
        """Lets the programs go on to the part whose events are counted."""
        while self.started:
            started = self.started.pop()
            started.stdin.write("\n")
            started.stdin.flush()

    def serve(self, kind="c10", rounds=ROUNDS, rate=RATE):
        return self.start(self.service, CUDA if kind == "cuda" else self.c10, kind, rounds, rate)[0]

    def attach(self, pid, *options):
        return self.attach_all(pid, (self.recording, options))[0]

    def attach_all(self, pid, *each):
        """Attaches to the program several times at once, each time with its own file and options. Then it goes
        on."""
        begun = [self.begin(pid, output, *options) for output, options in each]
        for started in begun:
            said = started.stderr.readline()
            while "lack functions" in said or "refuses BPF" in said:
                said = started.stderr.readline()
            self.assertIn("attached to process", said)
        self.go()
        return begun

    def begin(self, pid, output, *options):
        started = subprocess.Popen([*self.before, harness.MEMPROF, "attach", str(pid), "-o", output, "--force", *options],
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(started.stderr.close)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        return started

    def blocks(self, path, track=None):
        """Blocks in order of allocation: (address, bytes, True if freed, stack from the outside)."""
        table = self.folder / "blocks.csv"
        harness.memprof("export", path, "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["alloc_ns"] and row["bytes"]
                    and track in (None, row["track"])]
        rows.sort(key=lambda row: int(row["alloc_ns"]))
        return [(row["address"], row["bytes"], bool(row["free_ns"]), row["stack"].split(";")) for row in rows]

    @harness.needs("plan")
    def test_without_bpf(self):
        """Plain probes see the same blocks and native frames. They do not see the driver."""
        self.before = [sys.executable, "-c", WITHOUT_BPF]
        self.test_events_are_those_of_the_program()
        self.assertIn("the kernel refuses BPF here", " ".join(harness.answer("info", self.recording)["coverage"]["notes"]))
        said = self.begin(self.serve("cuda", rounds=200, rate=200).pid, self.recording).communicate()[1]
        self.assertRegex(said, r"^memprof: process \d+ has no PyTorch .* blocks of PyTorch alone\n$")

    def test_events_are_those_of_the_program(self):
        service = self.serve()
        attached = self.attach(service.pid)
        said = service.communicate()[0]
        self.assertEqual(attached.wait(harness.TIMEOUT), 0)
        blocks = self.blocks(self.recording)
        answer = harness.answer("info", self.recording)
        self.assertEqual(answer["coverage"]["dropped"], 0)
        self.assertFalse(answer["coverage"]["complete"])
        self.assertEqual(answer["coverage"]["missed_frees"], 0)
        self.assertIn(f"{2 * ROUNDS * 11 // 10} taken, {2 * ROUNDS} freed", said)
        # Each thread keeps one block of ten, so the recorded ones show when memprof came.
        kept = [block for block in blocks if not block[2]]
        self.assertGreaterEqual(len(blocks), 2 * ROUNDS * 11 // 10)
        self.assertLess(abs(len(blocks) - 11 * len(kept)), 24)
        self.assertEqual({"keep_request"}, {block[3][-1].partition(" (")[0] for block in kept})
        self.assertEqual({"answer_request"}, {block[3][-1].partition(" (")[0] for block in blocks if block[2]})
        self.assertTrue(all("serve" in " ".join(block[3]) for block in blocks))

    def times(self, path):
        table = self.folder / "times.csv"
        harness.memprof("export", path, "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as file:
            return [(int(row["alloc_ns"]), int(row["bytes"])) for row in csv.DictReader(file) if row["alloc_ns"]]

    def test_in_a_container(self):
        """Threads have the numbers that memprof itself sees; if none are known, a sentence says so."""
        inside = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*inside, "true"], capture_output=True).returncode:
            self.skipTest("no pid namespace can be made")
        serve = f"mkfifo go; '{self.service}' '{self.c10}' c10 600 200 <>go > served.txt & pid=$!; "
        ready = "while ! [ -s served.txt ]; do sleep 0.02; done; "
        both = "until [ $(ls /proc/$pid/task | wc -l) = 2 ]; do sleep 0.02; done; "
        attach = f"'{harness.MEMPROF}' attach $pid -o now.mp --force"
        go = ("2> said & attached=$!; until grep -qs 'attached to' said || ! kill -0 $attached; do sleep 0.02; done; "
              "echo > go; wait $attached")
        done = subprocess.run([*inside, "sh", "-c", f"{serve}{both}ls /proc/$pid/task; {attach} {go}"], capture_output=True,
                              text=True, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (self.folder / "said").read_text())
        table = self.folder / "blocks.csv"
        harness.memprof("export", self.recording, "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as file:
            self.assertEqual({row["thread"] for row in csv.DictReader(file) if row["alloc_ns"]},  # born while watched
                             set(done.stdout.split()))
        for name in ("served.txt", "go"):
            (self.folder / name).unlink()
        find = "pid=$(grep -lx service /proc/[0-9]*/comm | cut -d/ -f3); "
        done = subprocess.run([*inside, "sh", "-c", f"unshare --pid --fork sh -c \"{serve}wait\" & {ready}{find}{attach} --quiet"],
                              capture_output=True, text=True, cwd=self.folder)
        self.assertIn("in a container inside of this one", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_bound_on_the_cost(self):
        """A sample is taken if the bound demands it, and represents what the program allocated."""
        for most, sampled in (("100%", False), ("0.01%", True)):
            with self.subTest(most=most):
                service = self.serve(rounds=3000, rate=1000)
                self.assertEqual(self.attach(service.pid, "--max-overhead", most).wait(harness.TIMEOUT), 0)
                service.communicate()
                coverage = harness.answer("info", self.recording)["coverage"]
                self.assertEqual(coverage["dropped"], 0)
                self.assertEqual(any("sample was taken" in note for note in coverage["notes"]), sampled)
                self.assertEqual(len(self.blocks(self.recording)) < 500, sampled)

    def test_more_threads_than_the_file_has_room_for(self):
        service = self.serve("many", rounds=60, rate=20)
        self.assertEqual(self.attach(service.pid).wait(harness.TIMEOUT), 0)
        service.communicate()
        coverage = harness.answer("info", self.recording)["coverage"]
        self.assertTrue(any("count under another thread" in note for note in coverage["notes"]))
        self.assertEqual((coverage["dropped"], coverage["missed_frees"]), (0, 0))

    def test_frames_are_those_that_python_sees(self):
        pythons = [pathlib.Path(sys.executable), *map(pathlib.Path, os.environ.get("MEMPROF_TEST_PYTHONS", "").split(":"))]
        truth = self.folder / "truth.json"
        for python in [path for path in pythons if path.is_file()]:
            with self.subTest(python=python):
                started, (_, pid) = self.start(python, HERE / "frames.py", self.c10, truth)
                attached = self.attach(pid)
                self.assertEqual((started.wait(), attached.wait(harness.TIMEOUT)), (0, 0))
                blocks = self.blocks(self.recording)
                self.assertGreaterEqual(len(blocks), 1600)
                notes = " ".join(harness.answer("info", self.recording)["coverage"]["notes"])
                self.assertIn("began 1 other processes", notes)
                frames = [[re.fullmatch(r"(?:.*\.)?(.+) \(.*\.py:(\d+)\)", frame) for frame in block[3]] for block in blocks]
                seen = [[int(block[0], 16), int(block[1]), [f"{name}:{line}" for name, line in
                                                            [frame.groups() for frame in stack if frame]][-2::-1]]
                        for block, stack in zip(blocks, frames)]
                # Two threads allocate and write a log, in no common order.
                told = json.loads(truth.read_text())[-len(seen):]
                self.assertLess(sum(one not in told for one in seen), 3)

    def test_libunwind_sees_the_same_stacks(self):
        """Two memprofs attach at once, one with its own rules and one with libunwind, and see the same frames of each
        block."""
        if "without libunwind" in subprocess.run([harness.MEMPROF, "attach", "--unwind", "libunwind", str(os.getpid())],
                                                 capture_output=True, text=True).stderr:
            self.skipTest("memprof was built without libunwind")
        script, other = self.folder / "train.py", self.folder / "other.mp"
        script.write_text(TRAIN)
        _, (_, pid) = self.start(harness.python_with_torch(), script)
        attached = self.attach_all(pid, (self.recording, ()), (other, ("--unwind", "libunwind")))
        for each in attached:
            self.assertEqual(each.wait(harness.TIMEOUT), 0)
            self.assertEqual(harness.answer("info", self.recording)["coverage"]["dropped"], 0)
        own, theirs = self.blocks(self.recording), self.blocks(other)
        count = min(len(own), len(theirs))
        self.assertGreater(count, 500)
        both = list(zip(own[-count:], theirs[-count:]))
        self.assertTrue(all(one[:3] == same[:3] for one, same in both))
        self.assertEqual([one[3] for one, _ in both], [same[3] for _, same in both])

    def test_detached_in_the_middle(self):
        service = self.serve()
        self.assertEqual(self.attach(service.pid, "--for", "1s").wait(harness.TIMEOUT), 0)
        answer = harness.answer("info", self.recording)
        self.assertEqual(answer["coverage"]["missed_frees"], 0)
        self.assertEqual(answer["coverage"]["dropped"], 0)
        self.assertEqual(service.communicate()[0], f"{2 * ROUNDS * 11 // 10} taken, {2 * ROUNDS} freed, sum "
                         f"{2 * sum(i % 256 for i in range(ROUNDS))}\n")
        self.assertEqual(service.returncode, 0)

    def test_killed_and_detached_under_load(self):
        """The program does not notice: it prints the same as without."""
        times = 200 if os.environ.get("MEMPROF_TEST_LONG") else 10
        service, done = self.serve(rounds=30000, rate=2000), 0
        self.go()
        whole = f"66000 taken, 60000 freed, sum {2 * sum(i % 256 for i in range(30000))}\n"
        while done < times:
            attached = subprocess.Popen([harness.MEMPROF, "attach", str(service.pid), "-o", self.recording, "--force"],
                                        stderr=subprocess.PIPE, text=True)
            said = attached.stderr.readline() + attached.stderr.readline()
            if "attached to process" in said:
                attached.send_signal(signal.SIGKILL if done % 2 else signal.SIGINT)
                done += 1
            attached.communicate()
            if service.poll() is not None:  # its rounds are over
                self.assertEqual((service.stdout.read(), service.returncode), (whole, 0))
                service = self.serve(rounds=30000, rate=2000)
                self.go()
        self.assertEqual(service.stdout.read(), whole)
        self.assertEqual(service.wait(), 0)

    def test_asked_meanwhile(self):
        """`top` and questions with --pid show the live blocks. The session leaves no files behind."""
        def ask(*words):
            return subprocess.run([harness.MEMPROF, *words], capture_output=True, text=True, env=self.environment)
        self.environment["XDG_RUNTIME_DIR"] = str(self.folder)
        service = self.serve(rounds=1000000, rate=500)
        self.assertIn(f"run memprof attach {service.pid} first", ask("leaks", "--pid", str(service.pid)).stderr)
        attached = self.attach(service.pid)
        frames = ""
        # `top` asks for the two one after the other.
        while not ("keep_request" in frames and f"cpu {service.pid} " in frames):
            self.assertIsNone(service.poll(), frames)
            frames = ask("top", "--once", str(service.pid)).stdout
        def kept(path):
            """The sizes of live blocks, but for a request's own, of some 64 bytes, which it frees again."""
            return [int(block[1]) for block in self.blocks(path) if not block[2] and int(block[1]) > 512]
        live = self.folder / "live.mp"

        def shows_some():
            ask("snapshot", "--pid", str(service.pid), "--force", "-o", live)
            return len(kept(live)) > 5
        self.wait_for(shows_some)
        asked = json.loads(ask("leaks", "--pid", str(service.pid), "--json").stdout)
        attached.send_signal(signal.SIGINT)
        self.assertEqual(attached.wait(harness.TIMEOUT), 0)
        service.kill()
        self.assertFalse(asked["coverage"]["complete"])
        self.assertIn("attached while the program ran", " ".join(asked["coverage"]["notes"]))
        self.assertEqual(list(self.folder.glob("memprof-*")), [])
        self.assertEqual(kept(live), kept(self.recording)[:len(kept(live))])

    @harness.needs("plan")
    def test_a_leak_of_the_driver(self):
        service = self.serve("cuda", rounds=600, rate=200)
        self.assertEqual(self.attach(service.pid).wait(harness.TIMEOUT), 0)
        service.communicate()
        site = harness.answer("leaks", self.recording, "--track", "cuda:0/driver")["findings"][0]
        named = [frame for frame in site["stack"] if frame["function"] == "forget_buffer"]
        self.assertTrue(named)
        text = (HERE / "service.c").read_text().splitlines()
        self.assertIn("/* the leak */", text[named[0]["line"] - 1])

    @harness.needs("plan")
    def test_the_driver_s_own_ledger(self):
        """Every block of the first device is recorded, whatever its kind, as the stand-in's driver lists them."""
        gate, ledger, random = self.folder / "gate.so", self.folder / "ledger", stand_in.program("random_operations")
        subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", gate, HERE / "gate.c",
                        "-Wl,--no-as-needed", CUDA], check=True)
        program = subprocess.Popen([random, "threads", "1", "20000", "2", "7"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL,
                                   env=stand_in.environment(LD_PRELOAD=gate, SOFTGPU_LEDGER=ledger, SOFTGPU_MEMORY=1 << 40))
        self.addCleanup(program.kill)
        until = time.monotonic() + harness.TIMEOUT
        while "libcuda" not in pathlib.Path(f"/proc/{program.pid}/maps").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        attached = self.attach(program.pid)
        program.communicate(b"x")
        self.assertEqual((program.returncode, attached.wait(harness.TIMEOUT)), (0, 0))
        self.assertEqual(harness.answer("info", self.recording)["coverage"]["dropped"], 0)
        wanted = stand_in.runs_of(stand_in.read_ledger(ledger)[0])
        for unseen in ("contexts", "streams", "pools"):
            wanted.pop(f"cuda:0/driver/{unseen}", None)
        self.assertEqual(len(wanted), 6)
        recorded = stand_in.runs_of(stand_in.read_recording(self.recording))
        for track in sorted(set(wanted) | set(recorded)):
            self.assertEqual(recorded.get(track), wanted.get(track), track)

    def test_children(self):
        """A forked child, its own child, and another program are recorded soon after they begin; otherwise they are
        counted."""
        script = self.folder / "kids.py"
        script.write_text(KIDS)
        for options in (["--children"], []):
            with self.subTest(options=options):
                for file in self.folder.glob("*.mp"):
                    file.unlink()
                go = self.folder / f"go{len(options)}"
                started, (_, pid) = self.start(sys.executable, script, self.c10, go)
                attached = self.attach(pid, *options)
                go.touch()
                if options:
                    self.wait_for(lambda: len(list(self.folder.glob("*.mp"))) == 4)
                (self.folder / f"{go.name}.all").touch()
                self.assertEqual((started.wait(), attached.wait(harness.TIMEOUT)), (0, 0))
                answers = [harness.answer("info", path) for path in self.folder.glob("*.mp")]
                self.assertEqual([answer["process"]["exit"] for answer in answers], ["exit 0"] * len(answers))
                self.assertEqual(len(answers), 4 if options else 1)
                notes = " ".join(harness.answer("info", self.recording)["coverage"]["notes"])
                self.assertIn(f"began 3 other processes meanwhile, of which {2 if options else 0} were", notes)
                for path in self.folder.glob("*.mp"):
                    process, blocks = harness.answer("info", path)["process"], self.blocks(path)
                    self.assertLessEqual(len(blocks), int((self.folder / f"{go.name}.{process['pid']}").read_text()))
                    self.assertGreater(len(blocks), 50)

    @harness.needs("plan")
    def test_children_of_a_parent_without_pytorch(self):
        """As below an engine's own process, or a shell that it starts."""
        script, go = self.folder / "kids.py", self.folder / "go"
        script.write_text(KIDS)
        line = f"echo $$; while [ ! -e {go} ]; do sleep 0.02; done; sh -c '{sys.executable} {script} {self.c10} {go} child; true'; true"
        started, (pid,) = self.start("sh", "-c", line)
        attached = self.begin(pid, self.recording, "--children")
        self.assertIn(f"process {pid} has neither PyTorch nor CUDA: waiting", attached.stderr.readline())
        go.touch()
        self.wait_for(lambda: list(self.folder.glob("*.mp")))
        (self.folder / "go.all").touch()
        self.assertEqual((started.wait(), attached.wait(harness.TIMEOUT)), (0, 0))
        (path,) = self.folder.glob("*.mp")
        process, blocks = harness.answer("info", path)["process"], self.blocks(path)
        self.assertEqual(path.name, f"{self.recording.stem}.{process['pid']}.mp")
        self.assertGreater(len(blocks), 50)
        self.assertLessEqual(len(blocks), int((self.folder / f"go.{process['pid']}").read_text()))

    def test_exec(self):
        script = self.folder / "exec.py"
        script.write_text(KIDS.replace("# EXEC", "work(); os.execvp('sleep', ['sleep', '1'])"))
        go = self.folder / "go"
        started, (_, pid) = self.start(sys.executable, script, self.c10, go)
        attached = self.attach(pid)
        go.touch()
        (self.folder / "go.all").touch()
        said = attached.communicate()[1]
        self.assertEqual((attached.returncode, started.wait()), (0, 0))
        self.assertIn("memprof: the program put another one in its place (exec), which is not recorded", said)
        self.assertEqual(harness.answer("info", self.recording)["process"]["exit"], "replaced by exec")

    def test_the_leak_of_the_example(self):
        example = HERE.parents[1] / "examples/leak.py"
        started = subprocess.Popen([harness.python_with_torch(), example, "--steps", "100000"], stdout=subprocess.DEVNULL)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        until = time.monotonic() + harness.TIMEOUT
        while "libc10" not in pathlib.Path(f"/proc/{started.pid}/maps").read_text() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)  # into the loop
        attached, now = self.attach(started.pid), self.folder / "so_far.mp"

        def is_seen():
            harness.memprof("snapshot", "--pid", started.pid, "--force", "-o", now)
            return now.exists() and harness.answer("leaks", now)["verdict"] == "leak"
        self.wait_for(is_seen, "no leak was found")
        attached.send_signal(signal.SIGINT)
        self.assertEqual(attached.wait(harness.TIMEOUT), 0)
        answer = harness.answer("leaks", self.recording)
        self.assertEqual(answer["verdict"], "leak")
        lines = {f"{frame['function']}:{frame['line']}" for frame in answer["findings"][0]["stack"]
                 if frame["language"] == "python"}
        text = example.read_text().splitlines()
        validated = 1 + next(i for i, line in enumerate(text) if line.startswith("    return compute_loss(model, inputs)"))
        self.assertIn(f"validate:{validated}", lines)

    def test_a_sample_is_an_estimate(self):
        """Six samples at once of the same blocks: their mean is within four standard errors of an unsampled
        recording."""
        service = self.serve(rounds=6000, rate=1000)
        attached = self.attach_all(service.pid, (self.recording, ()), *[(self.folder / f"{i}.mp", ["--max-overhead", "0.01%"])
                                                                        for i in range(6)])
        service.communicate()
        for each in attached:
            self.assertEqual(each.wait(harness.TIMEOUT), 0)

        def kept(path, since):
            began = harness.answer("info", path)["process"]["start_unix_ns"]
            return [(began + at, size) for at, size in self.times(path) if began + at >= since], began
        estimate, truth, variance = 0, 0, 0
        for sampler in range(6):
            sampled, since = kept(self.folder / f"{sampler}.mp", 0)
            blocks, _ = kept(self.recording, since)
            self.assertGreater(len(blocks), 1000)
            notes = " ".join(harness.answer("info", self.folder / f"{sampler}.mp")["coverage"]["notes"])
            number, unit = re.search(r"one in ([0-9.]+) ([KM])iB", notes).groups()
            mean = float(number) * (1 << (10 if unit == "K" else 20))
            # The size of a sampled block is that of all blocks it represents.
            estimate += sum(size for _, size in sampled)
            truth += sum(size for _, size in blocks)
            variance += sum(size * size * (1 / -math.expm1(-size / mean) - 1) for _, size in blocks)
        self.assertLess(abs(estimate - truth), 4 * math.sqrt(variance))

    def test_what_the_libraries_lack(self):
        service = self.serve(rounds=200, rate=200)
        lacks, begun = (line.rstrip("\n") for line in itertools.islice(self.begin(service.pid, self.recording).stderr, 2))
        self.assertRegex(lacks, r"lack functions to attach to, .*: c10::reportMemoryUsageToProfiler, "
                                r"c10::reportOutOfMemoryToProfiler$")
        self.assertIn("attached to process", begun)

    def both(self, program, track, driver, *prefix):
        """A program's blocks by hooks and by probes at the same time, from the attaching on."""
        script, hooked = self.folder / "train.py", self.folder / "hooked.mp"
        script.write_text(program)
        started, (_, pid) = self.start(*prefix[:-1], harness.MEMPROF, "snapshot", "--quiet", "-o", hooked,
                                       f"--capture=torch,cpu,{driver}", "--", prefix[-1], script)
        attached = self.attach(pid)
        started.communicate()
        self.assertEqual((started.returncode, attached.wait(harness.TIMEOUT)), (0, 0))
        by_hooks, by_probes = self.blocks(hooked, track), self.blocks(self.recording, track)
        self.assertGreaterEqual(len(by_hooks), len(by_probes))
        both = list(zip(by_hooks[-len(by_probes):], by_probes))  # both recordings end with the program
        self.assertTrue(all(one[:3] == other[:3] for one, other in both))
        return both

    def hold_stacks(self, both):
        def own(stack):
            # In backward, hooks replace the engine's thread by the forward path of the node.
            stack = stack[stack.index("backward of") + 1:] if "backward of" in stack else stack
            engine = [i for i, frame in enumerate(stack) if frame.startswith("torch::autograd::Engine::")]
            return stack[engine[-1]:] if engine else stack

        def python_of(stack):
            return [frame for frame in own(stack) if ".py:" in frame]

        def native_of(stack):
            # Hooks and probes are in different functions of c10. Hooks name libraries by links, probes by files.
            stack = [re.sub(r"\.so[.\d]*\+", ".so+", frame) for frame in own(stack)]
            return [frame for frame in stack if not frame.startswith(("c10::", "libc10"))]
        same_python = sum(python_of(one[3]) == python_of(other[3]) for one, other in both)
        same = sum(native_of(one[3]) == native_of(other[3]) for one, other in both)
        self.assertGreaterEqual(same_python, 0.95 * len(both))
        self.assertGreaterEqual(same, 0.99 * len(both))
        leak = harness.answer("leaks", self.recording)["findings"][0]
        self.assertIn("answer", [frame["function"] for frame in leak["stack"]])

    def test_as_hooks_see_it(self):
        both = self.both(TRAIN, "cpu/torch", "hooks", harness.python_with_torch())
        self.assertGreater(len(both), 500)
        self.hold_stacks(both)

    @harness.needs("plan")
    def test_as_hooks_see_it_on_cuda(self):
        if subprocess.run([CUDA_TORCH, "true"], env=self.environment).returncode:
            self.skipTest("tools/cuda-torch could not make its environment")
        both = self.both(TRAIN_CUDA, "cuda:0/torch", "cupti", CUDA_TORCH, "python3")
        self.assertGreater(len(both), 2000)
        self.hold_stacks(both)
        self.assertTrue(any("backward of" in one[3] for one, _ in both))
        # Segments, too. CPU tensors end with the device's first block, which exists from the beginning.
        rows = [self.blocks(path, "cuda:0/driver") for path in (self.folder / "hooked.mp", self.recording)]
        self.assertGreater(len(rows[1]), 1)
        self.assertEqual([row[:3] for row in rows[0][-len(rows[1]):]], [row[:3] for row in rows[1]])
        # CUPTI reports from inside of the driver's function, which probes watch: for both, the stack continues with the
        # caller.
        self.assertTrue(all(any("cudaMalloc" in frame for frame in row[3]) for row in rows[0][-len(rows[1]):]))
        self.assertLess(len(self.blocks(self.recording, "cpu/torch")), 10)


class Saying(harness.TestCase):
    def say(self, *words):
        done = subprocess.run([harness.MEMPROF, "attach", *[str(word) for word in words]], capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(list(self.folder.glob("*.mp")), [])
        return done.returncode, done.stderr


class Words(Saying):
    """Messages that need no rights appear everywhere."""

    def test_words_that_are_not_understood(self):
        for words in (["soon"], ["0"], ["-1"], ["99999999999"], ["1", "--for", "soon"], ["1", "--stacks", "deep"],
                      ["1", "--max-overhead", "0"], ["1", "--max-overhead", "5x"]):
            with self.subTest(words=words):
                self.assertEqual(subprocess.run([harness.MEMPROF, "attach", *words], capture_output=True).returncode, 2)
        there = self.folder / "there.txt"
        there.write_text("work")
        self.assertIn("already there", self.say(1, "-o", there)[1])
        self.assertEqual(there.read_text(), "work")

    def test_without_a_process(self):
        done = subprocess.run([harness.MEMPROF, "attach"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("PID", done.stderr)
        gone = subprocess.Popen(["true"])
        os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
        for fact in ("has ended", "there is no process"):
            status, said = self.say(gone.pid)
            self.assertEqual(status, 1)
            self.assertIn(fact, said)
            gone.wait()


class Refused(Saying):
    def build(self, name, text, *options):
        """The path; None: this machine cannot build it."""
        built = self.folder / name
        done = subprocess.run([*os.environ.get("CC", "cc").split(), "-x", "c", "-", "-x", "none", "-o", built, *options], input=text,
                              text=True, capture_output=True)
        return None if done.returncode else built

    def run_until_killed(self, *words):
        started = subprocess.Popen(words)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        until = time.monotonic() + harness.TIMEOUT
        while os.readlink(f"/proc/{started.pid}/exe") == sys.executable and time.monotonic() < until:
            time.sleep(0.01)
        return started

    def test_programs_without_the_functions(self):
        waits = "void _start(void) { for (;;) __asm__ volatile(\"pause\"); }"
        other = self.build("other", waits, "-m32", "-nostdlib", "-static", "-no-pie")
        static = self.build("static", waits, "-nostdlib", "-static", "-no-pie")
        for program, why in ((other, "another architecture"), (static, "neither PyTorch")):
            if program:
                started = self.run_until_killed(program)
                self.assertIn(why, self.say(started.pid)[1])
                self.assertEqual(started.poll(), None)
        self.build("libc10.so", "int nothing;", "-shared", "-fPIC", "-s")
        loads = "extern int usleep(unsigned), nothing; int main(void) { for (;;) usleep(9999 + nothing); }"
        program = self.build("loads", loads, self.folder / "libc10.so", f"-Wl,-rpath,{self.folder}")
        started = self.run_until_killed(program)
        until = time.monotonic() + harness.TIMEOUT
        while "libc10" not in pathlib.Path(f"/proc/{started.pid}/maps").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        self.assertIn("its libraries have none of the functions", self.say(started.pid)[1])

    def test_what_cannot_be_attached_to(self):
        sleeps = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeps.wait)
        self.addCleanup(sleeps.kill)
        self.assertIn("neither PyTorch", self.say(sleeps.pid)[1])
        self.assertEqual(sleeps.poll(), None)
        if pathlib.Path("/proc/2/comm").exists() and not os.path.exists("/proc/2/exe"):
            self.assertIn("thread of the kernel", self.say(2)[1])
        self.assertEqual(self.say(1)[0], 1)
        without = ["setpriv", "--bounding-set", "-bpf,-perfmon,-sys_admin"]
        if not subprocess.run([*without, "true"], capture_output=True).returncode:
            said = subprocess.run([*without, harness.MEMPROF, "attach", str(sleeps.pid)], capture_output=True, text=True,
                                  cwd=self.folder).stderr
            self.assertRegex(said, r"^memprof: .* root lacks CAP_SYS_ADMIN .*\n$")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"left out: {reason}", file=sys.stderr)
        Attached = unittest.skip(reason)(Attached)
        Refused = unittest.skip(reason)(Refused)
    harness.main()
