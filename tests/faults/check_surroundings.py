#!/usr/bin/env python3
"""Programs in surroundings that a profiler does not expect: other clocks, namespaces and limits; other allocators,
sanitizers and runtimes. They end and print as without memprof, and the recording is right, or a message says that there
is none."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

HOSTILE = str(harness.BUILD / "tests" / "faults" / "hostile")
OWNER = str(harness.BUILD / "tests" / "faults" / "owner")
ROUGH = str(harness.BUILD / "tests" / "faults" / "rough")
INCLUDE = f"-I{harness.SOURCE / 'include'}"
WATCHDOG = 60
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
ALLOCATE = """#include <memprof.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *pool)
{
    void *block = malloc(10);
    memprof_alloc(*(unsigned *)pool, block, 10);
    memprof_free(*(unsigned *)pool, block);
    free(block);
    return 0;
}
int main(void)
{
    unsigned pool = memprof_pool("p", -1);
    pthread_t thread;
    work(&pool);
    if (!pthread_create(&thread, 0, work, &pool)) pthread_join(thread, 0);
    return puts("fine") < 0;
}
"""


def works(*command):
    return shutil.which(command[0]) and subprocess.run(command, capture_output=True).returncode == 0


def library(pattern):
    found = [path for folder in LIBRARIES for path in sorted(pathlib.Path(folder).glob(pattern))]
    return str(found[0]) if found else None


class Recorded(harness.TestCase):
    def record(self, *command, env=None, options=(), same=True):
        """Asserts that the program prints exactly the same as alone. Returns memprof's messages."""
        env = os.environ | (env or {})
        alone = subprocess.run(command, capture_output=True, text=True, env=env, timeout=WATCHDOG)
        result = harness.memprof("snapshot", "--force", *options, "-o", self.folder / "x.mp", "--", *command, env=env,
                                 timeout=2 * WATCHDOG)
        self.assertEqual(result.returncode, alone.returncode, result.stderr)
        if same:
            self.assertEqual(result.stdout, alone.stdout)
        return result

    def info(self):
        return harness.answer("info", self.folder / "x.mp", status=(0, 4))

    def events(self):
        """The number of events, recorded or dropped: on a busy machine the collector may be too slow."""
        coverage = self.info()["coverage"]
        self.assertGreater(coverage["events"], 0)
        return coverage["events"] + coverage["dropped"]

    def compile(self, name, text, *flags, compiler="gcc"):
        """Compiles a program. False: this machine lacks the compiler or its library."""
        source = self.folder / f"{name}.c"
        source.write_text(text)
        built = subprocess.run([compiler, *flags, INCLUDE, "-o", self.folder / name, source, "-ldl", "-lpthread"],
                               capture_output=True) if shutil.which(compiler) else None
        return bool(built) and not built.returncode


