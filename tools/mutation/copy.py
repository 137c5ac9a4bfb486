"""The private copy of the tree, its two builds, and running a test in one of them."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

# Tests of the tree as a whole, and benches, say nothing about a small change.
NEVER = ("tests/tools/", "tests/bench/")
# Compile quickly, and trap on undefined behaviour.
CFLAGS = ("-g0 -O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error "
          "-Werror=int-conversion -Werror=incompatible-pointer-types -Werror=implicit-function-declaration")
SANITIZED_CFLAGS = "-g0 -O1"


def used_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end_session(leader):
    """Ends processes that a test left behind, which would slow down the next test. Check gives each test its own
    process group, so only the session shows which processes belong together."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_bytes().rpartition(b")")[2].split()[3])  # a name may be any bytes
            if session == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it ended meanwhile


class Copy:
    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        # build/ is inside of the tree, as with `tools/build`, so that ccache finds the objects of the working tree's
        # own build.
        self.tree, self.build, self.covered = folder / "tree", folder / "tree/build", folder / "tree/build-coverage"
        self.sanitized = folder / "tree/build-sanitized"
        self.log = folder / "log"

    def call(self, *command, cwd=None, **options):
        """True if a command succeeded. Its output is appended to the log."""
        with open(self.log, "ab") as log:
            return subprocess.run(list(map(str, command)), cwd=cwd, stdout=log, stderr=log, check=False, **options).returncode == 0

    def follow(self):
        """Makes the copy equal to the working tree. Unchanged files keep their times."""
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self.source,
                                capture_output=True, check=True).stdout.decode().split("\0")
        wanted = {name for name in listed if name and (self.source / name).is_file()}
        known = self.folder / "files"
        for name in set(known.read_text().split("\n") if known.exists() else []) - wanted:
            (self.tree / name).unlink(missing_ok=True)
        build_changed = not (self.tree / "configure").exists()
        for name in wanted:
            old, new = self.tree / name, self.source / name
            if not old.exists() or old.read_bytes() != new.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(new, old)
                shutil.copymode(new, old)
                build_changed |= name.endswith((".am", ".ac", ".m4", "Makefile.inc"))
        known.write_text("\n".join(sorted(wanted)))
        if build_changed and not self.call("autoreconf", "-fi", cwd=self.tree):
            raise SystemExit(f"mutate: autoreconf failed: {self.log}")

    def configure(self, build, *options):
        build.mkdir(parents=True, exist_ok=True)
        made = build / "config.status"
        if not made.exists() or made.stat().st_mtime < (self.tree / "configure").stat().st_mtime:
            quick = next((name for name in ("lld", "gold") if shutil.which(f"ld.{name}")), None)
            linker = [f"LDFLAGS=-fuse-ld={quick}"] if quick else []
            if not self.call("../configure", *linker, *options, cwd=build):
                raise SystemExit(f"mutate: configure failed: {self.log}")

    def make(self, build, *targets, timeout=600, jobs=1):
        try:
            return self.call("make", "-s", f"-j{jobs}", *targets, cwd=build, timeout=timeout)
        except subprocess.TimeoutExpired:
            return False

    def make_all(self, build, *settings):
        """Builds everything, with the programs that tests need."""
        if not self.make(build, *settings, "check", "TESTS=", timeout=3600, jobs=os.cpu_count()):
            raise SystemExit(f"mutate: the copy does not build: {self.log}")

    def sanitized_tests(self):
        """The Check programs that the test command runs under AddressSanitizer. Builds everything there that they need,
        except the programs themselves."""
        if not hasattr(self, "under_sanitizers"):
            self.configure(self.sanitized, "--enable-asan", "--enable-ubsan", f"CFLAGS={SANITIZED_CFLAGS}")
            self.under_sanitizers = set(self.variable("SANITIZED_TESTS")) & set(self.variable("check_PROGRAMS"))
        return self.under_sanitizers

    def variable(self, name):
        """A variable of the Makefile, as words."""
        rule = f"include Makefile\nmutate-show:;@echo $({name})\n"
        said = subprocess.run(["make", "-s", "-f", "-", "mutate-show"], input=rule, cwd=self.build, capture_output=True,
                              text=True, check=True)
        return said.stdout.split()

    def tests(self):
        return [t for t in self.variable("TESTS") if not t.startswith(NEVER)]

    def needs(self, test):
        """Targets that must be made before a test runs. We assume that a script runs all programs whose names are in
        it, or in a module in its folder."""
        if not hasattr(self, "programs"):
            self.programs = self.variable("check_PROGRAMS") + [p for p in self.variable("check_DATA") if p.startswith("tests/fuzz/")]
            self.all_tests = set(self.variable("TESTS"))
        if test in self.programs:
            return [test]
        words = set()
        for path in [self.tree / test, *(self.tree / test).parent.glob("[a-z]*.py")]:
            if path.exists() and (path == self.tree / test or not path.name.startswith(("check_", "test_"))):
                words |= set(re.findall(r"\w+", path.read_text()))
        if "replay_" in words:
            words |= {pathlib.PurePath(p).name for p in self.programs if "/replay_" in p}
        named = [p for p in self.programs if pathlib.PurePath(p).name in words and p not in self.all_tests]
        return ["all", *named]

    def run(self, build, test, timeout, whole=False, **more):
        """(result, wall seconds, processor seconds). The result is "passed", "failed", "skipped" or "hung". With
        `whole` false the test stops at the first case that fails."""
        where = build / test
        command = [str(where if where.exists() else self.tree / test)]
        if not whole and test.endswith(".py") and "unittest" in (self.tree / test).read_text():
            command.append("--failfast")
        environment = {**os.environ, "PYTHON3": self.variable_once("PYTHON3"), "CC": self.variable_once("CC"),
                       "srcdir": os.path.relpath(self.tree, build), "PYTHONDONTWRITEBYTECODE": "1", **more}
        began, used = time.monotonic(), used_by_children()
        with open(self.log, "ab") as log:
            process = subprocess.Popen(command, cwd=build, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                       start_new_session=True)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                status = None
            end_session(process.pid)
            process.wait()
        word = "hung" if status is None else {0: "passed", 77: "skipped"}.get(status, "failed")
        return word, time.monotonic() - began, used_by_children() - used

    def variable_once(self, name):
        if not hasattr(self, "variables"):
            self.variables = {}
        if name not in self.variables:
            self.variables[name] = " ".join(self.variable(name))
        return self.variables[name]
