#!/usr/bin/env python3
"""make_seeds.py RECORDING.mp FOLDER [PREFIX]: inputs for fuzz_reader, whole and in parts."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/format"))
sys.dont_write_bytecode = True
import read_mp


def main():
    zstd = read_mp.load_zstd()
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    _, at = read_mp.unpack(data, 0)
    pieces = []
    while data[at:at + len(read_mp.SYNC)] == read_mp.SYNC:
        chunk, after = read_mp.unpack(data, at)
        kind, meta, payload = chunk[4:]
        _, meta_end = read_mp.unpack(data, at + 27)
        packed = data[at + 27:meta_end]
        raw = read_mp.decompress(zstd, payload, sum(column[3] for column in meta.get("columns", [])))
        if len(raw) < 65536:
            pieces.append(bytes([kind, 1 if pieces else 0]) + len(packed).to_bytes(2, "little") +
                          len(raw).to_bytes(2, "little") + packed + raw)
        at = after
    os.makedirs(sys.argv[2], exist_ok=True)
    seeds = {"file": b"\0" + data[:20000], "right": b"\2" + data[:60000], "all": b"\1" + b"".join(pieces)}
    for i in range(2, min(len(pieces), 12)):
        seeds[f"first-{i}"] = b"\1" + b"".join(pieces[:i])
    for name, seed in seeds.items():
        with open(os.path.join(sys.argv[2], "".join(sys.argv[3:]) + name), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
