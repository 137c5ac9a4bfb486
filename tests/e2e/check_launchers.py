#!/usr/bin/env python3
"""Programs start other programs in different ways. Every process with events has a file of its own, named as the manual
says, with its own blocks. No file overwrites another."""

import os
import shutil
import socket
import textwrap

import harness

PYTHON = harness.python_with_torch()

# A worker makes as many blocks as its number, so that workers' files differ. Only what is about PyTorch starts it.
WORK = textwrap.dedent("""
    import ctypes, os, sys
    table = getattr(ctypes.CDLL(None), "memprof_api_v1", None)
    def work(number):
        if not table: return  # not recorded
        assert type(sys.meta_path[0]).__name__ == "_Finder", "memprof's sitecustomize was not run"
        table.restype = ctypes.POINTER(ctypes.c_void_p)
        pool = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p, ctypes.c_int)(table()[8])(b"work", -1)
        alloc = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)(table()[9])
        for block in range(10 + number): alloc(pool, (block + 1) << 12, 4000)
""")
TORCH_WORK = textwrap.dedent("""
    import os, torch
    def work(number):
        return [torch.empty(1000) for _ in range(10 + number)]
""")

LAUNCHER = textwrap.dedent("""
    import os, subprocess, sys
    ranks = int(sys.argv[1])
    workers = [subprocess.Popen([sys.executable, sys.argv[2], str(rank)],
                                env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)})
               for rank in range(ranks)]
    sys.exit(max(worker.wait() for worker in workers))
""")

KEEPS = 'kept = work(int(os.environ["RANK"]))\n'
RANK = WORK + KEEPS

MULTIPROCESSING = WORK + textwrap.dedent("""
    import multiprocessing, sys
    def worker(number):
        kept = work(number)
    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        kept = work(0)
        workers = [context.Process(target=worker, args=(number,)) for number in (1, 2)]
        for process in workers: process.start()
        for process in workers: process.join()
        sys.exit(max(process.exitcode for process in workers))
""")

SPAWNED = textwrap.dedent("""
    import os, sys
    pids = [os.posix_spawn(sys.executable, [sys.executable, sys.argv[1]], {**os.environ, "RANK": str(rank)})
            for rank in (1, 2)]
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
""")

# A program starts others with environments of their own: argv[1] says how, separated by commas.
NEW_ENVIRONMENT = WORK + textwrap.dedent("""
    import ctypes, subprocess, sys
    kept = work(0)
    command = sys.argv[2:]
    libc = ctypes.CDLL(None)
    libc.popen.restype = ctypes.c_void_p
    def as_c(texts): return (ctypes.c_char_p * (len(texts) + 1))(*(text.encode() for text in texts), None)
    def child(function, *arguments):
        pid = os.fork()
        if not pid: os._exit(function(*arguments) & 255)
        return pid
    started = []  # subprocess reaps ended children whose objects are gone
    def popen(*arguments, **options):
        started.append(subprocess.Popen(*arguments, **options))
        return started[-1].pid
    def cleared(function, *arguments):
        os.environ.clear()
        os.environ["RANK"] = rank
        return function(*arguments)
    shell = "unset LD_PRELOAD MEMPROF_SESSION MEMPROF_PRELOAD ASAN_OPTIONS; export RANK=%s; exec \\"$@\\""
    pids = []
    for number, how in enumerate(sys.argv[1].split(",")):
        rank = str(5 + number)
        new = {"PATH": os.environ["PATH"], "RANK": rank}
        path, all, line = command[0].encode(), as_c(command), " ".join(command)
        listed = as_c(["RANK=" + rank, "MEMPROF_SESSION=1;/of/another/machine"])
        pids.append({
            "popen": lambda: popen(command, env=new),
            "spawn": lambda: os.posix_spawn(command[0], command, new),
            "spawnp": lambda: os.posix_spawnp(command[0], command, new),
            "execve": lambda: child(os.execve, command[0], command, new),
            "file": lambda: child(os.execve, os.open(command[0], os.O_RDONLY), command, new),
            "at": lambda: child(libc.execveat, -100, path, all, listed, 0),
            "named": lambda: child(libc.execvpe, path, all, listed),
            "listed": lambda: child(libc.execle, path, *(c.encode() for c in command), None, listed),
            "raw": lambda: child(libc.syscall, 59, path, all, listed),
            "cleared": lambda: child(cleared, os.execv, command[0], command),
            "system": lambda: child(cleared, os.system, line),
            "piped": lambda: child(cleared, lambda: libc.pclose(ctypes.c_void_p(libc.popen(line.encode(), b"w")))),
            "shell": lambda: popen(["sh", "-c", shell % rank, "sh", *command]),
            "env": lambda: popen(["env", "-i", "RANK=" + rank, *command]),
        }[how]())
        print("child", pids[-1], flush=True)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
""")

