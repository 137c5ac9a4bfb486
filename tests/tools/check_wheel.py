#!/usr/bin/env python3
"""The wheel, installed by pip where nothing else is: the command records, libmemprof can be imported in and outside of a
recording, pytest finds the plugin. Its package is of this build, so that it is made in a second."""

import base64
import csv
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

BUILD = pathlib.Path(os.getcwd())
SOURCE = pathlib.Path(__file__).resolve().parents[2]
USER = """
import libmemprof as mp
with mp.region("all"):
    mp.step()
print("recorded" if mp.active() else "not recorded", mp.__file__)
"""


def package_of_build(folder):
    """A folder as tools/bindist makes it, without the libraries that it builds."""
    package = folder / f"memprof-0.1.0-{os.uname().machine}"
    (package / "python").mkdir(parents=True)
    for name in ("memprof", "libmemprof.so", "libmemprof-hooks.so", "libmemprof-malloc.so", "libmemprof-read.so"):
        shutil.copy(BUILD / name, package)
    for name in ("libmemprof.py", "pytest_memprof.py"):
        shutil.copy(SOURCE / "python" / name, package / "python")
    for name in ("libmemprof_torch", "reader", "start"):
        shutil.copytree(SOURCE / "python" / name, package / "python" / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(SOURCE / name, package)
    return package
TRAINING = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""
ENVIRONMENTS = os.environ.get("MEMPROF_ENVIRONMENTS", os.path.expanduser("~/.cache/memprof"))


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keep = tempfile.TemporaryDirectory(prefix="memprof-wheel-")
        cls.folder = pathlib.Path(cls.keep.name)
        package = package_of_build(cls.folder)
        made = subprocess.run([sys.executable, SOURCE / "tools/wheel", package, cls.folder], capture_output=True,
                              text=True, check=True)
        cls.wheel = pathlib.Path(made.stdout.strip())

    @classmethod
    def tearDownClass(cls):
        cls.keep.cleanup()

    def python(self):
        """The Python of a virtual environment with nothing but the wheel."""
        environment = self.folder / "venv"
        python = environment / "bin/python"
        if not python.exists():
            if subprocess.run([sys.executable, "-m", "venv", environment], capture_output=True).returncode:
                self.skipTest("this Python makes no virtual environments")
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check",
                            self.wheel], check=True)
        return python

    def run_there(self, *command):
        self.python()
        done = subprocess.run([self.folder / "venv/bin" / command[0], *map(str, command[1:])], capture_output=True,
                              text=True, cwd=self.folder, env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_every_member_is_listed_with_its_hash(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            (record,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
            rows = list(csv.reader(wheel.read(record).decode().splitlines()))
            self.assertEqual(sorted(row[0] for row in rows), sorted(wheel.namelist()))
            for name, digest, size in rows:
                if name != record:
                    data = wheel.read(name)
                    want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={want}", str(len(data))), name)
        self.assertRegex(self.wheel.name, r"^libmemprof-0\.1\.0-py3-none-manylinux_2_\d+_\w+\.whl$")

    def test_the_module_does_nothing_where_nothing_records(self):
        (self.folder / "user.py").write_text(USER)
        said, _ = self.run_there("python", "user.py")
        self.assertRegex(said, r"^not recorded .*/venv/.*/libmemprof\.py\n$")

    def test_the_command_records_and_reports(self):
        (self.folder / "user.py").write_text(USER)
        said, _ = self.run_there("memprof", "snapshot", "-o", "run.mp", "--", self.python(), "user.py")
        self.assertTrue(said.startswith("recorded "), said)
        said, _ = self.run_there("memprof", "info", "run.mp", "--json")
        self.assertEqual(json.loads(said)["steps"], {"count": 1, "source": "api"})
        said, _ = self.run_there("python", "-c", "import memprof; print(memprof.open('run.mp').info()['steps'])")
        self.assertEqual(said, "{'count': 1, 'source': 'api'}\n")

    def test_the_portable_package_is_built_without_mpi(self):
        """MPI would be a library that it needs: configure takes it by default if a machine has one."""
        tree = self.folder / "memprof-0.1.0"
        tree.mkdir()
        (tree / "configure").write_text("#!/bin/sh\necho \"$@\"\nexit 1\n")
        (tree / "configure").chmod(0o755)
        subprocess.run(["tar", "-C", self.folder, "-cf", self.folder / "memprof.tar", tree.name], check=True)
        said = subprocess.run([SOURCE / "tools/bindist", self.folder / "memprof.tar", self.folder / "packages"],
                              capture_output=True, text=True).stderr
        if "there is no static" in said:
            self.skipTest("the portable package cannot be built here")
        self.assertIn(" --without-mpi ", said)

    def test_pytest_finds_the_plugin(self):
        said, _ = self.run_there("python", "-c", "import importlib.metadata as m; "
                                 "print([e.value for e in m.distribution('libmemprof').entry_points"
                                 " if e.group == 'pytest11'])")
        self.assertEqual(said, "['pytest_memprof']\n")


@unittest.skipUnless(asserted.LONG, "tools/test --long")
class Whole(unittest.TestCase):
    def test_make_wheel_plans_on_the_pytorch_of_pip(self):
        torch = pathlib.Path(ENVIRONMENTS, "torch")
        if not (torch / "bin/python3").exists():
            self.skipTest("tools/cuda-torch was not run")
        made = subprocess.run(["make", "-C", BUILD, "wheel"], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr[-3000:])
        wheel = max(BUILD.glob("libmemprof-*.whl"), key=os.path.getmtime)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            subprocess.run([torch / "bin/python3", "-m", "venv", folder / "venv"], check=True)
            site, = (folder / "venv").glob("lib/python3*/site-packages")
            (site / "torch.pth").write_text(f"{next(torch.glob('lib/python3*/site-packages'))}\n")
            subprocess.run([folder / "venv/bin/pip", "install", "--quiet", "--no-index", wheel], check=True)
            (folder / "train.py").write_text(TRAINING)
            plain = {"PATH": f"{folder}/venv/bin:/usr/bin:/bin"}
            planned = subprocess.run(["memprof", "plan", "--device", "h100-80gb", "-o", "plan.mp", "--", "python3", "train.py"],
                                     capture_output=True, text=True, cwd=folder, env=plain)
            self.assertEqual(planned.returncode, 0, planned.stderr)
            answer = json.loads(subprocess.run(["memprof", "peak", "--json", "plan.mp"], capture_output=True, text=True,
                                               cwd=folder, env=plain, check=True).stdout)
        allocated, _ = map(int, planned.stdout.split()[-2:])
        self.assertEqual(answer["peak_bytes"], allocated)


asserted.main()
