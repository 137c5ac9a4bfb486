"""Runs programs on the stand-ins of src/softgpu under memprof, and compares recordings with the stand-in driver's own
ledger. The recording is read by tests/unit/format/read_mp.py, which shares no code with memprof."""

import collections
import os
import pathlib
import sys

import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "unit" / "format"))
import read_mp  # noqa: E402

SOFTGPU = harness.BUILD / "tests" / "softgpu"
LIB = harness.BUILD / "src" / "softgpu" / "lib"
CUDA = harness.BUILD / "src" / "softgpu" / "cuda"
CUPTI = {"11.2": "libcupti.so.11.2", "11.6": "libcupti.so.11.6", "12.6": "libcupti.so.12", "13.0": "libcupti.so.13",
         "13.3": "libcupti.so.13", "99": "libcupti.so.99"}
# The CUDA version whose functions an old CUPTI reports.
CUDA_OF = {"11.2": 11020, "11.6": 11060, "12.6": 12060}

# The track of each of the driver's classes of blocks (softgpu.h).
TRACKS = {"linear": "", "pitched": "", "array": "", "mipmap": "", "physical": "", "variable": "", "pool": "pool",
          "graph": "graph", "node": "nodes", "managed": "managed", "managed_variable": "managed",
          "reservation": "addresses", "mapping": "mapped", "external_buffer": "mapped", "external_mipmap": "mapped",
          "ipc": "imported", "external": "imported", "pool_import": "imported", "import": "imported", "pinned": "",
          "registered": "registered", "multicast": "multicast", "context": "contexts", "stream": "streams",
          "event": "events", "module": "modules", "library": "libraries", "mempool": "pools", "graph_handle": "graphs",
          "graph_exec": "executables"}
# Classes recorded without bytes: the driver has no function for their size.
SIZE_NOT_TOLD = {"import", "multicast"}
# Classes whose size needs a call that only hooks, not CUPTI callbacks, may make.
SIZE_TOLD_TO_HOOKS = {"ipc", "pool_import"}
VARIABLES = {"variable", "managed_variable"}

# For programs: waits until memprof has read what device 0 has in use, from the beginning to the end (softgpu/state.h).
WAIT_FOR_A_READING = """
import os, struct, time
def wait_for_a_reading():
    def readings():
        with open(os.environ["SOFTGPU_STATE"], "rb") as state:
            return struct.unpack_from("<Q", state.read(), 64 * (8 + 8 * 8))[0]
    before = readings()
    while readings() < before + 2:
        time.sleep(0.01)
"""

Entry = collections.namedtuple("Entry", "sign track address bytes")


def program(name):
    return SOFTGPU / "programs" / name


def environment(cupti=None, **more):
    """The environment of a program on the stand-ins: two devices, and CUPTI of version `cupti`, or none."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "NVIDIA_"))}
    variables["LD_LIBRARY_PATH"] = f"{LIB}:{CUDA}"
    variables["MEMPROF_CUPTI"] = str(SOFTGPU / f"cupti-{cupti}" / CUPTI[cupti]) if cupti else "/nowhere/libcupti.so"
    variables["SOFTGPU_DEVICES"] = "2"
    variables["SOFTGPU_ON"] = "1"
    variables.update({name: str(value) for name, value in more.items()})
    return variables


def track_name(device, name):
    return "/".join(filter(None, [f"cuda:{device}" if device >= 0 else "cpu", "driver", name]))


def read_ledger(path, unknown=()):
    """(entries of the driver's ledger, entries of modules' variables). `unknown`: classes whose sizes the recorder
    cannot know."""
    entries, variables = [], []
    for line in pathlib.Path(path).read_text().splitlines():
        sign, kind, device, address, size = line.split()
        if sign == "=":
            continue
        size = 0 if (kind in SIZE_NOT_TOLD or kind in unknown) and sign != "!" else int(size)
        entry = Entry(sign, track_name(int(device), TRACKS[kind]), int(address), size)
        (variables if kind in VARIABLES else entries).append(entry)
    return entries, variables


def take_back(entries, again):
    """Removes frees that failed. A failed free is recorded, then an alloc takes it back, then a mark follows.
    again[i]: entry i is an alloc with the same address and stack as the block before."""
    known = []
    while entries and entries[-1].sign == "+" and again[-1]:
        known.append(entries.pop())
        again.pop()
    while known and entries and entries[-1]._replace(sign="+") in known:
        known.remove(entries.pop()._replace(sign="+"))
        again.pop()
    entries += reversed(known)
    again += [True] * len(known)


def read_recording(path):
    """The events of the driver's tracks in the recording's order, as entries like the ledger's."""
    zstd = read_mp.load_zstd()
    _, chunks, end = read_mp.walk(zstd, pathlib.Path(path).read_bytes())
    assert end, "the recording was not ended"
    strings, devices, tracks, entries, again, stacks = [], [], [], [], [], {}
    for _, _, kind, meta, columns in chunks:
        if kind == "strings":
            strings += read_mp.strings_of(columns)
        elif kind == "devices":
            devices += [strings[name] for name in columns["name"]]
        elif kind == "tracks":
            for device, layer, name in zip(columns["device"], columns["layer"], columns["name"]):
                track = "/".join(filter(None, [devices[device], "driver", strings[name]]))
                tracks.append(track if layer == 0 else None)
        elif kind == "events":
            for event in read_mp.events_of(meta, columns):
                if event["type"] == read_mp.MARK and "failed with CUDA error" in strings[event["name"]]:
                    take_back(entries, again)
                sign = {read_mp.ALLOC: "+", read_mp.FREE: "-", read_mp.OOM: "!"}.get(event["type"])
                if not sign or not tracks[event["track"]]:
                    continue
                entry = Entry(sign, tracks[event["track"]], event.get("address", 0), event["bytes"])
                entries.append(entry)
                again.append(sign == "+" and stacks.get(entry[1:]) == event["stack"])
                if sign == "+":
                    stacks[entry[1:]] = event["stack"]
    return entries


