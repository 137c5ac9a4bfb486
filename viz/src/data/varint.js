// LEB128 integers, as src/base/varint.h writes them.

/** Reads `count` integers below 2^32. */
export function readUint32s(bytes, count) {
  const out = new Uint32Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      byte = bytes[at++];
      value |= (byte & 0x7f) << shift;
    }
    out[i] = value;
  }
  if (at > bytes.length) throw new Error("a column of the page ends too early");
  return out;
}

/** Reads `count` integers below 2^53. */
export function readNumbers(bytes, count) {
  const out = new Float64Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    for (let scale = 128; byte >= 0x80; scale *= 128) {
      byte = bytes[at++];
      value += (byte & 0x7f) * scale;
    }
    out[i] = value;
  }
  if (at > bytes.length) throw new Error("a column of the page ends too early");
  return out;
}

/** Undoes zig-zag encoding, within the integers that a double holds exactly. */
export function unzigzag(value) {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** The smallest unsigned array that holds values up to `max`. */
export function arrayFor(max, count) {
  if (max < 0x100) return new Uint8Array(count);
  if (max < 0x10000) return new Uint16Array(count);
  return new Uint32Array(count);
}
