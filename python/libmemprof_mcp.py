"""The server of the Model Context Protocol that `memprof mcp FOLDER` starts: libmemprof_mcp.py MEMPROF FOLDER.

Each tool is a command of memprof that reads recordings, run with --json on recordings below the folder. A tool's
arguments are the command's options that choose what is shown, described by the command's own help.
"""

import asyncio
import ctypes
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

try:
    import mcp.types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError:
    sys.exit(f"memprof: mcp needs Python's package of that name, which {sys.executable} has not: "
             "pip install mcp, into the environment whose python3 comes first in PATH")

PAGE_BYTES = 8 << 10  # of text; JSON has eight times as much
ANSWER_BYTES = 256 << 20
SECONDS = 300
FILES_LOOKED = 100_000
ROWS = 20
PROBES = 64
PR_SET_PDEATHSIG = 1

FILE = {"type": "string", "description": "path of a recording, as the tool `recordings` shows it"}
ONE = {"file": FILE}
TOOLS = {"report": ONE, "peak": ONE, "leaks": ONE, "holders": ONE, "steps": ONE, "frag": ONE, "advise": ONE, "info": ONE,
         "compare": {"before": FILE, "after": FILE},
         "size": {"probes": {"type": "array", "description": "recordings of one program at two or more batch sizes",
                             "items": {"type": "object", "required": ["batch", "file"],
                                       "properties": {"batch": {"type": "integer", "description": "the batch size"},
                                                      "file": FILE}}}}}
OFFERED = ("track", "from", "to", "limit", "group", "sort", "filter", "columns", "outstanding", "site", "replay", "kind",
           "capacity", "margin", "predict", "full-stacks")
OWN = {"json": {"type": "boolean", "description": "the keys of the reference, with whole stacks, in place of text"},
       "page": {"type": "integer", "description": "which page of a long answer, from 1"}}
ENDINGS = (".mp", ".pickle", ".pkl", ".json", ".json.gz", ".sqlite", ".csv")


class Refusal(Exception):
    """A sentence for the client."""


