#!/usr/bin/env python3
"""Faults during a recording, and programs that do unusual things. The program is not affected, the command keeps its
exit status, and a message names each loss. Some tests need a mount namespace (root) and are skipped without."""

import os
import pathlib
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time

import harness

GUEST = harness.program("guest")
TRACK = "cpu/app/guest"


def spools_of(folder):
    """The spools of recordings in `folder`. Other tests, which run at the same time, have spools, too."""
    found = []
    for path in pathlib.Path("/dev/shm").glob("memprof-*.spool"):
        try:
            with open(path, "rb") as spool:
                if os.fsencode(folder) in spool.read(4096):
                    found.append(path)
        except FileNotFoundError:
            pass
    return found


def can_mount():
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True) if shutil.which("unshare") else None
    return probe is not None and probe.returncode == 0


class Recording(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "run.mp"

    def snapshot(self, *command, options=(), status=0, **run_options):
        result = harness.memprof("snapshot", "--no-symbols", "-o", self.file, *options, "--", *command, **run_options)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertNotIn("Sanitizer", result.stderr)
        return result

    def files(self):
        return sorted(self.folder.glob("run*.mp"))

    def counts(self, path=None):
        info = harness.answer("info", path or self.file, status=(0, 4))
        track = next(track for track in info["tracks"] if track["id"] == TRACK)
        return track["allocs"], track["frees"], info["coverage"]["dropped"]


class Programs(Recording):
    def test_statistics_are_exact_and_now(self):
        self.snapshot(GUEST, "statistics", 200)

    def test_threads_that_ask_at_once_are_answered(self):
        self.snapshot(GUEST, "ask-together", 30)

    def test_every_child_is_recorded(self):
        self.snapshot(GUEST, "children", 60, 100)
        counts = {path: self.counts(path) for path in self.files()}
        self.assertEqual(counts.pop(self.file), (610, 0, 0))
        self.assertEqual(sorted(counts.values()), [(100, 0, 0)] * 60)
        self.assertEqual(spools_of(self.folder), [])

    def test_fork_among_threads_that_unwind(self):
        self.snapshot(GUEST, "fork-among-threads", 200)
        self.assertEqual(len(self.files()), 201)
        counts = sorted(self.counts(path)[::2] for path in self.files())
        self.assertEqual(counts[:200], [(4, 0)] * 200)  # the 200 children; any of the processes may have the plain name

    def test_threads_on_the_smallest_stacks(self):
        self.snapshot(GUEST, "small-stacks", 2000, 0)
        self.assertEqual(self.counts(), (2000, 2000, 0))

    def test_threads_at_once(self):
        self.snapshot(GUEST, "many-threads", 90, 50)
        allocs, frees, dropped = self.counts()
        self.assertEqual(allocs + frees + dropped, 9000)  # dropped: by threads that waited in vain for a ring

    def test_more_threads_than_rings(self):
        self.snapshot(GUEST, "many-threads", 200, 50)
        allocs, frees, dropped = self.counts()
        self.assertEqual(allocs + frees + dropped, 20000)

    def test_program_closes_all_descriptors(self):
        self.snapshot(GUEST, "close-all", 100)
        self.assertEqual(self.counts(), (110, 10, 0))

    def test_program_clears_its_environment(self):
        self.snapshot(GUEST, "clear-environment", 100)
        self.assertEqual([self.counts(path) for path in self.files()], [(100, 0, 0)] * 2)

    def test_signals_interrupt_every_call(self):
        self.snapshot(GUEST, "interrupted", 1000)
        self.assertEqual(self.counts(), (1000, 0, 0))

    def test_child_outlives_the_command(self):
        for _ in range(5):
            self.snapshot(GUEST, "outlive", 100, options=["--force"])
            for path in self.files():
                self.assertGreater(self.counts(path)[0], 0)

    def test_of_two_in_one_file_one_is_lost(self):
        """The other recorder's file comes to the name as --force puts it there, by rename."""
        self.snapshot(GUEST, "plain", 10)
        other = (self.folder / "other").resolve()
        self.file.rename(other)
        wait = f"until [ -e {self.file} ]; do sleep 0.01; done; cp {other} {other}.2; mv {other}.2 {self.file}"
        result = self.snapshot(GUEST, "beside", 100, options=["--force"],
                               env=os.environ | {"GUEST_COMMAND": wait})
        self.assertIn("this recording is lost: another program has put a file of its own in its place", result.stderr)
        self.assertNotIn("complete", result.stderr)
        self.assertEqual(self.file.read_bytes(), other.read_bytes())
        self.assertEqual(spools_of(self.folder), [])

    def test_static_program(self):
        source = self.folder / "static.c"
        source.write_text("int main(void) { return 5; }\n")
        made = subprocess.run([*os.environ.get("CC", "cc").split(), "-static", "-o", self.folder / "static", source],
                              capture_output=True)
        if made.returncode:
            self.skipTest("no static C library")
        result = self.snapshot(self.folder / "static", status=5)
        self.assertIn("nothing was recorded", result.stderr)
        self.assertIn("the command ended with status 5 and made no CUDA calls", result.stderr)

    def test_options_that_came_to_nothing_are_told(self):
        for options, word in ((["--paused"], "--paused waits for libmemprof.start()"),
                              (["--step-at", "nosuch", "--force"], "--step-at nosuch: no Python function of that name"),
                              (["--step-range", "^nosuch", "--force"], "--step-range ^nosuch: no region's name")):
            result = self.snapshot(GUEST, "plain", 10, options=options)
            self.assertIn(word, result.stderr)
            self.assertNotIn(word, self.snapshot(GUEST, "plain", 10, options=["--force"]).stderr)

    def test_blocks_without_a_track_are_counted(self):
        result = self.snapshot(GUEST, "many-pools", 300)
        self.assertIn("events were dropped, and the report says why", result.stderr)
        coverage = harness.answer("info", self.file, status=4)["coverage"]
        self.assertEqual(coverage["events"] + coverage["dropped"], 300)
        self.assertGreaterEqual(coverage["dropped"], 45)
        self.assertTrue(any("room for 255 tracks" in note for note in coverage["notes"]), coverage["notes"])

    def test_preloaded_libraries_stay(self):
        source = self.folder / "mine.c"
        source.write_text("int getpagesize(void) { return 42; }\n")
        library = self.folder / "mine.so"
        subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", library, source], check=True)
        result = self.snapshot("sh", "-c", 'echo "$LD_PRELOAD"', env={**os.environ, "LD_PRELOAD": str(library)})
        self.assertRegex(result.stdout, rf"libmemprof\.so:{library}\n")

    def test_secure_execution_is_left_alone(self):
        if os.geteuid():
            self.skipTest("not root")
        # The copy is set-user-ID of another user, so the loader ignores LD_PRELOAD.
        program = self.folder / "guest"
        shutil.copy(GUEST, program)
        os.chown(program, 65534, 65534)
        program.chmod(0o6755)
        self.folder.chmod(0o755)
        result = self.snapshot(program, "plain", 10)
        self.assertIn("nothing was recorded", result.stderr)

    def test_two_at_once_and_one_in_the_other(self):
        inner = self.folder / "inner.mp"
        other = self.folder / "other.mp"
        second = subprocess.Popen([harness.MEMPROF, "snapshot", "--quiet", "-o", other, "--", GUEST, "plain", "300"])
        self.snapshot(harness.MEMPROF, "snapshot", "-o", inner, "--", GUEST, "plain", 200)
        self.assertEqual(second.wait(harness.TIMEOUT), 0)
        self.assertEqual(self.counts(inner), (200, 0, 0))
        self.assertEqual(self.counts(other), (300, 0, 0))
        self.assertFalse(self.file.exists())

    def test_names_with_every_character(self):
        folder = self.folder / "50% of\n%p 'it'"
        folder.mkdir()
        shutil.copy(GUEST, folder / "g%p st")
        result = harness.memprof("snapshot", "--no-symbols", "-o", "a b.mp", "--", "./g%p st", "plain", 10, cwd=folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.counts(folder / "a b.mp"), (10, 0, 0))
        result = harness.memprof("snapshot", "--no-symbols", "--", "./g%p st", "plain", 10, cwd=folder)
        self.assertEqual(len(list(folder.glob("g%p st.*.mp"))), 1, result.stderr)

    def test_huge_command_line(self):
        self.snapshot(GUEST, "plain", 10, *["x" * 1000] * 100)
        self.assertEqual(self.counts(), (10, 0, 0))


class ExitStatus(Recording):
    def test_not_found_and_not_executable(self):
        result = self.snapshot(self.folder / "nobody", status=127)
        self.assertIn("No such file", result.stderr)
        result = self.snapshot("/etc/passwd", status=126)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_status_of_the_command(self):
        self.snapshot("sh", "-c", "exit 7", status=7)
        self.snapshot("sh", "-c", "kill -9 $$", status=137)
        self.snapshot("sh", "-c", "kill -TERM $$", status=143)

    def test_script_without_first_line(self):
        script = self.folder / "script"
        script.write_text("exit 9\n")
        script.chmod(0o755)
        self.snapshot(script, status=9)

    def test_existing_file_and_unwritable_folder(self):
        self.file.write_text("mine")
        result = self.snapshot("touch", self.folder / "ran", status=1)
        self.assertIn("already there", result.stderr)
        self.assertEqual(self.file.read_text(), "mine")
        self.file = self.folder / "no" / "run.mp"
        result = self.snapshot("touch", self.folder / "ran", status=1)
        self.assertIn("no folder", result.stderr)
        self.assertFalse((self.folder / "ran").exists())

    def test_children_that_nobody_waits_for(self):
        """memprof inherits an ignored SIGCHLD from its parent."""
        result = subprocess.run([sys.executable, "-c", "import os, signal, sys\n"
                                 "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])",
                                 harness.MEMPROF, "snapshot", "-o", self.file, "--", "sh", "-c", "exit 3"],
                                capture_output=True, timeout=harness.TIMEOUT)
        self.assertEqual(result.returncode, 3)


def hear_all_signals():
    """Resets signals that nohup, or a shell for background jobs, has set to be ignored: a shell cannot trap ignored
    signals."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Signals(Recording):
    def start(self, *command, **options):
        process = subprocess.Popen([harness.MEMPROF, "snapshot", "--quiet", "-o", str(self.file), "--", *command],
                                   stdout=subprocess.PIPE, text=True, preexec_fn=hear_all_signals, **options)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_what_is_sent_to_memprof_reaches_the_command(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.start("sh", "-c", f"trap 'exit 21' {number.name[3:]}; echo ready; while :; do sleep 0.05; done")
            process.send_signal(number)
            self.assertEqual(process.wait(harness.TIMEOUT), 21)

    def test_interrupt_is_the_commands(self):
        process = self.start("sh", "-c", "trap 'exit 22' INT; echo ready; while :; do sleep 0.05; done",
                             start_new_session=True)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(harness.TIMEOUT), 22)

    def test_blocked_signals_are_the_commands(self):
        blocked = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
        result = self.snapshot("grep", "SigBlk", "/proc/self/status", preexec_fn=blocked)
        self.assertEqual(int(result.stdout.split()[1], 16), 1 << signal.SIGUSR1 - 1 | 1 << signal.SIGTERM - 1)
        result = self.snapshot("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", options=["--force"],
                               preexec_fn=hear_all_signals)
        # posix_spawn() leaves glibc's own two signals ignored
        masks = {int(line.split()[1], 16) & ~0x180000000 for line in result.stdout.splitlines()}
        self.assertEqual(masks, {0})

    def test_the_terminal_stays_the_commands(self):
        """The command can read from the terminal: it is the terminal's foreground process."""
        try:
            pid, terminal = pty.fork()
        except OSError as error:
            self.skipTest(f"no terminal can be had here: {error}")
        if not pid:
            os.execv(harness.MEMPROF, [harness.MEMPROF, "snapshot", "--quiet", "-o", str(self.file), "--", "sh", "-c",
                                       "read line; test \"$line\" = hello && exit 23"])
        os.write(terminal, b"hello\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 23)
        os.close(terminal)

    def test_stopped_collector(self):
        """The program goes on without the collector, and lost events are counted."""
        process = self.start("sh", "-c", f"echo ready; read line; exec {GUEST} paths 3000", stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        guest = harness.first_child(process.pid)
        process.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        self.wait_for(lambda: harness.is_gone(guest), "the program hangs with its collector stopped")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(harness.TIMEOUT), 0)

    def test_collector_is_stopped_in_the_middle(self):
        process = self.start("sh", "-c", f"echo ready; {GUEST} plain 10; exec {GUEST} outlive 5000")
        time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(harness.TIMEOUT), 0)


class FullDisks(Recording):
    def inside(self, script, **sizes):
        """Runs a shell script with small file systems mounted: $FOLDER (`folder`), /dev/shm (`shm`)."""
        if not can_mount():
            self.skipTest("no mounts here")
        mounts = {"folder": self.folder / "small", "shm": "/dev/shm"}
        mounts["folder"].mkdir(exist_ok=True)
        lines = [f"mount -t tmpfs -o size={size} small {mounts[name]}" for name, size in sizes.items()]
        environment = {**os.environ, "FOLDER": str(mounts["folder"]), "MEMPROF": harness.MEMPROF, "GUEST": GUEST,
                       "KEPT": str(self.folder)}
        environment.pop("XDG_RUNTIME_DIR", None)
        return subprocess.run(["unshare", "-m", "sh", "-c", "set -e; " + "; ".join([*lines, script])],
                              capture_output=True, text=True, env=environment, timeout=harness.TIMEOUT)

    def test_snapshot_does_not_fit(self):
        result = self.inside('status=0; "$MEMPROF" snapshot --no-symbols -o "$FOLDER/run.mp" -- "$GUEST" plain 400000 '
                             '|| status=$?; cp "$FOLDER/run.mp" "$KEPT/cut.mp"; rm -f /dev/shm/memprof-*.spool; '
                             'exit $status', folder="64k", shm="512m")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("No space left on device", result.stderr)
        self.assertIn("memprof recover", result.stderr)
        info = harness.answer("info", self.folder / "cut.mp", status=4)
        self.assertFalse(info["coverage"]["complete"])
        self.assertGreater(info["coverage"]["events"], 0)

    def test_recover_after_room_was_made(self):
        result = self.inside('"$MEMPROF" snapshot --no-symbols -o "$FOLDER/run.mp" -- "$GUEST" plain 400000; '
                             'status=0; "$MEMPROF" recover "$FOLDER/run.mp" -o "$KEPT/whole.mp" || status=$?; '
                             'ls /dev/shm; exit $status', folder="64k", shm="512m")
        self.assertIn(result.returncode, (0, 4), result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertGreater(self.counts(self.folder / "whole.mp")[0], 0)

    def test_disk_is_full_from_the_start(self):
        result = self.inside('dd if=/dev/zero of="$FOLDER/filler" bs=4k count=100 2>/dev/null || true; '
                             '"$MEMPROF" snapshot --no-symbols -o "$FOLDER/run.mp" -- "$GUEST" plain 1000',
                             folder="64k", shm="512m")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("No space left on device", result.stderr)

    def test_small_shared_memory(self):
        for size in ("1m", "8m", "56m", "64m"):
            with self.subTest(size=size):
                result = self.inside('"$MEMPROF" snapshot --no-symbols --force -o "$KEPT/run.mp" -- "$GUEST" '
                                     'many-threads 90 200; ls /dev/shm; df --output=avail -k /dev/shm | tail -1', shm=size)
                self.assertEqual(result.returncode, 0, result.stderr)
                allocs, frees, dropped = self.counts()
                self.assertEqual(allocs + frees + dropped, 36000)

    def test_shared_memory_is_left_to_the_program(self):
        """While tables and rings grow, room for other users of /dev/shm remains."""
        result = self.inside('"$MEMPROF" snapshot --no-symbols -o "$KEPT/run.mp" -- sh -c \'"$GUEST" many-threads 90 200; '
                             'df --output=avail -k /dev/shm | tail -1\'; ', shm="64m")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.inside('( while sleep 0.01; do df --output=avail -k /dev/shm | tail -1; done ) > "$KEPT/free" & '
                             'watcher=$!; until [ -s "$KEPT/free" ]; do sleep 0.01; done; "$MEMPROF" snapshot --no-symbols --force -o "$KEPT/run.mp" -- '
                             '"$GUEST" many-threads 90 20000; kill $watcher', shm="64m")
        self.assertEqual(result.returncode, 0, result.stderr)
        free = [int(line) for line in (self.folder / "free").read_text().split()]
        self.assertGreaterEqual(min(free), 24 * 1024)

    def test_limit_on_file_sizes(self):
        """Even the spool exceeds the limit: the program runs, and a message says so."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        result = self.snapshot(GUEST, "plain", 10, preexec_fn=limit)
        self.assertIn("File too large", result.stderr)
        self.assertNotIn("nothing was recorded", result.stderr)

    def test_no_descriptors_left(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 4096))
        result = harness.memprof("snapshot", "-o", self.file, "--", GUEST, "plain", 10, preexec_fn=limit)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        self.assertTrue(result.stderr)


if __name__ == "__main__":
    harness.main()
