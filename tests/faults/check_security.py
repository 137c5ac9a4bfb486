#!/usr/bin/env python3
"""A recording may come from somebody else. Names in it cannot control a terminal or a page, and no path in it is opened
for writing. Temporary files of a recording are accessible only to the user, and removed afterwards."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\x7f\u009b31m<script>alert(1)</script></script>&\"'`|*_\u202e\u2066\u200b\ufeff"
HIDDEN = "\u202e\u2066\u200b\ufeff\u2028"
SPOOL = (harness.SOURCE / "src" / "wire" / "spool.h").read_text()
GREETING = struct.pack("<IIQ", 0x6d706869, int(re.search(r"MP_SPOOL_VERSION (\d+)", SPOOL)[1]), 0)  # src/wire/config.h
OPENS = re.compile(r'(?:open|openat|creat)\((?:[A-Z_0-9]+, )?"((?:[^"\\]|\\.)*)"(?:, ([A-Z_|0-9]+))?')
REMOVES = re.compile(r'(?:unlink|rename)[a-z0-9]*\((?:[A-Z_0-9]+, )?"((?:[^"\\]|\\.)*)"')


def question(pid, command=4, version=2):
    """src/collect/session/control.h; 4 asks for the figures of all processes"""
    return struct.pack("<IIIII", 0x6d70636b, version, command, pid, 0)


PROGRAM = """
import sys
import libmemprof as mp
name = bytes.fromhex(sys.argv[1]).decode(errors="surrogateescape")
for step in range(20):
    mp.step()
    with mp.region(name):
        mp.mark(name)
