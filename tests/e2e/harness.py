"""Parts that the end-to-end tests share: finding the built program, running it, reading its answers."""

import functools
import glob
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted
from asserted import needs  # noqa: F401

BUILD = pathlib.Path(os.environ.get("MEMPROF_BUILD", os.getcwd())).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MEMPROF = os.environ.get("MEMPROF", str(BUILD / "memprof"))
# By default memprof with AddressSanitizer does not start if something is preloaded before its runtime.
SANITIZED = b"__asan_init" in pathlib.Path(MEMPROF).read_bytes()
if SANITIZED:
    os.environ["ASAN_OPTIONS"] = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
DATA = os.environ.get("MEMPROF_TEST_DATA")  # recordings by other tools
TIMEOUT = 240


def program(name):
    return str(BUILD / "tests" / "e2e" / "programs" / name)


def mpi_environment(folder):
    """Variables for mpirun on this machine, which allow root and any number of slots, and use no network. Leak checks
    are off, as Open MPI leaks at its end."""
    options = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated",
            "TMPDIR": str(folder), "ASAN_OPTIONS": options}


def torchrun():
    """The first words of a torchrun on one node, at a free port."""
    return ("-m", "torch.distributed.run", "--nnodes", "1", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0")


@functools.cache
def torch_of(python):
    """The version of an interpreter's torch, as "2.6.0"; "" without one. Nobody imports it, which takes a second."""
    return subprocess.run([python, "-c", "import importlib.metadata as m; print(m.version('torch'))"], capture_output=True,
                          text=True).stdout.strip()


def python_with_torch():
    """The interpreter for PyTorch programs: $MEMPROF_TORCH_PYTHON, else the first of the usual ones that has torch."""
    usual = (os.environ.get("MEMPROF_TORCH_PYTHON"), "/usr/bin/python3", shutil.which("python3"))
    return next((python for python in usual if python and shutil.which(python) and torch_of(python)), None)


def torch_version(python):
    """As (2, 6)."""
    return tuple(int(part) for part in torch_of(python).split(".")[:2])


SAY = "import os, sys; print(os.path.realpath(sys.executable), sys.implementation.name, *sys.version_info[:2])"


def interpreters():
    """The CPythons whose frames the recorder knows, one of each version."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = {}
    for name in ["python3", *(f"python3.{minor}" for minor in range(9, 15)),
                 *sorted(glob.glob(f"{pyenv}/versions/*/bin/python3")),
                 *filter(None, os.environ.get("MEMPROF_TEST_PYTHONS", "").split(":"))]:
        try:
            said = subprocess.run([name, "-c", SAY], capture_output=True, text=True, timeout=30)
        except OSError:
            continue
        if said.returncode:
            continue
        path, kind, major, minor = said.stdout.split()
        if kind == "cpython" and (3, 9) <= (int(major), int(minor)) <= (3, 14):
            found.setdefault((int(major), int(minor)), path)
    return found


def memprof(*arguments, **options):
    """Runs memprof to its end. The output is text unless `text` is False."""
    options = {"timeout": TIMEOUT, "stdin": subprocess.DEVNULL, "text": True, **options}
    asserted.skip_without_command(*arguments[:1])
    return subprocess.run([MEMPROF, *map(str, arguments)], capture_output=True, **options)


def record_whole(path, command, *options):
    """Records a command, and again if events were dropped, as happens on a busy machine. Returns the command's
    output."""
    for _ in range(5):
        result = memprof("snapshot", "--force", *options, "-o", path, "--", *command,
                         env=dict(os.environ, OMP_NUM_THREADS="1"))
        if result.returncode:
            raise AssertionError(f"memprof snapshot: status {result.returncode}: {result.stderr}")
        if "were dropped" not in result.stderr:
            break
    return result.stdout


def record_each(folder, programs, *options, how="snapshot", python="python3", modules=("torch",), **more):
    """Records programs as children of one process that imports `modules` once (each.py); each is a command's words behind
    `python`, and its own variables. Returns for each its path, exit status, output and stderr, and memprof's own stderr."""
    rows = []
    for words, variables in programs:
        rows.append({"argv": list(map(str, words)), "folder": tempfile.mkdtemp(dir=folder),
                     "variables": {name: str(value) for name, value in variables.items()}})
    path = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "programs.json"
    path.write_text(json.dumps(rows))
    result = memprof(how, *options, "-o", path.with_name("%p.mp"), "--", python, SOURCE / "tests" / "e2e" / "each.py", path,
                     *modules, timeout=TIMEOUT * len(rows), **more)
    ends = [line.split() for line in result.stdout.splitlines()]
    if (result.returncode, len(ends)) != (0, len(rows)):
        raise AssertionError(f"{python} each.py: status {result.returncode}: {result.stderr}")
    return [(path.with_name(f"{pid}.mp"), int(status), *((pathlib.Path(row["folder"]) / name).read_text()
                                                         for name in ("output", "said")), result.stderr)
            for row, (pid, status) in zip(rows, ends)]


def make_recording(path, kind, *size):
    """A small recording whose every answer is known (tests/unit/cli/make_recording.c)."""
    subprocess.run([BUILD / "tests/unit/cli/make_recording", path, kind, *map(str, size)], check=True,
                   stdin=subprocess.DEVNULL)


def answer(*arguments, status=0):
    """The JSON of a memprof command. `status`: the expected exit status, or a tuple of several."""
    result = memprof(*arguments, "--json")
    wanted = status if isinstance(status, tuple) else (status,)
    if result.returncode not in wanted:
        raise AssertionError(f"memprof {arguments}: status {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def first_child(pid):
    """Waits for the first child of a process, and returns its pid."""
    deadline = time.monotonic() + 60
    while True:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            found = children.read().split()
        if found or state_of(pid) == "Z" or time.monotonic() > deadline:
            return int(found[0])
        time.sleep(0.001)


def state_of(pid):
    """The kernel's letter for a process's state; Z also for a process that no longer exists."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def is_gone(pid):
    return state_of(pid) == "Z"


class TestCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memprof-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def track(self, path, track_id, status=0):
        tracks = {track["id"]: track for track in answer("info", path, status=status)["tracks"]}
        self.assertIn(track_id, tracks)
        return tracks[track_id]

    def wait_for(self, condition, else_say=None):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, else_say)
            time.sleep(0.001)


class Churning(TestCase):
    """Tests of programs/churn while it runs, recorded to `file`; its threads count their calls in `counters`."""

    threads = 3
    track_id = "cpu/app/churn"

    def start(self, *options, events=-1, pause_us=0):
        self.file, self.counters, self.program = self.folder / "run.mp", self.folder / "counters", None
        for path in self.folder.iterdir():
            path.unlink()
        self.collector = subprocess.Popen(
            [MEMPROF, "snapshot", "-o", str(self.file), *options, "--", program("churn"), str(self.counters),
             str(self.threads), str(events), str(pause_us)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.leave_nothing, self.collector)
        self.wait_for(lambda: sum(self.handed_over()), "the program did not start")
        self.program = first_child(self.collector.pid)

    def leave_nothing(self, collector):
        """Ends all processes, whatever the test's result."""
        collector.kill()
        try:
            if self.program:
                os.kill(self.program, signal.SIGKILL)
        except ProcessLookupError:
            pass
        collector.communicate()

    def handed_over(self):
        """The number of allocs and frees that were published."""
        try:
            data = self.counters.read_bytes()
        except FileNotFoundError:
            return 0, 0
        rows = [struct.unpack_from("<QQ", data, 64 * i) for i in range(1, len(data) // 64)]
        return sum(row[0] for row in rows), sum(row[1] for row in rows)

    def end(self):
        """Ends the program as a user would. Returns memprof's output."""
        os.kill(self.program, signal.SIGTERM)
        said = self.collector.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(self.collector.returncode, 128 + signal.SIGTERM, said)
        return said


def main():
    asserted.main()
