#!/usr/bin/env python3
"""Reads a snapshot file by docs/FORMAT.md alone, with Python's standard library and libzstd, and prints what it holds as JSON.

    read_mp.py FILE [--events]

It shares no code with memprof, so that the document can be compared with the program. Exit status 77: no libzstd.
"""
import ctypes
import ctypes.util
import json
import sys
import zlib

SYNC = bytes.fromhex("97c408d51ce986b74df23b")
END = bytes.fromhex("94c4086ea30df89157bce4")
KINDS = {1: "strings", 2: "devices", 3: "tracks", 4: "threads", 5: "modules", 6: "frames", 7: "stacks",
         8: "symbols", 9: "events", 10: "base", 11: "samples", 12: "coverage", 13: "exit", 14: "index",
         15: "segments", 16: "segment parts", 17: "calls", 18: "labels",
         19: "peaks", 20: "boundaries", 21: "open regions", 22: "past", 23: "past peaks",
         24: "past sites", 25: "requests", 26: "trace", 27: "asides", 28: "holders", 29: "metadata",
         30: "job processes", 31: "job tracks", 32: "job sites", 33: "job holdings", 34: "job findings",
         35: "job points", 36: "job troubles", 37: "uses"}
ALLOC, FREE, RESIZE, OOM, STEP, BEGIN, ENDED, MARK, RESERVED = range(1, 10)
MASK = (1 << 64) - 1


def load_zstd():
    for name in (ctypes.util.find_library("zstd"), "libzstd.so.1"):
        try:
            zstd = ctypes.CDLL(name)
            zstd.ZSTD_decompress.restype = ctypes.c_size_t
            zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
            return zstd
        except (OSError, TypeError):
            continue
    sys.exit(77)


def decompress(zstd, frame, size):
    if not size:
        return b""
    out = ctypes.create_string_buffer(size)
    assert zstd.ZSTD_decompress(out, size, frame, len(frame)) == size
    return out.raw


