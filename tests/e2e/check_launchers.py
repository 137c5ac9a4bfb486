#!/usr/bin/env python3
"""Programs that start others, each in its own way: every process with events has a file of its own by the naming of the
manual, with its own blocks in it, and none overwrites another."""

import os
import socket
import textwrap

import harness

PYTHON = harness.python_with_torch()

# What a worker does: as many blocks as its number says, so that its file can be told from others'.
WORK = textwrap.dedent("""
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

RANK = WORK + textwrap.dedent("""
    kept = work(int(os.environ["RANK"]))
""")

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

LOADER = WORK + textwrap.dedent("""
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
        result = harness.memprof("snapshot", "-o", self.folder / name, "--no-symbols", "--", PYTHON, *command)
        self.assertEqual(result.returncode, status, result.stderr)
        return {path.name: harness.answer("info", path) for path in sorted(self.folder.glob("*.mp"))}, result.stderr

    def check_apart(self, files):
        pids = [info["process"]["pid"] for info in files.values()]
        self.assertEqual(len(set(pids)), len(files), "two files of one process")
        for name, info in files.items():
            self.assertTrue(info["coverage"]["complete"], name)

    def allocs(self, info):
        return sum(track["allocs"] for track in info["tracks"] if track["id"] == "cpu/torch")

    def test_ranks_of_a_launcher(self):
        worker = self.script("rank.py", RANK)
        files, _ = self.record("run.%r.mp", self.script("launch.py", LAUNCHER), "2", worker)
        self.assertEqual(set(files), {"run.0.mp", "run.1.mp"})  # the launcher has no events
        self.check_apart(files)
        for rank in range(2):
            self.assertEqual(self.allocs(files[f"run.{rank}.mp"]), 10 + rank)

    def test_torchrun(self):
        worker = self.script("rank.py", RANK)
        probe = ("from torch.distributed.elastic.multiprocessing.api import Std, to_map; "
                 "to_map(Std.from_str('0'), 2)")  # what fails of PyTorch 1.13 under Python 3.11
        if harness.subprocess.run([PYTHON, "-c", probe], capture_output=True).returncode:
            self.skipTest("torch.distributed.run does not run here, recorded or not")
        files, _ = self.record("run.%r.mp", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                               worker)
        ranks = {name: info for name, info in files.items() if name in ("run.0.mp", "run.1.mp")}
        self.assertEqual(len(ranks), 2, files.keys())
        self.check_apart(files)
        for rank in range(2):
            self.assertEqual(self.allocs(ranks[f"run.{rank}.mp"]), 10 + rank)

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

    def test_posix_spawn(self):
        worker = self.script("rank.py", RANK)
        files, _ = self.record("run.mp", self.script("spawn.py", SPAWNED), worker)
        self.assertEqual(len(files), 2)
        self.check_apart(files)
        self.assertEqual(sorted(self.allocs(info) for info in files.values()), [11, 12])

    def test_workers_of_a_data_loader(self):
        files, _ = self.record("run.%p.mp", self.script("loader.py", LOADER))
        self.assertEqual(len(files), 3)
        self.check_apart(files)
        for name, info in files.items():
            self.assertEqual(name, f"run.{info['process']['pid']}.mp")

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
        self.assertIn("more recordings beside it", result.stderr)
        self.assertLess(len(result.stderr.splitlines()), 45)


if __name__ == "__main__":
    harness.main()