def learn_sizes(entries):
    """If CUPTI reports a block, and only a hook its size, the block is recorded twice, first without bytes. Returns the
    entries without the first ones, and whether there were any."""
    known, learned = [], False
    for entry in entries:
        before = known[-2:]
        if entry.sign == "+" and before == [entry._replace(bytes=0), entry._replace(sign="-", bytes=0)]:
            del known[-2:]
            learned = True
        known.append(entry)
    return known, learned


def runs_of(entries):
    """By track, runs of entries with the same sign, since the blocks of one call have no order."""
    tracks = collections.defaultdict(list)
    for entry in entries:
        runs = tracks[entry.track]
        if not runs or runs[-1][0] != entry.sign:
            runs.append((entry.sign, []))
        runs[-1][1].append((entry.address, entry.bytes))
    return {track: [(sign, sorted(blocks)) for sign, blocks in runs] for track, runs in tracks.items()}


def live_of(entries):
    """By track, the blocks live at the end."""
    live = collections.Counter()
    for entry in entries:
        if entry.sign != "!":
            live[entry[1:]] += 1 if entry.sign == "+" else -1
    return +live


class TestCase(harness.TestCase):
    def run_program(self, *command, options=(), cupti=None, status=0, **variables):
        """Runs a program under memprof. Returns its result, with the paths `recording` and `ledger`. `status` None: any
        exit status is right."""
        ledger, recording = self.folder / "ledger", self.folder / "run.mp"
        ledger.unlink(missing_ok=True)
        ledger.touch()
        variables.setdefault("SOFTGPU_LEDGER", ledger)
        variables.setdefault("SOFTGPU_STATE", self.folder / "state")
        result = harness.memprof("snapshot", "--force", "-o", recording, *options, "--", *command,
                                 env=environment(cupti, **variables))
        if status is not None:
            self.assertEqual(result.returncode, status, result.stderr)
        result.recording, result.ledger = recording, ledger
        return result

    def notes(self, result, status=(0, 4)):
        return " ".join(harness.answer("info", result.recording, status=status)["coverage"]["notes"])

    def assert_same_ledger(self, result, variables=True):
        """Asserts that recording and ledger have the same blocks and calls. `variables`: modules' variables must be
        recorded, at any time; None: they are not compared."""
        sources = harness.answer("info", result.recording, status=(0, 4))["coverage"]["sources"]
        recorded, learned = learn_sizes(read_recording(result.recording))
        unknown = () if learned or "hooks" in sources else SIZE_TOLD_TO_HOOKS
        wanted, wanted_variables = read_ledger(result.ledger, unknown)
        addresses = {entry.address for entry in wanted_variables}
        if variables is not None:
            seen = collections.Counter(entry for entry in recorded if entry.address in addresses and entry.sign != "!")
            self.assertEqual(seen, collections.Counter(wanted_variables) if variables else collections.Counter())
        wanted = runs_of(wanted)
        recorded = runs_of(entry for entry in recorded if entry.address not in addresses or entry.sign == "!")
        for track in sorted(set(wanted) | set(recorded)):
            with self.subTest(track=track):
                self.assertEqual(recorded.get(track), wanted.get(track))
