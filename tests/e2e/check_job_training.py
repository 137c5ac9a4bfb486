#!/usr/bin/env python3
"""A real training of four processes over gloo, with DataLoader workers, recorded and read as one job. A leak in one
rank, or in a worker, comes first. The merge by mpirun equals the serial merge."""

import json
import os
import pathlib
import shutil
import subprocess
import textwrap
import time
import unittest

import harness

PYTHON = harness.python_with_torch()

LAUNCHER = textwrap.dedent("""
    import os, socket, subprocess, sys
    ranks = int(sys.argv[1])
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}
    probe.close()
    workers = [subprocess.Popen([sys.executable, *sys.argv[2:]],
                                env={**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                     "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}) for rank in range(ranks)]
    sys.exit(max(worker.wait() for worker in workers))
""")

TRAIN = textwrap.dedent("""
    import sys
    import torch, torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset

    leaking, workers = sys.argv[1], int(sys.argv[2])
    kept = []

    class Numbers(Dataset):
        def __len__(self): return int(sys.argv[3])
        def __getitem__(self, index):
            if leaking == "worker" and dist.get_rank() == 1: kept.append(torch.ones(50000))
            return torch.full((1000,), float(index))

    def main():
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = torch.zeros(4 << 20)  # beside it, it does not matter whether a thread of gloo still holds a bucket
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1000, 50))
        optimizer = torch.optim.SGD(model.parameters(), lr=.1)
        for batch in DataLoader(Numbers(), batch_size=2, num_workers=workers):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if leaking == str(dist.get_rank()): kept.append(torch.zeros(100000))
        dist.destroy_process_group()

    main()
""")


