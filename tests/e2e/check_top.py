#!/usr/bin/env python3
"""`memprof top` against programs that print how much they hold: one picture as text, and the live view. Keys drive the
view through a real terminal (tmux). It is resized, stopped and killed, and its programs end."""

import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unicodedata
import unittest

import harness

TMUX = shutil.which("tmux")
UTF8 = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


def columns_of(line):
    """The columns of a line, by Unicode's own table, not the C library's."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


class Held(harness.TestCase):
    """Tests of programs/held while it runs."""

    def begin(self, steps=200, pause_us=500, leaking=1, children=0, name=None, arguments=()):
        program = harness.program("held")
        if name:
            shutil.copy(program, self.folder / name)
            program = self.folder / name
        self.told = self.folder / "told"
        self.collector = subprocess.Popen(
            [harness.MEMPROF, "snapshot", "--quiet", "--force", "-o", self.folder / "run.mp", "--", program, self.told, str(steps),
             str(pause_us), str(leaking), str(children), *arguments], stderr=subprocess.PIPE)
        self.addCleanup(self.leave_nothing, self.collector)
        self.wait_for(lambda: self.says()[0], "the program did not start")
        self.pid = self.says()[0]
        self.steps = steps

    def leave_nothing(self, collector):
        if collector.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except (AttributeError, ProcessLookupError):
                pass
            collector.kill()
        if not collector.stderr.closed:
            collector.communicate()

    def says(self, child=0):
        """(pid, steps, bytes, blocks) from the program's output."""
        try:
            return struct.unpack("<QQQQ", self.folder.joinpath(f"told.{child}" if child else "told").read_bytes())
        except (FileNotFoundError, struct.error):
            return 0, 0, 0, 0

    def rest(self):
        """Waits until the program has done its steps, and its memory is constant."""
        self.wait_for(lambda: self.says()[1] == self.steps, "the program did not come to its end")
        self.wait_for(lambda: self.steps_seen() == self.steps, "the collector did not take all steps")

    def steps_seen(self):
        found = re.search(r"   step ([\d ]+)", self.once("-n", "1").splitlines()[0])
        return int(found[1].replace(" ", "")) if found else None

    def once(self, *arguments, env=UTF8):
        """Asks again if a busy machine kept the collector from answering within its second."""
        for _ in range(60):
            result = harness.memprof("top", self.pid, "--once", *arguments, env=env)
            if "has allocated nothing that is recorded" not in result.stderr:
                break
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Once(Held):
    def test_one_rule_for_one_question(self):
        for leaking, verdict in ((1, "leak"), (0, "clean")):
            self.begin(leaking=leaking)
            self.rest()
            leaks = harness.answer("leaks", "--pid", self.pid)
            self.assertEqual(leaks["verdict"], verdict)
            shown = [line for line in self.once().splitlines() if "leak? " in line]
            self.assertEqual(len(shown), len(leaks["findings"]))
            for line, finding in zip(shown, leaks["findings"]):
                self.assertEqual(finding["bytes_per_step"], 4096)
                self.assertIn("+4.00 KiB", line)
                self.assertIn(line.split()[-1], {frame["function"] for frame in finding["stack"]})
            self.leave_nothing(self.collector)
            self.told.unlink()

    def test_text(self):
        self.begin()
        self.rest()
        lines = self.once().splitlines()
        self.assertTrue(lines[0].startswith("memprof top   held   step 200"), lines[0])
        self.assertIn(f"cpu {self.pid}", lines[1])
        self.assertIn("4.00 KiB/step  leak?", lines[1])
        sites = lines[next(i for i, line in enumerate(lines) if "growth/step" in line) + 1:]
        self.assertEqual([re.split(" {2,}", site)[1:3] for site in sites],
                         [["1.00 MiB", "0"], ["800 KiB", "+4.00 KiB"], ["80.0 KiB", "0"]])
        self.assertEqual(self.says()[2], (1 << 20) + 200 * 4096 + 81920)
        self.assertIn("1.86 MiB of ", lines[1])
        self.assertIn("leak? held.c:", sites[1])
        self.assertIn("leak_here", sites[1])
        self.assertIn("░", lines[1])
        first = self.once("--sort", "growth").splitlines()[len(lines) - 3]
        self.assertIn("leak_here", first)
        self.assertEqual(len(self.once("-n", "1").splitlines()), len(lines) - 2)
        plain = self.once(env={**os.environ, "LC_ALL": "C"})
        self.assertTrue(plain.isascii(), repr(plain))
        self.assertIn("....", plain)
        self.assertIn("\033[", self.once("--color", "always"))
        for width in (40, 60, 80, 200):
            text = self.once(env={**UTF8, "COLUMNS": str(width)})
            self.assertLessEqual(max(columns_of(line) for line in text.splitlines()), width)
            self.assertIn("leak?", text)

    def test_processes(self):
        self.begin(children=12, leaking=0)
        self.wait_for(lambda: all(self.says(child)[1] == self.steps for child in range(13)))
        rows = lambda: dict(re.findall(r"^cpu (\d+) .*?([\d.]+ [KM]iB|\d+ B|[\d.]+) of ", self.once(), re.M))
        self.wait_for(lambda: {int(pid) for pid in rows()} == {self.says(child)[0] for child in range(13)})
        # The collector may not have taken all steps.
        self.wait_for(lambda: len(set(rows().values())) == len({self.says(child)[2] for child in range(13)}))
        self.assertIn("13 processes of held", self.once())
        self.assertIn(f"site ({self.pid})", self.once())

    def test_names(self):
        hostile = ["\033[31m\033[2Jred", "a\nb\tc", "\u202egnirts", "漢字漢字漢字漢字漢字漢字", "e" + "\u0301" * 40, "x" * 220,
                   "\U0001f469\u200d\U0001f4bb", os.fsdecode(b"\xff\xfe")]
        for name in hostile:
            self.begin(steps=2, leaking=0, name=name, arguments=(name,))
            self.rest()
            for width in (40, 80):
                text = self.once(env={**UTF8, "COLUMNS": str(width)})
                self.assertLessEqual(max(columns_of(line) for line in text.splitlines()), width, repr(name))
                self.assertFalse([c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"], repr(name))
                self.assertGreaterEqual(len(text.splitlines()), 4)
                self.assertLessEqual(len(text.encode()), 16 * width * len(text.splitlines()))
            self.leave_nothing(self.collector)
            self.told.unlink()

    def test_nothing(self):
        for pid, status in ((os.getpid(), 1), (1 << 22, 1), ("x", 2), (0, 2)):
            result = harness.memprof("top", pid, "--once")
            self.assertEqual((result.returncode, result.stdout), (status, ""))
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for wrong in (("--interval", "1ms"), ("--interval", "3601s"), ("--sort", "peak"), ("-n", "x"), ("--color", "x")):
            self.assertEqual(harness.memprof("top", "--once", *wrong).returncode, 2, wrong)
        for right in ("100ms", "1h"):  # there is no such process, and nothing wrong with the question
            self.assertEqual(harness.memprof("top", "--once", "--interval", right, 1 << 22).returncode, 1, right)
        alone = ["unshare", "-Urmpf", "--mount-proc", "sh", "-c",
                 'exec 9<"$0" && mount -t tmpfs none /run && mount -t tmpfs none /tmp && exec /proc/self/fd/9 top --once',
                 harness.MEMPROF]
        if subprocess.run([*alone[:3], "sh", "-c", "mount -t tmpfs none /run"], capture_output=True).returncode:
            self.skipTest("namespaces of one's own cannot be made here")
        result = subprocess.run(alone, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertRegex(result.stderr, "nothing of yours is being recorded.*memprof attach.*memprof report FILE")

    def test_a_collector_that_stands_still(self):
        """Other collectors' processes are shown in time."""
        self.begin(leaking=0)
        self.rest()
        os.kill(self.collector.pid, signal.SIGSTOP)
        try:
            result = harness.memprof("top", self.pid, "--once", env=UTF8)
        finally:
            os.kill(self.collector.pid, signal.SIGCONT)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.once()


@unittest.skipUnless(TMUX, "tmux is not here")
class Live(Held):
    def setUp(self):
        super().setUp()
        self.terminals = 0
        self.addCleanup(self.close)

    def close(self):
        if self.terminals:
            self.tmux("kill-server", check=False)

    def tmux(self, *arguments, check=True):
        result = subprocess.run([TMUX, "-f", "/dev/null", "-u", "-S", self.folder / f"tmux.{self.terminals}", *arguments], capture_output=True,
                                text=True, env=UTF8, timeout=harness.TIMEOUT)
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def open(self, width=80, height=24, env="", command=None):
        """Opens a terminal in which a shell runs top, and then prints top's exit status."""
        command = command or (f"stty -a >{self.folder}/before; {env} {harness.MEMPROF} top {self.pid} --interval 200ms; "
                              f"echo ended with $?; stty -a >{self.folder}/after; cat")
        self.terminals += 1
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), command)

    def picture(self):
        return self.tmux("capture-pane", "-p")

    def press(self, *keys):
        for key in keys:
            self.tmux("send-keys", *(("-l", key) if len(key) > 1 and key.islower() else (key,)))

    def shows(self, *texts, without=(), order=()):
        """Waits for a picture with these texts, with those in `order` below one another, and returns it."""
        deadline = time.monotonic() + 60
        while True:
            picture = self.picture()
            places = [picture.find(text) for text in order]
            if (all(text in picture for text in texts) and not any(text in picture for text in without) and
                    -1 not in places and places == sorted(places)):
                return picture
            self.assertLess(time.monotonic(), deadline,
                            f"{texts} did not come, {without} did not go, or {order} is not the order:\n{picture}")
            time.sleep(0.02)

    def top_pid(self):
        pane = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        return harness.first_child(pane)

    def test_keys(self):
        self.begin(children=2)
        self.rest()
        self.open()
        self.shows("fill_here", "q quit", "3 processes of held", order=("steady_here", "leak_here"))
        self.press("s")
        self.shows("by growth", order=("leak_here", "steady_here"))
        self.press("s")
        self.shows("by blocks", " 200 ")
        self.press("s")
        self.shows("by held")
        self.press("Down")
        self.shows(f"site ({self.says(1)[0]})", "steady_here", without=("leak_here",))
        self.press("Up")
        self.shows(f"site ({self.pid})", "leak_here")
        self.press("q")
        self.shows("ended with 0")
        self.as_before()

    def as_before(self):
        self.wait_for(lambda: (self.folder / "after").exists() and (self.folder / "after").stat().st_size)
        self.assertEqual((self.folder / "before").read_text(), (self.folder / "after").read_text())
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split(), ["0", "1"])

    def test_pause(self):
        self.begin(steps=100000, pause_us=1000)
        self.open()
        self.shows("leak_here")
        self.press("p")
        before = self.shows("paused")
        steps = self.says()[1]
        self.wait_for(lambda: self.says()[1] > steps + 1000)
        self.assertEqual(self.picture(), before)
        self.press("p")
        self.shows("leak_here", without=("paused", before.split("step ")[1].split(",")[0] + ","))

    def test_sizes(self):
        self.begin(children=20)
        self.rest()
        self.open(40, 10)
        self.shows("leak?", "q quit")
        for width, height in ((80, 24), (200, 60), (40, 10), (120, 12), (10, 3), (80, 24)):
            self.tmux("resize-window", "-x", str(width), "-y", str(height))
            if width < 40:
                time.sleep(0.3)
                continue
            self.wait_for(lambda: (self.picture().splitlines() + [""] * 99)[height - 1].startswith("s sort"))
            picture = self.shows("leak?", "growth/step")
            self.assertLessEqual(max(columns_of(line) for line in picture.splitlines()), width)
        self.press("q")
        self.shows("ended with 0")

    def test_plain_terminals(self):
        self.begin()
        self.rest()
        self.open(env="LC_ALL=C TERM=vt100")
        picture = self.shows("leak_here", "q quit", "....")
        self.assertTrue(picture.isascii())
        self.press("q")
        self.shows("ended with 0")
        self.as_before()
        result = subprocess.run([harness.MEMPROF, "top", str(self.pid)], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("--once", result.stderr)
        self.tmux("kill-server")
        self.open(env="TERM=none-such")
        self.shows("ended with 1", "--once")

    def test_the_program_ends(self):
        self.begin()
        self.rest()
        self.open()
        self.shows("leak_here")
        os.kill(self.pid, signal.SIGKILL)
        self.shows(" ended", "leak_here", "q quit", without=("leak?\n",))
        self.press("q")
        self.shows("ended with 0")

    def test_the_collector_dies(self):
        self.begin()
        self.rest()
        self.open()
        self.shows("leak_here")
        os.kill(self.collector.pid, signal.SIGKILL)
        self.shows("its memprof is gone", "q quit")
        os.kill(self.pid, signal.SIGKILL)
        self.shows("ended", without=("gone",))

    def test_the_collector_stands_still(self):
        self.begin()
        self.rest()
        self.open()
        self.shows("leak_here")
        os.kill(self.collector.pid, signal.SIGSTOP)
        try:
            self.shows("no answer", "q quit")
        finally:
            os.kill(self.collector.pid, signal.SIGCONT)
        self.shows("leak_here", without=("no answer",))

    def test_every_end_gives_the_terminal_back(self):
        self.begin()
        self.rest()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
            (self.folder / "after").unlink(missing_ok=True)
            self.open()
            self.shows("leak_here")
            os.kill(self.top_pid(), number)
            self.shows(f"ended with {128 + number}")
            self.as_before()
            self.tmux("kill-server")

    def test_stopped_and_continued(self):
        self.begin()
        self.rest()
        self.open(command="bash --norc --noprofile")
        self.press(f"{harness.MEMPROF} top {self.pid}".lower() if harness.MEMPROF.islower() else "", "Enter")
        self.shows("leak_here", "q quit")
        self.press("C-z")
        self.shows("Stopped")
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on}").strip(), "0")
        self.press("fg", "Enter")
        self.shows("leak_here", "q quit")
        self.press("q")
        self.wait_for(lambda: self.tmux("display-message", "-p", "#{alternate_on}").strip() == "0")

    def test_the_terminal_closes(self):
        self.begin()
        self.rest()
        self.open()
        self.shows("leak_here")
        top = self.top_pid()
        self.tmux("kill-server")
        self.wait_for(lambda: harness.is_gone(top), "top lives on without a terminal")
        self.once()


if __name__ == "__main__":
    harness.main()
