#!/usr/bin/env python3
"""`memprof mcp` as a client of the Model Context Protocol sees it. Answers are held against the command lines that they
stand for. With MEMPROF_MCP_SDK, a folder with npm's @modelcontextprotocol/sdk, the protocol's own client asks, too."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness

MAKE = str(harness.BUILD / "tests/unit/cli/make_recording")
SDK = os.environ.get("MEMPROF_MCP_SDK")
CLIENT = """
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StdioClientTransport} from "@modelcontextprotocol/sdk/client/stdio.js";
const [, , memprof, folder, calls] = process.argv;
const client = new Client({name: "test", version: "1"});
await client.connect(new StdioClientTransport({command: memprof, args: ["mcp", folder]}));
const names = (await client.listTools()).tools.map(tool => tool.name);
const answers = [];
for (const [name, args] of JSON.parse(calls)) answers.push(await client.callTool({name, arguments: args}));
console.log(JSON.stringify({names, answers}));
await client.close();
"""


def lives(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


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

    def serve(self, *lines, folder=None, status=0, environment=None):
        """The answers to lines, which are texts or messages."""
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        result = subprocess.run([harness.MEMPROF, "mcp", str(folder or self.runs)], input=text, text=True,
                                capture_output=True, env={**os.environ, **(environment or {})}, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def call(self, tool, environment=None, **arguments):
        """The text of a tool's answer, and whether it says that it failed."""
        answer, = self.serve({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                              "params": {"name": tool, "arguments": {name.replace("_", "-"): value for name, value in
                                                                     arguments.items()}}}, environment=environment)
        self.assertEqual(answer["id"], 7)
        content, = answer["result"]["content"]
        self.assertEqual(content["type"], "text")
        return content["text"], answer["result"]["isError"]

    def command(self, *arguments):
        result = subprocess.run([harness.MEMPROF, *arguments], cwd=self.runs, text=True, capture_output=True)
        return result.stdout + ("\n" if result.stdout and result.stderr else "") + result.stderr

    def test_how_it_begins(self):
        answers = self.serve(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "a\"b", "method": "initialize", "params": {"protocolVersion": "1999-01-01"}},
            "", {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        self.assertEqual([answer["id"] for answer in answers], [0, 'a"b', 2])
        self.assertEqual(answers[0]["result"]["protocolVersion"], "2025-03-26")
        self.assertEqual(answers[1]["result"]["protocolVersion"], "2025-11-25")
        self.assertEqual(answers[0]["result"]["serverInfo"]["name"], "memprof")
        self.assertIn("tools", answers[0]["result"]["capabilities"])
        self.assertEqual(answers[2]["result"], {})

    def test_tools_say_what_they_take(self):
        answer, = self.serve({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
        self.assertEqual(set(tools), {"recordings", "report", "peak", "leaks", "holders", "steps", "frag", "advise",
                                      "info", "size", "compare"})
        for name, tool in tools.items():
            schema = tool["inputSchema"]
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))
            self.assertTrue(tool["annotations"]["readOnlyHint"])
            self.assertFalse({"output", "force", "rules", "suppressions", "config", "pid", "probe"} &
                             set(schema["properties"]), name)
        self.assertEqual(tools["compare"]["inputSchema"]["required"], ["before", "after"])

    def test_tools_say_of_options_what_their_command_says(self):
        answer, = self.serve({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        for tool in answer["result"]["tools"]:
            if tool["name"] == "recordings":
                continue
            help_text = " ".join(self.command(tool["name"], "--help").split())
            for name, schema in tool["inputSchema"]["properties"].items():
                if name not in ("file", "before", "after", "probes"):
                    self.assertIn(" ".join(schema["description"].split()), help_text, (tool["name"], name))

    def test_answers_are_those_of_the_commands(self):
        for tool, arguments, line in (
                ("report", {"file": "train.mp"}, ["report", "train.mp"]),
                ("peak", {"file": "deep/leaking.mp", "limit": 2, "full_stacks": True},
                 ["peak", "deep/leaking.mp", "-n", "2", "--full-stacks"]),
                ("leaks", {"file": "deep/leaking.mp", "json": True},
                 ["leaks", "deep/leaking.mp", "--json", "-n", "20"]),
                ("steps", {"file": "train.mp", "from": "step:1"}, ["steps", "train.mp", "--from", "step:1"]),
                ("report", {"file": "cut.mp"}, ["report", "cut.mp"]),
                ("compare", {"before": "train.mp", "after": "deep/leaking.mp"},
                 ["compare", "train.mp", "deep/leaking.mp"]),
                ("peak", {"file": "-o.mp"}, ["peak", "./-o.mp"])):
            with self.subTest(tool=tool, arguments=arguments):
                self.assertEqual(self.call(tool, **arguments), (self.command(*line), False))

    def test_a_job_in_the_folder_is_answered(self):
        ranks = [self.runs / f"rank{rank}.mp" for rank in range(2)]
        for rank, path in enumerate(ranks):
            subprocess.run([harness.BUILD / "tests/unit/cli/make_rank", path, str(rank), "20", "60", "65536" if rank else "0", "2"],
                           check=True)
        self.command("merge", *ranks, "-o", "job.mp")
        for tool in ("report", "peak", "leaks", "steps", "info"):
            self.assertEqual(self.call(tool, file="job.mp"), (self.command(tool, "job.mp"), False))
        text, failed = self.call("frag", file="job.mp")
        self.assertTrue(failed)
        self.assertIn("is a job of 2 recordings: name one of them", text)

    def test_two_probes_are_sized(self):
        text, failed = self.call("size", capacity="1GiB", probes=[{"batch": 4, "file": "train.mp"},
                                                                  {"batch": 8, "file": "deep/leaking.mp"}])
        self.assertEqual(text, self.command("size", "--capacity", "1GiB", "4=train.mp", "8=deep/leaking.mp"))
        self.assertTrue(failed)

    def test_recordings_are_listed(self):
        (self.runs / "notes.txt").write_text("no recording")
        os.symlink("/", self.runs / "everything")
        os.utime(self.runs / "train.mp", (2**31, 2**31))
        (self.runs / "a\nb.mp").write_bytes(b"")
        os.utime(self.runs / "a\nb.mp", (0, 0))
        text, failed = self.call("recordings")
        lines = text.splitlines()
        self.assertEqual(lines[0], f"train.mp  {(self.runs / 'train.mp').stat().st_size} bytes  2038-01-19T03:14:08Z")
        self.assertIn("rename it", lines.pop())
        self.assertEqual({line.split()[0] for line in lines}, {"train.mp", "deep/leaking.mp", "cut.mp", "-o.mp"})

    def test_a_time_that_no_calendar_has(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="memprof-mcp-", dir="/dev/shm"))  # tmpfs keeps any time
        self.addCleanup(shutil.rmtree, folder)
        (folder / "late.mp").write_bytes(b"")
        os.utime(folder / "late.mp", (2**57, 2**57))
        answer, = self.serve({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "recordings"}},
                             folder=folder)
        self.assertEqual(answer["result"]["content"][0]["text"], "late.mp  0 bytes  ?\n")

    def test_a_command_ends_with_its_server_and_its_client(self):
        (self.runs / "long.json").write_text('{"traceEvents": [' + '{"ph": "X"},' * 5_000_000)
        for end, status in (("server", -9), ("client", 1)):
            with self.subTest(end=end):
                server = subprocess.Popen([harness.MEMPROF, "mcp", self.runs], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(server.stdin.close)
                server.stdin.write(b'{"id": 1, "method": "tools/call", "params": {"name": "report", "arguments": '
                                   b'{"file": "long.json"}}}\n')
                server.stdin.flush()
                children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children")
                self.wait_for(children.read_text, "the command never began")
                child = int(children.read_text())
                self.wait_for(lambda: b"report" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes(),
                              "the command is not run")
                os.kill(child, signal.SIGSTOP)  # it will not end by itself
                if end == "server":
                    server.kill()
                else:
                    server.stdout.close()
                self.wait_for(lambda: not lives(child), "the command lives on")
                self.assertEqual(server.wait(timeout=60), status)
                server.stdout.close()

    def test_nothing_else_is_read_or_done(self):
        os.symlink("../outside.mp", self.runs / "link.mp")
        os.symlink("train.mp", self.runs / "inside.mp")
        before = sorted(self.root.rglob("*"))
        for file in ("../outside.mp", str(self.root / "outside.mp"), "link.mp", "deep/../../outside.mp", "missing.mp",
                     "deep", "/etc/passwd", ""):
            with self.subTest(file=file):
                text, failed = self.call("peak", file=file)
                self.assertTrue(failed)
                self.assertIn("there is no file", text)
        self.assertFalse(self.call("peak", file="inside.mp")[1])
        for arguments in ({"output": "new"}, {"rules": "/etc/passwd"}, {"config": "x"}, {"pid": "1"}, {"help": True},
                          {"-o": "new"}):
            with self.subTest(arguments=arguments):
                text, failed = self.call("peak", file="train.mp", **arguments)
                self.assertTrue(failed)
                self.assertIn("has no argument", text)
        self.assertTrue(self.call("size", capacity="1GiB", probes=[{"batch": "--", "file": "train.mp"}])[1])
        self.assertTrue(self.call("peak", file="train.mp", track="x --output=new")[1])
        setting = {"MEMPROF_CONF": f"output = {self.root}/new"}
        self.assertFalse(self.call("peak", file="train.mp", environment=setting)[1])
        self.assertEqual(sorted(self.root.rglob("*")), before)

    def test_answers_are_bounded(self):
        trace = {"segments": [], "device_traces": [[
            {"action": "alloc", "addr": 4096 * i, "size": 512, "stream": 0, "time_us": i,
             "frames": [{"name": f"function_{i}", "filename": "model.py", "line": i}] * 3} for i in range(3000)]]}
        (self.runs / "many.json").write_text(json.dumps(trace))
        folder = self.runs / "/".join(["n" * 250] * 5)
        folder.mkdir(parents=True)
        for number in range(100):
            (folder / f"{number}.mp").write_bytes(b"")
        text, failed = self.call("recordings")
        self.assertFalse(failed)
        self.assertLessEqual(len(text), 65536)
        older, = re.findall(r"^and ([0-9]+) older ones$", text, re.MULTILINE)
        self.assertEqual(len(text.splitlines()) - 1 + int(older), 105)
        shutil.rmtree(self.runs / ("n" * 250))
        text, failed = self.call("peak", file="many.json", limit=0)
        self.assertTrue(failed)
        self.assertIn("more than 65536 bytes", text)
        text, failed = self.call("peak", file="many.json", json=True)
        self.assertFalse(failed)
        self.assertEqual(len(json.loads(text[:text.rindex("}") + 1])["sites"]), 20)

    def test_what_is_no_request(self):
        deep = '/*"*/' + "[" * 500000 + "]" * 500000
        answers = self.serve(deep, '{"a": %s}' % deep, "{", "[" * 100000, '{"id": 3}', "[]",
                             '{"id": 4, "method": "resources/list"}', "x" * (2 << 20), '{"id": 5, "method": "tools/call", "params": {"name": "sh"}}',
                             '{"id": 6, "method": "tools/call"}', '{"id": 7, "method": "tools/call", "params": '
                             '{"name": "peak", "arguments": [1]}}', '{"id": 8, "result": {}}', '{"id": 9, "method": "ping"}')
        self.assertEqual([(answer["id"], answer.get("error", {}).get("code")) for answer in answers],
                         [(None, -32700)] * 4 + [(3, -32600), (None, -32600), (4, -32601), (None, -32700),
                          (5, -32602), (6, -32602), (7, None), (9, None)])
        self.assertTrue(answers[10]["result"]["isError"])

    def test_ids_come_back_as_they_were(self):
        answers = self.serve(*(f'{{"id": {number}, "method": "ping"}}' for number in
                               ("18446744073709551616", "1.5", '"a"', "null", "[1]", "true", r'"a\u0000b"')))
        self.assertEqual([(answer["id"], answer.get("error", {}).get("code")) for answer in answers],
                         [(2**64, None), (1.5, None), ("a", None), (None, -32600), (None, -32600), (None, -32600),
                          (None, -32700)])

    def test_a_command_that_cannot_begin(self):
        text, failed = self.call("peak", file="train.mp", filter="x" * 200_000)
        self.assertTrue(failed)
        self.assertIn("memprof peak could not be started: Argument list too long", text)

    def test_a_folder_that_is_none(self):
        for folder in (self.root / "missing", self.root / "outside.mp"):
            self.assertEqual(self.serve(folder=folder, status=1), [])

    @harness.unittest.skipUnless(SDK, "MEMPROF_MCP_SDK names no folder with the protocol's SDK")
    def test_the_protocols_own_client(self):
        client = pathlib.Path(SDK) / "memprof-client.mjs"
        client.write_text(CLIENT)
        self.addCleanup(client.unlink)
        calls = [["report", {"file": "train.mp"}], ["peak", {"file": "../outside.mp"}]]
        said = json.loads(subprocess.run(["node", client, harness.MEMPROF, self.runs, json.dumps(calls)], check=True,
                                         text=True, capture_output=True).stdout)
        self.assertIn("compare", said["names"])
        self.assertEqual(said["answers"][0]["content"][0]["text"], self.command("report", "train.mp"))
        self.assertEqual([answer["isError"] for answer in said["answers"]], [False, True])


if __name__ == "__main__":
    harness.main()