# An engine that runs before memprof starts the program. It starts each worker with the variables that it gets.
ENGINE = textwrap.dedent("""
    import json, os, socket, subprocess, sys
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            with server.accept()[0] as connection, connection.makefile("rw") as file:
                told = json.loads(file.readline())
                print(subprocess.run(told["command"], env={**os.environ, **told["env_vars"]}).returncode, file=file)
""")

DRIVER = WORK + textwrap.dedent("""
    import importlib, json, socket, sys
    kept = work(0)
    module, _, hook = os.environ["RAY_RUNTIME_ENV_HOOK"].rpartition(".")
    told = getattr(importlib.import_module(module), hook)({"env_vars": {"PYTHONPATH": "/src", "RANK": "5"}})
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection, connection.makefile("rw") as file:
        print(json.dumps({**told, "command": sys.argv[2:]}), file=file, flush=True)
        sys.exit(int(file.readline()))
""")

# A stand-in for Dask's client: memprof follows modules and classes of these names alone.
CLIENT = textwrap.dedent("""
    import socket
    class Client:
        def __init__(self, address):
            self.scheduler = self
            self.address = address
            self.connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
""")

GIVES_WORK = WORK + textwrap.dedent("""
    import json, subprocess, sys
    if sys.argv[1] == "inside":
        engine = subprocess.Popen([sys.executable, sys.argv[2]], text=True, stdout=subprocess.PIPE)
        port = engine.stdout.readline().strip()
    else:
        port = sys.argv[2]
    if sys.argv[1] != "unseen": kept = work(0)
    import libmemprof
    from distributed.client import Client
    client = Client("tcp://127.0.0.1:" + port)
    told = libmemprof.environment() if sys.argv[1] == "worker" else {}
    with client.connection.makefile("rw") as file:
        print(json.dumps({"env_vars": told, "command": sys.argv[3:]}), file=file, flush=True)
        status = int(file.readline())
    if sys.argv[1] == "inside": engine.kill()
    sys.exit(status)
""")

HOLDS = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char *block = memset(malloc(8 << 20), 1, 8 << 20);
    sleep(2);
    return block[4096] - 1;
}
"""

# The program makes one tensor before the process group, so its file gets a name before the rank is known.
SPAWNED_RANKS = TORCH_WORK + textwrap.dedent("""
    import sys
    import torch.distributed as dist, torch.multiprocessing as mp
    def train(rank, ranks, port, early):
        torch.set_num_threads(1)
        kept = [torch.ones(10)] if early else []
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        kept += work(rank)
        dist.destroy_process_group()
    if __name__ == "__main__":
        mp.start_processes(train, (2, sys.argv[2], len(sys.argv) > 3), nprocs=2, start_method=sys.argv[1])
""")

LOADER = TORCH_WORK + textwrap.dedent("""
    from torch.utils.data import DataLoader, Dataset
    class Numbers(Dataset):
        def __len__(self): return 12
        def __getitem__(self, index): return torch.full((100,), float(index))
    if __name__ == "__main__":
        assert sum(len(batch) for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)) == 12
