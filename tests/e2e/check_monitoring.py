#!/usr/bin/env python3
"""examples/monitoring in the real Prometheus: it reads the file and scrapes the metrics of a recorded program. Each
query of the Grafana dashboard has an answer, and the answer equals the program's output if the program prints that
number."""

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import harness

PYTHON = harness.python_with_torch()
EXAMPLES = harness.SOURCE / "examples" / "monitoring"
PROGRAM = """
import sys, torch, libmemprof as mp
parameter = torch.nn.Parameter(torch.ones(1_000_000))
mp.step(); mp.step(); mp.step()
print("ready", mp.stats(), flush=True)
sys.stdin.readline()
"""
# Metrics that a program on the CPU without an optimizer lacks.
WITHOUT = {"memprof_reserved_bytes", "memprof_category_live_bytes"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def questions():
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    return [target["expr"].replace("$track", ".*") for panel in dashboard["panels"] for target in panel["targets"]]


class Monitoring(harness.TestCase):
    def test_dashboard(self):
        """Checks the dashboard as far as possible without Grafana."""
        dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]}
        self.assertEqual(len(places), len(ids))
        told = harness.SOURCE.joinpath("src/collect/metrics/metrics_text.c").read_text()
        for question in questions():
            for name in re.findall(r"memprof_\w+", question):
                self.assertIn(f'"{name.removesuffix("_total")}"', told)

    def serve(self, path):
        """Serves the file over HTTP, like node_exporter or any web server. Returns the port."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = path.read_bytes() if path.exists() else b"# EOF\n"
                self.send_response(200)
                self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    def test_in_prometheus(self):
        prometheus, promtool = shutil.which("prometheus"), shutil.which("promtool")
        if not prometheus or not promtool:
            self.skipTest("Prometheus is not installed (Debian: prometheus)")
        if not PYTHON:
            self.skipTest("no Python with torch")
        checked = subprocess.run([promtool, "check", "config", EXAMPLES / "prometheus.yml"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        metrics = self.folder / "memprof.prom"
        port, own = self.serve(metrics), free_port()
        (self.folder / "prometheus.yml").write_text(
            (EXAMPLES / "prometheus.yml").read_text().replace("9100", str(port)).replace("5s", "1s"))
        environment = {**harness.os.environ, "RANK": "3", "WORLD_SIZE": "8", "ROLE_NAME": "trainer", "SLURM_JOB_ID": "812"}
        run = subprocess.Popen([harness.MEMPROF, "snapshot", "--metrics", metrics, "-o", self.folder / "run.mp", "--",
                                PYTHON, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment, cwd=self.folder)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        self.assertIn("ready", run.stdout.readline())
        server = subprocess.Popen([prometheus, f"--config.file={self.folder / 'prometheus.yml'}",
                                   f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{own}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        base = f"http://127.0.0.1:{own}/api/v1/"

        def ask(question):
            with urllib.request.urlopen(base + "query?" + urllib.parse.urlencode({"query": question}), timeout=30) as answer:
                told = json.load(answer)
            self.assertEqual(told["status"], "success", question)
            return told["data"]["result"]

        def answer(of, *question):
            """The first answer that is not empty. A scrape that comes late empties the answer."""
            deadline = time.monotonic() + harness.TIMEOUT
            while True:
                try:
                    if found := of(*question):
                        return found
                except OSError:
                    pass
                self.assertLess(time.monotonic(), deadline, question)
                time.sleep(0.2)

        def up():
            with urllib.request.urlopen(base + "targets", timeout=30) as targets:
                (target,) = json.load(targets)["data"]["activeTargets"]
            return (target["health"], target["lastError"]) == ("up", "")
        answer(ask, "sum(count_over_time(memprof_steps_total[1h])) >= 3")  # deriv() and rate() want two scrapes
        (live,) = answer(ask, 'memprof_live_bytes{track="cpu/torch"}')
        self.assertEqual(live["value"][1], "4000000")
        self.assertEqual({key: live["metric"][key] for key in ("rank", "role", "job_name", "job")},
                         {"rank": "3", "role": "trainer", "job_name": "812", "job": "memprof"})
        self.assertEqual(answer(ask, "memprof_steps_total")[0]["value"][1], "3")
        for question in questions():
            if set(re.findall(r"memprof_\w+", question)) & WITHOUT:
                ask(question)
            else:
                answer(ask, question)
        answer(up)


if __name__ == "__main__":
    harness.main()
