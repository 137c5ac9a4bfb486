#!/usr/bin/env python3
"""`memprof size` on real programs: what it says fits does fit, and one more does not, by a counter that shares no code
with memprof. MEMPROF_SIZE_FULL=1 does so for the README's example (2 GiB), too."""

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
import edited
import harness

PYTHON = harness.python_with_torch()
MODELS = pathlib.Path(__file__).resolve().with_name("models.py")
TRAIN = harness.SOURCE / "examples" / "train.py"
COUNTER = harness.BUILD / "tests" / "e2e" / "oracle" / "torch_counter.so"
DATA = os.environ.get("MEMPROF_TEST_DATA")
MIB = 1 << 20
# As promised to other programs; more keys may stand beside.
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
    """What is wrong with the question or the recordings, in words; never half an answer."""

    def says(self, words, *arguments, status=1, **options):
        result = size("--capacity", "1GiB", *arguments, status=status, **options)
        self.assertIn(words, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_of_the_question(self):
        for words, arguments in (
                ("needs recordings of different sizes", ()),
                ("write each recording with the size", ("some.mp",)),
                ("write each recording with the size", ("0=some.mp",)),
                ("write each recording with the size", ("4x=some.mp",)),
                ("some sizes have one variable", ("4=a.mp", "8x512=b.mp")),
                ("some sizes have one variable", ("4=a.mp", "8=b.mp", "--predict", "16x512")),
                ("is not a list of sizes", ("4=a.mp", "--predict", "16,,32")),
                ("is not a list of sizes", ("4=a.mp", "--predict", "-3")),
                ("not a part", ("4=a.mp", "--margin", "much")),
                ("not a part", ("4=a.mp", "--margin", "120%")),
                ("needs the command", ("--probe", "4,8")),
                ("{batch} stands nowhere", ("--probe", "4,8", "--", "true")),
                ("{length} stands nowhere", ("--probe", "4x2,8x2", "--", "true", "{batch}"))):
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
                               ("made no allocation", ["true", "{batch}"])):
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
        self.assertEqual([probe["batch"] for probe in answer["probes"]], [4, 8, 12])
        largest = answer["max_batch"]
        self.assertLessEqual(self.count(*command, largest), capacity)
        self.assertGreater(self.count(*command, largest + 1), capacity)
        by_batch = {need["batch"]: need for need in answer["predictions"]}
        self.assertEqual([by_batch[largest]["fits"], by_batch[largest + 1]["fits"]], ["yes", "no"])

    def test_what_is_said_to_fit_fits(self):
        self.fits_and_one_more_does_not(48 * MIB, TRAIN, "--steps", "3", "--batch-size")

    def test_the_page_of_allocated_memory_alone(self):
        """What is exact has no band, and none in the legend; changes are told where they are asked for."""
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
        self.assertIn("What would lower the peak of the probe at 3", text)
        self.assertIn("grow.py:3 &#60;module&#62;", text)

    @harness.unittest.skipUnless(os.environ.get("MEMPROF_SIZE_FULL"), "takes minutes")
    def test_the_example_of_the_readme(self):
        self.fits_and_one_more_does_not(2048 * MIB, TRAIN, "--steps", "3", "--batch-size")

    def test_two_variables_in_a_command(self):
        result = size("--capacity", "64MiB", "--json", "--probe", "4x16,8x16,4x32,8x32", "--predict", "16x64", "--",
                      PYTHON, MODELS, "decoder", "--batch", "{batch}", "--length", "{length}")
        answer = json.loads(result.stdout)
        need = next(need for need in answer["predictions"] if need["batch"] == 16)
        self.assertEqual(need["second"], 64)
        self.assertEqual(need["allocated_bytes"],
                         self.count(MODELS, "decoder", "--batch", 16, "--length", 64))

    def test_an_edited_caller(self):
        """Lines move between two probes, and what runs below them differs by size."""
        def write(folder, files):
            folder.mkdir()
            for name, text in files.items():
                (folder / name).write_text(text)
            return folder / next(iter(files))

        def record(program, batch):
            path = program.with_name(f"{batch}.mp")
            harness.memprof("snapshot", "-o", path, "--", PYTHON, program, batch)
            return path

        for number, (files, edits) in enumerate(edited.PROGRAMS):
            program = write(self.folder / str(number), files)
            paths = {batch: record(program, batch) for batch in (4, 12)}
            truth = self.count(program, 40)
            for name, (changed, edit) in edits.items():
                with self.subTest(program=program.name, edit=name):
                    other = write(self.folder / f"{number} {name}", files | {changed: edit(files[changed])})
                    paths[8] = record(other, 8)
                    answer = json.loads(size("--capacity", "1GiB", "--json", "--predict", "40",
                                             *(f"{batch}={path}" for batch, path in paths.items())).stdout)
                    need = next(need for need in answer["predictions"] if need["batch"] == 40)
                    self.assertEqual(need["allocated_bytes"], truth)

    def test_two_probes_are_not_called_exact(self):
        paths = {}
        for batch in (4, 8, 12):
            paths[batch] = self.folder / f"{batch}.mp"
            harness.memprof("snapshot", "-o", paths[batch], "--", PYTHON, MODELS, "mlp", "--batch", batch)
        names = [f"{batch}={path}" for batch, path in paths.items()]
        two, three = (size("--capacity", "1GiB", *names[:count]).stdout for count in (2, 3))
        self.assertNotIn("exact", two)
        self.assertIn("no third to check it", two)
        self.assertIn("exact", three)

    def test_two_probes_that_do_not_determine_it(self):
        """Distances take another way from 25 rows on, between the probes; lengths are a matter of chance."""
        for kind, asked in (("siamese", (16, 96)), ("padded", (16, 64)), ("experts", (24, 64))):
            with self.subTest(kind=kind):
                paths = {batch: self.folder / f"{kind}{batch}.mp" for batch in (4, 8)}
                for batch, path in paths.items():
                    harness.memprof("snapshot", "-o", path, "--", PYTHON, MODELS, kind, "--batch", batch)
                answer = json.loads(size("--capacity", "1GiB", "--json", *(f"{batch}={path}" for batch, path in
                                                                           paths.items()), "--predict",
                                         ",".join(map(str, asked))).stdout)
                self.assertIn("a third probe narrows them" if kind != "experts" else "a third one would",
                              " ".join(answer["notes"]))
                needs = {need["batch"]: need for need in answer["predictions"]}
                for batch in asked:
                    truth = self.count(MODELS, kind, "--batch", batch)
                    self.assertLessEqual(needs[batch]["low_bytes"], truth)
                    self.assertLessEqual(truth, needs[batch]["high_bytes"])

    def test_between_two_probes_that_did_not_do_the_same(self):
        for kind in ("siamese", "padded"):
            with self.subTest(kind=kind):
                paths = {batch: self.folder / f"{kind}{batch}.mp" for batch in (4, 16)}
                for batch, path in paths.items():
                    harness.memprof("snapshot", "-o", path, "--", PYTHON, MODELS, kind, "--batch", batch)
                answer = json.loads(size("--capacity", "1GiB", "--json", *(f"{batch}={path}" for batch, path in
                                                                           paths.items()), "--predict",
                                         "7,8,12,15").stdout)
                self.assertEqual(sum("third" in note for note in answer["notes"]), 1, answer["notes"])
                needs = {need["batch"]: need for need in answer["predictions"]}
                for batch in (7, 8, 12, 15):
                    truth = self.count(MODELS, kind, "--batch", batch)
                    self.assertLessEqual(needs[batch]["low_bytes"], truth)
                    self.assertLessEqual(truth, needs[batch]["high_bytes"])

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
        self.assertIn("do not come from one program", result.stderr)
        shutil.copy(paths[4], self.folder / "same.mp")
        result = size("--capacity", "1GiB", f"4={paths[4]}", f"8={self.folder / 'same.mp'}", status=1)
        self.assertIn("does not depend", result.stderr)


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Chance(harness.TestCase):
    """Programs whose peak differs from run to run: five runs at the answer fit."""

    def five_runs_fit(self, kind, capacity, words, least=0):
        """`least`: bytes a sample that the network takes in any case."""
        command = [MODELS, kind, "--batch"]
        answer = json.loads(size("--capacity", capacity, "--margin", "0", "--json", "--probe", "4,8,12", "--", PYTHON,
                                 *command, "{batch}").stdout)
        largest = answer["max_batch"]
        self.assertGreater(largest, 12)
        need = next(need for need in answer["predictions"] if need["batch"] == largest)
        self.assertIn(words, " ".join(answer["notes"]))
        self.assertLess(need["low_bytes"], need["high_bytes"])
        self.assertGreater(need["low_bytes"], largest * least)
        for _ in range(5):
            counts = self.folder / "counts.json"
            subprocess.run([PYTHON, *map(str, command), str(largest)], check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env=dict(os.environ, LD_PRELOAD=str(COUNTER), TORCH_COUNTER_OUT=str(counts)))
            peak = json.loads(counts.read_text())["devices"][0]["peak_bytes"]
            self.assertLessEqual(need["low_bytes"], peak)
            self.assertLessEqual(peak, need["high_bytes"])
            self.assertLessEqual(peak, capacity)

    def test_workers(self):
        self.five_runs_fit("workers", 24 * MIB, "by chance as many as 6 before their turn", 2 * 8 * 32 * 32 * 4)

    def test_workers_whose_batches_came_by_twos(self):
        self.five_runs_fit("pairs", 24 * MIB, "by chance as many as 1 before their turn")

    def test_workers_of_two_loaders(self):
        self.five_runs_fit("loaders", 24 * MIB, "by chance as many as 14 before their turn", 64 * 32 * 4)

    def test_a_thread_that_fetches(self):
        self.five_runs_fit("fetcher", 48 * MIB, "threads beside the main one make blocks")


