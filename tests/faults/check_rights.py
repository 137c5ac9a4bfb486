#!/usr/bin/env python3
"""Through memprof a recorded program can do nothing that it may not do itself: write no file, and read no other
process."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

# Connects to memprof, drops rights, and asks.
PROGRAM = """
import ctypes, os, signal, socket, struct, sys, time
import libmemprof as mp
way, what, path, jail = sys.argv[1:]
libc = ctypes.CDLL(None)

def ask(connection, pid):
    with os.fdopen(os.memfd_create("answer", os.MFD_ALLOW_SEALING)) as file:
        socket.send_fds(connection, [struct.pack("<IIIII", 0x6d70636b, 2, 2, pid, 0)], [file.fileno()])
        magic, version, status, pid, text = struct.unpack("<IIII240s", connection.recv(512))
    return text.rstrip(bytes(1)).decode() if status else "answered"

def wait_for(name):
    # Longer where the file may be made: once its asker has ended, nobody can say any more what that one may.
    until = time.monotonic() + (60 if may and way != "mounts" else 0.5)
    while not os.path.exists(os.path.join(os.path.dirname(path), name)) and time.monotonic() < until:
        time.sleep(0.02)

def run_out():
    device = ctypes.c_uint16(0)
    call = libc["_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"]
    call(ctypes.c_int64(1 << 40), ctypes.c_size_t(0), ctypes.c_size_t(0), device)
    wait_for("run.oom.mp")

for step in range(20):
    mp.step()
connections = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for i in range(2)]
for connection in connections:
    connection.connect(os.environ["MEMPROF_SESSION"].split(";", 1)[1])
begun, has_begun = os.pipe()
parent, child = os.getpid(), os.fork()
if not child:
    mp.mark("child")
    os.write(has_begun, b"x")
    while os.getppid() == parent:
        time.sleep(0.02)
    os._exit(0)
os.read(begun, 1)
if way == "root":
    os.chroot(jail)
    os.chdir("/")
if way == "mounts" and libc.unshare(0x00020000) | libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit(77)
if way == "mounts" and libc.mount(b"none", os.path.dirname(path).encode(), b"tmpfs", 0, None):
    sys.exit(77)
if way == "namespace" and libc.unshare(0x10000000):
    sys.exit(77)
if way == "capabilities" and libc.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24)):
    sys.exit(77)
if way in ("root", "user"):
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
try:
    with open(path + ".own", "x"):
        may = True
    os.unlink(path + ".own")
except OSError:
    may = False
print(may, end=" ")
if what == "path":
    print(mp.snapshot(path))
elif what == "now":
    print(mp.snapshot())
elif what == "oom":
    print(run_out())
elif what == "signal":
    try:
        os.kill(os.getppid(), signal.SIGUSR1)
        wait_for("run.now.mp")
        print("sent")
    except OSError as error:
        print(error.strerror)
elif what == "questions":
    print(ask(connections[0], os.getpid()), ask(connections[1], child), sep=" / ")
sys.stdout.flush()
"""

# Claims in its shared memory that it is its child. The child has its own files under the program's descriptor numbers.
FORGER = """
import ctypes, os, re, signal, struct, sys, time
import libmemprof as mp
for step in range(20):
    mp.step()
reader, writer = os.pipe()
parent, child = os.getpid(), os.fork()
if not child:
    for number in range(3, 43):
        file = os.open(f"{sys.argv[3]}{number}", os.O_RDWR | os.O_CREAT)
        os.dup2(file, 100 + number)
        os.close(file)
    for number in range(3, 43):
        if number != writer:
            os.dup2(100 + number, number)
    os.write(writer, b"x")
    while os.getppid() == parent:
        time.sleep(0.02)
    os._exit(0)
os.read(reader, 1)
with open("/proc/self/maps") as maps:
    at, end = [int(word, 16) for line in maps if ".spool" in line and " 00000000 " in line
               for word in line.split()[0].split("-")][:2]
own = struct.pack("<I", os.getpid())
header = ctypes.string_at(at, end - at)
for place in range(0, end - at, 4):
    if header[place:place + 4] == own:
        ctypes.memmove(at + place, struct.pack("<I", child), 4)
        print("forged")
        break
