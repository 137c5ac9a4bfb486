// Addresses of blocks over time: addresses upwards, without ranges that no segment ever covered.

import { upperBound } from "./track.js";

/** Ids of the blocks that are live at some time of the states first..last. */
export function idsIn(track, first, last) {
  const live = track.side.seek(first).ids();
  const from = track.bornBefore(first);
  const born = track.bornBefore(last) - from;
  const out = new Uint32Array(live.length + born);
  out.set(live);
  for (let i = 0; i < born; i++) out[live.length + i] = from + i;
  return out;
}

/** The ranges of addresses that segments cover, one above the other. */
export class Ranges {
  /** @param {{address: number, bytes: number}[]} segments in any order; they may overlap, one after the other */
  constructor(segments) {
    const known = segments.filter(({ address, bytes }) => address > 0 && bytes > 0).sort((a, b) => a.address - b.address);
    this.starts = [];
    this.sizes = [];
    this.below = []; // bytes of the ranges below each range
    this.total = 0;
    for (const { address, bytes } of known) {
      const last = this.starts.length - 1;
      const end = last < 0 ? -1 : this.starts[last] + this.sizes[last];
      if (address < end) {
        const more = Math.max(address + bytes - end, 0);
        this.sizes[last] += more;
        this.total += more;
      } else {
        this.starts.push(address);
        this.sizes.push(bytes);
        this.below.push(this.total);
        this.total += bytes;
      }
    }
  }

  /** How many bytes of the ranges are below an address; -1 if no range contains the address. */
  under(address) {
    const at = upperBound(this.starts, address) - 1;
    if (at < 0 || address >= this.starts[at] + this.sizes[at]) return -1;
    return this.below[at] + address - this.starts[at];
  }

  /** The address with `bytes` bytes of the ranges below it. */
  addressAt(bytes) {
    const at = Math.max(upperBound(this.below, bytes) - 1, 0);
    return this.starts[at] + bytes - this.below[at];
  }
}

export const FREE = -2; // memory of a segment without a block
export const NOTHING = -1;

/**
 * Fills pick[y * width + x] with the block that each pixel shows; the lowest address is in the last row. A block has at
 * least one pixel.
 * @param {number} total bytes of the ranges
 * @param {{from: number, to: number, under: number, bytes: number, id: number}[]} rects `from` and `to` in pixels;
 *        later rects are drawn over earlier ones
 */
export function paintRects(pick, width, height, total, rects) {
  const scale = height / Math.max(total, 1);
  for (const { from, to, under, bytes, id } of rects) {
    const left = Math.min(Math.max(Math.round(from), 0), width - 1);
    const right = Math.min(Math.max(Math.round(to), left + 1), width);
    const bottom = Math.min(Math.round(under * scale), height - 1);
    const top = Math.min(Math.max(Math.round((under + bytes) * scale), bottom + 1), height);
    for (let y = height - top; y < height - bottom; y++) pick.fill(id, y * width + left, y * width + right);
  }
}
