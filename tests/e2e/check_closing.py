#!/usr/bin/env python3
"""The last lines about a tree of processes, and which processes get a file. Compared with the programs' output, the
files, and the wait status of each process."""

import json
import os
import re
import textwrap
from unittest import mock

import harness

PYTHON = harness.python_with_torch()

# Forks. Each child does its task; the parent prints the child's pid and wait status.
SERVER = textwrap.dedent("""
    import json, os, signal, sys, time, torch
    kept = torch.ones(2 << 20, dtype=torch.uint8)
    def held(mib): return torch.ones(int(mib * (1 << 20)), dtype=torch.uint8)
    def leak():
        kept = []
        for step in range(60):
            work = torch.ones(3000)
            kept.append(torch.ones(500))
            optimizer.step()
    def refuse():
        try:
            torch.ones(1 << 60, dtype=torch.uint8)
        except RuntimeError:
            os._exit(9)
    parameter = torch.nn.Parameter(torch.ones(8))
    parameter.grad = torch.ones(8)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    ended = {}
    for what in sys.argv[1:]:
        pid = os.fork()
        if not pid:
            exec(what)
            os._exit(0)
        ended[pid] = os.waitpid(pid, 0)[1]
    print(json.dumps(ended))
""")

RANKS = textwrap.dedent("""
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    held = torch.ones((rank + 1) << 20, dtype=torch.uint8)
    dist.barrier()
""")

LOADER = textwrap.dedent("""
    import sys, torch
    from torch.utils.data import DataLoader, Dataset
    class Numbers(Dataset):
        def __len__(self): return 16
        def __getitem__(self, index): return torch.full((int(sys.argv[1]),), float(index))
    if __name__ == "__main__":
        model = torch.ones(1 << 22)
        assert sum(len(batch) for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)) == 16
""")