class Surroundings(Recorded):
    def test_a_clock_of_another_namespace(self):
        if not works("unshare", "--time", "--monotonic", "5", "true"):
            self.skipTest("no time namespace can be made here")
        for seconds in (10_000_000, 1, -20):
            self.record("unshare", "--time", "--monotonic", str(seconds), HOSTILE, "asks-for-errors")
            info = self.info()
            self.assertEqual(self.events(), 9000)
            self.assertLess(info["process"]["duration_ns"], 900e9)
            self.assertLess(info["tracks"][0]["peak_ns"], 900e9)

    def test_a_faked_clock(self):
        if not shutil.which("faketime"):
            self.skipTest("there is no faketime")
        for how in (("2040-01-01 00:00:00",), ("-f", "-10y x100")):
            self.record("faketime", *how, HOSTILE, "asks-for-errors")
            info = self.info()
            self.assertEqual(self.events(), 9000)
            self.assertLess(info["process"]["duration_ns"], 900e9)

    def test_where_nothing_can_be_reached(self):
        """Other users, environments and files: nothing is recorded, and memprof does not claim that there was nothing
        to record."""
        ways = []
        if not os.geteuid() and shutil.which("setpriv"):
            ways = [("setpriv", "--reuid", "65534", "--clear-groups"), ("setpriv", "--reuid", "65534", "--no-new-privs",
                                                                         "--clear-groups", "--inh-caps", "-all")]
        commands = [(*way, HOSTILE, "asks-for-errors") for way in ways]
        commands += [(str(self.folder / "static"),)] if self.compile("static", ALLOCATE, "-static") else []
        for command in commands:
            said = self.record(*command).stderr
            self.assertIn("could see", said)
            self.assertFalse((self.folder / "x.mp").exists())

    def test_the_header_where_the_c_library_hides_rtld_default(self):
        """glibc before 2.33, also in Debian 11, hides it in C without _GNU_SOURCE."""
        hidden = "#include <dlfcn.h>\n#undef RTLD_DEFAULT\n" + ALLOCATE
        self.assertTrue(self.compile("hidden", hidden, "-std=c99"))
        self.record(self.folder / "hidden")
        self.assertEqual(self.events(), 4)

    def test_sanitizers_of_other_kinds(self):
        kinds = [("gcc", "-fsanitize=address", "-static-libasan"), ("gcc", "-fsanitize=thread", "-static-libtsan"),
                 ("clang", "-fsanitize=address"), ("clang", "-fsanitize=memory"), ("clang", "-fsanitize=thread")]
        for compiler, *flags in kinds:
            if not self.compile("fine", ALLOCATE, *flags, compiler=compiler) or not works(self.folder / "fine"):
                continue
            with self.subTest(flags=flags, compiler=compiler):
                for command in ((self.folder / "fine",), ("sh", "-c", f"true && exec {self.folder / 'fine'}")):
                    self.record(*command)
                    self.assertEqual(self.events(), 4)

    @unittest.skipIf(harness.SANITIZED, "memprof has AddressSanitizer's allocator")
    def test_other_allocators(self):
        found = [library(pattern) for pattern in ("libjemalloc.so.2", "libmimalloc.so*", "libtcmalloc*.so*")]
        if not any(found):
            self.skipTest("no jemalloc, mimalloc or tcmalloc")
        for path in filter(None, found):
            for mode in ("asks-for-errors", "stacks-that-shrink"):
                self.record(HOSTILE, mode, env={"LD_PRELOAD": path})
                self.assertGreater(self.events(), 0)

    def test_an_auditor_of_the_loader(self):
        text = ("#define _GNU_SOURCE\n#include <link.h>\nunsigned la_version(unsigned version) { return version; }\n"
                "unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)\n"
                "{ (void)map, (void)id, (void)cookie; return LA_FLG_BINDTO | LA_FLG_BINDFROM; }\n")
        if not self.compile("audit.so", text, "-shared", "-fPIC"):
            self.skipTest("no compiler")
        audit = {"LD_AUDIT": str(self.folder / "audit.so")}
        plugin = str(harness.BUILD / "tests" / "faults" / "plugin.so")
        for mode in (("asks-for-errors",), ("loads-plugin", "1", plugin)):
            self.record("env", *(f"{name}={value}" for name, value in audit.items()), HOSTILE, *mode)
            self.assertGreater(self.events(), 0)

    def test_low_limits(self):
        small = {"PATH": os.environ["PATH"]}  # what the environment takes of a stack is not memprof's
        # AddressSanitizer needs terabytes of address space, and larger stack frames
        of_memory = ("-s 256",) if harness.SANITIZED else ("-s 64", "-v 700000", "-v 30000")
        for limit in (*of_memory, "-n 12", "-l 0", "-c 0"):
            result = subprocess.run(["sh", "-c", f"ulimit {limit} && exec \"$@\"", "sh", harness.MEMPROF, "snapshot",
                                     "--force", "-o", self.folder / "x.mp", "--", HOSTILE, "asks-for-errors"],
                                    capture_output=True, text=True, timeout=WATCHDOG, env=small)
            self.assertEqual((result.returncode, result.stdout), (0, "calls 9000 begun 9000\n"),
                             (limit, result.stderr))
            self.assertEqual(self.events(), 9000)

    def stack_of_the_command(self, *limit):
        """Runs memprof with a limit on its stack. Returns the limit that the command reports, and memprof's exit
        status."""
        small = {"PATH": os.environ["PATH"]}
        result = subprocess.run(["prlimit", *limit, harness.MEMPROF, "snapshot", "--force", "-o", self.folder / "x.mp", "--",
                                 "sh", "-c", f"ulimit -S -s; exec {HOSTILE} asks-for-errors"], capture_output=True, text=True,
                                timeout=WATCHDOG, env=small)
        return result.returncode, result.stdout, result.stderr

    @harness.unittest.skipIf(harness.SANITIZED, "AddressSanitizer has larger frames")
    @harness.unittest.skipUnless(shutil.which("prlimit"), "no prlimit")
    def test_a_stack_that_is_too_small_for_memprof(self):
        """memprof raises its own limit, if allowed, and leaves the command's. Otherwise it does not start the
        command."""
        for kib in (32, 48):
            self.assertEqual(self.stack_of_the_command(f"--stack={kib << 10}:8388608")[:2],
                             (0, f"{kib}\ncalls 9000 begun 9000\n"))
            self.assertEqual(self.events(), 9000)
            status, said, why = self.stack_of_the_command(f"--stack={kib << 10}")
            self.assertEqual((status, said), (1, ""))
            self.assertIn(f"needs 64 KiB of stack, and the limit is {kib} KiB", why)

    def test_more_names_than_fit(self):
        result = self.record(HOSTILE, "many-names", "150000")
        self.assertRegex(result.stderr, "the report says why|faster than the collector")
        coverage = self.info()["coverage"]
        self.assertEqual((self.events(), coverage["complete"]), (600_000, False))
        self.assertIn("table of names was full", " ".join(coverage["notes"]))
        self.assertNotIn("stacks", " ".join(coverage["notes"]))