@harness.unittest.skipUnless(DATA, "MEMPROF_TEST_DATA is not set")
class RealGpu(harness.TestCase):
    """One model at four context lengths, recorded by others on a GPU; at 512 it took another way."""

    def series(self, *lengths):
        return [f"{length}={DATA}/ctx{length}_inference.pickle" for length in lengths]

    def test_a_quadratic_is_known_from_two_lengths(self):
        peak = harness.answer("peak", f"{DATA}/ctx1024_inference.pickle")["peak_bytes"]
        for lengths in ((128, 256), (128, 256, 1024), (256, 512, 1024)):
            result = size("--capacity", "16GiB", "--json", *self.series(*lengths), "--predict", "1024")
            need = json.loads(result.stdout)["predictions"][0]
            self.assertEqual(need["batch"], 1024)
            self.assertLess(abs(need["allocated_bytes"] - peak) / peak, 0.0005)

    def test_what_pytorch_reserves(self):
        peak = harness.answer("info", f"{DATA}/ctx1024_inference.pickle")["tracks"][0]["reserved_peak_bytes"]
        answer = json.loads(size("--capacity", "16GiB", "--json", *self.series(128, 256), "--predict", "1024").stdout)
        need = answer["predictions"][0]
        self.assertLess(abs(need["reserved_bytes"] - peak) / peak, 0.015)
        self.assertLessEqual(need["low_bytes"], peak)
        self.assertGreaterEqual(need["high_bytes"], peak)
        self.assertEqual(answer["limit"], "reserved")
        self.assertGreater(answer["expandable_max_batch"], answer["max_batch"])

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
            self.assertEqual((row[0], row[-1]), (str(need["batch"]), need["fits"]))
            self.assertAlmostEqual(float(row[-2].rstrip(" %")), 100 * need["reserved_bytes"] / limit, delta=0.051)
        bars = [float(part) for part in re.findall(r"--part:([0-9.]+)%", text)]
        for bar, need in zip(bars, answer["predictions"]):
            self.assertAlmostEqual(bar, min(100, 100 * need["reserved_bytes"] / limit), delta=0.051)
        self.assertEqual([row[0] for row in probes], [str(probe["batch"]) for probe in answer["probes"]])
        self.assertGreater(len(growth), 2)
        self.assertEqual(len({row[-1] for row in growth}), len(growth))

    def test_another_way_is_noticed(self):
        """The others answer, and the bounds reach to what the one that differs needed."""
        peaks = {length: harness.answer("peak", f"{DATA}/ctx{length}_inference.pickle")["peak_bytes"]
                 for length in (512, 1024)}
        answer = json.loads(size("--capacity", "16GiB", "--json", *self.series(128, 256, 512), "--predict",
                                 "512,1024").stdout)
        needs = {need["batch"]: need for need in answer["predictions"]}
        self.assertLess(abs(needs[1024]["allocated_bytes"] - peaks[1024]) / peaks[1024], 0.0005)
        for length, peak in peaks.items():
            self.assertLessEqual(needs[length]["low_bytes"], peak)
            self.assertGreaterEqual(needs[length]["high_bytes"], peak)
        self.assertLess(needs[1024]["high_bytes"], 1.5 * peaks[1024])
        result = size("--capacity", "16GiB", *self.series(128, 512, 1024))
        self.assertIn("ctx512_inference.pickle took another way", result.stdout)


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Bench(harness.TestCase):
    def test_its_short_form(self):
        bench = pathlib.Path(__file__).with_name("sizebench.py")
        result = subprocess.run([sys.executable, bench, "--short"], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Traces(harness.TestCase):
    def test_reserved_memory_of_made_up_traces(self):
        result = subprocess.run([harness.BUILD / "tests" / "sizebench" / "traces", "--short"], capture_output=True,
                                text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    harness.main()