sys.stdout.flush()
mp.snapshot("forged.mp")
"""


@unittest.skipUnless(os.geteuid() == 0, "only root can give rights up")
class OfTheProgram(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)
        self.script = self.folder / "program.py"
        self.script.write_text(PROGRAM)
        self.jail = self.folder / "jail"
        self.jail.mkdir()
        self.closed = self.folder / "closed"
        self.closed.mkdir(mode=0o700)
        os.chown(self.closed, 1234, 1234)

    def ask(self, way, what, path, *options, run=None):
        run = run or self.folder / "run.mp"
        result = harness.memprof("snapshot", "--quiet", "-o", run, "--force", *options, "--", sys.executable,
                                 self.script, way, what, path, self.jail)
        if result.returncode == 77:
            self.skipTest("no namespace can be made here")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip(), result.stderr

    def test_who_gave_rights_up_gets_no_more(self):
        for way in ("user", "root", "namespace", "capabilities"):
            with self.subTest(way=way):
                said, messages = self.ask(way, "path", self.closed / "new.mp")
                self.assertEqual(said, "False False")
                self.assertIn("pid ", messages)
                self.assertIn("new.mp", messages)
                if way != "root":
                    self.assertIn("may not write", messages)
                self.assertEqual(list(self.closed.iterdir()), [])
                self.assertTrue(harness.answer("info", self.folder / "run.mp")["coverage"]["complete"])

    def test_a_forged_number_leads_to_no_other_process(self):
        """memprof does not trust a pid that a program writes into its shared memory."""
        self.script.write_text(FORGER)
        said, messages = self.ask("", "", self.folder / "victim", "--follow", "no")
        self.assertEqual(said, "forged", messages)
        self.assertEqual([file.stat().st_size for file in self.folder.glob("victim*")], [0] * 40)

    def test_files_beside_the_recording_are_asked_for_by_who_may_write_there(self):
        run = self.closed / "run.mp"
        wrote = {"now": "run.now.mp", "oom": "run.oom.mp", "signal": "run.now.mp"}
        for what, name in wrote.items():
            for way in ("", "user", "root", "namespace", "mounts", "capabilities"):
                with self.subTest(what=what, way=way):
                    said, messages = self.ask(way, what, self.closed / "x", "--at-signal", "USR1", run=run)
                    if what == "signal" and way in ("user", "root"):  # the kernel does not let it send one
                        self.assertEqual(said, "False Operation not permitted")
                    elif way:
                        self.assertRegex(messages, f"pid [0-9]+ runs as uid [0-9]+.* and may not write [^ ]*{name[:3]}")
                    self.assertEqual((self.closed / name).exists(), not way, messages)
                    for file in self.closed.iterdir():
                        file.unlink()

    def test_who_ended_at_once_gets_no_more(self):
        """If a process's parent does not wait for it, its rights cannot be read any more."""
        self.script.write_text("""
import ctypes, os, signal, sys, time
import libmemprof as mp
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
mp.step()
child = os.fork()
if not child:
    mp.mark("child")
    time.sleep(0.1)
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
    call = ctypes.CDLL(None)["_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"]
    call(ctypes.c_int64(1 << 40), ctypes.c_size_t(0), ctypes.c_size_t(0), ctypes.c_uint16(0))
    os.kill(os.getpid(), signal.SIGKILL)
try:
    os.waitpid(child, 0)
except ChildProcessError:
    pass  # it has ended, and left nothing to wait for
""")
        _, messages = self.ask("", "", "", "--follow", "all", run=self.closed / "run.mp")
        self.assertRegex(messages, "pid [0-9]+ (ended before|runs as uid 65534)")
        self.assertEqual(list(self.closed.glob("*oom*")), [])

    def test_who_may_write_there_gets_them(self):
        opened = self.folder / "opened"
        opened.mkdir()
        opened.chmod(0o777)
        for what, name in (("now", "run.now.mp"), ("oom", "run.oom.mp")):
            self.ask("user", what, opened / "x", run=opened / "run.mp")
            self.assertTrue((opened / name).exists())

    def test_a_link_that_waits_for_a_childs_file_is_not_followed(self):
        """The folder's owner may guess the names of later files."""
        self.script.write_text("import os, sys, libmemprof as mp\nmp.mark('x')\nif not os.fork():\n"
                               "    os.symlink(sys.argv[3], os.path.dirname(sys.argv[3]) + f'/run.{os.getpid()}.mp')\n"
                               "    mp.mark('y')\n    os._exit(0)\nos.wait()\n")
        precious = self.folder / "precious"
        precious.write_text("precious")
        self.ask("", "", precious, "--follow", "all")
        self.assertEqual(precious.read_text(), "precious")
        self.assertEqual(len(list(self.folder.glob("run*.mp"))), 3)

    def test_questions_are_those_of_who_sends_them(self):
        for way, own, other in (("", "answered", "answered"),
                                ("mounts", "answered", "answered"),
                                ("user", "may not ask", "may not ask"),
                                ("namespace", "answered", "may not ask about others"),
                                ("capabilities", "answered", "may not ask about others")):
            with self.subTest(way=way):
                said, _ = self.ask(way, "questions", self.closed / "x")
                mine, others = said.split(" ", 1)[1].split(" / ")
                self.assertIn(own, mine)
                self.assertIn(other, others)

    def test_what_it_may_make_is_its_own(self):
        opened = self.folder / "opened"
        opened.mkdir()
        opened.chmod(0o777)
        said, _ = self.ask("user", "path", opened / "new.mp")
        self.assertEqual(said, "True True")
        self.assertEqual((opened / "new.mp").stat().st_uid, 65534)
        self.assertEqual(os.listdir(opened), ["new.mp"])
        harness.answer("info", opened / "new.mp")

    def test_a_path_is_one_of_its_own_root(self):
        inside = self.jail / "out"
        inside.mkdir()
        inside.chmod(0o777)
        said, _ = self.ask("root", "path", "/out/new.mp")
        self.assertEqual(said, "True True")
        harness.answer("info", inside / "new.mp")

    def test_only_a_file_is_replaced(self):
        for there in ("device", "folder", "link", "file"):
            with self.subTest(there=there):
                path = self.folder / there
                if there == "device":
                    os.mknod(path, 0o020666, os.makedev(1, 7))
                elif there == "folder":
                    path.mkdir()
                elif there == "link":
                    path.symlink_to(self.folder / "nowhere")
                else:
                    path.write_text("x")
                before = path.lstat().st_mode
                said, messages = self.ask("", "path", path)
                self.assertTrue(said.endswith(" True" if there == "file" else " False"))
                self.assertEqual(path.lstat().st_mode, before)
                if there != "file":
                    self.assertIn("is already there", messages)


if __name__ == "__main__":
    harness.main()