class Rough(Recorded):
    """Programs that treat their own process roughly (rough.c)."""

    def try_modes(self, *modes):
        for mode in modes:
            with self.subTest(mode=mode):
                self.record(ROUGH, *mode.split())
                for recording in self.folder.glob("*.mp"):
                    harness.answer("info", recording, status=(0, 4))
                    recording.unlink()

    def test_processes(self):
        self.try_modes("vforks", "forks-under-load", "deep-forks", "execs 5", "empty-environments")

    def test_children_of_a_raw_clone_say_that_they_are_not_recorded(self):
        said = self.record(ROUGH, "clones").stderr
        self.assertRegex(said, r"60 processes could not be recorded \(.* rough.*\): a raw clone\(\) made it")
        self.assertFalse(self.info()["coverage"]["complete"])

    def test_threads(self):
        self.try_modes("waves-of-threads", "destructors", "cancels", "at-exit")

    def test_stacks(self):
        plugin = harness.BUILD / "tests" / "faults" / "rough_plugin.so"
        self.try_modes("alternate-stacks", *["green-threads"] * 3, f"unloaded-code {plugin}",
                       *[f"stale-frames {plugin}"] * 2)

    def test_what_the_process_has(self):
        self.try_modes("closed-files", "not-dumpable", "no-large-files", "folder-that-is-gone")


