#!/usr/bin/env python3
"""Programs that a profiler does not expect (hostile.c): they end as without memprof, and events that are not recorded
are counted.
"""

import errno
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

HOSTILE = str(harness.BUILD / "tests" / "faults" / "hostile")
WATCHDOG = 60  # far beyond what any of them takes: what it ends was stuck


class Hostile(harness.TestCase):
    def record(self, *arguments, status=0):
        """The program's output, and the recording's coverage."""
        path = self.folder / "x.mp"
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", path, "--", HOSTILE, *arguments, timeout=WATCHDOG)
        self.assertEqual(result.returncode, status, result.stderr)
        return result, harness.answer("info", path, status=(0, 4))["coverage"]

    def complete(self, *arguments):
        """Asserts that each event is recorded or counted as dropped. An event of a hook that was left by a jump may be
        both."""
        result, coverage = self.record(*arguments)
        calls, begun = map(int, re.search(r"calls (\d+) begun (\d+)", result.stdout).groups())
        kept, dropped = coverage["events"], coverage["dropped"]
        self.assertGreaterEqual(kept + dropped, calls)
        self.assertLessEqual(kept, begun)
        return coverage, dropped, result

    def test_handlers_events_while_their_thread_attaches(self):
        self.complete("attach-under-alarms")

    def test_handlers_on_an_alternate_stack(self):
        for above in (0, 1):
            for _ in range(5):  # on a busy machine the collector may be too slow for some; not each time
                coverage, dropped, _ = self.complete("events-under-alarms", above)
                told = sum(int(re.match(r"\d+", note)[0]) for note in coverage["notes"]
                           if "interrupted the recorder" in note)
                self.assertLessEqual(told, dropped)
                if told == dropped:
                    break
            self.assertEqual(told, dropped)

    def test_jumps_out_of_handlers(self):
        for threads in (0, 1, 3):
            coverage, dropped, result = self.complete("jumps-out", threads)
            if dropped:
                self.assertIn("left the recorder", " ".join(coverage["notes"]))
                self.assertIn("were dropped, and the report says why", result.stderr)

    def test_what_comes_after_a_jump_is_recorded(self):
        _, coverage = self.record("jumps-out-and-goes-on")
        children = [path for path in self.folder.glob("*.mp") if path.name != "x.mp"]
        self.assertEqual(len(children), 1)
        self.assertEqual(harness.answer("info", children[0], status=(0, 4))["coverage"]["events"], 200)

    def test_what_a_program_forbids_itself(self):
        coverage, dropped, _ = self.complete("without-counter")
        self.assertEqual(dropped, 0)
        coverage, dropped, result = self.complete("strict-thread")
        self.assertGreaterEqual(dropped, 100)
        self.assertEqual(coverage["notes"][1:], [
            f"{dropped} events were dropped: their threads had put themselves under seccomp's strict mode"])

    def test_threads_that_never_come_back(self):
        """The collector waits for hooks of these threads for a while, other threads wait for the collector, and drop
        events meanwhile."""
        self.complete("jumps-out-for-ever")

    def test_questions_that_are_left(self):
        self.record("jumps-out-of-questions")

    def test_threads_that_end_in_the_middle(self):
        for by_exit in (0, 1):
            self.complete("ends-threads", by_exit)

    def test_stack_overflows(self):
        self.complete("overflows-stack")

    def test_constructors_that_wait_for_threads(self):
        plugin = harness.BUILD / "tests" / "faults" / "plugin.so"
        for first in (0, 1):
            _, coverage = self.record("loads-plugin", first, plugin)
            self.assertEqual(coverage["events"], 40 + 2 * (not first) + 2)
            self.assertEqual(coverage["dropped"], 0)

    def test_errors_of_the_loader_are_the_programs(self):
        self.complete("asks-for-errors")

    def test_stacks_that_take_the_places_of_larger_ones(self):
        self.assertEqual(self.complete("stacks-that-shrink")[1], 0)
        for wrong_rule in (0, 1):
            self.assertEqual(self.complete("stacks-by-hand", wrong_rule)[1], 0)

    def test_a_handler_needs_little_stack(self):
        """Programs use 8 KiB (SIGSTKSZ), of which the kernel takes about 3 KiB."""
        self.assertEqual(self.complete("small-alternate-stack", 8192)[1], 0)
        self.assertEqual(self.complete("attach-on-alternate-stack", 8192, 1)[1], 0)

    def memory(self, number, recorded=True):
        if recorded:
            text = self.record("memory", number)[0].stdout if number == 2 else self.run_without_events("memory", number)
        else:
            text = subprocess.run([HOSTILE, "memory", str(number)], capture_output=True, text=True, check=True).stdout
        return {name: int(kib) for name, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}

    def run_without_events(self, *arguments):
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", self.folder / "x.mp", "--", HOSTILE, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_process_without_events_pays_nothing(self):
        """Does not limit address space, nor memory pinned by mlockall(): both are limited on shared machines."""
        for locked in (0, 1):
            with_, without = self.memory(locked), self.memory(locked, recorded=False)
            self.assertLess(with_["VmSize"] - without["VmSize"], 8 << 10)
            self.assertLess(with_["VmRSS"] - without["VmRSS"], 8 << 10)

    def test_locking_all_memory_fills_no_tables(self):
        with_, without = self.memory(2), self.memory(2, recorded=False)
        self.assertLess(with_["VmRSS"] - without["VmRSS"], 24 << 10)
        self.assertLess(with_["RssShmem"], 4 << 10)
        self.assertLess(with_["VmSize"] - without["VmSize"], 32 << 10)

    def test_with_little_address_space_what_is_lost_is_said(self):
        """Limits from too low to record anything up to high enough to lose nothing."""
        ways = set()
        for limit in range(12000, 34000, 2000):
            path = self.folder / "x.mp"
            result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", path, "--", "sh", "-c",
                                     f"ulimit -v {limit}; exec {HOSTILE} asks-for-errors")
            self.assertEqual((result.returncode, result.stdout), (0, "calls 9000 begun 9000\n"), result.stderr)
            if "Cannot allocate memory" in result.stderr:
                ways.add("not at all")
                continue
            coverage = harness.answer("info", path, status=(0, 4))["coverage"]
            self.assertEqual(coverage["events"] + coverage["dropped"], 9000)
            self.assertEqual(coverage["complete"], not coverage["notes"], limit)
            ways.add("complete" if coverage["complete"] else "in part")
        self.assertLessEqual({"not at all", "complete"}, ways)

    def test_more_threads_than_rings(self):
        coverage, dropped, _ = self.complete("many-threads")
        self.assertRegex(" ".join(coverage["notes"]), f"{dropped} events were dropped(: their threads began| because more "
                                                      "than 96 threads)")

    def test_a_sandbox_that_refuses(self):
        for reason in (errno.EPERM, errno.ENOSYS):
            result, coverage = self.record("sandbox", reason)
            self.assertIn("refused", " ".join(coverage["notes"]))
            self.assertGreater(coverage["dropped"], 0)
            result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", self.folder / "x.mp", "--", HOSTILE,
                                     "sandbox-before", reason)
            self.assertNotEqual(result.returncode, 2)
            self.assertIn("a sandbox", result.stderr)

    def test_where_attaching_is_impossible(self):
        for limit, said in (("-n 5", "Too many open files"), ("-v 16000", "Cannot allocate memory")):
            result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", self.folder / "x.mp", "--", "sh", "-c",
                                     f"ulimit {limit}; exec {HOSTILE} asks-for-errors")
            self.assertIn(said, result.stderr)
            self.assertNotIn("made no CUDA calls", result.stderr)

    def test_the_clock_is_the_kernels(self):
        path = self.folder / "x.mp"
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", path, "--", harness.BUILD / "tests/faults/wrong_clock")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(harness.answer("info", path)["process"]["duration_ns"], 600e9)

    def test_programs_with_sanitizers_start(self):
        source = self.folder / "fine.c"
        source.write_text("#include <memprof.h>\n#include <stdlib.h>\n"
                          "int main(void) { unsigned pool = memprof_pool(\"p\", -1); void *block = malloc(10);\n"
                          "memprof_alloc(pool, block, 10); memprof_free(pool, block); free(block); return 0; }\n")
        for sanitizer in ("address", "undefined", "thread", "leak"):
            built = subprocess.run(["gcc", f"-fsanitize={sanitizer}", f"-I{harness.SOURCE / 'include'}", "-o",
                                    self.folder / "fine", source, "-ldl"], capture_output=True)
            if built.returncode or subprocess.run([self.folder / "fine"], capture_output=True).returncode:
                continue
            for options in ({}, {"ASAN_OPTIONS": "detect_leaks=0"}):
                result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", self.folder / "x.mp", "--", self.folder / "fine",
                                         env=os.environ | options)
                self.assertEqual(result.returncode, 0, f"{sanitizer}: {result.stderr}")
                self.assertEqual(harness.answer("info", self.folder / "x.mp")["coverage"]["events"], 2)

    def listed(self, heading):
        """The names in the paragraph of docs/HOOKS.md after a mark."""
        text = (harness.SOURCE / "docs/HOOKS.md").read_text()
        paragraph = text.split(f"<!-- {heading} -->\n")[1].split("\n\n")[0]
        return re.findall(r"`(\w+)`", paragraph)

    def test_system_calls_are_those_of_the_page(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the sandbox is of one machine")
        of_hook, of_first = self.listed("calls of a hook"), self.listed("calls of the first event")
        for attached, names in ((1, of_hook), (0, of_hook + of_first)):
            alone = subprocess.run([HOSTILE, "only-these-calls", str(attached), *names], capture_output=True, text=True)
            if alone.returncode == 77:
                self.skipTest("no sandbox can be made here")
            self.assertEqual(alone.returncode, 0, "the program itself needs more")
            result, coverage = self.record("only-these-calls", attached, *names)
            # recorded or counted as dropped, as the collector may be too slow on a busy machine
            self.assertGreater(coverage["events"] + coverage["dropped"], 60000)
            self.assertGreater(coverage["events"], 1000)
            self.assertNotIn("refused", " ".join(coverage["notes"]))

    def test_imports_are_those_of_the_page(self):
        listing = subprocess.run(["nm", "-D", "--undefined-only", harness.BUILD / "libmemprof.so"], capture_output=True,
                                 text=True, check=True).stdout
        imported = {line.split()[-1].split("@")[0] for line in listing.splitlines() if " U " in line}
        # without the prefixes of a fortified C library, or of other machines
        plain = {re.sub(r"^__(\w+)_chk$", r"\1", name) for name in imported} - {"__stack_chk_fail"}
        self.assertLessEqual(plain, set(self.listed("imported functions")))


if __name__ == "__main__":
    harness.main()
