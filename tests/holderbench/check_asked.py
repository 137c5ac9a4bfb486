#!/usr/bin/env python3
"""Looks for holders while a program runs: by `memprof holders --pid`, at a signal, at out-of-memory or a suspected
leak. memprof does not wait for a program that does not respond. Each program continues as without a look."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[0] / "e2e"), str(HERE.parents[0] / "unit" / "format")]
import harness

PYTHON = harness.python_with_torch()

HANDLER = """
import signal
signal.signal(signal.SIGURG, lambda *_: print("urgent", flush=True))
"""
ANOTHER = HANDLER + """
import select, sys, time
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    time.sleep(0.05)
"""
# Each says "ready", and ends after a line on stdin, which its look must not read.
COMMON = """
import ctypes, hashlib, os, select, sys, time, torch
torch.manual_seed(3)

def goes_on():
    return not select.select([sys.stdin], [], [], 0)[0]

def ready():
    print("ready", flush=True)

def end():
    print(hashlib.sha256(torch.randn(50).numpy().tobytes()).hexdigest(), flush=True)
"""
PROGRAMS = {
    "allocating": """
cache = {}
def work():
    for number in range(40):
        cache[number] = torch.ones(1000)
    ready()
    while goes_on():
        torch.ones(2)
        time.sleep(0.01)
work()
end()
""",
    "sleeping": """
class Store:
    kept = []
def fill():
    for _ in range(25):
        Store.kept.append(torch.ones(1000))
fill()
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
    "crowded": """
kept = [[torch.ones(2), [number]] for number in range(50_000)]
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
    # Signals do not reach the interpreter here: it is in one call of C that does not check for them.
    "native": """
kept = [torch.ones(1000) for _ in range(5)]
ready()
sum(range(400_000_000))
while goes_on():
    time.sleep(0.05)
end()
""",
    # Its handlers are only for its own signals.
    "own handler before": """
kept = [torch.ones(1000) for _ in range(5)]
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
    "own handler after": HANDLER + """
kept = [torch.ones(1000) for _ in range(5)]
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
    # The program keeps the former handler, as if to restore it; a look becomes due in its steps.
    "own handler, the other kept": """
