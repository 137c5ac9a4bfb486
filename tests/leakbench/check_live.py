#!/usr/bin/env python3
"""Leaks of a running program: the answers of memprof leaks --pid at any moment, and who may ask."""

import array
import collections
import contextlib
import os
import pathlib
import random
import socket
import stat
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

LEAKER = harness.BUILD / "tests" / "leakbench" / "programs" / "leaker"
PROGRAMS = harness.SOURCE / "tests" / "leakbench" / "programs"
PYTHON = harness.python_with_torch()
MAGIC, VERSION, LIVE = 0x6d70636b, 2, 1
SEED = int(os.environ.get("MEMPROF_FUZZ_SEED", "1"))
QUESTIONS = int(os.environ.get("MEMPROF_FUZZ_QUESTIONS", "100"))


class Program:
    """A program under memprof snapshot that obeys commands, one per line."""

    def __init__(self, test, *command, options=()):
        self.recording = test.folder / "run.mp"
        self.memprof = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", self.recording, *options, "--", *command],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        self.pid = None

    def tell(self, *orders):
        """When this returns, the collector has everything that the program did."""
        for order in orders:
            self.memprof.stdin.write(order + "\n")
            self.memprof.stdin.flush()
            if self.memprof.stdout.readline() != "done\n":
                raise AssertionError(f"{order}: {self.memprof.stderr.read()}")
        self.pid = self.pid or harness.first_child(self.memprof.pid)

    def leaks(self, *options, pid=None, status=(0, 3)):
        return harness.answer("leaks", "--pid", str(pid or self.pid), *options, status=status)

    def socket_path(self):
        environment = pathlib.Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
        return next(entry for entry in environment if entry.startswith(b"MEMPROF_SESSION=")).split(b";", 1)[1].decode()

    def end(self):
        if self.memprof.poll() is None:
            self.memprof.stdin.close()
            self.memprof.wait(60)
        for stream in (self.memprof.stdout, self.memprof.stderr):
            stream.close()