class Owner(Recorded):
    """Programs that act as if the whole process were theirs (owner.c)."""

    def try_modes(self, *modes):
        for mode in modes:
            with self.subTest(mode=mode):
                self.record(OWNER, mode)
                recordings = list(self.folder.glob("*.mp"))
                self.assertTrue(recordings)
                for recording in recordings:
                    harness.answer("info", recording, status=(0, 4))
                    recording.unlink()

    def test_files(self):
        self.try_modes("no-standard-files", "closes-all", "closes-while-attaching", "daemonizes")

    def test_children_that_harm_their_shared_memory(self):
        """memprof goes on with other processes. The links of a robust mutex would lie in that memory, and lead memprof
        anywhere."""
        for mode in ("shrinks-spool", "scribbles-over-spool"):
            self.record(OWNER, mode)
            self.assertEqual(self.info()["coverage"]["dropped"], 0)

    def test_descriptors_that_lack_for_a_while(self):
        """Recording begins when descriptors are available again, and counts earlier events."""
        for mode, before, files in (("without-descriptors", 200, 1), ("few-descriptors", 600, 1),
                                    ("tensors-without-descriptors", 200, 1),
                                    ("children-without-descriptors", 200, 4)):
            with self.subTest(mode=mode):
                said = self.record(OWNER, mode).stderr
                self.assertNotIn("could not be recorded", said)
                recordings = sorted(self.folder.glob("*.mp"))
                self.assertEqual(len(recordings), files)
                for recording in recordings:
                    coverage = harness.answer("info", recording, status=(0, 4))["coverage"]
                    late = files == 1 or recording.name != "x.mp"
                    self.assertEqual(coverage["events"] + coverage["dropped"], 2000 + before if late else 200)
                    self.assertEqual(coverage["dropped"], before if late else 0)
                    if late:
                        self.assertRegex(" ".join(coverage["notes"]), f"{before} calls were not recorded: the recorder could not begin")
                    recording.unlink()

    def test_processes(self):
        self.try_modes("spawns", "becomes-itself", "stops-and-goes-on")

    def test_memory(self):
        self.try_modes("not-for-children", "wiped-in-children", "gives-back", "smallest-stacks", "limit-comes-late")

    def test_address_space(self):
        for mode, events in (("budget-of-addresses", 40200), ("budget-of-threads", 16000), ("budget-of-children", 10000)):
            self.record(OWNER, mode)
            self.assertEqual(self.events(), events)
            coverage = self.info()["coverage"]
            self.assertNotIn("no memory", " ".join(coverage["notes"]), mode)
            if mode == "budget-of-addresses":  # which waits for the collector; a thread may begin before it has a ring
                self.assertEqual(coverage["dropped"], 0)

    def test_full_rings_are_named(self):
        for way, least in (("drop", 40020 - 16384), ("wait", 1)):
            self.record(OWNER, "stops-collector", options=("--on-full", way))
            coverage = self.info()["coverage"]
            self.assertEqual(coverage["events"] + coverage["dropped"], 40020)
            self.assertGreaterEqual(coverage["dropped"], least)
            self.assertRegex(" ".join(coverage["notes"]),
                             f"{coverage['dropped']} events were dropped: the program was faster than the collector")

    def test_memprof_without_standard_files(self):
        command = f"exec {harness.MEMPROF} snapshot --force -o {self.folder / 'x.mp'} -- {OWNER} no-standard-files"
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            result = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, timeout=WATCHDOG)
            self.assertEqual(result.returncode, 0, (closed, result.stderr))
            self.assertGreater(self.events(), 4000)

    def test_functions_of_the_c_library_replaced(self):
        """Hooks do not call these functions: a replacement may take a lock, not be ready, or make an event."""
        for functions in ("mmap munmap mprotect madvise munlock", "syscall", "close socket connect recvmsg mkdir getpid",
                          "memcpy", "malloc", "dlsym"):
            for ready in (0, 1) if functions not in ("malloc", "dlsym") else (1,):
                flags = [f"-DREPLACE_{name}" for name in functions.split()]
                if not self.compile("replaced", REPLACED, "-fno-builtin", "-rdynamic", f"-DREADY={ready}", *flags):
                    self.skipTest("no compiler")
                with self.subTest(functions=functions, ready=ready):
                    self.record(self.folder / "replaced")
                    # the program's own malloc() also counts the buffer of puts()
                    self.assertEqual(self.events(), 9997 if functions == "malloc" else 9995)
                    self.assertEqual(self.info()["coverage"]["dropped"], 0)


