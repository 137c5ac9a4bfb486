#!/usr/bin/env python3
"""make_text_seeds.py FOLDER: inputs for fuzz_texts, fuzz_settings, fuzz_control and fuzz_spool, each in a folder of
its own below."""
import pathlib
import struct
import sys

TEXTS = [  # in the order of the readers of fuzz_texts.c
    [b"# mine\nleak:at::empty\nleak:^main$\nleak:lib*cuda*.so\n\0lib_cuda_1.so", b"leak:a*b*c*d$\0aXbXcXdX", b"nothing"],
    [b"size>1MiB,fn~ma.n,layer=torch\0main", b"file!~x,kind=pinned,step=3..9,age>5", b"fn~(", b"stream=7,pool=0"],
    [b"10%\0" b"90%", b"step:1\0step:2", b"1.5s\0" b"2min", b"-1\0nan"],
    [b"wait=1,warmup=1,active=3,repeat=2,every=10,unit=^step, [0-9]+", b"active=1", b"wait=2,active=2"],
    [b"^ProfilerStep#[0-9]+$\0ProfilerStep#12", b"native=1;step_range=a%3bb;step_at=f"],
    [b"native=1;python=0;depth=64;wait=0;paused=1", b"depth=99999999999999999999;x=1;;=;"],
    [b"python3\0--token\0hf_abcdefgh\0--db-password=secret\0postgres://u:pass@h/d\0HF_TOKEN=x\0"],
    [b"80GiB", b"1.5k", b"200ms", b"stack:12", b"bytes"],
    [b"_ZN2at6native5emptyEN3c108ArrayRefIlEE", b"\x1b[31mred\x1b[0m\xc2\x9bx\x7f", b"_ZSt4moveIRiE"],
    [b"max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True"],
    [b"run-%p-%r-%h-%t-%c-%%-%q.mp\0host", b"%"],
    [b"a = ^forward .*py\n# b\nb=x|y\n\0forward", b"n = (ab)+c?[x]d{2}\\.py\n\0abdd.py", b"a = (\n", b"a\n"],
]
SETTINGS = [  # a command's number, arguments, the file, the variable
    [b"\x01", b"--limit\n5\nrun.mp", b"# settings\nlimit = 5\njson = yes\n", b"group=stack:3,sort=bytes,limit=7"],
    [b"\x00", b"-o\nx.mp\n--\npython3", b"stacks = native,python\nquiet=on", b"capture=torch,cpu,depth=64"],
    [b"\x05", b"", b"nolimit = 1\n", b""], [b"\x03", b"--", b"force = perhaps\n", b"=,=,,"],
]
CONTROL = [  # descriptors, whether they are empty files, magic, version and more
    (0, 0, struct.pack("<II", 0x6d706869, 2)), (2, 1, struct.pack("<II", 0x6d706869, 2)),
    (1, 1, struct.pack("<IIII", 0x6d70636b, 1, 1, 1)), (8, 0, struct.pack("<IIII", 0x6d70636b, 1, 2, 0)),
]


def patch(region, word, data):
    return struct.pack("<BHB", region, word, len(data)) + data


def chunk(kind, count, *values):
    """A chunk of the file that belongs to the spool; values field by field."""
    return bytes([255, kind, count, len(values), *values])


TABLES = (chunk(1, 3, 0, 2, 4) + chunk(2, 2, 1, 1, 0, 2, 0, 0, 9, 9) + chunk(3, 2, 0, 1, 2, 1, 1, 2, 0, 1) + chunk(4, 1, 1, 2)
          + chunk(5, 2, *[0] * 18) + chunk(6, 3, 0, 1, 1, 1, 0, 0, 16, 0, 0, 0, 1, 2, 0, 2, 1, 0, 4, 9)
          + chunk(7, 4, 0, 0, 1, 1, 0, 0, 1, 2))
EVENTS = chunk(9, 3, 0, 3, 1, 1, 8, 0, 1, 0, 0, 0, 1, 0, 1, 2, 8, 1, 2, 1, 0, 0, 1, 0, 1, 1, 8, 0, 0, 0, 0, 0, 2, 0)
BASE = chunk(10, 2, 0, 1, 1, 2, 8, 8, 0, 0, 1, 2, 0, 1, 0, 0, 0, 1, 0, 2, 0, 1, 5)

SPOOL = [b"", patch(1, 5, b"\1\0\0\0"), patch(2, 0, struct.pack("<QQQ", 1, 2, 3)), patch(3, 2, struct.pack("<II", 9, 9)),
         patch(4, 0, struct.pack("<QIIIIII", 1, 7, 8, 9, 1, 1, 0)), patch(7, 0, b"\xff\xff\xff\xff"),
         patch(2, 8 * 10, bytes(64)) + patch(6, 0, struct.pack("<hBB", 3, 1, 1)),
         TABLES, TABLES + EVENTS, TABLES + BASE + EVENTS, chunk(22, 1, 3, 2, 1) + TABLES + BASE,
         TABLES + EVENTS + chunk(18, 1, 5, 0, 2, 1) + chunk(11, 2, 1, 2, 1, 1, 7, 8),
         TABLES + chunk(23, 1, 1, 9, 1, 2, 1, 9) + chunk(24, 1, 1, 1, 0, 1, 9, 1) + EVENTS]


def main():
    folder = pathlib.Path(sys.argv[1])
    inputs = {
        "texts": [bytes([i]) + text for i, texts in enumerate(TEXTS) for text in texts],
        "settings": [number + b"\xff".join(parts) for number, *parts in SETTINGS],
        "control": [bytes(head) + message for *head, message in CONTROL],
        "spool": SPOOL,
    }
    for name, seeds in inputs.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(seeds):
            (folder / name / f"seed-{i}").write_bytes(seed)


if __name__ == "__main__":
    main()
