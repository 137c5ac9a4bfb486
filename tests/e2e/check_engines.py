#!/usr/bin/env python3
"""Ray and Dask from PyPI, as their users start them: inside the command, before it, and as they fail. In the night's form
alone: pip needs a minute, and Ray ten seconds for each cluster."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

PYTHON = harness.python_with_torch()
PLACE = pathlib.Path("~/.cache/memprof/engines/deb").expanduser()
PACKAGES = ("ray", "distributed")

STEP = textwrap.dedent("""
    import os, sys, time, torch
    torch.set_num_threads(1)
    kept = []
    def step(leak):
        y = torch.ones(16384) * 2.0
        if leak: kept.append(y)
    step(False)
""")

RAY = STEP + textwrap.dedent("""
    import ray
    where, what = sys.argv[1:]
    ray.init(where, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})
    @ray.remote
    class Trainer:
        def fit(self, leak):
            import step
            step.step(leak)
            return os.getpid()
        def end(self): os.kill(os.getpid(), 9)
    options = {"name": "kept", "lifetime": "detached"} if what == "detached" else {}
    actors = [Trainer.options(**options).remote()] + [Trainer.remote() for _ in range(what == "leak")]
    for _ in range(40):
        step(False)
        pids = ray.get([actor.fit.remote(what == "leak" and actor is actors[-1]) for actor in actors])
    print(pids[-1], flush=True)
    if what == "killed":
        try: ray.get(actors[0].end.remote())
        except ray.exceptions.RayError: pass
    if what == "dies":
        open("ready", "w").close()
        while True: ray.get(actors[0].fit.remote(False), timeout=20)
""")

DASK = STEP + textwrap.dedent("""
    from distributed import Client
    def fit(leak):
        import step
        step.step(leak)
        return os.getpid()
    if __name__ == "__main__":
        inside = dict(n_workers=1, threads_per_worker=1, dashboard_address=None)
        client = Client(sys.argv[1]) if len(sys.argv) > 1 else Client(**inside)
        for _ in range(40):
            step(False)
            pid = client.submit(fit, True, pure=False).result()
        print(pid)
        client.close()
