#!/usr/bin/env python3
"""Jobs: many recordings as one. The merged file is compared with the answers of the single recordings, summed up here
in the simplest way. Any order and any tree of merges gives the same file."""

import base64
import collections
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness
from harness import answer, memprof

LEAK = 262144


def make_rank(path, rank, sites=60, steps=20, leak=0, world=0, role="", program="train.py", start=None):
    words = (path, rank, sites, steps, leak, world, role, program, 0, *([] if start is None else [start]))
    subprocess.run([harness.BUILD / "tests/unit/cli/make_rank", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


def stack_of(site):
    """The key by which a job's sites are merged."""
    return tuple((frame["function"], frame["file"], frame["line"], frame["module"], frame["language"])
                 for frame in site["stack"])


def merge_by_hand(paths):
    """The peak sites of single recordings, merged: stack to its bytes by path."""
    merged = collections.defaultdict(dict)
    for path in paths:
        for site in answer("peak", path, "-n", 0)["sites"]:
            of = merged[stack_of(site)]
            of[str(path)] = of.get(str(path), 0) + site["bytes"]
    return merged


class Jobs(harness.TestCase):
    def ranks(self, count, leaking=(), **how):
        paths = []
        for rank in range(count):
            paths.append(self.folder / f"r{rank:02}.mp")
            make_rank(paths[-1], rank, leak=LEAK if rank in leaking else 0, **how)
        return paths

    def merge(self, *files, to, status=0):
        result = memprof("merge", *files, "-o", to, "--force")
        self.assertEqual(result.returncode, status, result.stderr)
        return to.read_bytes()


class Joining(Jobs):
    def test_any_order_and_any_tree_give_the_same_bytes(self):
        paths = self.ranks(7, leaking=(3, 5))
        whole = self.merge(*paths, to=self.folder / "job.mp")
        dice = random.Random(25)
        for attempt in range(8):
            parts, number = paths[:], 0
            while len(parts) > 1:
                dice.shuffle(parts)
                taken = [parts.pop() for _ in range(min(len(parts), dice.choice((2, 2, 3, 7))))]
                parts.append(self.folder / f"part{attempt}-{number}.job")
                self.merge(*taken, to=parts[-1])
                number += 1
            self.assertEqual(parts[0].read_bytes(), whole, f"attempt {attempt}, {number} merges")

    def test_a_merged_job_says_what_its_recordings_say(self):
        paths = self.ranks(4, leaking=(1,))
        job = self.folder / "job.mp"
        self.merge(*paths, to=job)
        for command in ("report", "peak", "leaks", "steps"):
            ours, theirs = answer(command, *paths), answer(command, job)
            for told in (ours, theirs):
                told.get("info", {}).pop("file", None)
            self.assertEqual(ours, theirs, command)

    def test_the_sites_are_those_of_the_single_recordings(self):
        paths = self.ranks(5, leaking=(2,))
        by_hand = merge_by_hand(paths)
        told = answer("peak", *paths)
        names = [process["path"] for process in told["processes"]]
        self.assertEqual(sorted(names), sorted(map(str, paths)))
        self.assertEqual(len(told["sites"]), len(by_hand))
        for site in told["sites"]:
            own = by_hand[stack_of(site)]
            self.assertEqual(site["bytes"], sum(own.values()))
            self.assertEqual(site["processes"], len(own))
            self.assertEqual((site["least_bytes"], site["most_bytes"]), (min(own.values()), max(own.values())))
            self.assertEqual(site["mean_bytes"], sum(own.values()) // len(own))
            # The first in the order of processes, where several are equal.
            for which, of in (("least", min), ("most", max)):
                value = of(own.values())
                first = next(i for i, name in enumerate(names) if own.get(name) == value)
                self.assertEqual(site[f"{which}_process"], first)

    def test_the_processes_are_those_of_the_single_recordings(self):
        paths = self.ranks(5, leaking=(2,))
        told = answer("report", *paths)
        self.assertEqual(told["schema"], "memprof.report/1")
        for process in told["processes"]:
            info, peak = answer("info", process["path"]), answer("peak", process["path"])
            leaks = answer("leaks", process["path"])
            self.assertEqual(process["pid"], info["process"]["pid"])
            self.assertEqual((process["peak_bytes"], process["peak_ns"]), (peak["peak_bytes"], peak["peak_ns"]))
            self.assertEqual(process["step"], peak["step"])
            self.assertEqual(process["verdict"], leaks["verdict"])
            self.assertEqual(process["outstanding_bytes"], leaks["outstanding"]["bytes"])
            self.assertEqual(process["bytes_per_step"], sum(of["bytes_per_step"] for of in leaks["findings"]))
        highest = max(told["processes"], key=lambda process: process["peak_bytes"])
        self.assertEqual(told["peak"]["peak_bytes"], highest["peak_bytes"])
        self.assertEqual(told["processes"][told["peak"]["process"]], highest)
        middle = told["peak"]["groups"][0]["median_bytes"]
        self.assertEqual(middle, statistics.median(process["peak_bytes"] for process in told["processes"]))

    def test_the_median_of_an_even_number(self):
        told = answer("report", *self.ranks(4, leaking=(2,)))
        peaks = [process["peak_bytes"] for process in told["processes"]]
        self.assertGreater(len(set(peaks)), 1)
        self.assertEqual(told["peak"]["groups"][0]["median_bytes"], int(statistics.median(peaks)))

    def test_steps_are_those_of_the_single_recordings(self):
        paths = self.ranks(3, leaking=(1,))
        single = [[step["peak_bytes"] for step in answer("steps", path)["steps"]] for path in paths]
        told = answer("steps", *paths)
        self.assertEqual(told["steps_per_row"], 1)
        self.assertEqual([row["peak_bytes"] for row in told["steps"]], [max(of) for of in zip(*single)])
        self.assertEqual([row["least_peak_bytes"] for row in told["steps"]], [min(of) for of in zip(*single)])
        self.assertEqual([row["mean_peak_bytes"] for row in told["steps"]], [sum(of) // 3 for of in zip(*single)])

    def test_many_steps_are_kept_in_few_points(self):
        paths = self.ranks(2, steps=1000)
        single = [[step["peak_bytes"] for step in answer("steps", path)["steps"]] for path in paths]
        told = answer("steps", *paths)
        width = told["steps_per_row"]
        self.assertGreater(width, 1)
        for row in told["steps"]:
            steps = [step for step in range(row["step"], row["step"] + width) if 1 <= step <= 1000]
            self.assertEqual(row["peak_bytes"], max(of[step - 1] for of in single for step in steps))

    def test_a_sum_of_curves_lies_between_the_highest_and_all_peaks(self):
        device, = answer("peak", *self.ranks(4))["shared_devices"]
        peaks = [answer("peak", path)["peak_bytes"] for path in sorted(self.folder.glob("r*.mp"))]
        self.assertEqual(device["separate_peaks_bytes"], sum(peaks))
        self.assertLessEqual(device["sum_peak_bytes"], sum(peaks))
        self.assertGreater(device["sum_peak_bytes"], max(peaks))
        self.assertEqual((device["host"], device["device"], device["processes"]), ("node7", "cuda:0", 4))


class Reading(Jobs):
    def test_a_leak_in_one_rank_of_four_comes_first(self):
        paths = self.ranks(4, leaking=(2,))
        result = memprof("leaks", *paths)
        self.assertEqual(result.stdout.splitlines()[0],
                         "leak: r02.mp keeps growing, +256 KiB a step; 1 of 4 processes, 20 steps (api)")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(memprof("leaks", "--fail", *paths).returncode, 3)
        self.assertEqual(memprof("leaks", "--fail", *self.ranks(4)).returncode, 0)

    def test_one_cause_in_two_ranks_is_one_row(self):
        paths = self.ranks(4, leaking=(1, 2))
        said = memprof("leaks", *paths).stdout
        self.assertEqual(said.count("retention, "), 1)
        self.assertIn("; the same in 1 more process, +512 KiB a step in all\n", said)
        self.assertEqual(len(answer("leaks", *paths)["findings"]), 2)

    def test_who_is_out_of_line_and_by_which_site(self):
        told = answer("peak", *self.ranks(4, leaking=(2,)))
        (found,) = told["out_of_line"]
        self.assertTrue(told["processes"][found["process"]]["path"].endswith("r02.mp"))
        self.assertEqual(found["sites"][0]["stack"][0]["function"], "f2")
        self.assertEqual(answer("peak", *self.ranks(4))["out_of_line"], [])

    def test_a_folder_is_a_job(self):
        self.ranks(3)
        (self.folder / "train.log").write_text("step 1\n")
        (self.folder / "sub.mp").mkdir()
        for words in ((), ("report",), ("peak",), ("steps",), ("info",)):
            result = memprof(*words, self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("3 processes", result.stdout)
        self.assertEqual(len(answer("report", self.folder)["processes"]), 3)

    def test_one_recording_of_a_job_is_a_job_of_one(self):
        self.ranks(1)
        self.assertEqual(len(answer("report", self.folder)["processes"]), 1)
        result = memprof("leaks", self.folder)
        self.assertIn("clean: no site of 1 process keeps growing", result.stdout)

    def test_what_cannot_answer_says_so(self):
        job = self.folder / "job.mp"
        paths = self.ranks(2)
        self.merge(*paths, to=job)
        for command in ("frag", "advise", "holders"):
            result = memprof(command, job)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stdout, "")
            self.assertIn(f"is a job of 2 recordings: name one of them, as {paths[0]}", result.stderr)
        paths[0].unlink()
        self.assertIn("is a job of 2 recordings: name one of its recordings\n", memprof("frag", job).stderr)
        anonymous = memprof("anonymize", job, "-o", self.folder / "anonymous.mp")
        self.assertEqual((anonymous.returncode, (self.folder / "anonymous.mp").exists()), (1, False))
        result = memprof("recover", job, "-o", self.folder / "whole.mp")
        self.assertEqual(result.returncode, 1)
        self.assertIn("is a job, which cannot be recovered", result.stderr)
        self.assertFalse((self.folder / "whole.mp").exists())
        result = memprof("peak", job, "--track", "cuda:0/torch")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--track needs a single recording", result.stderr)


class Ranks(Jobs):
    """Recordings that know their rank in the job."""

    def ranks(self, count, world=0, absent=(), programs=(), **how):
        paths = []
        for rank in range(count):
            if rank in absent:
                continue
            paths.append(self.folder / f"{(7 * rank) % 100:02}.mp")  # names say nothing
            program = "other.py" if rank in programs else "train.py"
            make_rank(paths[-1], rank, world=world or count, program=program, **how)
        return paths

    def test_processes_are_named_by_rank_and_come_in_order(self):
        paths = self.ranks(5)
        make_rank(paths[2], 2, world=5, leak=LEAK)
        worker = self.folder / "worker.mp"
        make_rank(worker, 2, world=5, role="loader worker", sites=5)
        told = answer("report", self.folder)
        self.assertEqual([(process["rank"], process["helper"]) for process in told["processes"]],
                         [(0, False), (1, False), (2, False), (2, True), (3, False), (4, False)])
        self.assertTrue(all(process["world_size"] == 5 for process in told["processes"]))
        self.assertEqual(memprof("leaks", self.folder).stdout.splitlines()[0],
                         "leak: rank 2 keeps growing, +256 KiB a step; 1 of 6 processes, 20 steps (api)")
        report = memprof("report", self.folder)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("5 ranks of train.py, 1 loader worker", report.stdout.splitlines()[0])

    def test_a_leak_in_a_worker_comes_first(self):
        self.ranks(4)
        make_rank(self.folder / "worker.mp", 1, world=4, role="loader worker", sites=5, leak=LEAK)
        self.assertEqual(memprof("leaks", self.folder).stdout.splitlines()[0],
                         "leak: loader worker 6001 of rank 1 keeps growing, +256 KiB a step; 1 of 5 processes, 20 steps (api)")
        self.assertEqual(memprof("leaks", self.folder, "--fail").returncode, 3)

    def test_ranks_are_missing(self):
        for world, absent, said in ((6, (1, 3, 4), "3 ranks have no recording: 1, 3-4"),
                                    (8, (), "2 ranks have no recording: 6-7"), (6, (5,), "1 rank has no recording: 5"),
                                    (6, (0,), "1 rank has no recording: 0")):
            for path in self.folder.glob("*.mp"):
                path.unlink()
            self.ranks(6, world=world, absent=absent)
            result = memprof("report", self.folder)
            self.assertEqual(result.returncode, 4)
            self.assertEqual(result.stderr, f"memprof: {said}\n")
            self.assertEqual(answer("report", self.folder, status=4)["coverage"]["notes"], [said])

    def test_many_absent_ranks_stay_readable(self):
        self.ranks(22, world=22, absent=range(1, 22, 2))
        result = memprof("report", self.folder)
        self.assertEqual(result.stderr, "memprof: 11 ranks have no recording: 1, 3, 5, 7, 9, 11, 13, 15 and 3 more\n")

    def test_two_recordings_of_one_rank(self):
        self.ranks(3)
        make_rank(self.folder / "again.mp", 1, world=3, steps=12)
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 4)
        self.assertIn("1 recording is there twice: rank 1", result.stderr)

    def test_a_rank_of_another_program(self):
        self.ranks(4, programs=(3,))
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 4)
        self.assertIn("1 rank ran another program than the rest: rank 3 (other.py)", result.stderr)

    def test_recordings_of_several_runs(self):
        self.ranks(2, world=2)
        make_rank(self.folder / "x.mp", 2, world=3)
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 4)
        self.assertIn("give different numbers of ranks", result.stderr)

    def test_ranks_that_were_started_again(self):
        """Attempts come in the order of time, and ranks are compared within one. A rank may lack a file of the first."""
        hour, wanted = 3_600 * 10**9, {}
        for attempt, ranks, sites in ((1, (0, 1, 2), 20), (2, (0, 1, 2, 3), 60)):
            for rank in ranks:
                path = self.folder / f"r{rank}.{attempt}.mp"
                make_rank(path, rank, sites=sites, world=4, start=10**18 + attempt * hour + rank * 10**6)
                wanted[path.name] = (rank, attempt)
        peak = answer("peak", self.folder, status=0)
        self.assertEqual({pathlib.Path(row["path"]).name: (row["rank"], row["attempt"]) for row in peak["processes"]}, wanted)
        self.assertEqual(sorted(group["processes"] for group in peak["groups"]), [3, 4])
        later, first = peak["groups"]
        self.assertGreater(later["least_bytes"], first["most_bytes"])
        self.assertEqual(peak["coverage"]["notes"], [])
        text = memprof("peak", self.folder).stdout
        self.assertIn("rank 3, attempt 2 ", text)
        self.assertIn("4 ranks of train.py, attempt 2", memprof("report", self.folder).stdout)
        for path in self.folder.glob("*.1.mp"):
            path.unlink()
        self.assertEqual({row["attempt"] for row in answer("peak", self.folder)["processes"]}, {None})


@unittest.skipUnless(shutil.which("mpirun") and (harness.BUILD / "libmemprof-mpi.so").exists(),
                     "no mpirun (Debian: openmpi-bin), or built without MPI")
class Mpi(Jobs):
    def run_mpi(self, ranks, *words):
        return subprocess.run(["mpirun", "-n", str(ranks), harness.MEMPROF, *map(str, words)], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT,
                              env=harness.mpi_environment(self.folder))

    def test_the_result_is_the_serial_one(self):
        paths = self.ranks(7, leaking=(3,))
        whole = paths[5].read_bytes()
        paths[5].write_bytes(whole[:len(whole) * 3 // 4])
        (self.folder / "broken.mp").write_text("no recording")
        words = (*paths, self.folder / "broken.mp")
        serial = self.merge(*words, to=self.folder / "serial.job", status=4)
        for ranks in (1, 2, 3, 4, 9):
            out = self.folder / f"{ranks}.job"
            result = self.run_mpi(ranks, "merge", *words, "-o", out)
            self.assertEqual(out.read_bytes(), serial, (ranks, result.stderr))
            self.assertEqual(result.stderr.count("recording is not whole"), 1, result.stderr)

    def test_what_is_left_out_is_said_once(self):
        paths = self.ranks(5)
        out = self.folder / "x.job"
        result = self.run_mpi(4, "merge", *paths, paths[2], "-o", out)
        self.assertEqual(result.stderr.count("memprof: "), 2, result.stderr)  # the job, and what it leaves out
        self.assertIn(f"1 file was left out: {paths[2]} (named twice)", result.stderr)
        self.assertEqual(out.read_bytes(), self.merge(*paths, paths[2], to=self.folder / "serial.job"))

    def test_what_cannot_work_ends_all_ranks_and_is_said_once(self):
        (self.folder / "empty").mkdir()
        for words in (("merge", self.folder / "empty", "-o", self.folder / "x.job"),
                      ("merge", self.folder / "absent.mp", "-o", self.folder / "x.job")):
            result = self.run_mpi(3, *words)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("memprof: "), 1, result.stderr)
            self.assertFalse((self.folder / "x.job").exists())

    def run_unlike(self, script, *words):
        """Four ranks of a script that gets memprof and the words."""
        return subprocess.run(["mpirun", "-n", "4", "sh", "-c", script, "sh", *map(str, (harness.MEMPROF, *words))],
                              text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT,
                              env=harness.mpi_environment(self.folder))

    def test_a_rank_with_other_files_ends_all_with_a_sentence(self):
        paths, out = self.ranks(3), self.folder / "x.job"
        (self.folder / "empty").mkdir()
        script = ('[ "$OMPI_COMM_WORLD_RANK" = "$2" ] && exec "$1" merge "$4" -o "$3"\n'
                  'memprof=$1 out=$3; shift 4; exec "$memprof" merge "$@" -o "$out"')
        for bad in range(4):
            result = self.run_unlike(script, bad, out, self.folder / "empty", *paths)
            self.assertNotEqual(result.returncode, 0)
            said = f"MPI rank {bad} got other files than rank 0" if bad else "is a folder without recordings"
            self.assertIn(said, result.stderr)
            self.assertFalse(out.exists(), bad)

    def test_a_rank_that_sees_less_names_what_it_lacks(self):
        """Each rank in a folder of its own, as on nodes that do not share it: rank 2 lacks a file."""
        paths, out = self.ranks(6), self.folder / "x.job"
        for node in range(4):
            (self.folder / f"node{node}").mkdir()
            for path in paths:
                if (node, path) != (2, paths[2]):
                    shutil.copy(path, self.folder / f"node{node}")
        script = f'cd {self.folder}/node$OMPI_COMM_WORLD_RANK && exec "$1" merge . -o "$2"'
        result = self.run_unlike(script, out)
        self.assertIn("r02.mp", result.stderr)
        self.assertIn("1 file could not be used", result.stderr)
        self.assertEqual(len(answer("report", out, status=4)["processes"]), 5)


def page_of(path):
    """A job's page, read as viz/FORMAT.md describes it: the header, the JSON and the curves of each kind."""
    html = path.read_text()
    header = json.loads(re.search(r'<script type="application/json" id="header">(.*?)</script>', html, re.S)[1])
    packed = base64.b64decode("".join(re.findall(r'<script type="text/plain" id="d\d+">(.*?)</script>', html, re.S)))
    columns, at = {}, 0
    for name, entries, size, length in header["columns"]:
        columns[name] = zlib.decompress(packed[at:at + length], wbits=-15)
        assert len(columns[name]) == size
        at += length
    facts = json.loads(columns["job.facts"])
    return html, facts, {along: curves_of(facts["by_" + along], columns["job." + along]) for along in ("step", "clock")}


def curves_of(rows, data):
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    numbers = iter(numbers)
    signed = lambda number: -(number + 1) // 2 if number % 2 else number // 2
    curves = []
    for process, track, shift, count in rows:
        at = most = 0
        points = []
        for _ in range(count):
            at += next(numbers)
            most += signed(next(numbers))
            points.append((at << shift, most, most - signed(next(numbers))))
        curves.append((process, track, points))
    assert next(numbers, None) is None
    return curves


class Page(Jobs):
    def test_the_page_of_a_job_holds_its_processes_and_curves(self):
        paths = self.ranks(4, leaking=(2,))
        hostile = self.folder / "<script>x.mp"
        make_rank(hostile, 9)
        page = self.folder / "job.html"
        result = memprof("trace_plot", *paths, hostile, "-o", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        html, facts, curves = page_of(page)
        self.assertNotIn("<script>x", html)
        told = answer("report", *paths, hostile)
        for key, name in (("path", "path"), ("peak", "peak_bytes"), ("end", "outstanding_bytes"), ("peak_step", "step"),
                          ("growth", "bytes_per_step"), ("verdict", "verdict")):
            self.assertEqual(facts["processes"][key], [process[name] for process in told["processes"]])
        for along in ("step", "clock"):
            self.assertEqual([process for process, _, _ in curves[along]], list(range(5)))
            for process, track, points in curves[along]:
                self.assertEqual(track, "cuda:0/torch")
                self.assertEqual(max(most for _, most, _ in points), told["processes"][process]["peak_bytes"])
                self.assertTrue(all(last <= most for _, most, last in points))
                self.assertEqual(points[-1][2], told["processes"][process]["outstanding_bytes"])
        (leak,) = facts["leaks"]
        self.assertEqual((told["processes"][leak[0]]["path"], leak[2]), (str(paths[2]), LEAK))
        self.assertIn("f2", facts["stacks"][leak[1]][0])

    def test_a_merged_job_has_the_page_of_its_recordings(self):
        paths, job = self.ranks(3, leaking=(1,)), self.folder / "a.job"
        self.merge(*paths, to=job)
        self.assertEqual(memprof("trace_plot", job, "-o", self.folder / "1.html").returncode, 0)
        self.assertEqual(memprof("trace_plot", *paths, "-o", self.folder / "2.html").returncode, 0)
        self.assertEqual(page_of(self.folder / "1.html")[1:], page_of(self.folder / "2.html")[1:])

    def test_a_recording_without_a_start_begins_with_the_job(self):
        paths = self.ranks(2)
        make_rank(self.folder / "unknown.mp", 5, start=0)
        page = self.folder / "job.html"
        self.assertEqual(memprof("trace_plot", *paths, self.folder / "unknown.mp", "-o", page).returncode, 0)
        curves = page_of(page)[2]["clock"]
        self.assertEqual(len(curves), 3)
        for process, _, points in curves:
            self.assertGreater(len({at for at, _, _ in points}), 10, process)
            self.assertLess(points[0][0], 10_000_000, process)

    def test_ten_times_the_sites_are_no_larger_a_page(self):
        """The page shows the heaviest sites, and the sum of the others."""
        sizes = []
        for sites in (400, 4000):
            for rank in range(2):
                make_rank(self.folder / f"r{rank}.mp", rank, sites=sites)
            page = self.folder / "job.html"
            self.assertEqual(memprof("trace_plot", self.folder, "-o", page, "--force").returncode, 0)
            _, facts, _ = page_of(page)
            every = answer("peak", self.folder, "-n", 0)["sites"]
            self.assertEqual((facts["site_count"], len(facts["sites"])), (len(every), 300))
            self.assertEqual([site[2] for site in facts["sites"]], [site["bytes"] for site in every[:300]])
            self.assertEqual(facts["other_sites_bytes"], sum(site["bytes"] for site in every[300:]))
            sizes.append(page.stat().st_size)
        self.assertLess(sizes[1], 1.2 * sizes[0])


class Comparing(Jobs):
    def test_two_jobs(self):
        for name, leaking in (("before", ()), ("after", (2,))):
            folder = self.folder
            self.folder = folder / name
            self.folder.mkdir()
            self.ranks(4, leaking=leaking)
            self.folder = folder
        before, after = self.folder / "before", self.folder / "after"
        for words in (["report", before], ["compare", before, after]):
            page = self.folder / "job.html"
            harness.memprof(*words, "-o", page)
            self.assertIn("<table>", page.read_text())
            page.unlink()
        told = answer("compare", before, after)
        peaks = [max(answer("peak", path)["peak_bytes"] for path in of.glob("*.mp")) for of in (before, after)]
        self.assertEqual([told["peak"]["before_bytes"], told["peak"]["after_bytes"]], peaks)
        first = told["sites"][0]
        self.assertEqual(first["stack"][0]["function"], "f2")
        sums = [sum(site["bytes"] for path in of.glob("*.mp") for site in answer("peak", path, "-n", 0)["sites"]
                    if stack_of(site) == stack_of(first)) for of in (before, after)]
        self.assertEqual([first["before_bytes"], first["after_bytes"]], [sums[0] // 4, sums[1] // 4])
        self.assertEqual(first["delta_bytes"], sums[1] // 4 - sums[0] // 4)
        self.assertEqual(memprof("compare", before, after, "--fail").returncode, 3)
        self.assertEqual(memprof("compare", before, before, "--fail").returncode, 0)
        self.assertIn("no site differs", memprof("compare", before, before).stdout)
        merged = self.folder / "after.job"
        self.merge(after, to=merged)
        self.assertEqual(answer("compare", before, merged)["sites"], told["sites"])


class BadInput(Jobs):
    def test_one_cut_file_among_many(self):
        paths = self.ranks(6)
        data = paths[4].read_bytes()
        paths[4].write_bytes(data[:len(data) - 200])
        result = memprof("report", *paths)
        self.assertEqual(result.returncode, 4)
        self.assertIn("1 recording is not whole", result.stderr)
        self.assertIn("r04.mp (the file is cut", result.stderr)
        self.assertIn("6 processes", result.stdout)
        self.assertFalse(answer("report", *paths, status=4)["coverage"]["complete"])

    def test_what_is_no_recording_is_named_and_the_rest_merged(self):
        paths = self.ranks(3)
        (self.folder / "x.mp").write_text("no recording")
        job = self.folder / "out.job"
        result = memprof("merge", self.folder, self.folder / "absent.mp", "-o", job)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("2 files could not be used", result.stderr)
        self.assertIn("x.mp", result.stderr)
        self.assertIn("absent.mp", result.stderr)
        self.assertEqual(len(answer("report", job, status=4)["processes"]), len(paths))

    def test_nothing_usable(self):
        (self.folder / "x.mp").write_text("no recording")
        for operands in ((self.folder,), (self.folder / "x.mp", self.folder / "y.mp")):
            for command in (("report",), ("merge", "-o", self.folder / "new.job")):
                result = memprof(*command, *operands)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertFalse((self.folder / "new.job").exists())
        (self.folder / "x.mp").unlink()
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is a folder without recordings", result.stderr)

    def test_a_file_named_twice_counts_once(self):
        paths = self.ranks(2)
        os.link(paths[0], self.folder / "z.mp")
        result = memprof("report", self.folder, paths[1])
        self.assertIn("2 processes", result.stdout)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 files were left out: ", result.stderr)
        self.assertEqual(result.stderr.count("(named twice)"), 2)
        coverage = answer("report", self.folder, paths[1])["coverage"]
        self.assertEqual([coverage["complete"], len(coverage["notes"])], [True, 1])
        self.assertIn("note: 2 files were left out: ", result.stdout)
        job = self.folder / "all.job"
        self.merge(self.folder, paths[1], to=job)
        self.assertEqual(answer("report", job)["coverage"], coverage)

    def test_a_copy_of_a_recording_is_noticed(self):
        paths = self.ranks(2)
        shutil.copy(paths[0], self.folder / "r00-copy.mp")
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 4)
        self.assertIn("1 recording is there twice", result.stderr)

    def test_a_copy_far_from_its_recording_is_noticed(self):
        paths = self.ranks(4)
        shutil.copy(paths[0], self.folder / "z.mp")
        result = memprof("report", self.folder)
        self.assertEqual(result.returncode, 4)
        self.assertIn("1 recording is there twice", result.stderr)
        self.assertIn("z.mp (of the same process as", result.stderr)

    def test_a_cut_recording_does_not_need_less(self):
        paths = self.ranks(5, sites=400)
        data = paths[2].read_bytes()
        paths[2].write_bytes(data[:len(data) * 2 // 3])
        told = answer("peak", *paths, status=4)
        names = [process["path"] for process in told["processes"] if process["missing"]]
        self.assertEqual(names, [str(paths[2])])
        for found in told["out_of_line"]:
            process = told["processes"][found["process"]]
            self.assertFalse(process["missing"] and found["peak_bytes"] < found["usual_bytes"], found)

    def test_a_cut_job_stays_incomplete_when_merged_again(self):
        part, whole = self.folder / "part.job", self.folder / "whole.job"
        data = self.merge(*self.ranks(3), to=part)
        part.write_bytes(data[:len(data) - 60])
        self.merge(part, to=whole, status=4)
        result = memprof("report", whole)
        self.assertEqual(result.returncode, 4)
        self.assertIn(f"1 merged job is not whole: {part} (the file is cut", result.stderr)
        self.assertFalse(answer("report", whole, status=4)["coverage"]["complete"])
        self.assertNotIn("the first 0 ns", memprof("report", part).stderr)

    def test_an_existing_file_stays(self):
        paths = self.ranks(2)
        before = paths[0].read_bytes()
        result = memprof("merge", *paths, "-o", paths[0])
        self.assertEqual(result.returncode, 1)
        self.assertEqual(paths[0].read_bytes(), before)
        self.assertEqual(memprof("merge", *paths).returncode, 2)

    def test_a_recording_is_not_replaced_by_its_job(self):
        paths = self.ranks(2)
        before = paths[0].read_bytes()
        for inputs in (paths, (self.folder,)):
            result = memprof("merge", *inputs, "-o", paths[0], "--force")
            self.assertEqual(result.returncode, 1)
            self.assertIn("is one of the recordings", result.stderr)
            self.assertEqual(paths[0].read_bytes(), before)

    def test_a_job_beside_its_recordings_does_not_count_again(self):
        self.ranks(3)
        job = self.folder / "job.mp"
        once = self.merge(self.folder, to=job)
        self.assertEqual(self.merge(self.folder, to=job), once)
        self.assertEqual(len(answer("report", self.folder)["processes"]), 3)
        for path in self.folder.glob("r*.mp"):
            path.unlink()
        self.assertEqual(len(answer("report", self.folder)["processes"]), 3)  # nothing else is there

    def test_a_damaged_job_is_read_around(self):
        job = self.folder / "job.mp"
        self.merge(*self.ranks(4), to=job)
        data = job.read_bytes()
        for cut in range(1, len(data), 97):
            job.write_bytes(data[:cut])
            result = memprof("report", job)
            self.assertIn(result.returncode, (1, 4), (cut, result.stderr))
            flipped = bytearray(data)
            flipped[cut] ^= 0x55
            job.write_bytes(flipped)
            result = memprof("leaks", job)
            self.assertIn(result.returncode, (0, 1, 4), (cut, result.stderr))


if __name__ == "__main__":
    harness.main()