def ask(path, message, descriptors=None):
    """Sends a message; True if the answer shows that the question was understood and done."""
    if descriptors is None:
        descriptors = [os.memfd_create("answer")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(20)
        connection.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            connection.sendmsg([message], rights)
            answer = connection.recv(4096)
        except OSError:
            answer = b""
    for descriptor in descriptors:
        os.close(descriptor)
    return len(answer) >= 16 and struct.unpack_from("<3I", answer) == (MAGIC, VERSION, 0)


class Live(harness.TestCase):
    def test_a_leak_is_told_and_withdrawn(self):
        program = Program(self, LEAKER)
        program.tell("leak 0", "run 5")
        self.assertEqual(program.leaks()["verdict"], "unknown")
        program.tell("run 60")
        self.assertEqual(program.leaks()["verdict"], "clean")
        program.tell("leak 1", "run 40")
        leaks = program.leaks("--fail", status=3)
        self.assertEqual((leaks["verdict"], leaks["steps"]), ("leak", {"count": 105, "source": "api"}))
        finding, = leaks["findings"]
        self.assertEqual([finding[key] for key in ("bytes_per_step", "first_step", "blocks", "bytes", "class", "track")],
                         [512, 66, 39, 39 * 512, "native", "cpu/app/leaker"])
        self.assertEqual(leaks["outstanding"]["blocks"], 41)
        self.assertIn("leak_here", [frame["function"] for frame in finding["stack"]])
        program.tell("clear")
        self.assertEqual(program.leaks()["findings"], [])
        program.tell("leak 0", "run 40")
        self.assertEqual(program.leaks()["verdict"], "clean")

    def test_a_long_run_is_told_in_bounded_memory(self):
        program = Program(self, LEAKER)
        program.tell("rest 1", "leak 0", "run 20000", "leak 1", "size 1000", "run 80000")
        leaks = program.leaks()
        self.assertEqual((leaks["verdict"], leaks["steps"]["count"]), ("leak", 100000))
        finding, = leaks["findings"]
        self.assertAlmostEqual(finding["bytes_per_step"], 1000, delta=10)
        self.assertAlmostEqual(finding["first_step"], 20001, delta=128)
        self.assertAlmostEqual(finding["blocks"], 80000, delta=64)
        program.tell("clear", "leak 0", "run 40000")
        self.assertEqual(program.leaks()["verdict"], "clean")
        resident = int(pathlib.Path(f"/proc/{program.memprof.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE")
        self.assertLess(resident, 200 << 20)

    def test_the_live_answer_is_a_recording(self):
        """Answers while the program runs agree with the whole recording."""
        program = Program(self, LEAKER)
        program.tell("run 100")
        live = program.leaks()
        program.end()
        whole = harness.answer("leaks", program.recording)
        for key in ("class", "track", "bytes_per_step", "first_step", "blocks"):
            self.assertEqual(live["findings"][0][key], whole["findings"][0][key], key)

    def test_who_is_asked_for(self):
        program = Program(self, LEAKER)
        program.tell("run 30")
        self.assertEqual(program.leaks(pid=program.memprof.pid)["steps"]["count"], 30)
        for pid, says in ((1, "not being recorded"), (os.getpid(), "not being recorded"), (2 ** 22 + 1, "no process"),
                          ("x", "give the number"), (-1, "give the number")):
            result = harness.memprof("leaks", f"--pid={pid}")
            self.assertIn(result.returncode, (1, 2))
            self.assertIn(says, result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertEqual(harness.memprof("leaks").returncode, 2)
        self.assertEqual(harness.memprof("leaks", "--pid", "1", "run.mp").returncode, 2)

    def test_a_parent_is_no_memprof(self):
        """A program that is not recorded is not taken for memprof, although it started a recorded one."""
        # A system call of the program's own: the recorder cannot put its variables back.
        between = ("import ctypes, os, sys; session = os.environ['MEMPROF_SESSION']\n"
                   "code = 'import os, subprocess, sys; subprocess.run([sys.argv[1]], "
                   "env=dict(os.environ, MEMPROF_SESSION=sys.argv[2]))'\n"
                   "texts = lambda *them: (ctypes.c_char_p * (len(them) + 1))(*map(os.fsencode, them), None)\n"
                   "bare = [f'{name}={value}' for name, value in os.environ.items() if name != 'MEMPROF_SESSION']\n"
                   "if not os.fork():\n"
                   "    words = texts(sys.executable, '-c', code, sys.argv[1], session)\n"
                   "    ctypes.CDLL(None).syscall(59, words[0], words, texts(*bare))\n"
                   "os.wait()")
        program = Program(self, sys.executable, "-c", between, LEAKER)
        program.tell("run 30")
        recorded = program.pid
        parent = harness.first_child(recorded)
        self.assertNotIn(b"MEMPROF_SESSION=", pathlib.Path(f"/proc/{parent}/environ").read_bytes())
        child = harness.first_child(parent)
        self.assertEqual(program.leaks(pid=child)["verdict"], program.leaks(pid=program.memprof.pid)["verdict"])
        result = harness.memprof("leaks", "--pid", str(parent))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"process {parent} is not being recorded", result.stderr)

    def test_the_socket_is_private(self):
        program = Program(self, LEAKER)
        program.tell("run 10")
        folder = os.stat(os.path.dirname(program.socket_path()))
        self.assertEqual((stat.S_IMODE(folder.st_mode), folder.st_uid), (0o700, os.geteuid()))
        if os.geteuid():
            self.skipTest("only root can be somebody else")
        # Another user gets no answer, even if the folder is open to that user.
        path, question = program.socket_path(), struct.pack("<5I", MAGIC, VERSION, LIVE, program.pid, 0)
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(path, 0o777)
        child = os.fork()
        if not child:
            status = 2
            try:
                os.setgid(65534)
                os.setuid(65534)
                status = 1 if ask(path, question) else 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertTrue(ask(path, question))
        self.assertEqual(program.leaks()["steps"]["count"], 10)

    def open_files(self, program):
        """The files that the collector has open, except the program's own: it reads their symbols when it needs them.
        It may close a file between the listing and the reading of its name."""
        found, folder = [], f"/proc/{program.memprof.pid}/fd"
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f"{folder}/{name}"))
        mapped = pathlib.Path(f"/proc/{program.pid}/maps").read_text()
        return collections.Counter(name for name in found if name not in mapped)

    def test_hostile_questions(self):
        program = Program(self, LEAKER)
        program.tell("run 20")
        path, good = program.socket_path(), struct.pack("<5I", MAGIC, VERSION, LIVE, program.pid, 0)
        self.assertTrue(ask(path, good))  # then its recording is open
        open_before = self.open_files(program)
        chance = random.Random(SEED)
        used = os.memfd_create("used")
        os.write(used, b"not empty")
        for descriptors in ([], [used], [os.open("/dev/null", os.O_RDWR)], [os.open("/tmp", os.O_RDONLY)],
                            [os.open("/proc/self/stat", os.O_RDONLY)], list(os.pipe()),
                            [os.memfd_create("x") for _ in range(5)]):
            self.assertFalse(ask(path, good, descriptors))
        for _ in range(QUESTIONS):
            message = bytearray(good)
            for _ in range(chance.randrange(4)):
                message[chance.randrange(len(message))] = chance.randrange(256)
            message = bytes(message) + bytes(chance.randrange(300)) if chance.random() < 0.3 else bytes(message)
            message = message[:chance.randrange(1, len(message) + 1)] if chance.random() < 0.3 else message
            understood = ask(path, message)
            self.assertTrue(not understood or message[:12] == good[:12])
        # Ends what is being answered.
        self.wait_for(lambda: self.open_files(program) <= open_before, f"{open_before} were open")
        program.tell("run 20")
        self.assertEqual(program.leaks()["steps"]["count"], 40)
        program.end()
        self.assertEqual(harness.answer("info", program.recording)["coverage"]["dropped"], 0)

    def test_text(self):
        program = Program(self, LEAKER)
        program.tell("run 40")
        said = harness.memprof("leaks", "--pid", str(program.pid)).stdout
        self.assertRegex(said, r"(?s)^leak: small \(500 KiB in 1 000 steps\), 1 site keeps growing, \+512 B a step.*leak_here.*live now")

    @harness.unittest.skipUnless(PYTHON, "no Python here has torch")
    def test_pytorch_without_marks(self):
        """The loop is found in a snapshot of now."""
        program = Program(self, PYTHON, PROGRAMS / "ordered.py", options=["--no-shim"])
        program.tell("run 300 leak")
        leaks = program.leaks()
        self.assertEqual((leaks["verdict"], leaks["steps"]), ("unknown", {"count": 0, "source": "none"}))
        self.assertIn("memprof snapshot --pid", leaks["reason"])
        now = self.folder / "now.mp"
        done = harness.memprof("snapshot", "--pid", str(program.pid), "-o", now)
        self.assertEqual(done.returncode, 0, done.stderr)
        leaks = harness.answer("leaks", now)
        self.assertEqual((leaks["verdict"], leaks["steps"]["source"]), ("leak", "inferred"))
        lines = {frame["line"] for frame in leaks["findings"][0]["stack"] if (frame["file"] or "").endswith("ordered.py")}
        source = (PROGRAMS / "ordered.py").read_text().splitlines()
        self.assertIn(next(number for number, line in enumerate(source, 1) if line.endswith("# LEAK")), lines)

    @harness.unittest.skipUnless(PYTHON, "no Python here has torch")
    def test_steps_at_a_function(self):
        for function, steps in (("Optimizer.step", 25), ("train_step", 25), ("told.nothing", 0)):
            with self.subTest(function=function):
                program = Program(self, PYTHON, PROGRAMS / "ordered.py", options=["--force", "--step-at", function])
                program.tell("run 25")
                live = program.leaks()["steps"]
                program.end()
                whole = harness.answer("leaks", program.recording)
                if steps:
                    self.assertEqual((whole["steps"], live), ({"count": steps, "source": "function"},) * 2)
                else:
                    self.assertIn("told.nothing", " ".join(whole["coverage"]["notes"]))
                    self.assertEqual(whole["steps"]["source"], "torch")

    def test_step_at_needs_stacks_of_python(self):
        for options in (["--stacks", "native"], ["--step-range", "x"]):
            result = harness.memprof("snapshot", "--step-at", "f", *options, "--", "true")
            self.assertEqual(result.returncode, 2, result.stderr)


if __name__ == "__main__":
    harness.main()