""")


class Launchers(harness.TestCase):
    def setUp(self):
        super().setUp()
        if not PYTHON:
            self.skipTest("no Python with torch")

    def script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def record(self, name, *command, status=0):
        result = harness.memprof("snapshot", "--follow", "all", "-o", self.folder / name, "--no-symbols", "--", PYTHON,
                                 *command)
        self.assertEqual(result.returncode, status, result.stderr)
        return {path.name: harness.answer("info", path) for path in sorted(self.folder.glob("*.mp"))}, result.stderr

    def check_apart(self, files):
        pids = [info["process"]["pid"] for info in files.values()]
        self.assertEqual(len(set(pids)), len(files), "two files of one process")
        for name, info in files.items():
            self.assertTrue(info["coverage"]["complete"], name)

    def allocs(self, info):
        return sum(track["allocs"] for track in info["tracks"] if track["id"] in ("cpu/torch", "cpu/app/work"))

    def test_ranks_of_a_launcher(self):
        worker = self.script("rank.py", RANK)
        files, _ = self.record("run.%r.mp", self.script("launch.py", LAUNCHER), "2", worker)
        self.assertEqual(set(files), {"run.0.mp", "run.1.mp"})  # the launcher has no events
        self.check_apart(files)
        for rank in range(2):
            self.assertEqual(self.allocs(files[f"run.{rank}.mp"]), 10 + rank)
            self.check_member(files[f"run.{rank}.mp"], rank=rank, local_rank=rank, world_size=2, node=None, role=None)

    def check_member(self, info, **wanted):
        self.assertEqual({key: info["process"][key] for key in wanted}, wanted)

    def test_mpi(self):
        mpirun = shutil.which("mpirun")
        if not mpirun or "Open MPI" not in harness.subprocess.run([mpirun, "--version"], capture_output=True,
                                                                  text=True).stdout:
            self.skipTest("no Open MPI")
        worker = self.script("rank.py", RANK.replace("RANK", "OMPI_COMM_WORLD_RANK"))
        result = harness.memprof("snapshot", "-o", self.folder / "run.%r.mp", "--no-symbols", "--", mpirun,
                                 "--allow-run-as-root", "--oversubscribe", "-n", "3", PYTHON, worker)
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in range(3):
            info = harness.answer("info", self.folder / f"run.{rank}.mp")
            self.assertEqual(self.allocs(info), 10 + rank)
            self.check_member(info, rank=rank, local_rank=rank, world_size=3, role=None)

    def test_names_from_the_environment(self):
        """A role may be any text; it is printed without control characters."""
        worker = self.script("rank.py", RANK)
        os.environ.update(RANK="3", ROLE_NAME="a\x1b[2Jb\nc\u202e", TORCHELASTIC_RUN_ID="night\tly", WORLD_SIZE="two")
        for name in ("RANK", "ROLE_NAME", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"):
            self.addCleanup(os.environ.pop, name)
        files, _ = self.record("run.%r.mp", worker)
        self.assertEqual(list(files), ["run.3.mp"])
        self.check_member(files["run.3.mp"], rank=3, world_size=None, role="a?[2Jb?c?", job="night?ly")
        text = harness.memprof("info", self.folder / "run.3.mp").stdout
        self.assertIn("a?[2Jb?c?, rank 3, job night?ly", text)
        harness.memprof("anonymize", self.folder / "run.3.mp", "-o", self.folder / "anonymous.mp")
        self.check_member(harness.answer("info", self.folder / "anonymous.mp"), rank=3, role="role 1", job=None)

    def test_torchrun(self):
        worker = self.script("rank.py", TORCH_WORK + KEEPS)
        # redirects, as PyTorch 1.13 under Python 3.11 cannot parse its default of no redirects
        files, _ = self.record("run.%r.mp", *harness.torchrun(), "--nproc_per_node", "2",
                               "--redirects", "1", "--tee", "1", worker)
        ranks = {name: info for name, info in files.items() if name in ("run.0.mp", "run.1.mp")}
        self.assertEqual(len(ranks), 2, files.keys())
        self.check_apart(files)
        for rank in range(2):
            self.assertEqual(self.allocs(ranks[f"run.{rank}.mp"]), 10 + rank)
            self.check_member(ranks[f"run.{rank}.mp"], rank=rank, local_rank=rank, world_size=2, node=0, role=None)

    def test_multiprocessing(self):
        script = self.script("workers.py", MULTIPROCESSING)
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method=method):
                for path in self.folder.glob("*.mp"):
                    path.unlink()
                files, _ = self.record("run.mp", script, method)
                self.assertEqual(len(files), 3)
                self.check_apart(files)
                self.assertEqual(sorted(self.allocs(info) for info in files.values()), [10, 11, 12])
                for name, info in files.items():
                    if name != "run.mp":
                        self.assertEqual(name, f"run.{info['process']['pid']}.mp")
                    self.check_member(info, rank=None, role="worker" if name != "run.mp" else None)
                    if method != "forkserver":  # whose children are the server's
                        self.check_member(info, parent=None if name == "run.mp" else
                                          files["run.mp"]["process"]["pid"])

    def test_posix_spawn(self):
        worker = self.script("rank.py", RANK)
        files, _ = self.record("run.mp", self.script("spawn.py", SPAWNED), worker)
        self.assertEqual(len(files), 2)
        self.check_apart(files)
        self.assertEqual(sorted(self.allocs(info) for info in files.values()), [11, 12])

    def test_environments_of_their_own(self):
        """Each child is recorded with the variables that it was given, and with memprof's modules."""
        program, worker = self.script("new.py", NEW_ENVIRONMENT), self.script("rank.py", RANK)
        ways = "popen,spawn,spawnp,execve,file,at,named,listed,cleared,system,piped,shell,env"
        files, said = self.record("run.%p.mp", program, ways, PYTHON, worker)
        self.assertIn("complete; 0 dropped", said)
        ranks = {info["process"]["rank"]: info for info in files.values()}
        self.assertEqual({ways.split(",")[rank - 5]: self.allocs(ranks[rank]) - rank for rank in ranks if rank is not None},
                         dict.fromkeys(ways.split(","), 10))
        for info in files.values():
            self.assertEqual(info["coverage"]["notes"], [])

    def test_programs_that_cannot_be_reached(self):
        """A note has number and name of each, and the recording is not complete."""
        program, holds = self.script("new.py", NEW_ENVIRONMENT), self.script("holds.c", HOLDS)
        cases = []
        for name, how, options, mode in (("fixed", "popen", ["-static"], 0o755), ("theirs", "popen", [], 0o4755),
                                         ("raw", "raw", [], 0o755)):
            built = harness.subprocess.run(["gcc", *options, "-o", self.folder / name, holds], capture_output=True)
            if built.returncode or name == "theirs" and os.geteuid(): continue
            (self.folder / name).chmod(mode)
            if name == "theirs":
                os.chown(self.folder / name, 65534, -1)
                (self.folder / name).chmod(mode)
            cases.append((name, how))
        self.assertIn(("raw", "raw"), cases)
        for name, how in cases:
            with self.subTest(name=name):
                done = harness.memprof("snapshot", "--strict", "-o", self.folder / "run.mp", "--force", "--", PYTHON,
                                       program, how, self.folder / name)
                pid = done.stdout.split()[1]
                self.assertIn(f"1 process could not be recorded (pid {pid} {name}): ", done.stderr)
                self.assertNotIn("complete", done.stderr)
                self.assertEqual(done.returncode, 4)
                coverage = harness.answer("info", self.folder / "run.mp", status=(0, 4))["coverage"]
                self.assertFalse(coverage["complete"])
                self.assertIn(f"(pid {pid} {name})", str(coverage))

    def test_an_engine_that_runs_already(self):
        """As with Ray, whose workers descend from a cluster that was there before."""
        self.script("own.py", "def hook(env): return {**env, 'env_vars': {**env['env_vars'], 'OWN': '1'}}")
        worker = self.script("rank.py", RANK + "assert os.environ['PYTHONPATH'].endswith(':/src')\n"
                             "assert os.environ['OWN'] == '1'\n")
        engine = harness.subprocess.Popen([PYTHON, self.script("engine.py", ENGINE)], text=True,
                                          stdout=harness.subprocess.PIPE)
        self.addCleanup(engine.communicate)
        self.addCleanup(engine.kill)
        os.environ.update(RAY_RUNTIME_ENV_HOOK="own.hook", PYTHONPATH=str(self.folder))
        self.addCleanup(os.environ.pop, "RAY_RUNTIME_ENV_HOOK")
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        files, said = self.record("run.%p.mp", self.script("driver.py", DRIVER), engine.stdout.readline().strip(),
                                  PYTHON, worker)
        self.assertIn("complete; 0 dropped", said)
        self.assertEqual(sorted(self.allocs(info) for info in files.values()), [10, 15])
        for info in files.values():
            self.assertEqual(info["coverage"]["notes"], [])

    @harness.needs("jobs")
    def test_workers_of_ray_have_its_names(self):
        """Ray names its processes after the call that runs, and ends them with status 1."""
        worker = self.script("rank.py", RANK + "import sys\nsys.exit(1)\n")
        line = " & ".join(f'(RANK=5 exec -a "ray::Worker.{call}" {PYTHON} {worker})' for call in ("__init__", "work"))
        result = harness.memprof("snapshot", "--follow", "all", "-o", f"{self.folder}/", "--", "bash", "-c", line + "; wait")
        paths = sorted(self.folder.glob("rank5-ray--Worker-*.mp"))
        self.assertEqual(len(paths), 2, result.stderr)
        self.assertNotIn("exit 1", result.stderr)
        self.assertIn("1 Ray worker (ray::Worker)", result.stderr)
        self.assertIn(f"Next: memprof report {self.folder}/\n", result.stderr)
        for path in paths:
            self.check_member(harness.answer("info", path), role="Ray worker")
        self.assertEqual([group["program"] for group in harness.answer("peak", self.folder)["groups"]], ["ray::Worker"])

    def test_work_that_goes_elsewhere(self):
        """A note names tasks in processes that memprof did not start, and the recording is not complete."""
        (self.folder / "distributed").mkdir()
        self.script("distributed/__init__.py", "")
        self.script("distributed/client.py", CLIENT)
        engine, worker = self.script("engine.py", ENGINE), self.script("rank.py", "import os\nos.environ['RANK'] = '5'\n" + RANK)
        running = harness.subprocess.Popen([PYTHON, engine], text=True, stdout=harness.subprocess.PIPE)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        port = running.stdout.readline().strip()
        os.environ["PYTHONPATH"] = str(self.folder)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        for how, where, lost in (("lost", port, True), ("unseen", port, True), ("worker", port, False),
                                 ("inside", engine, False)):
            with self.subTest(how=how):
                done = harness.memprof("snapshot", "--strict", "--follow", "all", "-o", self.folder / "run.%p.mp", "--", PYTHON,
                                       self.script("gives.py", GIVES_WORK), how, where, PYTHON, worker)
                said = f"work went to dask at 127.0.0.1:{port}: its tasks ran in processes that memprof did not start"
                self.assertEqual(said in done.stderr, lost, done.stderr)
                self.assertEqual("complete; 0 dropped" in done.stderr, not lost, done.stderr)
                self.assertEqual(done.returncode, 4 if lost else 0, done.stderr)
                files = sorted(self.folder.glob("*.mp"))
                self.assertEqual(len(files), {"lost": 1, "unseen": 0, "worker": 2, "inside": 2}[how])
                for path in files:
                    coverage = harness.answer("info", path, status=(0, 4))["coverage"]
                    self.assertEqual(coverage["complete"], not lost)
                    self.assertEqual(said in str(coverage), lost)
                    path.unlink()

    def test_variables_for_a_worker(self):
        """--print-env, inside a recording and with --pid of a recorded program or of memprof."""
        worker = self.script("rank.py", "import os\nos.environ['RANK'] = '5'\n" + RANK)
        started = harness.subprocess.Popen([harness.MEMPROF, "snapshot", "--wait", "-o", self.folder / "run.%p.mp", "--", PYTHON,
                                            "-c", WORK + "kept = work(0)\nprint(os.getpid(), flush=True)\ninput()"],
                                           text=True, stdin=harness.subprocess.PIPE, stdout=harness.subprocess.PIPE,
                                           stderr=harness.subprocess.PIPE)
        self.addCleanup(started.kill)
        pids = (started.stdout.readline().strip(), started.pid)
        told = [harness.memprof("snapshot", "--print-env", "--pid", pid) for pid in pids]
        self.assertEqual(told[0].stdout, told[1].stdout)
        variables = dict(line.split("=", 1) for line in told[0].stdout.splitlines())
        self.assertEqual(harness.subprocess.run([PYTHON, worker], env={"PATH": os.environ["PATH"], "PYTHONPATH": "/src", **variables}).returncode, 0)
        said = started.communicate("\n")[1]
        self.assertIn("2 processes, ", said)
        self.assertEqual(sorted(self.allocs(harness.answer("info", path)) for path in self.folder.glob("*.mp")), [10, 15])
        inside = harness.memprof("snapshot", "-o", self.folder / "in.mp", "--", harness.MEMPROF, "snapshot", "--print-env")
        self.assertEqual({line.partition("=")[0] for line in inside.stdout.splitlines()}, set(variables))
        outside = harness.memprof("snapshot", "--print-env")
        self.assertEqual((outside.returncode, outside.stdout), (1, ""))

    @harness.needs("jobs")
    def test_a_launcher_leaves_no_verdict_open(self):
        """It keeps nothing and marks no steps; a rank with few steps still counts."""
        program = self.script("new.py", NEW_ENVIRONMENT.replace(WORK, TORCH_WORK))
        worker = self.script("train.py", textwrap.dedent("""
            import sys, torch
            model = torch.nn.Linear(8, 8); optimizer = torch.optim.SGD(model.parameters(), lr=.1)
            for _ in range(int(sys.argv[1])):
                optimizer.zero_grad(); model(torch.ones(4, 8)).sum().backward(); optimizer.step()
        """))
        for steps, verdict in (("40", "clean"), ("3", "unknown")):
            with self.subTest(steps=steps):
                files, _ = self.record("run.%p.mp", program, "popen", PYTHON, worker, steps)
                self.assertEqual(len(files), 2)
                paths = [self.folder / name for name in files]
                self.assertEqual(harness.answer("leaks", *paths, status=(0, 4))["verdict"], verdict)
                said = harness.memprof("leaks", *paths).stdout
                self.assertEqual("not judged: 1 process" in said, verdict == "clean")
                for path in paths:
                    path.unlink()

    def test_a_python_path_of_the_program_s_own(self):
        """A script sets PYTHONPATH, as in `PYTHONPATH=src:. torchrun`; PyTorch is asked as ever."""
        show = self.script("show.py", TORCH_WORK + "import sys\nkept = work(0)\nprint(sys.path, 'libmemprof_torch' in sys.modules)")
        for line in ("PYTHONPATH=/src:. ", "unset PYTHONPATH; ", "PYTHONPATH= ", "PYTHONPATH=/src:$PYTHONPATH "):
            with self.subTest(line=line):
                done = harness.memprof("snapshot", "-o", self.folder / "run.mp", "--force", "--", "sh", "-c",
                                       f"{line}{PYTHON} {show}")
                self.assertIn("True", done.stdout)
                self.assertEqual("'/src'" in done.stdout, "/src" in line)
                self.assertEqual(harness.answer("info", self.folder / "run.mp")["coverage"]["notes"], [])

    def test_workers_of_a_data_loader(self):
        files, _ = self.record("run.%p.mp", self.script("loader.py", LOADER))
        self.assertEqual(len(files), 3)
        self.check_apart(files)
        for name, info in files.items():
            self.assertEqual(name, f"run.{info['process']['pid']}.mp")
        self.assertEqual(sorted(info["process"]["role"] or "" for info in files.values()), ["", *["loader worker"] * 2])
        for info in files.values():
            if info["process"]["role"]:  # each batch is a step
                self.assertEqual(info["steps"], {"count": 3, "source": "torch"})

    @harness.needs("jobs")
    def test_ranks_of_spawn(self):
        """They know their rank as an argument alone. A name has it if nothing was recorded before the process group."""
        program = self.script("spawn.py", SPAWNED_RANKS)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        for how, prefix in ((("spawn",), "rank"), (("fork", "early"), "worker")):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            files, said = self.record("%n.mp", program, how[0], port, *how[1:])
            self.assertEqual(len(files), 2)
            self.check_apart(files)
            self.assertTrue(all(name.startswith(prefix) for name in files), files)
            ranks = {info["process"]["rank"]: info for info in files.values()}
            for rank in (0, 1):
                self.check_member(ranks[rank], world_size=2, role=None)
                self.assertGreaterEqual(self.allocs(ranks[rank]), 10 + rank)
            self.assertIn(" of 2 (", said)
            self.assertIn("1 more rank", said)
            self.assertIn("2 ranks of ", harness.memprof("report", *(self.folder / name for name in files)).stdout)
            name, = (name for name, info in files.items() if info is ranks[1])
            harness.memprof("anonymize", self.folder / name, "-o", self.folder / "anonymous")
            self.check_member(harness.answer("info", self.folder / "anonymous"), rank=1, world_size=2, role=None)
            for each in self.folder.glob("*.mp"):
                each.unlink()
            (self.folder / "anonymous").unlink()

    def test_host_and_time(self):
        worker = self.script("rank.py", RANK)
        os.environ["RANK"] = "7"
        self.addCleanup(os.environ.pop, "RANK")
        files, _ = self.record("%h-%r-%t-%%.mp", worker)
        (name,) = files
        self.assertRegex(name, rf"^{socket.gethostname()}-7-\d{{8}}-\d{{6}}-%\.mp$")

    def test_many_children_are_told_in_few_lines(self):
        result = harness.memprof("snapshot", "-o", self.folder / "run.mp", "--", harness.program("guest"), "children",
                                 "40", "5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(list(self.folder.glob("*.mp"))), 41)
        self.assertIn("41 processes", result.stderr)
        self.assertIn("40 forked children", result.stderr)
        self.assertLess(len(result.stderr.splitlines()), 6)


if __name__ == "__main__":
    harness.main()