REPLACED = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <memprof.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned pool;
static int ready = READY;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void count(void)
{
    static long seen;
    static __thread int inside;
    if (!ready) abort();
    if (inside) return;
    inside = 1;
    pthread_mutex_lock(&lock);
    seen++;
    pthread_mutex_unlock(&lock);
    if (pool) {
        memprof_alloc(pool, (void *)0x999000, 5);
        memprof_free(pool, (void *)0x999000);
    }
    inside = 0;
}
static long kernel(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define OWN(name) long name##_(long, long, long, long, long, long) __asm__(#name); \\
    long name##_(long a, long b, long c, long d, long e, long f) { count(); return kernel(SYS_##name, a, b, c, d, e, f); }
#ifdef REPLACE_mmap
OWN(mmap) OWN(munmap) OWN(mprotect) OWN(madvise) OWN(munlock)
#endif
#ifdef REPLACE_close
OWN(close) OWN(socket) OWN(connect) OWN(recvmsg) OWN(mkdir) OWN(getpid)
#endif
#ifdef REPLACE_syscall
long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    count();
    return kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif
#ifdef REPLACE_memcpy
#define BYTE(at, i) ((unsigned char *)(at))[i]
void *memmove(void *to, const void *from, size_t n)
{
    count();
    if (to < from) for (size_t i = 0; i < n; i++) BYTE(to, i) = BYTE(from, i);
    else for (size_t i = n; i-- > 0;) BYTE(to, i) = BYTE(from, i);
    return to;
}
void *memcpy(void *to, const void *from, size_t n) { return memmove(to, from, n); }
void *memset(void *to, int c, size_t n) { count(); for (size_t i = 0; i < n; i++) BYTE(to, i) = c; return to; }
int memcmp(const void *a, const void *b, size_t n)
{
    count();
    for (size_t i = 0; i < n; i++) if (BYTE(a, i) != BYTE(b, i)) return BYTE(a, i) - BYTE(b, i);
    return 0;
}
size_t strnlen(const char *a, size_t n) { count(); size_t i = 0; while (i < n && a[i]) i++; return i; }
size_t strlen(const char *a) { return strnlen(a, -1); }
int strncmp(const char *a, const char *b, size_t n)
{
    count();
    for (size_t i = 0; i < n; i++) if (a[i] != b[i] || !a[i]) return BYTE(a, i) - BYTE(b, i);
    return 0;
}
int strcmp(const char *a, const char *b) { return strncmp(a, b, -1); }
char *strchr(const char *a, int c) { count(); for (; *a != (char)c; a++) if (!*a) return NULL; return (char *)a; }
char *strstr(const char *a, const char *b)
{
    count();
    for (; *a; a++) if (!strncmp(a, b, strlen(b))) return (char *)a;
    return NULL;
}
#endif
#ifdef REPLACE_malloc
static char heap[1 << 24];
static size_t used;
void *malloc(size_t n)
{
    count();
    char *at = heap + __atomic_fetch_add(&used, (n + 31) / 16 * 16, __ATOMIC_RELAXED);
    *(size_t *)at = n;
    return at + 16;
}
void free(void *at) { if (at) count(); }
void *calloc(size_t n, size_t each) { return malloc(n * each); }
void *realloc(void *at, size_t n)
{
    char *to = malloc(n);
    for (size_t i = 0; at && i < n && i < ((size_t *)at)[-2]; i++) to[i] = ((char *)at)[i];
    return to;
}
#endif
#ifdef REPLACE_dlsym
void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    count();
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real ? real(handle, name) : NULL;
}
#endif
int main(void)
{
    ready = 1;
    unsigned own = memprof_pool("p", -1);
    for (int round = 0; round < 2; round++, pool = own)
        for (long i = 1; i < 2000; i++) {
            memprof_alloc(own, (void *)(i * 4096), 10);
            if (round) memprof_mark("x");
            memprof_free(own, (void *)(i * 4096));
        }
    return puts("fine") < 0;
}
"""
GO = """package main

/*
#cgo LDFLAGS: -ldl
#include <memprof.h>
static uint32_t begin(void) { return memprof_pool("go", -1); }
static void event(uint32_t pool, uintptr_t at) { memprof_alloc(pool, (void *)at, 64); memprof_free(pool, (void *)at); }
*/
import "C"
import ("fmt"; "runtime"; "sync")