""")


def prepare():
    if not asserted.LONG:
        raise unittest.SkipTest("Ray and Dask take minutes; tools/test --long runs them")
    if not PYTHON:
        raise unittest.SkipTest("no Python with torch")
    if not (PLACE / "bin" / "ray").exists():
        subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", PLACE], check=True)
        subprocess.run([PLACE / "bin" / "python", "-m", "pip", "-q", "install", *PACKAGES], check=True)


class Engines(harness.TestCase):
    def setUp(self):
        super().setUp()
        prepare()
        for name, text in (("step.py", STEP), ("with_ray.py", RAY), ("with_dask.py", DASK),
                           ("own.py", "def hook(env):\n    open('hooked', 'w').close()\n    return env\n")):
            (self.folder / name).write_text(text)
        self.environment = {**os.environ, "PATH": f"{PLACE / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(self.folder),
                            "RAY_TMPDIR": "/tmp"}

    def begin(self, *command):
        started = subprocess.Popen([str(word) for word in command], env=self.environment, cwd=self.folder, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(started.wait)
        self.addCleanup(lambda: os.killpg(started.pid, signal.SIGKILL) if started.poll() is None else None)
        return started

    def cluster(self):
        def ray(*words):
            subprocess.run([PLACE / "bin" / "ray", *words], env=self.environment, capture_output=True, timeout=120)
        self.addCleanup(ray, "stop", "--force")
        ray("start", "--head", "--port=6379", "--num-cpus=4", "--include-dashboard=false")
        return ray

    def record(self, *command, status=0):
        done = harness.memprof("snapshot", "-o", f"{self.folder}/run/", "--", PLACE / "bin" / "python", *command, timeout=300,
                               env=self.environment, cwd=self.folder)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return done

    def leaks(self):
        answer = harness.answer("leaks", self.folder / "run", status=(0, 4))
        return answer, [process for process in answer["processes"] if process["verdict"] == "leak"]

    def test_ray_inside_and_before(self):
        """The actor that leaks is found by its class; a hook of the program's own runs."""
        for where in ("local", "auto"):
            with self.subTest(where=where):
                if where == "auto":
                    self.environment["RAY_RUNTIME_ENV_HOOK"] = "own.hook"
                    self.cluster()
                done = self.record("with_ray.py", where, "leak")
                answer, (leaking,) = self.leaks()
                self.assertEqual((leaking["pid"], leaking["role"]), (int(done.stdout), "Ray worker"))
                self.assertIn("ray--Trainer-", leaking["path"])
                self.assertIn("main (with_ray.py)", done.stderr)
                self.assertNotIn("exit 1", done.stderr)
                self.assertTrue(answer["coverage"]["complete"], done.stderr)
                self.assertEqual((self.folder / "hooked").exists(), where == "auto")
                for path in (self.folder / "run").glob("*"):
                    path.unlink()

    def test_workers_that_end_otherwise(self):
        """One is killed, one outlives the driver: both are named, and nothing hangs."""
        self.cluster()
        for what, words in (("killed", "1 Ray worker (ray::Trainer)"), ("detached", "still running")):
            with self.subTest(what=what):
                done = self.record("with_ray.py", "auto", what)
                self.assertIn(words, done.stderr)
                pids = {process["pid"]: process["events"] for process in self.leaks()[0]["processes"]}
                pid = next(int(line) for line in done.stdout.splitlines() if line.isdigit())  # Ray writes there, too
                self.assertGreater(pids[pid], 40)
                for path in (self.folder / "run").glob("*"):
                    path.unlink()

    def test_a_cluster_that_dies(self):
        ray = self.cluster()
        started = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", f"{self.folder}/run/", "--", PLACE / "bin" / "python",
                                    "with_ray.py", "auto", "dies"], env=self.environment, cwd=self.folder, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(started.kill)
        while not (self.folder / "ready").exists():
            self.assertIsNone(started.poll())
            time.sleep(0.1)
        ray("stop", "--force")
        said = started.communicate(timeout=300)[1]
        self.assertIn("main (with_ray.py)", said)
        self.assertNotEqual(started.returncode, 0)
        answer, _ = self.leaks()
        self.assertEqual(sorted(bool(process["role"]) for process in answer["processes"]), [False, True])

    def test_dask_inside(self):
        done = self.record("with_dask.py")
        answer, (leaking,) = self.leaks()
        self.assertEqual((leaking["pid"], leaking["role"]), (int(done.stdout), "worker"))
        self.assertTrue(answer["coverage"]["complete"], done.stderr)

    def test_dask_before(self):
        """Without its workers the recording is not complete; with --print-env they belong to it."""
        self.begin(PLACE / "bin" / "dask", "scheduler", "--port", "18787", "--no-dashboard")
        worker = (PLACE / "bin" / "dask", "worker", "tcp://127.0.0.1:18787", "--nworkers", "1", "--nthreads", "1", "--no-dashboard")
        outside = self.begin(*worker)
        done = self.record("with_dask.py", "tcp://127.0.0.1:18787")
        self.assertIn("work went to dask at 127.0.0.1:18787: its tasks ran in processes that memprof did not start", done.stderr)
        self.assertNotIn("complete", done.stderr)
        self.assertFalse(self.leaks()[0]["coverage"]["complete"])
        os.killpg(outside.pid, signal.SIGTERM)
        outside.wait()
        for path in (self.folder / "run").glob("*"):
            path.unlink()
        started = subprocess.Popen([harness.MEMPROF, "snapshot", "-o", f"{self.folder}/run/", "--", PLACE / "bin" / "python",
                                    "with_dask.py", "tcp://127.0.0.1:18787"], env=self.environment, cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(started.kill)
        told = harness.memprof("snapshot", "--print-env", "--pid", started.pid)
        while told.returncode:
            told = harness.memprof("snapshot", "--print-env", "--pid", started.pid)
        self.begin("env", *told.stdout.split(), *worker)
        out, said = started.communicate(timeout=300)
        answer, (leaking,) = self.leaks()
        self.assertEqual((leaking["pid"], leaking["role"]), (int(out), "worker"), said)
        self.assertNotIn("work went to", said)


if __name__ == "__main__":
    harness.main()