def unpack(data, at):
    """The msgpack object at data[at], and where it ends."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    if byte < 0x90:
        return unpack_map(data, at, byte & 15)
    if byte < 0xa0:
        return unpack_list(data, at, byte & 15)
    if byte < 0xc0:
        return data[at:at + (byte & 31)].decode(), at + (byte & 31)
    if 0xcc <= byte <= 0xcf:
        width = 1 << (byte - 0xcc)
        return int.from_bytes(data[at:at + width], "big"), at + width
    if byte in (0xc4, 0xc5, 0xc6, 0xd9, 0xda, 0xdb):
        text = byte >= 0xd9
        width = 1 << (byte - (0xd9 if text else 0xc4))
        length = int.from_bytes(data[at:at + width], "big")
        at += width
        body = data[at:at + length]
        return (body.decode() if text else body), at + length
    if byte in (0xdc, 0xdd, 0xde, 0xdf):
        width = 2 if byte in (0xdc, 0xde) else 4
        count = int.from_bytes(data[at:at + width], "big")
        return (unpack_list if byte < 0xde else unpack_map)(data, at + width, count)
    raise ValueError(f"object of type {byte:#x} at {at - 1}")


def unpack_list(data, at, count):
    values = []
    for _ in range(count):
        value, at = unpack(data, at)
        values.append(value)
    return values, at


def unpack_map(data, at, count):
    values, at = unpack_list(data, at, 2 * count)
    return dict(zip(values[::2], values[1::2])), at


def varints(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            values.append(value & MASK)
            value = shift = 0
    return values


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


def decode(encoding, count, data):
    if encoding == "bytes":
        return data
    if encoding == "planes":
        planes = len(data) // count
        return [sum(data[k * count + i] << (8 * k) for k in range(planes)) for i in range(count)]
    values = varints(data)
    if encoding == "constant":
        return values * count
    if encoding == "run":
        return [value for value, times in zip(values[::2], values[1::2]) for _ in range(times)]
    if encoding == "delta":
        total, sums = 0, []
        for value in values:
            total = (total + unzigzag(value)) & MASK
            sums.append(total)
        return sums
    assert encoding == "varint", encoding
    return values


def columns_of(zstd, meta, payload):
    listed = meta.get("columns", [])
    raw = decompress(zstd, payload, sum(column[3] for column in listed))
    columns, at = {}, 0
    for name, encoding, count, size in listed:
        columns[name] = decode(encoding, count, raw[at:at + size])
        assert len(columns[name]) == count, name
        at += size
    return columns


def events_of(meta, columns):
    """Events as dicts with the members that their type has."""
    reading = {name: iter(values) for name, values in columns.items()}
    take = lambda name: next(reading[name])
    events, placed, recent, now, next_block = [], {}, [], meta.get("time", 0), meta.get("next_block", 0)
    for kind in columns.get("type", []):
        now += take("time")
        event = {"type": kind, "time": now, "thread": take("thread")}
        if kind == ALLOC:
            shape = take("alloc.shape")
            event.update({key: columns["shape." + key][shape] for key in ("stack", "bytes", "track", "kind")})
            rank = take("alloc.place")
            index = take("alloc.address") if rank == 255 else recent.pop(rank)
            event["address"] = columns["address"][index]
            event["block"] = next_block + unzigzag(take("alloc.block"))
            event["name"] = take("alloc.module") if "alloc.module" in columns else 0
        elif kind in (FREE, RESIZE):
            back = take("free.back") if kind == FREE else 0
            if back:
                event["block"] = next_block - back
                known = placed[event["block"]]
                event.update({key: known[0][key] for key in ("address", "bytes", "track")})
                if known[1] is not None:
                    recent = [known[1]] + recent[:254]
                    known[1] = None
            else:
                event["block"] = next_block - unzigzag(take("far.block"))
                event.update({key: take("far." + key) for key in ("address", "bytes", "track")})
            event["stack"] = take("stack")
        elif kind in (OOM, RESERVED):
            event.update({key: take("note." + key) for key in ("bytes", "track")})
        if kind == OOM and "oom.module" in columns:
            event["name"] = take("oom.module")
        if kind in (STEP, BEGIN, ENDED, MARK):
            event["name"] = take("name")
        if kind in (OOM, MARK):
            event["stack"] = take("stack")
        if "block" in event:
            next_block = max(next_block, event["block"] + 1)
            if kind != FREE:
                placed[event["block"]] = [event, index if kind == ALLOC else None]
        events.append(event)
    return events


def walk(zstd, data):
    """The start, the chunks, and the clean-end mark or None. A chunk is (offset, sequence, kind, meta, columns)."""
    start, at = unpack(data, 0)
    assert start["magic"] == "memprof" and start["min_reader"] <= 2
    assert start["checksum"] == zlib.crc32(data[:at - 5])
    chunks, end = [], None
    while at < len(data):
        if data[at:at + len(END)] == END:
            end, after = unpack(data, at)
            assert end[3] == zlib.crc32(data[at:after - 5]) and after == len(data)
            break
        assert data[at:at + len(SYNC)] == SYNC, at
        (sync, sequence, length, checksum, kind, meta, payload), after = unpack(data, at)
        assert after == at + 27 + length
        assert checksum == zlib.crc32(data[at + 11:at + 21] + data[at + 26:after])
        chunks.append((at, sequence, KINDS[kind], meta, columns_of(zstd, meta, payload)))
        at = after
    return start, chunks, end


def check_index(chunks, end):
    entries = [entry for chunk in chunks if chunk[2] == "index"
               for entry in zip(*(chunk[4][name] for name in ("offset", "kind", "sequence", "count", "time", "end")))]
    others = [chunk for chunk in chunks if chunk[2] != "index"]
    assert [(KINDS[e[1]], e[0], e[2], e[3], e[4], e[5]) for e in entries] == \
        [(c[2], c[0], c[1], c[3]["count"], c[3].get("time", 0), c[3].get("end", 0)) for c in others]
    first = next(chunk for chunk in chunks if chunk[2] == "index")
    assert end[1] == first[0] and end[2] == len(chunks)


def strings_of(columns):
    text, at, strings = columns.get("text", b""), 0, []
    for length in columns["length"]:
        strings.append(text[at:at + length].decode(errors="replace"))
        at += length
    return strings


def report(start, chunks, end):
    """One line of JSON per chunk, values as lists by column."""
    print(json.dumps({"start": start, "clean_end": end is not None}))
    for offset, sequence, kind, meta, columns in chunks:
        entry = {"offset": offset, "sequence": sequence, "kind": kind,
                 "meta": {key: value for key, value in meta.items() if key != "columns"}}
        if kind == "events":
            entry["events"] = events_of(meta, columns)
        elif kind == "strings":
            entry["strings"] = strings_of(columns)
        else:
            entry["columns"] = {name: values.hex() if isinstance(values, bytes) else values
                                for name, values in columns.items()}
        print(json.dumps(entry))


def main():
    zstd = load_zstd()
    with open(sys.argv[1], "rb") as file:
        start, chunks, end = walk(zstd, file.read())
    if end:
        check_index(chunks, end)
    report(start, chunks, end)


if __name__ == "__main__":
    main()