func deep(n int, pool C.uint32_t, at uintptr) int {
	var pad [128]int
	if n == 0 { C.event(pool, C.uintptr_t(at)); return 1 }
	pad[n%128] = n
	return deep(n-1, pool, at) + pad[n%128] - n
}

func main() {
	pool := C.begin()
	var group sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for g := 0; g < 200; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			if g%10 == 0 { runtime.LockOSThread() }
			sum := 0
			for i := 0; i < 50; i++ { sum += deep(i, pool, uintptr(4096+g*4096+i*64)); runtime.Gosched() }
			lock.Lock(); total += sum; lock.Unlock()
			func() { defer func() { recover() }(); var none *int; *none = 1 }() // a SIGSEGV that Go recovers from
		}(g)
	}
	group.Wait()
	runtime.GC()
	fmt.Println(total)
}
"""
RUST = """use std::thread;
extern "C" { fn begin() -> u32; fn event(pool: u32, at: usize); }
fn deep(n: u32, pool: u32, at: usize) -> u32 {
    if n == 0 { unsafe { event(pool, at) }; 1 } else { deep(n - 1, pool, at) }
}
fn main() {
    let pool = unsafe { begin() };
    let threads: Vec<_> = (0..40).map(|g| thread::spawn(move || {
        let sum: u32 = (0..100u32).map(|i| deep(i % 60, pool, 4096 + g * 65536 + i as usize * 64)).sum();
        assert!(std::panic::catch_unwind(|| panic!("caught")).is_err());
        sum
    })).collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>());
}
"""
RUST_EVENTS = """#include <memprof.h>
uint32_t begin(void) { return memprof_pool("rust", -1); }
void event(uint32_t pool, uintptr_t at) { memprof_alloc(pool, (void *)at, 64); memprof_free(pool, (void *)at); }
"""
GREENLETS = """import gevent.monkey
gevent.monkey.patch_all()
import gevent, torch
kept = []
def inner(n):
    kept.append(torch.zeros(100 + n))
def work(n):
    for _ in range(20):
        inner(n)
        gevent.sleep(0)
    return n
jobs = [gevent.spawn(work, n) for n in range(30)]
gevent.joinall(jobs)
print(sum(job.value for job in jobs), len(kept))
"""


class Runtimes(Recorded):
    """Stacks, threads and signals that are not the C library's."""

    def test_go(self):
        if not shutil.which("go"):
            self.skipTest("there is no Go")
        (self.folder / "main.go").write_text(GO)
        env = os.environ | {"GOCACHE": str(self.folder / "cache"), "GOPATH": str(self.folder), "CGO_CFLAGS": INCLUDE,
                            "CGO_ENABLED": "1", "GOFLAGS": "", "GO111MODULE": "off"}
        subprocess.run(["go", "build", "-o", "program", "main.go"], cwd=self.folder, env=env, check=True)
        self.record(self.folder / "program")
        self.assertEqual(self.events(), 20000)

    def test_rust(self):
        if not shutil.which("rustc"):
            self.skipTest("there is no Rust")
        (self.folder / "program.rs").write_text(RUST)
        (self.folder / "events.c").write_text(RUST_EVENTS)
        for command in (("gcc", "-O1", INCLUDE, "-c", "events.c"), ("ar", "rcs", "libevents.a", "events.o"),
                        ("rustc", "-L", ".", "-l", "static=events", "program.rs")):
            subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        self.record(self.folder / "program")
        self.assertEqual(self.events(), 8000)

    def test_greenlets(self):
        python = harness.python_with_torch()
        if not python or not works(python, "-c", "import gevent"):
            self.skipTest("there is no PyTorch with gevent")
        program = self.folder / "program.py"
        program.write_text(GREENLETS)
        self.record(python, program)
        self.assertEqual(self.events(), 1200)
        sites = harness.answer("peak", self.folder / "x.mp")["sites"]
        for site in sites:
            names = [frame["function"] for frame in site["stack"] if frame["file"] and frame["file"].endswith("program.py")]
            self.assertEqual(names, ["inner", "work"])


if __name__ == "__main__":
    harness.main()