import libmemprof, signal
before = signal.signal(signal.SIGURG, signal.SIG_IGN)
""" + HANDLER + """
kept = [torch.ones(1000) for _ in range(5)]
for step in range(8):
    libmemprof.step()
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
    "another program": """
kept = [torch.ones(1000) for _ in range(5)]
os.execv(sys.executable, [sys.executable, "-c", ANOTHER])
""",
    "forked": """
class Store:
    kept = []
child = os.fork()
if not child:
    for _ in range(25):
        Store.kept.append(torch.ones(1000))
    ready()
    while goes_on():
        time.sleep(0.05)
    os._exit(0)
os.waitpid(child, 0)
end()
""",
    "no tensors": """
ready()
while goes_on():
    time.sleep(0.05)
""",
    "stepping": """
import libmemprof
def train():
    losses, weight = [], torch.ones(20, 30, requires_grad=True)
    for step in range(15):
        losses.append((torch.ones(50, 20) @ weight).sum())
        libmemprof.step()
        time.sleep(0.1)
    ready()
    while goes_on():
        time.sleep(0.05)
    return losses
train()
end()
""",
    "out of memory": """
held = []
def work():
    for _ in range(7):
        held.append(torch.ones(1000))
    try:
        torch.empty(1 << 60, dtype=torch.uint8)
    except RuntimeError:
        pass
    torch.ones(3)
    held.clear()
work()
ready()
while goes_on():
    time.sleep(0.05)
end()
""",
}
# The main thread waits, and a thread has kept blocks.
WAITING = """
import threading
done_pipe, to_pipe = os.pipe()
done = threading.Lock()
done.acquire()
def make(number):
    return torch.full((4000,), float(number))
def consume():
    seen = []
    for number in range(100):
        seen.append(make(number))
    ready()
    while goes_on():
        sum(range(100))
    os.write(to_pipe, b"x")
    done.release()
thread = threading.Thread(target=consume)
thread.start()
WAIT
end()
"""


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Asked(harness.TestCase):
    def start_program(self, name, *options):
        program = self.folder / "program.py"
        before = HANDLER if name == "own handler before" else f"ANOTHER = {ANOTHER!r}\n"
        program.write_text(before + COMMON + PROGRAMS[name])
        self.file, self.questions = self.folder / "run.mp", 0
        self.recorder = subprocess.Popen(
            [harness.MEMPROF, "snapshot", *options, "-o", self.file, "--", PYTHON, program], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.leave_nothing)
        self.assertEqual(self.recorder.stdout.readline(), "ready\n")
        return harness.first_child(self.recorder.pid)

    def leave_nothing(self):
        if self.recorder.poll() is None:
            try:
                os.kill(harness.first_child(self.recorder.pid), signal.SIGKILL)
            except (IndexError, ProcessLookupError):
                pass
            self.recorder.communicate()

    def end_program(self):
        """It ends by itself, with the same results as without questions."""
        said, told = self.recorder.communicate("\n", timeout=harness.TIMEOUT)
        self.assertEqual(self.recorder.returncode, 0, told)
        alone = subprocess.run([PYTHON, self.folder / "program.py"], input="\n", capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": str(harness.SOURCE / "python")}, timeout=harness.TIMEOUT)
        self.assertEqual("ready\n" + said, alone.stdout)

    def ask(self, pid, *options):
        """Asks again if the program did not respond because the machine was busy. Counts the questions."""
        for _ in range(5):
            self.questions += 1
            result = harness.memprof("holders", "--pid", pid, *options)
            if "did not answer within" not in result.stderr:
                break
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def asked(self, pid, *options):
        return json.loads(self.ask(pid, *options, "--json").stdout)

    def holders_of(self, answer, bytes_each):
        return [(holder["path"], holder["blocks"]) for site in answer["sites"] for holder in site["holders"]
                if holder["bytes"] == bytes_each * holder["blocks"]]

    def looks(self, path):
        """The time when each look in a file was over."""
        told = subprocess.run([sys.executable, HERE.parent / "unit" / "format" / "read_mp.py", path],
                              capture_output=True, text=True, check=True).stdout
        found = []
        for chunk in map(json.loads, told.splitlines()):
            if chunk.get("kind") == "holders":
                columns = chunk["columns"]
                found += [when for when, block in zip(columns["time"], columns["block"]) if block == 2 ** 64 - 1]
        return found

    def test_a_program_that_allocates_answers(self):
        pid = self.start_program("allocating")
        self.assertIn(("cache[*]", 40), self.holders_of(self.asked(pid, "--budget", "2s"), 4000))
        text = self.ask(pid, "--budget", "2s")
        self.assertIn("held by cache[*] (program.py:18), 40 of 40 blocks", text.stdout)
        self.end_program()
        looks = len(self.looks(self.file))
        self.assertGreaterEqual(looks, 3)
        self.assertLessEqual(looks, self.questions + 1)

    def test_memprof_itself_may_be_named(self):
        self.start_program("allocating")
        self.assertIn("this is process", self.ask(self.recorder.pid, "--budget", "2s").stderr)
        self.end_program()

    def test_a_short_look_says_what_it_left_out(self):
        pid = self.start_program("crowded", "--holders")
        answer = self.asked(pid, "--budget", "1ms")
        self.assertIn("out of time (1 ms)", answer["left_out"])
        self.end_program()

    def test_a_program_that_sleeps_is_woken(self):
        pid = self.start_program("sleeping", "--holders")
        self.assertIn(("Store.kept[*]", 25), self.holders_of(self.asked(pid, "--budget", "2s"), 4000))
        self.end_program()

    def test_a_forked_child_that_sleeps_is_woken(self):
        pid = harness.first_child(self.start_program("forked", "--holders"))
        self.assertIn(("Store.kept[*]", 25), self.holders_of(self.asked(pid, "--budget", "2s"), 4000))
        self.end_program()

    def test_nobody_elses_handler_is_called(self):
        for name in ("own handler before", "own handler after", "own handler, the other kept", "another program"):
            with self.subTest(name):
                pid = self.start_program(name, "--holders", "--force")
                result = harness.memprof("holders", "--pid", pid)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertRegex(result.stderr, "did not answer within 3 s|is not being recorded")
                self.end_program()

    def descriptors(self):
        """Descriptors of the collector, once their number has been constant for a moment."""
        before, now = None, set()
        while now != before:
            before, now = now, set(map(int, os.listdir(f"/proc/{self.recorder.pid}/fd")))
            time.sleep(0.2)
        return now

    def asked_with_spare(self, pid, spare):
        """The messages if the collector can open only the given number of further files. Asks again if the program was
        too slow to respond."""
        before = resource.prlimit(self.recorder.pid, resource.RLIMIT_NOFILE)
        for _ in range(5):
            files = self.descriptors()
            limit = next(number for number in range(1024) if len(set(range(number)) - files) == spare)
            resource.prlimit(self.recorder.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
            result = harness.memprof("holders", "--pid", pid, "--budget", "2s")
            resource.prlimit(self.recorder.pid, resource.RLIMIT_NOFILE, before)
            if "did not answer within" not in result.stderr:
                return result
        raise AssertionError(result.stderr)

    def test_an_answer_that_cannot_be_written_is_refused(self):
        """The collector has few free descriptors, down to one: it says so, and answers again when it has enough."""
        pid = self.start_program("allocating")
        self.wait_for(self.file.exists)
        refused = []
        for spare in range(1, 40):
            result = self.asked_with_spare(pid, spare)
            if not result.returncode:
                break
            refused.append(result.stderr)
        self.assertIn("held by cache[*] (program.py:18), 40 of 40 blocks", result.stdout)
        self.assertGreater(len(refused), 2)
        for said in refused:
            self.assertIn("Too many open files", said)
        self.end_program()

    def test_without_the_option_no_signal_is_handled(self):
        pid = self.start_program("sleeping")
        caught = next(line for line in open(f"/proc/{pid}/status") if line.startswith("SigCgt"))
        self.assertFalse(int(caught.split()[1], 16) >> (signal.SIGURG - 1) & 1)
        result = harness.memprof("holders", "--pid", pid)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("did not answer within 3 s", result.stderr)
        self.assertIn("snapshot --holders", result.stderr)
        self.end_program()

    def test_native_code_is_not_waited_for(self):
        pid = self.start_program("native", "--holders")
        begun = time.monotonic()
        result = harness.memprof("holders", "--pid", pid)
        took = time.monotonic() - begun
        if result.returncode:  # on a fast machine the call may be over
            self.assertIn("did not answer within 3 s: its main thread is in native code", result.stderr)
        self.assertLess(took, 30, "it waited for the program")
        self.end_program()

    def test_a_program_without_tensors_says_so(self):
        pid = self.start_program("no tensors", "--holders")
        result = harness.memprof("holders", "--pid", pid)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "is recorded|not being recorded|has none of PyTorch's")
        self.end_program()

    def test_what_is_no_process_or_no_time(self):
        for arguments, says in ((("--pid", "0"), "--pid 0"), (("--pid", "1", "--budget", "3s"), "--budget 3s"),
                                ((), "holders needs FILE"), (("x.mp", "--budget", "1s"), "holders needs FILE")):
            result = harness.memprof("holders", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(says, result.stderr)
        result = harness.memprof("snapshot", "--budget", "1s", "-o", self.folder / "a.mp", "--", "true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("needs --holders", result.stderr)

    def test_a_snapshot_at_a_signal_has_a_look_of_that_moment(self):
        self.start_program("sleeping", "--holders", "--budget", "2s", "--at-signal", "USR1")
        for name in ("run.now.mp", "run.now.2.mp", "run.now.3.mp"):
            os.kill(self.recorder.pid, signal.SIGUSR1)
            now = self.folder / name
            self.wait_for(now.exists)
            answer = harness.answer("holders", now)
            if answer["looked"]:  # on a busy machine the program may come by too late
                break
        self.assertIn(("Store.kept[*]", 25), self.holders_of(answer, 4000))
        self.end_program()

    def test_a_look_where_memory_ran_out(self):
        self.start_program("out of memory")
        self.end_program()
        self.assertEqual(len(self.looks(self.file)), 2)
        self.assertIn(("held[*]", 7), self.holders_of(harness.answer("holders", self.file), 4000))

    def test_a_look_where_a_leak_is_suspected(self):
        pid = self.start_program("stepping", "--holders")
        self.wait_for(lambda: harness.memprof("leaks", "--pid", pid).stdout.startswith("leak"))
        self.wait_for(lambda: len(self.looks_so_far(pid)) > 1, "no look was made after the one at 8 steps")
        self.end_program()
        holder = harness.answer("leaks", self.file)["findings"][0]["holders"][0]
        self.assertEqual(holder["path"], "train().losses[*].grad_fn → MmBackward0._saved_self")
        self.assertGreater(holder["blocks"], 8)

    def test_a_look_at_blocks_that_double_while_the_main_thread_waits(self):
        """There is no step, and no end of a run to look at."""
        for wait in ("thread.join()", "done.acquire()", "select.select([done_pipe], [], [])"):
            with self.subTest(wait=wait):
                PROGRAMS["waiting"] = WAITING.replace("WAIT", wait)
                pid = self.start_program("waiting", "--holders", "--force")
                self.wait_for(lambda: self.looks_so_far(pid) and "consume().seen[*]" in json.dumps(
                    harness.answer("holders", self.folder / "so_far.mp")), "no look found the blocks")
                self.end_program()

    def looks_so_far(self, pid):
        path = self.folder / "so_far.mp"
        result = harness.memprof("snapshot", "--pid", pid, "--force", "-o", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.looks(path)


if __name__ == "__main__":
    harness.main()