@unittest.skipUnless(PYTHON, "no Python with torch")
class Training(harness.TestCase):
    def record(self, *options, leaking="none", workers=0, items=40):
        (self.folder / "launch.py").write_text(LAUNCHER)
        (self.folder / "train.py").write_text(TRAIN)
        run = self.folder / "run"
        run.mkdir()
        result = harness.memprof("snapshot", "--follow", "all", "-o", run / "train.mp", "--no-symbols", *options, "--", PYTHON,
                                 self.folder / "launch.py", 4, self.folder / "train.py", leaking, workers, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def ranks_of(self, told):
        return [process["rank"] for process in told["processes"] if not process["helper"] and process["peak_bytes"]]

    def test_one_rank_of_four_leaks(self):
        run = self.record("--holders", leaking="2")
        told = harness.answer("leaks", run)
        self.assertRegex(told["findings"][0]["holder"], r"^kept\[\*\]")
        self.assertIn(f"held by {told['findings'][0]['holder']}\n", harness.memprof("leaks", run).stdout)
        self.assertEqual(self.ranks_of(told), [0, 1, 2, 3])
        self.assertEqual({process["rank"]: process["verdict"] for process in told["processes"]},
                         {0: "clean", 1: "clean", 2: "leak", 3: "clean"})
        finding = told["findings"][0]
        self.assertEqual(told["processes"][finding["process"]]["rank"], 2)
        # the program keeps 100 000 floats per step
        self.assertAlmostEqual(finding["bytes_per_step"], 400000, delta=4000)
        self.assertTrue(any((frame["file"] or "").endswith("train.py") for frame in finding["stack"]))
        text = harness.memprof("leaks", "--fail", run)
        self.assertEqual(text.returncode, 3)
        self.assertTrue(text.stdout.startswith("leak: rank 2 keeps growing"), text.stdout)
        (outlier,) = harness.answer("peak", run)["out_of_line"]
        self.assertEqual(told["processes"][outlier["process"]]["rank"], 2)

    def test_all_ranks_are_alike(self):
        run = self.record()
        told = harness.answer("report", run)
        self.assertEqual(self.ranks_of(told), [0, 1, 2, 3])
        self.assertEqual(told["peak"]["out_of_line"], [])
        self.assertEqual(told["leaks"]["verdict"], "clean")

    def test_a_worker_of_a_loader_leaks(self):
        run = self.record(leaking="worker", workers=1, items=400)
        told = harness.answer("leaks", run)
        helpers = [process for process in told["processes"] if process["helper"]]
        self.assertEqual(sorted(process["rank"] for process in helpers), [0, 1, 2, 3])
        self.assertEqual({process["role"] for process in helpers}, {"loader worker"})
        finding = told["findings"][0] if told["findings"] else None
        self.assertTrue(finding, [(process["role"], process["verdict"]) for process in told["processes"]])
        self.assertEqual((told["processes"][finding["process"]]["rank"], told["processes"][finding["process"]]["helper"]),
                         (1, True))
        text = harness.memprof("leaks", run).stdout
        self.assertRegex(text.splitlines()[0], r"^leak: loader worker \d+ of rank 1 keeps growing")
        self.assert_merged_alike(run)

    def assert_merged_alike(self, run):
        """mpirun merges the same bytes."""
        if not shutil.which("mpirun") or not (harness.BUILD / "libmemprof-mpi.so").exists():
            print("no mpirun (Debian: openmpi-bin), or built without MPI: not merged")
            return
        serial, parallel = self.folder / "serial.mp", self.folder / "parallel.mp"
        self.assertEqual(harness.memprof("merge", run, "-o", serial).returncode, 0)
        result = subprocess.run(["mpirun", "-n", "4", harness.MEMPROF, "merge", run, "-o", parallel],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT,
                                env=harness.mpi_environment(self.folder))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(parallel.read_bytes(), serial.read_bytes())
        self.assertGreater(len(harness.answer("report", parallel)["processes"]), 4)

    def test_what_was_taken_while_a_process_ran_does_not_count_beside_its_end(self):
        (self.folder / "slow.py").write_text(textwrap.dedent("""
            import pathlib, sys, time, torch
            kept = [torch.zeros(100000) for _ in range(20)]
            pathlib.Path(sys.argv[1]).touch()
            while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
            kept += [torch.zeros(100000) for _ in range(5)]
        """))
        run, begun, go_on = self.folder / "run", self.folder / "begun", self.folder / "go on"
        run.mkdir()
        recorded = subprocess.Popen([harness.MEMPROF, "snapshot", "--quiet", "-o", run / "z.mp", "--", PYTHON,
                                     self.folder / "slow.py", begun, go_on], stdin=subprocess.DEVNULL)
        while not begun.exists():
            self.assertIsNone(recorded.poll())
            time.sleep(0.01)
        children = pathlib.Path(f"/proc/{recorded.pid}/task/{recorded.pid}/children").read_text().split()
        taken = [self.folder / "run/a.mp", self.folder / "run/b.mp"]
        for path in taken:
            for child in children:
                if harness.memprof("snapshot", "--pid", child, "-o", path).returncode == 0:
                    break
            else:
                self.fail("no child can be asked")
        both = harness.memprof("report", "--json", *taken)  # neither was taken at the end, so the later one counts
        self.assertEqual([both.returncode, len(json.loads(both.stdout)["processes"])], [0, 1])
        self.assertIn(f"{taken[0]} (taken while its process ran", both.stderr)
        os.utime(taken[0])  # nor does a copy, or a newer time, change which one is later
        both = harness.memprof("report", "--json", *reversed(taken))
        self.assertIn(f"{taken[0]} (taken while its process ran", both.stderr)
        go_on.touch()
        self.assertEqual(recorded.wait(timeout=harness.TIMEOUT), 0)
        os.utime(taken[1])
        result = harness.memprof("report", "--json", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        (process,) = json.loads(result.stdout)["processes"]
        self.assertEqual((pathlib.Path(process["path"]).name, process["peak_bytes"]),
                         ("z.mp", harness.answer("peak", run / "z.mp")["peak_bytes"]))
        self.assertEqual(result.stderr.count("a later recording of that is there"), 2)


if __name__ == "__main__":
    harness.main()