class Closing(harness.TestCase):
    def setUp(self):
        super().setUp()
        if not PYTHON:
            self.skipTest("no Python with torch")

    def script(self, text):
        path = self.folder / "program.py"
        path.write_text(text)
        return path

    def run_in(self, *arguments, output="run.mp", options=(), status=0):
        for path in self.folder.glob("**/*.mp"):
            path.unlink()
        result = harness.memprof("snapshot", "-o", output, *options, "--", PYTHON, *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        self.lines = [line.removeprefix("memprof: ") for line in result.stderr.splitlines() if line.startswith("memprof: ")]
        self.said = "\n".join(self.lines)
        return result

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob("**/*.mp"))

    def serve(self, *children, **more):
        result = self.run_in(self.script(SERVER), *children, **more)
        return {int(pid): status for pid, status in json.loads(result.stdout.splitlines()[-1]).items()}

    def test_small_children_leave_no_file_and_are_counted(self):
        ended = self.serve(*["small = held(0.01)"] * 5)
        self.assertEqual(len(ended), 5)
        self.assertEqual(self.files(), ["run.mp"])
        self.assertIn("run.mp  6 processes, ", self.lines[0])
        self.assertRegex(self.said, r"no file of 5 forked children, \d.* (KiB|B) each at most \(below 1.00 MiB.*--follow all")
        self.assertEqual(self.lines[-1], "complete; 0 dropped.   Next: memprof report run.mp")
        notes = harness.answer("info", self.folder / "run.mp")["coverage"]["notes"]
        self.assertEqual(sum("5 forked children that this process started left no file: " in note for note in notes), 1)

    def test_all_are_kept_where_that_is_asked_for(self):
        for options, count in ((("--follow", "all"), 4), (("--follow", "64KiB"), 2), (("--follow", "no"), 1),
                               (("--follow", "4KiB"), 4)):
            with self.subTest(options=options):
                ended = self.serve("small = held(0.01)", "small = held(0.02)", "more = held(0.3)", options=options)
                self.assertEqual(len(self.files()), count, self.said)
                for name in self.files()[:-1]:
                    self.assertIn(int(name.split(".")[1]), ended)

    def test_a_name_with_the_process_in_it_asks_for_all(self):
        for output, options, count in (("%p.mp", (), 3), ("%%p-%p.mp", (), 3), ("%%p.mp", (), 1),
                                       ("%p.mp", ("--follow", "yes"), 1)):
            with self.subTest(output=output, options=options):
                self.serve("small = held(0.01)", "small = held(0.02)", output=output, options=options)
                self.assertEqual(len(self.files()), count, self.said)

    def test_what_ended_badly_is_kept_and_named(self):
        """Even a small process that died or failed gets a file: its memory is of interest."""
        bad = {"os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV", "os.abort()": "killed by SIGABRT", "os._exit(3)": "exit 3",
               "refuse()": "exit 9, memory ran out", "os.kill(os.getpid(), signal.SIGKILL)": "killed by SIGKILL"}
        children = [f"small = held(0.01); {end}" for end in bad]
        ended = self.serve("small = held(0.01)", *children, "small = held(0.01)")
        pids = [pid for pid in ended][1:-1]
        self.assertEqual([name for name in self.files() if ".oom." not in name],
                         sorted(["run.mp", *(f"run.{pid}.mp" for pid in pids)]))
        for pid, words in zip(pids, bad.values()):
            self.assertIn(f"forked child {pid}: {words}.   See: memprof report run.{pid}.mp", self.said)
            self.assertEqual(harness.answer("info", self.folder / f"run.{pid}.mp")["process"]["exit"],
                             words.split(",")[0])
            self.assertEqual(words.startswith("killed"), os.WIFSIGNALED(ended[pid]))
        self.assertIn("no file of 2 forked children", self.said)

    def test_many_that_end_alike_are_one_line(self):
        ended = self.serve(*["small = held(0.01); os._exit(5)"] * 12)
        self.assertEqual(len(self.files()), 13)
        self.assertRegex(self.said, rf"12 forked children: exit 5\.   See: memprof report run\.({'|'.join(map(str, ended))})\.mp")
        self.assertLess(len(self.lines), 7)
        self.serve(*["small = held(0.01); os._exit(5)"] * 3, options=("--verbose",))
        for name in self.files():
            self.assertRegex(self.said, rf"(?m)^{re.escape(name)}  \S+ events")

    def test_a_leak_in_a_small_child_is_kept_and_named(self):
        (pid,) = self.serve("leak()")
        self.assertEqual(self.files(), [f"run.{pid}.mp", "run.mp"], self.said)
        self.assertIn(f"forked child {pid}: 1 site keeps growing.   See: memprof leaks run.{pid}.mp", self.said)
        self.assertEqual(harness.answer("leaks", self.folder / f"run.{pid}.mp")["verdict"], "leak")

    def test_hundreds_of_short_children(self):
        self.serve(*["small = held(0.001)"] * 150)
        self.assertEqual(self.files(), ["run.mp"])
        self.assertIn("151 processes", self.lines[0])
        self.assertIn("no file of 150 forked children", self.said)

    def test_loader_workers(self):
        self.run_in(self.script(LOADER), "100")
        self.assertEqual(self.files(), ["run.mp"])
        self.assertIn("main (program.py)  cpu/torch peak 16.0 MiB", self.said)
        self.assertIn("no file of 2 loader workers", self.said)
        self.run_in(self.script(LOADER), "400000")
        self.assertEqual(len(self.files()), 3)
        self.assertIn("run.mp, run.*.mp  3 processes", self.lines[0])
        self.assertRegex(self.said, r"others  2 loader workers, \d.* MiB each at most")
        self.assertNotIn("no file", self.said)

    def test_ranks_in_a_folder(self):
        launch = (*harness.torchrun(), "--nproc_per_node", "4", "--redirects", "1", "--tee", "1",
                  self.script(RANKS))
        self.run_in(*launch, output="job/")
        self.assertEqual(self.files(), [f"job/rank{rank}.mp" for rank in range(4)])
        for rank in range(4):
            info = harness.answer("info", self.folder / f"job/rank{rank}.mp")["process"]
            self.assertEqual([info[key] for key in ("rank", "local_rank", "world_size", "node")], [rank, rank, 4, 0])
        self.assertRegex(self.lines[0], r"^job/  4 processes, ")
        self.assertIn("rank 3 of 4 (program.py)  cpu/torch peak 4.", self.said)
        self.assertRegex(self.said, r"others  3 more ranks, 3\.\d+ MiB each at most")
        self.assertEqual(self.lines[-1], "complete; 0 dropped.   Next: memprof report job/")
        again = harness.memprof("snapshot", "-o", "job", "--", "true", cwd=self.folder)
        self.assertEqual((again.returncode, "already has recordings" in again.stderr), (1, True))
        self.assertEqual(len(self.files()), 4)

    def test_programs_that_a_rank_starts_are_no_ranks(self):
        program = self.script(textwrap.dedent("""
            import os, subprocess, sys, torch
            kept = torch.ones(1 << 20)
            for _ in range(2): subprocess.run([sys.executable, "-c", "import torch; few = torch.ones(16)"], check=True)
        """))
        with mock.patch.dict(os.environ, RANK="0", WORLD_SIZE="4"):
            self.run_in(program, output="job/")
        self.assertEqual(self.files(), ["job/rank0.mp"])
        self.assertRegex(self.said, r"no file of 2 processes \(.*\), 64 B each at most")

    def test_a_command_that_runs_itself_as_a_rank(self):
        self.run_in(self.script(textwrap.dedent("""
            import os, subprocess, sys, torch
            kept = torch.ones(1 << 20)
            if "RANK" not in os.environ:
                subprocess.run([sys.executable, *sys.argv], env={**os.environ, "RANK": "1", "WORLD_SIZE": "2"}, check=True)
        """)), output="job/")
        self.assertEqual(len(self.files()), 2)
        self.assertIn("job/rank1.mp", self.files())

    def test_threads_of_a_pool_are_no_pool_workers(self):
        program = self.script("import torch\nfrom multiprocessing.pool import ThreadPool\n"
                              "kept = ThreadPool(2).map(torch.ones, [100, 200])\n")
        self.run_in(program)
        self.assertIsNone(harness.answer("info", self.folder / "run.mp")["process"]["role"])

    def test_a_folder_that_goes_away(self):
        gone = self.folder / "gone"
        gone.mkdir()
        result = harness.memprof("snapshot", "-o", gone / "run.%p.mp", "--", "sh", "-c",
                                 f"rm -rf {gone}; {harness.program('cycles')} & {harness.program('cycles')}; wait; exit 3")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertNotIn("Next:", result.stderr)
        self.assertIn(str(gone), result.stderr)

    def test_folders_that_cannot_be(self):
        (self.folder / "file").write_text("")
        for output, words in (("no/such/", "cannot make the folder"), ("file/", "")):
            result = harness.memprof("snapshot", "-o", output, "--", "touch", "started", cwd=self.folder)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertFalse((self.folder / "started").exists())


if __name__ == "__main__":
    harness.main()