"""


def reading_commands(recording, folder):
    """Every command that reads a recording, with its output."""
    for words in (["report"], ["report", "--format", "html"], ["report", "--format", "markdown"], ["peak"], ["leaks"],
                  ["steps"], ["frag"], ["advise"], ["info"], ["compare", recording]):
        yield [*words, recording], None
    for words, name in ((["trace_plot"], "t.html"), (["segment_plot"], "s.html"), (["chrome_trace"], "c.json"),
                        (["flamegraph"], "f.html"), (["flamegraph"], "f.folded"), (["export", "--format", "csv"], "e.csv"),
                        (["export", "--format", "sqlite"], "e.sqlite"), (["export", "--format", "pytorch"], "e.pickle"),
                        (["anonymize"], "a.mp"), (["recover"], "r.mp")):
        yield [*words, recording, "-o", folder / name], folder / name


class AHostileRecording(harness.TestCase):
    """Recordings of programs whose name, arguments, regions and marks contain control sequences and markup."""

    def setUp(self):
        super().setUp()
        program = self.folder / HOSTILE.replace("/", "-")
        shutil.copy(harness.program("churn"), program)
        script = self.folder / "program.py"
        script.write_text(PROGRAM)
        shell = 'exec 3>&1; "$0" "$1" 2 300 0 && exec "$2" "$3" "$4"'
        name = HOSTILE.encode(errors="surrogateescape").hex()
        result = harness.memprof("snapshot", "-o", self.folder / "run-%p.mp", "--", "sh", "-c", shell, program,
                                 self.folder / "counters", sys.executable, script, name)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.files = sorted(self.folder.glob("run-*.mp"))
        self.assertEqual(len(self.files), 2, result.stderr)
        self.check_text(result.stderr)

    def check_text(self, text):
        for character in text:
            self.assertTrue(character == "\n" or (character >= " " and not "\x7f" <= character < "\xa0" and
                                                  character not in HIDDEN), (repr(character), text))

    def test_names_are_harmless_wherever_they_are_printed(self):
        out = self.folder / "out"
        out.mkdir()
        seen = 0
        for file in self.files:
            for command, output in reading_commands(file, out):
                with self.subTest(command=command[:3]):
                    result = harness.memprof(*command, "--force") if output else harness.memprof(*command)
                    self.assertIn(result.returncode, (0, 1), result.stderr)
                    self.check_text(result.stdout)
                    self.check_text(result.stderr)
                    seen += "alert(1)" in result.stdout
                    html = result.stdout if command[:3] == ["report", "--format", "html"] else ""
                    if output and output.suffix == ".html" and output.exists():
                        html = output.read_text()
                    self.assertNotIn("<script>alert(1)", html)
                    self.assertNotIn("</script></script>", html)
                    self.assertFalse(set(html) & set(HIDDEN), command)
        self.assertGreaterEqual(seen, 4)  # the name is shown, made harmless
        for file in self.files:
            for command in ("info", "report", "peak", "steps"):
                result = harness.memprof(command, file, "--json")
                if result.returncode == 0:
                    json.loads(result.stdout)
                    self.check_text(result.stdout)

    def test_no_path_in_it_is_opened_for_writing(self):
        if not shutil.which("strace"):
            self.skipTest("no strace here")
        out, log = self.folder / "out", self.folder / "strace.log"
        out.mkdir()
        probe = subprocess.run(["strace", "-o", log, "true"], capture_output=True, check=False)
        if probe.returncode:
            self.skipTest("strace may not trace here")
        file = self.files[0]
        for command, _ in reading_commands(file, out):
            with self.subTest(command=command[:3]):
                subprocess.run(["strace", "-f", "-o", log, "-e", "trace=open,openat,creat,unlink,unlinkat,rename,renameat,"
                                "renameat2,link,symlink,mkdir,truncate", harness.MEMPROF, *map(str, command)],
                               capture_output=True, timeout=harness.TIMEOUT, check=False)
                text = log.read_text(errors="replace")
                opened = OPENS.findall(text)
                self.assertTrue(opened, text)
                for path, how in opened:
                    if re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", how):
                        self.assertTrue(path.startswith((str(out), "/dev/null", "/tmp/etilqs_", "/var/tmp/etilqs_")),
                                        (path, how))
                for path in REMOVES.findall(text):
                    self.assertTrue(path.startswith((str(out), "/tmp/etilqs_", "/var/tmp/etilqs_")), path)


class FilesOfTheUsers(harness.TestCase):
    """If a path that should lead to a small file is a pipe or a device, commands do not wait for it."""

    def test_pipes_sockets_folders_and_devices(self):
        recording = harness.SOURCE / "tests" / "recordings" / "formats" / "1-first.mp"
        pipe, folder, address = (self.folder / name for name in ("pipe", "folder", "socket"))
        os.mkfifo(pipe)
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            for path in (pipe, folder, address, "/dev/zero", "/dev/tty", self.folder / "nosuch"):
                for command, option in (("peak", "--rules"), ("leaks", "--suppressions"), ("peak", "--config"),
                                        ("leaks", "--rules"), ("report", "--config")):
                    with self.subTest(path=path, option=option):
                        result = harness.memprof(command, recording, option, path, timeout=60)
                        self.assertIn(result.returncode, (1, 2), result.stderr)
                        self.assertEqual(result.stdout, "")

    def test_a_pipe_that_is_open_already_is_read(self):
        recording = harness.SOURCE / "tests" / "recordings" / "formats" / "1-first.mp"
        result = subprocess.run(["bash", "-c", f'"{harness.MEMPROF}" peak "{recording}" --group category --rules '
                                 "<(sleep 0.3; echo 'mine = .')"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("mine", result.stdout)


class WhileItRuns(harness.Churning):
    threads = 2

    def start(self, events=-1):
        super().start(events=events, pause_us=1000)  # a busy collector has ten seconds before events are dropped
        with open(f"/proc/{self.program}/environ", "rb") as environ:
            entries = environ.read().split(b"\0")
        session = next(entry for entry in entries if entry.startswith(b"MEMPROF_SESSION="))
        self.socket = pathlib.Path(os.fsdecode(session.split(b";", 1)[1]))
        with open(f"/proc/{self.program}/maps") as maps:
            self.spool = pathlib.Path(re.search(r"(/\S*memprof-\S*\.spool)", maps.read()).group(1))

    def test_what_lies_about_is_private_and_goes_away(self):
        names = set()
        for _ in range(2):
            self.start()
            mode = self.spool.lstat()
            self.assertTrue(stat.S_ISREG(mode.st_mode))
            self.assertEqual(stat.S_IMODE(mode.st_mode), 0o600)
            self.assertEqual(mode.st_uid, os.geteuid())
            number = re.fullmatch(rf"memprof-{self.program}-([0-9a-f]{{16}})\.spool", self.spool.name).group(1)
            names.update((number, self.socket.parent.name))
            folder = self.socket.parent.lstat()
            self.assertEqual(stat.S_IMODE(folder.st_mode), 0o700)
            self.assertEqual(folder.st_uid, os.geteuid())
            self.assertTrue(stat.S_ISSOCK(self.socket.lstat().st_mode))
            self.end()
            (self.folder / "run.mp").unlink()
            self.assertFalse(self.spool.exists())
            self.assertFalse(self.socket.parent.exists())
        self.assertEqual(len(names), 4)  # nothing comes twice

    def ask_as_somebody_else(self, path, message):
        """Sends the message as another user. Returns 'refused', or the number of bytes and descriptors that came back.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                    connection.settimeout(20)
                    connection.connect(str(path))
                    connection.send(message)
                    data, descriptors, _, _ = socket.recv_fds(connection, 512, 4)
                    os.write(writer, f"{len(data)} {len(descriptors)}".encode())
            except OSError as error:
                os.write(writer, f"refused: {error.errno}".encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as said:
            return said.read()

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(connection.close)
        connection.connect(str(self.socket))
        connection.settimeout(harness.TIMEOUT)  # not before: a full queue would be an error then
        return connection

    def ask(self, message, connection=None, files=()):
        """The number of bytes and descriptors that the user gets."""
        connection = connection or self.connect()
        socket.send_fds(connection, [message], files)
        data, descriptors, _, _ = socket.recv_fds(connection, 512, 4)
        for descriptor in descriptors:
            os.close(descriptor)
        return len(data), len(descriptors)

    def overview(self, connection=None):
        with os.fdopen(os.memfd_create("answer", os.MFD_ALLOW_SEALING), "r+") as file:
            self.assertEqual(self.ask(question(self.program), connection, [file.fileno()]), (256, 0))
            return json.load(file)

    def test_who_says_nothing_keeps_nobody_waiting(self):
        self.start()
        silent = [self.connect() for _ in range(150)]  # more than may wait, and than the queue of the socket holds
        self.assertTrue(self.overview())
        for connection in silent[:80]:
            self.assertEqual(connection.recv(512), b"")  # left, oldest first
        self.assertTrue(self.overview(silent[-1]))  # late, and answered
        self.assertEqual(self.ask(b"nonsense", silent[-2]), (24, 0))
        said = self.end()
        self.assertNotIn("Sanitizer", said)

    def test_many_questions_at_once_make_few_processes(self):
        self.start()
        children = pathlib.Path(f"/proc/{self.collector.pid}/task/{self.collector.pid}/children")
        asked, most, said = [], 0, []
        for _ in range(120):
            asked.append(self.connect())
            with os.fdopen(os.memfd_create("answer", os.MFD_ALLOW_SEALING)) as file:
                socket.send_fds(asked[-1], [question(self.program, 2)], [file.fileno()])
        for connection in asked:
            most = max(most, len(children.read_text().split()))
            said.append(struct.unpack("<IIII240s", connection.recv(512)))
        self.assertLessEqual(most, 1 + 16)  # the program is one
        refused = {text.rstrip(b"\0") for _, _, status, _, text in said if status}
        self.assertLessEqual(len(refused), 1, refused)
        self.assertTrue(all(b"ask again" in text for text in refused), refused)
        self.assertGreaterEqual(sum(not status for _, _, status, _, _ in said), 16)
        self.end()

    def test_nobody_else_is_answered(self):
        if os.geteuid():
            self.skipTest("not root")
        self.start()
        self.assertIn("refused", self.ask_as_somebody_else(self.socket, GREETING))
        self.socket.parent.chmod(0o777)
        self.socket.chmod(0o777)
        for message in (GREETING, question(self.program), question(self.program, 1)):
            said = self.ask_as_somebody_else(self.socket, message)
            self.assertTrue(said.startswith("refused") or said.endswith(" 0"), said)  # no descriptor comes
        self.assertEqual(self.ask(GREETING), (24, 2))  # where they come from the user they are answered
        self.assertTrue(self.overview())
        self.end()
        self.assertEqual(harness.memprof("info", self.folder / "run.mp").returncode, 0)

    def test_nobody_else_takes_a_collectors_place(self):
        """After a collector has ended, any user may make a folder of its name."""
        if os.geteuid():
            self.skipTest("not root")
        self.folder.chmod(0o755)
        taken = self.folder / "memprof-taken0"
        taken.mkdir()
        os.chown(taken, 65534, 65534)
        environment = {**os.environ, "MEMPROF_SESSION": f"1;{taken}/socket", "LD_PRELOAD": harness.BUILD / "libmemprof.so",
                       "PYTHONPATH": harness.SOURCE / "python"}
        script = "import time, libmemprof as mp\nmp.mark('x')\nprint(mp.active(), flush=True)\ntime.sleep(60)"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(taken / "socket"))
            os.seteuid(65534)
            listener.listen()  # the kernel notes who listens
            os.seteuid(0)
            listener.setblocking(False)
            program = subprocess.Popen([sys.executable, "-c", script], cwd=self.folder, env=environment,
                                       text=True, stdout=subprocess.PIPE)
            self.addCleanup(program.communicate)
            self.addCleanup(program.kill)
            self.assertEqual(program.stdout.readline(), "False\n")
            self.assertRaises(BlockingIOError, listener.accept)  # the recorder did not even connect
            result = harness.memprof("leaks", "--pid", program.pid)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("is not being recorded, or is another user's", result.stderr)
            with listener.accept()[0] as asked:
                self.assertEqual(asked.recv(512), b"")
        self.assertEqual(os.listdir(taken), ["socket"])

    def test_messages_of_any_kind_do_no_harm(self):
        self.start()
        for message in (b"", b"\0", b"x" * 255, b"x" * 256, b"x" * 100000, GREETING[:7], GREETING + b"\0",
                        GREETING, question(0, 99), question(0, 1, version=99), question(self.program, 2)[:16],
                        question(self.program, 2), question(2**32 - 1, 5)):
            for files in (0, 1, 5):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                    connection.connect(str(self.socket))
                    nulls = [os.open("/dev/null", os.O_RDWR) for _ in range(files)]
                    try:
                        socket.send_fds(connection, [message], nulls)
                    finally:
                        for null in nulls:
                            os.close(null)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:  # nobody waits for long for one who is silent
            silent.connect(str(self.socket))
            said = self.end()
        self.assertNotIn("Sanitizer", said)
        info = harness.answer("info", self.folder / "run.mp")
        self.assertTrue(info["coverage"]["complete"])

    def test_a_link_in_place_of_the_spool_is_not_followed(self):
        self.start()
        self.collector.kill()
        os.kill(self.program, signal.SIGKILL)
        self.collector.wait()
        self.wait_for(lambda: harness.is_gone(self.program))
        moved = self.folder / "moved"
        shutil.move(self.spool, moved)
        self.addCleanup(self.spool.unlink, missing_ok=True)
        self.spool.symlink_to(moved)
        harness.memprof("recover", self.folder / "run.mp", "-o", self.folder / "whole.mp")
        self.assertTrue(moved.exists())
        self.assertTrue(self.spool.is_symlink())


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    harness.main()
