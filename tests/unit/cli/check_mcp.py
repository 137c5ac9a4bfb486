#!/usr/bin/env python3
"""`memprof mcp` as a client of the Model Context Protocol sees it: the protocol's own SDK asks (tools/mcp-sdk), and
answers are compared with those of the command lines."""
import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness

try:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
except ImportError:
    found = subprocess.run([harness.SOURCE / "tools/mcp-sdk"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode or "MCP_TRIED" in os.environ:
        print("the protocol's SDK could not be installed from PyPI")
        sys.exit(77)
    os.environ["MCP_TRIED"] = "1"
    os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])

MAKE = str(harness.BUILD / "tests/unit/cli/make_recording")
PAGE = 64 << 10
ENVIRONMENT = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


def lives(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def reports_of(process):
    """The child processes of memprof that answer about the long file."""
    found = []
    for word in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"/proc/self/fd/" in pathlib.Path(f"/proc/{word}/cmdline").read_bytes():
                found.append(int(word))
    return found


class Mcp(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="memprof-mcp-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.runs = self.root / "runs"
        (self.runs / "deep").mkdir(parents=True)
        for name, kind in (("train.mp", "train"), ("deep/leaking.mp", "leaking"), ("cut.mp", "cut"),
                           ("-o.mp", "train")):
            subprocess.run([MAKE, self.runs / name, kind], check=True)
        subprocess.run([MAKE, self.root / "outside.mp", "train"], check=True)

    def session(self, action, **environment):
        """The result of `action` in a client's session."""
        async def ask():
            server = StdioServerParameters(command=harness.MEMPROF, args=["mcp", str(self.runs)],
                                           env={**ENVIRONMENT, **environment})
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                return await action(session)
        return asyncio.run(ask())

    def calls(self, *calls, **environment):
        """For each (tool, arguments): the texts of the answer, and whether the call failed."""
        async def action(session):
            answers = [await session.call_tool(tool, arguments) for tool, arguments in calls]
            return [([item.text for item in answer.content], answer.model_dump(by_alias=True)["isError"]) for answer in answers]
        return self.session(action, **environment)

    def call(self, tool, arguments=None, **environment):
        (texts, failed), = self.calls((tool, arguments or {}), **environment)
        return texts[0], failed

    def command(self, *arguments):
        result = subprocess.run([harness.MEMPROF, *arguments], cwd=self.runs, text=True, capture_output=True)
        return result.stdout + ("\n" if result.stdout and result.stderr else "") + result.stderr

    def test_tools_say_what_they_take(self):
        async def action(session):
            return [tool.model_dump(by_alias=True) for tool in (await session.list_tools()).tools]
        tools = {tool["name"]: tool for tool in self.session(action)}
        self.assertEqual(set(tools), {"recordings", "report", "peak", "leaks", "holders", "steps", "frag", "advise",
                                      "info", "size", "compare"})
        for name, tool in tools.items():
            schema = tool["inputSchema"]
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))
            self.assertTrue(tool["annotations"]["readOnlyHint"])
            self.assertFalse({"output", "force", "rules", "suppressions", "config", "pid", "probe"} &
                             set(schema["properties"]), name)
            helped = " ".join(self.command(name, "--help").split()) if name != "recordings" else ""
            for option, facts in schema["properties"].items():
                if option not in ("file", "before", "after", "probes", "json", "page"):
                    self.assertIn(facts["description"], helped, (name, option))
        self.assertLessEqual({"track", "from", "to", "limit", "group", "sort", "filter", "full-stacks"},
                             set(tools["peak"]["inputSchema"]["properties"]))
        self.assertEqual({name: facts["type"] for name, facts in tools["peak"]["inputSchema"]["properties"].items()
                          if name in ("limit", "full-stacks")}, {"limit": "string", "full-stacks": "boolean"})
        self.assertEqual(tools["compare"]["inputSchema"]["required"], ["before", "after"])

    def test_answers_are_those_of_the_commands(self):
        cases = [
            ("report", {"file": "train.mp", "json": True}, ["report", "train.mp", "--json"]),
            ("report", {"file": "train.mp"}, ["report", "train.mp"]),
            ("peak", {"file": "deep/leaking.mp", "limit": 2, "full-stacks": True},
             ["peak", "deep/leaking.mp", "-n", "2", "--full-stacks"]),
            ("leaks", {"file": "deep/leaking.mp", "json": True}, ["leaks", "deep/leaking.mp", "--json", "-n", "20"]),
            ("steps", {"file": "train.mp", "from": "step:1", "json": True}, ["steps", "train.mp", "--from", "step:1", "--json", "-n", "20"]),
            ("report", {"file": "cut.mp", "json": True}, ["report", "cut.mp", "--json"]),
            ("compare", {"before": "train.mp", "after": "deep/leaking.mp", "json": True},
             ["compare", "train.mp", "deep/leaking.mp", "--json", "-n", "20"]),
            ("peak", {"file": "-o.mp"}, ["peak", "./-o.mp"])]
        answers = self.calls(*((tool, arguments) for tool, arguments, _ in cases))
        for (tool, arguments, line), answer in zip(cases, answers):
            with self.subTest(tool=tool, arguments=arguments):
                self.assertEqual(answer, ([self.command(*line)], False))
        self.assertEqual(json.loads(answers[0][0][0])["schema"], "memprof.report/1")
        (text,), failed = self.calls(("size", {"capacity": "1GiB", "probes": [
            {"batch": 4, "file": "train.mp"}, {"batch": 8, "file": "deep/leaking.mp"}]}))[0]
        size = ["size", "--capacity", "1GiB", "4=train.mp", "8=deep/leaking.mp"]
        self.assertEqual(text, self.command(*size))
        self.assertEqual(failed, subprocess.run([harness.MEMPROF, *size], cwd=self.runs, capture_output=True).returncode
                         not in (0, 4))

    def test_recordings_are_listed(self):
        (self.runs / "notes.txt").write_text("no recording")
        os.symlink("/", self.runs / "everything")
        os.symlink("../outside.mp", self.runs / "link.mp")
        os.utime(self.runs / "train.mp", (2**31, 2**31))
        (self.runs / "a\nb.mp").write_bytes(b"")
        pathlib.Path(os.fsdecode(bytes(self.runs) + b"/\xff.mp")).write_bytes(b"")
        listed = json.loads(self.call("recordings")[0])
        rows = {row["file"]: row for row in listed["recordings"]}
        self.assertEqual(set(rows), {"train.mp", "deep/leaking.mp", "cut.mp", "-o.mp", "a\nb.mp"})
        self.assertEqual((listed["whole"], listed["unnamed"]), (True, 1))
        self.assertEqual(listed["recordings"][0], {"file": "train.mp", "bytes": (self.runs / "train.mp").stat().st_size,
                                                   "changed": "2038-01-19T03:14:08Z"})

    def test_nothing_else_is_read_or_done(self):
        os.symlink("../outside.mp", self.runs / "link.mp")
        os.symlink("..", self.runs / "up")
        os.symlink("train.mp", self.runs / "inside.mp")
        before = sorted(self.root.rglob("*"))
        outside = ("../outside.mp", str(self.root / "outside.mp"), "link.mp", "up/outside.mp", "deep/../../outside.mp",
                   "missing.mp", "deep", ".", "/etc/passwd", "", "a\0b", "../runs2/x.mp", str(self.runs / "train.mp"))
        for file, (texts, failed) in zip(outside, self.calls(*(("peak", {"file": file}) for file in outside))):
            self.assertTrue(failed, file)
            self.assertIn("there is no file", texts[0], file)
        self.assertFalse(self.call("peak", {"file": "inside.mp"})[1])
        refused = ({"output": "new"}, {"rules": "/etc/passwd"}, {"config": "x"}, {"pid": "1"}, {"help": True}, {"-o": "new"})
        for arguments, (texts, failed) in zip(refused, self.calls(
                *(("peak", {"file": "train.mp", **arguments}) for arguments in refused))):
            self.assertTrue(failed, arguments)
            self.assertIn("has no argument", texts[0])
        wrong = (("size", {"capacity": "1GiB", "probes": [{"batch": "--", "file": "train.mp"}]}), ("size", {"probes": 1}),
                 ("size", {"probes": [{"batch": 4, "file": "../outside.mp"}]}), ("sh", {}), ("peak", {}),
                 ("peak", {"file": "train.mp", "track": "x --output=new"}), ("peak", {"file": "train.mp", "limit": [1]}),
                 ("peak", {"file": "train.mp", "full-stacks": "yes"}), ("peak", {"file": "train.mp", "page": 0}),
                 ("peak", {"file": "train.mp", "filter": "x" * 200_000}), ("recordings", {"file": "x"}))
        for call, answer in zip(wrong, self.calls(*wrong)):
            self.assertTrue(answer[1], call)
        self.assertFalse(self.call("peak", {"file": "train.mp"}, MEMPROF_CONF=f"output={self.root}/new")[1])
        self.assertEqual(sorted(self.root.rglob("*")), before)

    def test_a_file_is_opened_once(self):
        """A change of the folder after the check does not matter."""
        sys.path.insert(0, str(harness.SOURCE / "python"))
        import libmemprof_mcp
        whole = (self.runs / "train.mp").read_bytes()
        with libmemprof_mcp.Files(os.path.realpath(self.runs)) as files:
            path = files.open("train.mp")
            (self.runs / "train.mp").unlink()
            os.symlink("../outside.mp", self.runs / "train.mp")
            self.assertEqual(pathlib.Path(path).read_bytes(), whole)
            self.assertEqual(files.named(f"{path}: {path}0", False), f"train.mp: {path}0")
            self.assertRaises(libmemprof_mcp.Refusal, files.open, "train.mp")

    def test_long_answers_come_in_pages(self):
        trace = {"segments": [], "device_traces": [[
            {"action": "alloc", "addr": 4096 * i, "size": 512, "stream": 0, "time_us": i,
             "frames": [{"name": f"fünction_{i}", "filename": "model.py", "line": i}] * 3} for i in range(3000)]]}
        (self.runs / "many.json").write_text(json.dumps(trace))

        async def action(session):
            texts, more, page = [], True, 0
            while more and page < 100:
                page += 1
                answer = await session.call_tool("peak", {"file": "many.json", "limit": 0, "json": True, "page": page})
                texts.append(answer.content[0].text)
                more = f'"page": {page + 1}' in answer.content[1].text
                self.assertIn(f"page {page} of ", answer.content[1].text)
            beyond = await session.call_tool("peak", {"file": "many.json", "limit": 0, "json": True, "page": page + 1})
            return texts, beyond.content[0].text
        texts, beyond = self.session(action)
        self.assertGreater(len(texts), 3)
        self.assertLessEqual(max(len(text.encode()) for text in texts), PAGE)
        self.assertEqual("".join(texts), self.command("peak", "many.json", "--json", "-n", "0"))
        self.assertIn("there is no page", beyond)
        self.assertLessEqual(len(self.call("peak", {"file": "many.json", "limit": 0})[0].encode()), 8 << 10)
        self.assertEqual(len(json.loads(self.call("peak", {"file": "many.json", "json": True})[0])["sites"]), 20)

    def test_a_command_ends_with_its_server_and_its_client(self):
        (self.runs / "long.json").write_text('{"traceEvents": [' + '{"ph": "X"},' * 5_000_000)
        lines = [{"id": 1, "method": "initialize", "params": {
                     "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
                 {"method": "notifications/initialized"},
                 {"id": 2, "method": "tools/call", "params": {"name": "report", "arguments": {"file": "long.json"}}}]
        for end in ("server", "client"):
            with self.subTest(end=end):
                server = subprocess.Popen([harness.MEMPROF, "mcp", self.runs], stdin=subprocess.PIPE, env=ENVIRONMENT,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                server.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines))
                server.stdin.flush()
                self.wait_for(lambda: reports_of(server.pid), "the command is not run")
                child, = reports_of(server.pid)
                os.kill(child, signal.SIGSTOP)  # it will not end by itself
                server.kill() if end == "server" else server.stdin.close()
                self.wait_for(lambda: not lives(child), "the command lives on")
                server.wait(timeout=60)
                server.stdout.close()
                with contextlib.suppress(OSError):
                    server.stdin.close()

    def fails(self, *arguments, environment=None):
        result = subprocess.run([harness.MEMPROF, "mcp", *arguments], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                                env=environment or ENVIRONMENT, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_a_folder_that_is_none(self):
        for folder in (self.root / "missing", self.root / "outside.mp"):
            self.assertIn("cannot be entered", self.fails(folder))

    def test_without_the_sdk_or_python(self):
        bare = self.root / "bin"
        bare.mkdir()
        self.assertIn("install Python", self.fails(self.runs, environment={**os.environ, "PATH": str(bare)}))
        (bare / "python3").write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")  # -S: no site-packages
        (bare / "python3").chmod(0o755)
        self.assertIn("pip install mcp", self.fails(self.runs, environment={**os.environ, "PATH": str(bare)}))


if __name__ == "__main__":
    harness.main()