class Files:
    """The files of one question: each is opened once, and the command gets what was opened, whatever becomes of names."""

    def __init__(self, root):
        self.root, self.names = root, {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for file in self.names:
            os.close(file)

    def open(self, name):
        """A path of the command's that leads to the file with that name from the folder, if it lies below the folder."""
        try:
            if isinstance(name, str) and "\0" not in name and not os.path.isabs(name):
                file = os.open(os.path.join(self.root, name), os.O_PATH | os.O_CLOEXEC)
                self.names[file] = "./" + name if name.startswith("-") else name
                below = os.readlink(f"/proc/self/fd/{file}").startswith(self.root.rstrip("/") + "/")
                if below and stat.S_ISREG(os.fstat(file).st_mode):
                    return f"/proc/self/fd/{file}"
        except OSError:
            pass
        raise Refusal(f"there is no file {name} below {self.root}; the tool `recordings` lists those that there are")

    def states(self):
        return [(facts.st_dev, facts.st_ino, facts.st_mtime_ns) for facts in map(os.fstat, self.names)]

    def named(self, text, in_json):
        for file, name in self.names.items():
            text = re.sub(rf"/proc/self/fd/{file}\b", lambda _: json.dumps(name)[1:-1] if in_json else name, text)
        return text


class Memprof:
    def __init__(self, program, root):
        self.program = program
        self.root = os.path.realpath(root)
        self.about, self.options = {}, {}
        for tool in TOOLS:
            self.about[tool], self.options[tool] = self.help_of(tool)
        self.last = None, ""  # the question that was asked last, and its whole answer: its other pages come next

    def help_of(self, tool):
        """A line about the tool, and the schema of each offered option, from the table that --help prints."""
        text = subprocess.run([self.program, tool, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout
        rows = re.findall(r"^ {2}(?:-\w, | {4})--([\w-]+)( \w+)?((?:\s+(?! {0,6}-).*)+)$", text, re.M)
        options = {name: {"type": "string" if argument else "boolean", "description": shortened(words)}
                   for name, argument, words in rows if name in OFFERED}
        return text.partition("\n")[0].partition(": ")[2], options

    def schema(self, tool):
        files = TOOLS.get(tool, {})
        own = OWN if files else {"page": OWN["page"]}
        return {"type": "object", "properties": {**files, **self.options.get(tool, {}), **own}, "required": list(files),
                "additionalProperties": False}

    def tools(self):
        about = {"recordings": "the recordings below the folder, newest first", **self.about}
        return [types.Tool.model_validate(
            {"name": tool, "description": about[tool], "inputSchema": self.schema(tool),
             "annotations": {"readOnlyHint": True, "openWorldHint": False}}) for tool in about]

    # ---- arguments --------------------------------------------------------------------------------------------------

    def operands(self, tool, arguments, files):
        if tool != "size":
            return [files.open(arguments.get(name)) for name in TOOLS[tool]]
        probes = arguments.get("probes")
        if not isinstance(probes, list) or not 1 <= len(probes) <= PROBES or not all(isinstance(one, dict) for one in probes):
            raise Refusal(f'"probes" must be a list of 1 to {PROBES} objects with "batch" and "file"')
        if not all(isinstance(one.get("batch"), int) and one["batch"] > 0 for one in probes):
            raise Refusal('"batch" of a probe must be a whole number')
        return [f"{one['batch']}={files.open(one.get('file'))}" for one in probes]

    def words(self, tool, arguments, files):
        """The command line after `memprof`."""
        known, words = self.schema(tool)["properties"], [tool, "--progress=never"]
        for name, value in arguments.items():
            if name not in known:
                raise Refusal(f'the tool {tool} has no argument "{name}"')
            if name in TOOLS[tool] or name in OWN:
                continue
            wanted = bool if known[name]["type"] == "boolean" else (str, int, float)
            if not isinstance(value, wanted) or wanted is not bool and isinstance(value, bool):
                raise Refusal(f'"{name}" must be {"true or false" if wanted is bool else "a string"}')
            words += [f"--{name}={value}"] if wanted is not bool else [f"--{name}"] * value
        if arguments.get("json") is True:
            words.append("--json")
            if "limit" in known and "limit" not in arguments:
                words.append(f"--limit={ROWS}")
        return words + self.operands(tool, arguments, files)

    # ---- answers ----------------------------------------------------------------------------------------------------

    def recordings(self):
        found, looked, unnamed = [], 0, 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                looked += 1
                path = os.path.join(folder, name)
                facts = os.lstat(path) if name.endswith(ENDINGS) and os.path.lexists(path) else None
                if not facts or not stat.S_ISREG(facts.st_mode):
                    continue
                try:
                    os.path.relpath(path, self.root).encode()
                    found.append((-facts.st_mtime, os.path.relpath(path, self.root), facts.st_size))
                except UnicodeEncodeError:
                    unnamed += 1
            if looked >= FILES_LOOKED:
                break
        rows = [json.dumps({"file": path, "bytes": size, "changed": date(-changed)}, ensure_ascii=False)
                for changed, path, size in sorted(found)]
        return (f'{{"schema": "memprof.recordings/1", "folder": {json.dumps(self.root)}, "whole": '
                f'{json.dumps(looked < FILES_LOOKED)}, "unnamed": {unnamed}, "recordings": [\n' + ",\n".join(rows) + "]}\n")

    async def run(self, words, files):
        """The command's output with its messages at the end, and its exit status."""
        server = os.getpid()

        def end_with_parent():
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(1)

        environment = {name: value for name, value in os.environ.items() if name != "MEMPROF_CONF"}
        try:
            child = await asyncio.create_subprocess_exec(
                self.program, *words, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, preexec_fn=end_with_parent, pass_fds=tuple(files.names))
        except (OSError, ValueError) as error:
            raise Refusal(f"memprof {words[0]} could not be started: {getattr(error, 'strerror', error)}") from error
        try:
            out, said = await asyncio.wait_for(
                asyncio.gather(read_most(child.stdout), read_most(child.stderr)), SECONDS)
            status = await child.wait()
        except asyncio.TimeoutError as error:
            raise Refusal(f"memprof {words[0]} took longer than {SECONDS} s and was stopped; ask for a part of the recording "
                          "(from, to)") from error
        finally:
            if child.returncode is None:
                child.kill()
        return out + ("\n" if out and said else "") + said, status

    async def answer(self, tool, arguments):
        """The text of one page, whether the command failed, and a line about the other pages."""
        page = arguments.get("page", 1)
        if not isinstance(page, int) or isinstance(page, bool) or page < 1:
            raise Refusal('"page" must be a whole number from 1')
        failed, in_json = False, arguments.get("json") is True or tool == "recordings"
        if tool == "recordings":
            if set(arguments) - {"page"}:
                raise Refusal('the tool recordings has no argument but "page"')
            text = self.recordings()
        else:
            with Files(self.root) as files:
                words = self.words(tool, arguments, files)
                question = {**arguments, "page": tool}, files.states()
                if page == 1 or self.last[0] != question:
                    text, status = await self.run(words, files)
                    text, failed = files.named(text, in_json), status not in (0, 4)
                    self.last = (None, "") if failed else (question, text)
                else:
                    text = self.last[1]
        pages = split(text, PAGE_BYTES * 8 if in_json else PAGE_BYTES)
        if page > len(pages):
            raise Refusal(f'there is no page {page}: the answer has {len(pages)}')
        more = f"page {page} of {len(pages)}"
        if page < len(pages):
            more += f'; ask the same with "page": {page + 1} for the next, or for fewer rows ("limit")'
        return pages[page - 1], failed, more if len(pages) > 1 else None


def shortened(words):
    """A description's begin: each tool has most options, and an agent reads them all."""
    return re.split(r"[.;] | \(", " ".join(words.split()), maxsplit=1)[0].strip()


def date(seconds):
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return None


async def read_most(stream):
    data = bytearray()
    while part := await stream.read(1 << 16):
        data += part
        if len(data) > ANSWER_BYTES:
            raise Refusal(f"the answer has more than {ANSWER_BYTES >> 20} MiB; ask for fewer rows (limit)")
    return data.decode(errors="replace")


def split(text, most):
    """Pages that end at a line's end, if possible."""
    data, pages = text.encode(errors="replace"), []
    while len(data) > most:
        end = data.rfind(b"\n", 0, most) + 1 or most
        while data[end] & 0xc0 == 0x80:  # the middle of a character
            end -= 1
        pages.append(data[:end].decode())
        data = data[end:]
    return [*pages, data.decode()]


async def contents(memprof, tool, arguments):
    """The text items of an answer, and whether it failed."""
    try:
        if tool != "recordings" and tool not in TOOLS:
            raise Refusal(f"there is no tool {tool}")
        text, failed, more = await memprof.answer(tool, arguments or {})
    except Refusal as refusal:
        text, failed, more = str(refusal), True, None
    return [types.TextContent(type="text", text=item) for item in (text, more) if item is not None], failed


def serve(memprof):
    about = (f"Answers questions about GPU memory from recordings below {memprof.root}. Begin with `recordings`, then `report` "
             "of one: it has the peak, what it is for, and leaks. `limit` makes an answer shorter.")

    def result(items, failed):
        return types.CallToolResult.model_validate({"content": items, "isError": failed})

    if not hasattr(Server, "list_tools"):  # the SDK's version 2
        async def list_tools(context, params):
            return types.ListToolsResult(tools=memprof.tools())

        async def call_tool(context, params):
            return result(*await contents(memprof, params.name, params.arguments))

        return Server("memprof", instructions=about, on_list_tools=list_tools, on_call_tool=call_tool)
    server = Server("memprof", instructions=about)

    @server.list_tools()
    async def list_all():
        return memprof.tools()

    async def call(request):
        return types.ServerResult(result(*await contents(memprof, request.params.name, request.params.arguments)))

    server.request_handlers[types.CallToolRequest] = call  # as it is: the decorator would put the SDK's own errors first
    return server


async def main(program, root):
    server = serve(Memprof(program, root))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
