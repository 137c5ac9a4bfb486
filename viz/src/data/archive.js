// The recording inside the page: a JSON header and columns of raw deflate, one after the other in base64.

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const chars = atob(text);
  const bytes = new Uint8Array(chars.length);
  for (let i = 0; i < chars.length; i++) bytes[i] = chars.charCodeAt(i);
  return bytes;
}

async function inflate(bytes, size) {
  if (!window.DecompressionStream) {
    throw new Error("This browser is too old: Chrome and Edge from 103, Firefox from 113 and Safari from 16.4 can open it.");
  }
  const out = new Uint8Array(size);
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
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

export class Archive {
  /** @param {Document} document holds the elements `header` and `d0`, `d1`, ... */
  constructor(document) {
    this.document = document;
    this.header = JSON.parse(document.getElementById("header").textContent);
    this.columns = new Map();
    let offset = 0;
    for (const [name, count, rawSize, size] of this.header.columns) {
      this.columns.set(name, { count, rawSize, offset, size });
      offset += size;
    }
  }

  bytes() {
    if (this.blob) return this.blob;
    const blob = new Uint8Array(this.header.bytes);
    let at = 0;
    for (let i = 0; i < this.header.scripts; i++) {
      const element = this.document.getElementById("d" + i);
      const part = decodeBase64(element.textContent);
      element.remove(); // the text is not needed twice
      blob.set(part, at);
      at += part.length;
    }
    if (at !== blob.length) throw new Error("the page is cut: some of its data is missing");
    this.blob = blob;
    return blob;
  }

  /** The columns `prefix.name`, unpacked: {name: {bytes, count}}. */
  async group(prefix, names) {
    const blob = this.bytes();
    const parts = await Promise.all(names.map(async (name) => {
      const column = this.columns.get(prefix + "." + name);
      if (!column) throw new Error("the page lacks the column " + prefix + "." + name);
      const packed = blob.subarray(column.offset, column.offset + column.size);
      return [name, { bytes: await inflate(packed, column.rawSize), count: column.count }];
    }));
    return Object.fromEntries(parts);
  }
}
