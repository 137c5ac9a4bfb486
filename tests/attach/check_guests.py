#!/usr/bin/env python3
"""memprof attach, on programs that disturb it (guest.c): they cut and swap their files, change their root, or die.
memprof ends well and writes nowhere else. The program's own output stays the same."""

import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import check_attach  # noqa: E402
import harness  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"]
SYMBOL = b"_ZN3c108free_cpuEPv"


def section(name, kind, offset, size, link=0, entry=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 1, entry)


def library(names, names_size, symbols, symbol, table_size=None):
    """A library of one segment, one table of symbols and its names, which may lie."""
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0x200, 0, 64, 56, 1, 64, 3, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x3000, 0x3000, 0x1000)
    table = 24 * symbols if table_size is None else table_size
    at = 0x3000 + 24 * symbols
    sections = section(0, 0, 0, 0) + section(0, 11, 0x3000, table, 2, 24) + section(0, 3, at, names_size)
    return ((head + segment).ljust(0x200, b"\0") + sections).ljust(0x3000, b"\0") + symbol * symbols + names


class Guests(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.open = self.folder / "open"
        self.open.mkdir()
        self.open.chmod(0o777)
        self.c10, self.driver, self.guest = self.folder / "libc10.so", self.folder / "libcuda.so.1", self.folder / "guest"
        self.compile("-shared", "-fPIC", "-o", self.c10, HERE / "c10.c")
        self.compile("-shared", "-fPIC", "-o", self.driver, "-x", "c", "-",
                     text="int cuMemAlloc_v2(unsigned long *at, unsigned long size) { *at = size; return 0; } "
                          "int cuMemFree_v2(unsigned long at) { return !at; }")
        self.compile("-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer", "-o", self.guest, HERE / "guest.c",
                     "-ldl", "-lpthread")

    def compile(self, *words, text=None):
        subprocess.run([*os.environ.get("CC", "cc").split(), "-g", "-O1", *words], input=text, text=True, check=True)

    def start(self, *words, before=()):
        begun = subprocess.Popen([str(word) for word in (*before, self.guest, *words)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        for last in (begun.stdout.close, begun.stdin.close, begun.wait, begun.kill):
            self.addCleanup(last)
        self.assertEqual(begun.stdout.readline(), "ready\n")
        return begun

    def attach(self, guest, *options, before=(), output=None):
        """Attaches, lets the guest go on, and returns what memprof and the guest say until both have ended."""
        output = output or self.folder / "now.mp"
        begun = subprocess.Popen([*before, harness.MEMPROF, "attach", str(guest.pid), "--force", "-o", output, *options],
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(begun.stderr.close)
        self.addCleanup(begun.wait)
        self.addCleanup(begun.kill)
        said = ""
        while "attached to process" not in said:
            line = begun.stderr.readline()
            self.assertTrue(line, said)
            said += line
        told = guest.communicate("\n")[0]
        said += begun.communicate(timeout=harness.TIMEOUT)[1]
        self.assertEqual(begun.returncode, 0, said)
        return said, told

    def blocks(self, path=None):
        answer = harness.answer("info", path or self.folder / "now.mp")
        self.assertEqual(answer["coverage"]["dropped"], 0)
        return answer["coverage"]["events"] // 2, " ".join(answer["coverage"]["notes"])

    def watch(self, mode, *words, least=195, before=(), options=()):
        guest = self.start(mode, self.c10, *words, before=before)
        said, told = self.attach(guest, *options)
        self.assertEqual((told, guest.returncode), ("200 blocks\n", 0))
        blocks, notes = self.blocks()
        self.assertGreaterEqual(blocks, least)
        return said, notes

    def test_libraries_that_come_and_go(self):
        said, notes = self.watch("late", self.driver)
        self.assertIn("loaded CUDA's driver while memprof was attached", notes)
        self.assertIn("a part of what happened", said)
        said, _ = self.watch("close", self.driver)
        self.assertNotIn("exec", said)
        self.watch("again", self.driver)

    def test_threads_that_end(self):
        self.watch("first")
        said, notes = self.watch("firsts", least=140)  # blocks before the thread ended, and after a new probe was set
        self.assertIn("were not seen until new ones were set", notes)
        self.assertIn("a part of what happened", said)
        guest = self.start("threads", self.c10)
        told = self.attach(guest)[1]
        self.assertEqual(told, "200 blocks\n")
        self.assertGreaterEqual(self.blocks()[0], 300)  # the last threads end with the process

    def test_without_bpf_in_this_process_alone(self):
        before = [sys.executable, "-c", check_attach.WITHOUT_BPF]
        for mode, least in (("first", 195), ("threads", 195)):
            with self.subTest(mode=mode):
                other = self.start("user", self.c10)
                guest = self.start(mode, self.c10)
                begun = subprocess.Popen([*before, harness.MEMPROF, "attach", str(guest.pid), "--force", "-o",
                                          self.folder / "now.mp"], stderr=subprocess.PIPE, text=True)
                while "attached to" not in (line := begun.stderr.readline()):
                    self.assertTrue(line)
                other.communicate("\n")
                told = guest.communicate("\n")[0]
                begun.communicate()
                blocks, notes = self.blocks()
                self.assertEqual(told, "200 blocks\n")
                self.assertGreaterEqual(blocks, least)
                self.assertEqual("threads, whose first" in notes, mode == "threads")

    def test_files_that_change(self):
        library = self.open / "cut.so"
        library.write_bytes(self.driver.read_bytes())
        library.chmod(0o777)
        self.watch("cut", library, before=NOBODY)
        self.watch("pipe", self.open, before=NOBODY)
        library.write_bytes(self.driver.read_bytes())
        self.watch("flap", library, before=NOBODY)

    def test_libraries_that_others_do_not_see(self):
        hidden = self.folder / "hidden"
        hidden.mkdir()
        for mode, words in (("memfd", ()), ("gone", (hidden,)), ("renew", ()), ("root", (hidden,)),
                            ("space", (self.folder,))):
            with self.subTest(mode=mode):
                self.watch(mode, *words)
        mount = f"mount -t tmpfs none {hidden}; cd {hidden}; mkdir up work all"
        over = f"mount -t overlay none -o lowerdir={self.folder},upperdir=up,workdir=work all; touch all/{self.c10.name}"
        for made in (f"cp {self.c10} all", over, f"cp {self.c10} all; ln all/{self.c10.name} all/other"):
            with self.subTest(made=made):
                self.watch("none", before=["unshare", "-m", "sh", "-c", f'{mount}; {made}; mount --bind '
                                           f'all/{self.c10.name} {self.c10}; exec "$@"', "sh"])

    def test_what_is_watched_by_others(self):
        self.watch("traced")
        self.watch("filter")
        self.watch("sharer")
        guest = self.start("none", self.c10)
        guest.send_signal(signal.SIGSTOP)
        goes_on = subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {guest.pid}"])
        self.attach(guest)
        goes_on.wait()
        self.assertGreaterEqual(self.blocks()[0], 195)

    def test_another_in_its_place(self):
        """Blocks of a program that replaces this one by exec() are not counted as this one's."""
        for before in ((), [sys.executable, "-c", check_attach.WITHOUT_BPF]):
            guest = self.start("exec", self.c10)
            said, told = self.attach(guest, before=before)
            self.assertEqual(told, "200 blocks\n")
            self.assertIn("exec", said)
            events = harness.answer("info", self.folder / "now.mp")["coverage"]["events"]
            self.assertGreaterEqual(events, 95)
            self.assertLessEqual(events, 100)
        self.watch("heir", least=45)
        self.assertLessEqual(self.blocks()[0], 50)

    def test_many_threads(self):
        self.watch("crowd", 2000)
        guest = self.start("crowd", self.c10, 3000)
        done = subprocess.run([sys.executable, "-c", check_attach.WITHOUT_BPF, harness.MEMPROF, "attach", str(guest.pid),
                               "-o", self.folder / "now.mp", "--force"], stderr=subprocess.PIPE, text=True)
        self.assertIn("too many threads", done.stderr)
        guest.communicate("\n")

    def test_what_others_hide(self):
        self.watch("dark", before=NOBODY)
        self.assertIn("began 20 other processes", self.watch("spawn")[1])

    def test_a_file_that_is_swapped(self):
        """A probe is set in the file that was looked at, in this process alone, whatever its name leads to then."""
        victim, program, mine = self.folder / "libvictim.so", self.folder / "program", self.open / "libc10.so"
        self.compile("-shared", "-fPIC", "-o", victim, "-x", "c", "-",
                     text="long victim(long x) { long r = x * 0x123456789abcdefL; r ^= r >> 7; return r * x; }")
        self.compile("-o", program, "-x", "c", "-", "-x", "none", victim, f"-Wl,-rpath,{self.folder}", text="""
            #include <stdio.h>
            long victim(long);
            int main(void) { for (long x = 5; getchar() != EOF;) { printf("%lx\\n", victim(x)); fflush(stdout); } }""")
        table = subprocess.run(["nm", "-D", victim], capture_output=True, text=True, check=True).stdout
        at = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" victim"))
        symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, at + 6, 16)
        for before in ((), [sys.executable, "-c", check_attach.WITHOUT_BPF]):
            mine.unlink(missing_ok=True)
            mine.write_bytes(library(b"\0" + SYMBOL + b"\0", len(SYMBOL) + 2, 1, symbol))
            ran = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

            def ask(ran=ran):
                ran.stdin.write("\n")
                ran.stdin.flush()
                return ran.stdout.readline()
            first = ask()
            guest = self.start("swap", mine, victim, before=NOBODY)
            begun = subprocess.Popen([*before, harness.MEMPROF, "attach", str(guest.pid), "--for", "1s", "-o",
                                      self.folder / "swap.mp"], stderr=subprocess.PIPE, text=True)
            while begun.poll() is None:
                self.assertEqual(ask(), first)
                time.sleep(0.01)
            begun.communicate()
            self.assertTrue(mine.is_symlink() or before == ())
            ran.communicate()
            guest.kill()
            guest.wait()

    def test_a_link_at_a_name_that_memprof_chose(self):
        victim = self.open / "victim"
        victim.write_text("work")
        victim.chmod(0o666)
        for kind in ("link", "pipe", "folder", "twin"):
            with self.subTest(kind=kind):
                guest = self.start("plant", self.c10, self.open, victim, kind, before=NOBODY)
                said, _ = self.attach(guest, "--children", output=self.open / "k.mp")
                self.assertEqual(victim.read_text(), "work")
                if kind != "twin":
                    self.assertRegex(said, "it is a link or no regular file|folder")

    def test_libraries_that_lie(self):
        """The time for a library is bounded by its size, and a signal ends it."""
        symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x100, 16)
        loads = self.folder / "loads"
        self.compile("-o", loads, "-x", "c", "-", text="""
            #include <fcntl.h>
            #include <stdio.h>
            #include <sys/mman.h>
            #include <unistd.h>
            int main(int n, char **v) { mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(v[n - 1], O_RDONLY), 0);
                puts("ready"); fflush(stdout); pause(); }""")
        mine = self.open / "libc10.so"
        for case in (library(b"a" * 15_000_000, 15_000_000, 200_000, symbol),  # names without a NUL
                     library(b"a" * 100, 1 << 40, 100, symbol),  # the header promises more names than the file has
                     library(b"", 0, 100, symbol, 1 << 40),  # the header promises more symbols than the file has
                     library(b"", 0, 0, b"")):
            mine.write_bytes(case)
            guest = subprocess.Popen([loads, mine], stdout=subprocess.PIPE, text=True)
            guest.stdout.readline()
            done = subprocess.run([harness.MEMPROF, "attach", str(guest.pid)], capture_output=True, text=True, timeout=20)
            self.assertIn("have none of the functions", done.stderr)
            guest.kill()
            guest.communicate()

    def test_many_libraries(self):
        many = self.folder / "many"
        many.mkdir()
        self.compile("-shared", "-fPIC", "-o", many / "0.so", "-x", "c", "-", text="int one(void) { return 1; }")
        for i in range(1, 1100):
            (many / f"{i}.so").write_bytes((many / "0.so").read_bytes())
        guest = self.start("many", self.c10, many, 1100)
        self.attach(guest, before=["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"])
        self.assertGreaterEqual(self.blocks()[0], 195)

    def test_another_root(self):
        root = self.folder / "root"
        for file in (self.guest, self.c10):
            said = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
            for needed in [word for word in said.split() if word.startswith("/")]:
                to = root / needed.lstrip("/")
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(pathlib.Path(needed).read_bytes())
                to.chmod(0o755)
            (root / file.name).write_bytes(file.read_bytes())
            (root / file.name).chmod(0o755)
        self.guest, self.c10 = pathlib.Path("/guest"), pathlib.Path("/libc10.so")
        self.watch("none", before=["chroot", root])
        names = harness.memprof("report", self.folder / "now.mp").stdout
        self.assertIn("one", names)

    def test_who_may_attach(self):
        own, foreign = self.start("user", self.c10, before=NOBODY), self.start("user", self.c10)
        for guest, said in ((own, "the kernel does not let this user attach|kernel refused"),
                            (foreign, "is another user's, which needs root")):
            done = subprocess.run([*NOBODY, harness.MEMPROF, "attach", str(guest.pid), "-o", self.open / "x.mp"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, said)
            guest.kill()
        self.assertEqual(list(self.open.iterdir()), [])

    def test_nothing_stays(self):
        guest = self.start("none", self.c10)
        begun = subprocess.Popen([harness.MEMPROF, "attach", str(guest.pid), "-o", self.folder / "now.mp"],
                                 stderr=subprocess.PIPE, text=True)
        while "attached to process" not in (line := begun.stderr.readline()):
            self.assertTrue(line)
        code = pathlib.Path(f"/proc/{guest.pid}/maps").read_text()
        library = next(line for line in code.splitlines() if line.endswith("libc10.so") and "r-xp" in line)
        start, end = (int(word, 16) for word in library.split()[0].split("-"))

        def own_code():
            with open(f"/proc/{guest.pid}/mem", "rb") as memory:
                memory.seek(start)
                return memory.read(end - start)
        probed = own_code()
        begun.kill()
        begun.communicate()
        offset = int(library.split()[2], 16)
        clean = self.c10.read_bytes()[offset:offset + end - start].ljust(end - start, b"\0")
        self.assertNotEqual(probed[:len(clean)], clean)  # a breakpoint
        until = time.monotonic() + harness.TIMEOUT
        while own_code()[:1024] != clean[:1024] and time.monotonic() < until:
            time.sleep(0.05)
        size = clean.rstrip(b"\0")
        self.assertEqual(own_code()[:len(size)], size)
        self.assertEqual(guest.communicate("\n")[0], "200 blocks\n")

    def test_users_and_deaths(self):
        self.watch("user")
        guest = self.start("die", self.c10)
        said, _ = self.attach(guest)
        self.assertEqual(guest.returncode, -signal.SIGKILL)
        self.assertGreaterEqual(self.blocks()[0], 45)

    def test_children_have_a_bound(self):
        guest = self.start("children", self.c10, 40)
        said, _ = self.attach(guest, "--children")
        self.assertIn("32 children are recorded at a time", said)
        self.assertIn("began 40 other processes meanwhile, of which 32", self.blocks()[1])
        self.assertEqual(len(list(self.folder.glob("now.*.mp"))), 32)


if __name__ == "__main__":
    reason = check_attach.why_not()
    if reason:
        print(f"left out: {reason}", file=sys.stderr)
        Guests = unittest.skip(reason)(Guests)
    harness.main()
