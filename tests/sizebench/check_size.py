#!/usr/bin/env python3
"""`memprof size` on real programs: the largest batch fits, and one more does not, by a counter that shares no code with
memprof."""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

PYTHON = harness.python_with_torch()
MODELS = pathlib.Path(__file__).resolve().with_name("models.py")
TRAIN = harness.SOURCE / "examples" / "train.py"
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
DATA = os.environ.get("MEMPROF_TEST_DATA")
MIB = 1 << 20
# As promised to other programs; there may be more keys.
KEYS = {"schema", "capacity_bytes", "margin_bytes", "max_batch", "limit", "probes", "predictions", "binding_sites",
        "opaque_bytes", "coverage"}
PROBE_KEYS = {"batch", "allocated_bytes", "reserved_bytes", "device_bytes"}
NEED_KEYS = PROBE_KEYS | {"low_bytes", "high_bytes", "fits"}


def size(*arguments, status=0, **options):
    result = harness.memprof("size", *arguments, **options)
    if result.returncode != status:
        raise AssertionError(f"size {arguments}: status {result.returncode}: {result.stdout}{result.stderr}")
    return result


class Words(harness.TestCase):
    """Faults of the question or the recordings are named; there is never half an answer."""

    def says(self, words, *arguments, status=1, **options):
        result = size("--capacity", "1GiB", *arguments, status=status, **options)
        self.assertIn(words, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_of_the_question(self):
        for words, arguments in (
                ("needs recordings of different batches", ()),
                ("write each recording with its batch", ("some.mp",)),
                ("write each recording with its batch", ("0=some.mp",)),
                ("write each recording with its batch", ("4 =some.mp",)),
                ("a second variable is gone", ("4=a.mp", "8x512=b.mp")),
                ("a second variable is gone", ("4=a.mp", "8=b.mp", "--predict", "16x512")),
                ("a second variable is gone", ("--probe", "4x2,8x2", "--", "true", "{batch}")),
                ("is not a list of batches", ("4=a.mp", "--predict", "16,,32")),
                ("is not a list of batches", ("4=a.mp", "--predict", "-3")),
                ("is only for --probe", ("--no-verify", "4=a.mp")),
                ("not a part", ("4=a.mp", "--margin", "much")),
                ("not a part", ("4=a.mp", "--margin", "120%")),
                ("needs the command", ("--probe", "4,8")),
                ("the command has no {batch}", ("--probe", "4,8", "--", "true")),
                ("{length} is gone", ("--probe", "4,8", "--", "true", "{batch}", "{length}"))):
            with self.subTest(arguments=arguments):
                self.says(words, *arguments, status=2)
        result = size("--capacity", "little", "4=a.mp", status=2)
        self.assertIn("not an amount of memory", result.stderr)
        self.says("No such file", "4=nowhere.mp", "8=nowhere.mp")

    def test_of_a_run(self):
        for words, command in (("failed with status 3", ["sh", "-c", "echo was here {batch}; exit 3"]),
                               ("was here 4", ["sh", "-c", "echo was here {batch}; exit 3"]),
                               ("was killed", ["sh", "-c", "kill -9 $$ {batch}"]),
                               ("died of signal 11", ["sh", "-c", "kill -11 $$ {batch}"]),
                               ("was not found", ["/no/such/program", "{batch}"]),
                               ("made no CUDA calls", ["true", "{batch}"])):
            with self.subTest(command=command):
                self.says(words, "--probe", "4,8", "--", *command, env=dict(os.environ, TMPDIR=str(self.folder)))
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_asked_to_end(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                pid = self.folder / "pid"
                asked = subprocess.Popen(
                    [harness.MEMPROF, "size", "--capacity", "1GiB", "--probe", "4,8", "--", "sh", "-c",
                     f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600; {{batch}}"],
                    env=dict(os.environ, TMPDIR=str(self.folder)), stderr=subprocess.PIPE, text=True,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
                deadline = time.monotonic() + 60
                while not pid.exists():
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                asked.send_signal(number)
                said = asked.communicate(timeout=harness.TIMEOUT)[1]
                self.assertEqual(asked.returncode, -number, said)
                self.assertFalse(os.path.exists(f"/proc/{pid.read_text().strip()}"))
                pid.unlink()
                self.assertEqual(list(self.folder.iterdir()), [])


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Programs(harness.TestCase):
    def count(self, *command):
        counts = self.folder / "counts.json"
        subprocess.run([PYTHON, *map(str, command)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(counts)))
        return json.loads(counts.read_text())["devices"][0]["peak_bytes"]

    def fits_and_one_more_does_not(self, capacity, *command):
        result = size("--capacity", capacity, "--margin", "0", "--json", "--probe", "4,8,12", "--", PYTHON,
                      *command, "{batch}")
        answer = json.loads(result.stdout)
        self.assertEqual(answer["schema"], "memprof.size/1")
        self.assertLessEqual(KEYS, set(answer))
        self.assertLessEqual(PROBE_KEYS, set(answer["probes"][0]))
        self.assertLessEqual(NEED_KEYS, set(answer["predictions"][0]))
        self.assertLessEqual({"bytes", "blocks", "share", "stack"}, set(answer["binding_sites"][0]))
        largest = answer["max_batch"]
        self.assertEqual([probe["batch"] for probe in answer["probes"]], [4, 8, 12, largest])
        self.assertIn(f"verified by a run with {largest}", " ".join(answer["notes"]))
        self.assertLessEqual(self.count(*command, largest), capacity)
        self.assertGreater(self.count(*command, largest + 1), capacity)
        by_batch = {need["batch"]: need for need in answer["predictions"]}
        self.assertEqual([by_batch[largest]["fits"], by_batch[largest + 1]["fits"]], ["yes", "no"])

    def test_what_is_said_to_fit_fits(self):
        self.fits_and_one_more_does_not(48 * MIB, TRAIN, "--steps", "3", "--batch-size")

    def test_the_page_of_allocated_memory_alone(self):
        """An exact answer has no band, and none in the legend; changes are listed on request."""
        program, page, files = self.folder / "grow.py", self.folder / "size.html", []
        program.write_text("import sys, torch\nfor step in range(3):\n    made = torch.ones(1000 * int(sys.argv[1]))\n")
        for batch in ("1", "2", "3"):
            harness.memprof("snapshot", "-o", self.folder / f"{batch}.mp", "--", PYTHON, program, batch)
            files.append(f"{batch}={self.folder / batch}.mp")
        size("--capacity", "1GiB", "--track", "cpu/torch", "--advise", *files, "-o", page)
        text = page.read_text()
        self.assertNotIn("at least", text)
        self.assertNotIn("reserved", text)
        self.assertIn("allocated memory, predicted", text)
        self.assertIn("Changes that would lower the peak of the probe at 3", text)
        self.assertIn("grow.py:3 &#60;module&#62;", text)

    def probe(self, program, *options, capacity="1GiB"):
        path = self.folder / "program.py"
        path.write_text("import sys, torch\nbatch = int(sys.argv[1])\n" + program)
        return size("--capacity", capacity, "--margin", "0", *options, "--probe", "4,8,12", "--", PYTHON, path, "{batch}")

    def test_a_run_refutes_the_answer(self):
        """Beyond the probes the program takes more."""
        program = "for step in range(3):\n    made = torch.ones(1000 * batch * (2 if batch > 12 else 1))\n"
        said = self.probe(program, capacity=8000 * 100)
        self.assertIn("at least 50, about 50", said.stdout)
        self.assertIn("refuted by a run with 100, which needed 1.53 MiB, 781 KiB too many", said.stdout)
        self.assertIn("verified by a run with 50, which needed 781 KiB", said.stdout)
        self.assertIn("not provable: 1 site varies", said.stdout)
        self.assertIn(": 100\n", self.probe(program, "--no-verify", capacity=8000 * 100).stdout)

    def test_a_run_that_fails_leaves_the_answer(self):
        program = "for step in range(3):\n    made = torch.ones(1000 * batch)\nsys.exit(batch > 12)\n"
        said = self.probe(program, capacity=8000 * 100)
        self.assertIn(": 100\n", said.stdout)
        self.assertIn("not verified: the run with 100 failed", said.stdout)
        self.assertIn("with 100 failed with status 1", said.stderr)

    def test_a_run_that_is_too_large_is_not_tried(self):
        program = "for step in range(3):\n    made = torch.ones(1000 * batch)\n"
        said = self.probe(program, capacity="1000TiB")
        self.assertIn("this machine has too little memory", said.stdout)

    def test_two_probes_prove_nothing(self):
        paths = {}
        for batch in (4, 8, 12):
            paths[batch] = self.folder / f"{batch}.mp"
            harness.memprof("snapshot", "-o", paths[batch], "--", PYTHON, MODELS, "mlp", "--batch", batch)
        names = [f"{batch}={path}" for batch, path in paths.items()]
        two, three = (size("--capacity", "1GiB", *names[:count]).stdout for count in (2, 3))
        about = re.search(r": at least 8 \(largest probe\), about (\d+), not proven: a proof needs recordings of three batches", two).group(1)
        self.assertIn(f": {about}\n", three)
        self.assertNotIn("Exact", two)
        self.assertIn("Exact", three)

    def test_failed_and_cut_recordings(self):
        paths = {}
        for batch in (4, 8):
            paths[batch] = self.folder / f"{batch}.mp"
            harness.memprof("snapshot", "-o", paths[batch], "--", PYTHON, MODELS, "cnn", "--batch", batch)
        failed, cut = self.folder / "failed.mp", self.folder / "cut.mp"
        harness.memprof("snapshot", "-o", failed, "--", PYTHON, "-c",
                        "import torch\nkept = torch.ones(1000)\nraise SystemExit(3)")
        whole = paths[8].read_bytes()
        cut.write_bytes(whole[:len(whole) * 2 // 3])
        for words, second in (("failed (exit 3)", failed), ("is cut", cut)):
            result = size("--capacity", "1GiB", f"4={paths[4]}", f"8={second}", status=1)
            self.assertIn(words, result.stderr)
        other = self.folder / "other.mp"
        harness.memprof("snapshot", "-o", other, "--", PYTHON, MODELS, "encoder", "--batch", 8)
        result = size("--capacity", "1GiB", f"4={paths[4]}", f"8={other}", status=1)
        self.assertIn("are not of one program", result.stderr)
        shutil.copy(paths[4], self.folder / "same.mp")
        result = size("--capacity", "1GiB", f"4={paths[4]}", f"8={self.folder / 'same.mp'}", status=1)
        self.assertIn("does not depend", result.stderr)


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Chance(harness.TestCase):
    """Programs whose peak differs from run to run: nothing beyond the probes is sure."""

    def check(self, kind, capacity):
        command = [MODELS, kind, "--batch"]
        probe = ("--capacity", capacity, "--margin", "0", "--no-verify", "--probe", "4,8,12", "--predict", "96", "--", PYTHON,
                 *command, "{batch}")
        self.assertRegex(size(*probe).stdout, r": at least \d+.*, about \d+, not provable: \d+ sites? var")
        answer = json.loads(size("--json", *probe).stdout)
        self.assertFalse(answer["proved"])
        self.assertLessEqual(answer["max_batch"], 12)
        self.assertGreater(answer["about_batch"], 24)
        need = next(need for need in answer["predictions"] if need["batch"] == 96)
        for _ in range(5):
            counts = self.folder / "counts.json"
            subprocess.run([PYTHON, *map(str, command), "96"], check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env=dict(os.environ, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(counts)))
            peak = json.loads(counts.read_text())["devices"][0]["peak_bytes"]
            self.assertLessEqual(need["low_bytes"], peak)
            self.assertLessEqual(peak, need["high_bytes"])

    def test_workers(self):
        self.check("workers", 24 * MIB)

    def test_a_thread_that_fetches(self):
        self.check("fetcher", 48 * MIB)


@harness.unittest.skipUnless(DATA, "MEMPROF_TEST_DATA is not set")
class RealGpu(harness.TestCase):
    """One model at four context lengths, recorded by others on a GPU; at 512 it took another way."""

    def series(self, *lengths):
        return [f"{length}={DATA}/ctx{length}_inference.pickle" for length in lengths]

    def test_a_quadratic_is_known_from_two_lengths(self):
        peak = harness.answer("peak", f"{DATA}/ctx1024_inference.pickle")["peak_bytes"]
        result = size("--capacity", "16GiB", "--json", *self.series(128, 256), "--predict", "1024")
        need = next(need for need in json.loads(result.stdout)["predictions"] if need["batch"] == 1024)
        self.assertLess(abs(need["allocated_bytes"] - peak) / peak, 0.0005)

    def test_what_pytorch_reserves(self):
        peak = harness.answer("info", f"{DATA}/ctx1024_inference.pickle")["tracks"][0]["reserved_peak_bytes"]
        answer = json.loads(size("--capacity", "16GiB", "--json", *self.series(128, 256), "--predict", "1024").stdout)
        need = next(need for need in answer["predictions"] if need["batch"] == 1024)
        self.assertLess(abs(need["reserved_bytes"] - peak) / peak, 0.015)
        self.assertLessEqual(need["low_bytes"], peak)
        self.assertGreaterEqual(need["high_bytes"], peak)
        self.assertEqual(answer["limit"], "reserved")
        self.assertGreater(answer["expandable_max_batch"], answer["about_batch"])

    def test_a_few_bytes_too_many_are_said(self):
        """Rounded, the need equals the limit."""
        question = (*self.series(128, 256), "--predict", "512", "--margin", "0", "--capacity")
        def need(capacity):
            answer = json.loads(size(*question, capacity, "--json").stdout)
            return next(need for need in answer["predictions"] if need["batch"] == 512)
        capacity = need("16GiB")["low_bytes"] - 12
        over = need(str(capacity))
        self.assertEqual(over["fits"], "no")
        row, = (line for line in size(*question, str(capacity)).stdout.splitlines() if line.split()[:1] == ["512"])
        self.assertTrue(row.endswith(f"  no, {over['low_bytes'] - capacity} B over"), row)

    def test_the_page(self):
        """Its tables say what the JSON says, with bars as long; its legend names each sign of the picture and no other."""
        page = self.folder / "size.html"
        question = ("--capacity", "16GiB", *self.series(128, 256), "--predict", "512,1024")
        size(*question, "-o", page)
        answer = json.loads(size(*question, "--json").stdout)
        text = page.read_text()
        self.assertNotIn("http:", text.replace("http://www.w3.org", ""))
        self.assertNotIn("<pre", text)
        picture = xml.etree.ElementTree.fromstring(text[text.index("<svg"):text.index("</svg>") + 6])
        names = [one.text for one in picture.iter("text")]
        for name in ("reserved memory, predicted", "at least to at most", "probe, recorded", "in the table below"):
            self.assertIn(name, names)
        signs = collections.Counter(one.get("class") for one in picture if one.tag in ("circle", "rect", "path"))
        self.assertEqual(signs, {"probe": 2 + 1, "at": len(answer["predictions"]) + 1, "band": 2, "likely": 1})

        tables = [xml.etree.ElementTree.fromstring(table) for table in re.findall("<table>.*?</table>", text, re.DOTALL)]
        needs, growth, probes = ([["".join(cell.itertext()) for cell in row.iter("td")] for row in table.iter("tr")][1:]
                                 for table in tables)
        limit = answer["capacity_bytes"] - answer["margin_bytes"]
        for row, need in zip(needs, answer["predictions"], strict=True):
            self.assertEqual((row[0], row[-1].split(",")[0]), (str(need["batch"]), need["fits"]))
            self.assertAlmostEqual(float(row[-2].rstrip(" %")), 100 * need["reserved_bytes"] / limit, delta=0.051)
        bars = [float(part) for part in re.findall(r"--part:([0-9.]+)%", text)]
        for bar, need in zip(bars, answer["predictions"]):
            self.assertAlmostEqual(bar, min(100, 100 * need["reserved_bytes"] / limit), delta=0.051)
        self.assertEqual([row[0] for row in probes], [str(probe["batch"]) for probe in answer["probes"]])
        self.assertGreater(len(growth), 2)
        self.assertEqual(len({row[-1] for row in growth}), len(growth))

    def test_another_way_is_noticed(self):
        """At 512 the model took another way. The probe answers for itself; the others say what they say without it."""
        peaks = {batch: harness.answer("peak", f"{DATA}/ctx{batch}_inference.pickle")["peak_bytes"]
                 for batch in (512, 1024)}
        question = ("--capacity", "16GiB", "--predict", "512,1024")
        with_it, without = (json.loads(size("--json", *question, *self.series(*probes)).stdout)
                            for probes in ((128, 256, 512), (128, 256)))
        need, other = ({need["batch"]: need for need in answer["predictions"]} for answer in (with_it, without))
        self.assertEqual(need[1024], other[1024])
        self.assertLessEqual(abs(need[1024]["allocated_bytes"] - peaks[1024]), peaks[1024] * 0.02)
        self.assertEqual((need[512]["allocated_bytes"], need[512]["low_bytes"] == need[512]["high_bytes"]),
                         (peaks[512], True))
        self.assertEqual([probe["apart"] for probe in with_it["probes"]], [False, False, True])
        self.assertRegex(size(*question, *self.series(128, 256, 512)).stdout, r"The probe of 512 took another path: ")

@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Bench(harness.TestCase):
    def test_its_short_form(self):
        bench = pathlib.Path(__file__).with_name("sizebench.py")
        result = subprocess.run([sys.executable, bench, "--short"], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    harness.main()
