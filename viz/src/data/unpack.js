// The columns of a page, unpacked: base64, then raw deflate. Runs in the page and in a worker.

import { readTrack, TRACK_COLUMNS } from "./track_read.js";

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const chars = atob(text);
  const bytes = new Uint8Array(chars.length);
  for (let i = 0; i < chars.length; i++) bytes[i] = chars.charCodeAt(i);
  return bytes;
}

async function inflate(bytes, size) {
  if (!globalThis.DecompressionStream) {
    throw new Error("This browser is too old: Chrome and Edge from 103, Firefox from 113 and Safari from 16.4 can open it.");
  }
  const out = new Uint8Array(size);
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  // ignored: the reader fails, too, and reports it
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  const reader = stream.readable.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    out.set(value, at);
    at += value.length;
  }
  if (at !== size) throw new Error("a column of the page is not whole");
  return out;
}

export class Unpacker {
  /** @param {object} header the page's JSON header @param {string[]} texts base64, emptied one by one */
  constructor(header, texts) {
    this.header = header;
    this.blob = new Uint8Array(header.bytes);
    this.columns = new Map();
    let offset = 0;
    for (const [name, count, rawSize, size] of header.columns) {
      this.columns.set(name, { count, rawSize, offset, size });
      offset += size;
    }
    let at = 0;
    for (let i = 0; i < texts.length; i++) {
      const part = decodeBase64(texts[i]);
      texts[i] = "";
      this.blob.set(part, at);
      at += part.length;
    }
    if (at !== this.blob.length) throw new Error("the page is cut: some of its data is missing");
  }

  /** The columns `prefix.name`: {name: {bytes, count}}. The first track's columns are inflated ahead, at the same time
   * as others: the browser does that in its own threads. */
  group(prefix, names) {
    const first = "t" + this.header.track;
    this.ahead ??= this.columns.has(first + ".op") ? { [first]: this.inflated(first, TRACK_COLUMNS) } : {};
    const group = this.ahead[prefix] ?? this.inflated(prefix, names);
    delete this.ahead[prefix];
    return group;
  }

  async inflated(prefix, names) {
    const parts = await Promise.all(names.map(async (name) => {
      const column = this.columns.get(prefix + "." + name);
      if (!column) throw new Error("the page lacks the column " + prefix + "." + name);
      const packed = this.blob.subarray(column.offset, column.offset + column.size);
      return [name, { bytes: await inflate(packed, column.rawSize), count: column.count }];
    }));
    return Object.fromEntries(parts);
  }

  /** A track's data as the constructor of Track takes it. */
  async track(index, sizes, end) {
    return readTrack(this.header.tracks[index], await this.group("t" + index, TRACK_COLUMNS), sizes, end);
  }
}
