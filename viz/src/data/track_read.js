// Makes arrays of a track's columns. This takes long, so a worker may do it; the result is plain data that a worker can
// send.

import { LiveSet } from "./live.js";
import { arrayFor, readUint32s } from "./varint.js";

export const TRACK_COLUMNS = ["op", "free", "time", "size", "site", "reuse", "address", "thread", "kind", "lane",
  "rounding", "module", "category", "freed", "metadata", "tensor", "used",
  "resized", "step"];

export const SUMMARY_SHIFT = 6; // events in a summary
export const UPPER_SHIFT = 6; // summaries in an upper summary
export const NET_SHIFT = 10; // events in a part whose net effect is known
const CHECKPOINT_EVENTS = 65536;

/**
 * @param {object} info the header's entry of this track
 * @param {object} columns by name: {bytes, count}
 * @param {Float64Array} sizes the page's dictionary of sizes
 * @param {number} end the time after the last event
 * @returns {object} what class Track holds
 */
export function readTrack(info, columns, sizes, end) {
  const data = { ...readBlocks(info, columns, sizes), ...emptyEvents(info, end) };
  readEvents(info, columns, data);
  Object.assign(data, summarise(info, data, sizes));
  const read = new Set(["op", "free", "time", "size", "site"]);
  return { ...data, columns: Object.fromEntries(Object.entries(columns).filter(([name]) => !read.has(name))) };
}

function readBlocks(info, columns, sizes) {
  const index = readUint32s(columns.size.bytes, info.blocks);
  const site = readUint32s(columns.site.bytes, info.blocks);
  let maxSite = 0;
  for (let i = 0; i < site.length; i++) if (site[i] > maxSite) maxSite = site[i];
  const sizeIndex = arrayFor(sizes.length, index.length);
  sizeIndex.set(index);
  const sites = arrayFor(maxSite, site.length);
  sites.set(site);
  return {
    siteCount: info.blocks ? maxSite + 1 : 0,
    blocks: {
      sizeIndex, site: sites,
      birth: new Int32Array(info.blocks).fill(-1), // event, -1: in the base
      death: new Int32Array(info.blocks).fill(-1), // event, -1: live at the end
    },
  };
}

function emptyEvents(info, end) {
  return {
    subject: new Int32Array(info.events), // block, or ~block where the event frees it
    time: end < 2 ** 32 ? new Uint32Array(info.events) : new Float64Array(info.events),
  };
}

function readEvents(info, { op, free, time }, { subject, time: times, blocks: { birth, death } }) {
  const frees = readUint32s(free.bytes, free.count);
  const deltas = time.bytes;
  const ops = op.bytes;
  let next = info.base_blocks;
  let nextFree = 0;
  let now = 0;
  let at = 0;
  for (let i = 0; i < info.events; i++) {
    let byte = deltas[at++];
    now += byte & 0x7f;
    for (let scale = 128; byte >= 0x80; scale *= 128) {
      byte = deltas[at++];
      now += (byte & 0x7f) * scale;
    }
    times[i] = now;
    if (ops[i] === 0) {
      birth[next] = i;
      subject[i] = next++;
    } else {
      const block = next - 1 - frees[nextFree++];
      death[block] = i;
      subject[i] = ~block;
    }
  }
}

/** An array that grows. */
class Growing {
  constructor() {
    this.values = new Int32Array(1024);
    this.count = 0;
  }

  push(value) {
    if (this.count === this.values.length) {
      const larger = new Int32Array(this.values.length * 2);
      larger.set(this.values);
      this.values = larger;
    }
    this.values[this.count++] = value;
  }
}

/**
 * One pass over all events finds totals per 64 and per 4096 events, the peak, and checkpoints to replay from. For each
 * part of 1024 events it lists the net effect (`nets`, as `subject`, up to netEnds[part]). A replay then skips the
 * other events of a part.
 */
function summarise(info, { subject, blocks }, sizes) {
  const { sizeIndex, birth, death } = blocks;
  const count = info.events;
  const summaries = count ? ((count - 1) >>> SUMMARY_SHIFT) + 1 : 0;
  const [start, max, min] = [0, 1, 2].map(() => new Float64Array(summaries));
  const netEnds = new Uint32Array((count + (1 << NET_SHIFT) - 1) >>> NET_SHIFT);
  const nets = new Growing();
  const live = new LiveSet({ count: info.blocks, sizeIndex, sizes });
  for (let id = 0; id < info.base_blocks; id++) live.add(id);
  const checkpoints = [{ event: -1, ids: live.ids() }];
  let { total } = live;
  let peakEvent = -1;
  let peakBytes = total;
  let due = CHECKPOINT_EVENTS;
  for (let part = 0; part < netEnds.length; part++) {
    const first = part << NET_SHIFT;
    const end = Math.min(first + (1 << NET_SHIFT), count);
    const before = nets.count;
    for (let i = first; i < end;) {
      const summary = i >>> SUMMARY_SHIFT;
      const to = Math.min(i + (1 << SUMMARY_SHIFT), end);
      let highest = -1;
      let lowest = Infinity;
      start[summary] = total;
      for (; i < to; i++) {
        const block = subject[i];
        if (block >= 0) {
          total += sizes[sizeIndex[block]];
          if (death[block] < 0 || death[block] >= end) nets.push(block);
        } else {
          total -= sizes[sizeIndex[~block]];
          if (birth[~block] < first) nets.push(block);
        }
        if (total < lowest) lowest = total;
        if (total > highest) {
          highest = total;
          if (total > peakBytes) [peakEvent, peakBytes] = [i, total];
        }
      }
      max[summary] = highest;
      min[summary] = lowest;
    }
    netEnds[part] = nets.count;
    for (let i = before; i < nets.count; i++) {
      if (nets.values[i] >= 0) live.add(nets.values[i]);
      else live.remove(~nets.values[i]);
    }
    if (end >= due) {
      checkpoints.push({ event: end - 1, ids: live.ids() });
      due = end + Math.max(CHECKPOINT_EVENTS, 4 * live.count);
    }
  }
  return {
    start, max, min, upperMax: fold(max, Math.max), upperMin: fold(min, Math.min), checkpoints,
    peak: { event: peakEvent, bytes: peakBytes },
    nets: nets.values.slice(0, nets.count), netEnds, end: { bytes: total, blocks: live.count },
  };
}

function fold(values, better) {
  const out = new Float64Array((values.length + (1 << UPPER_SHIFT) - 1) >>> UPPER_SHIFT);
  for (let i = 0; i < values.length; i++) {
    const to = i >>> UPPER_SHIFT;
    out[to] = i & ((1 << UPPER_SHIFT) - 1) ? better(out[to], values[i]) : values[i];
  }
  return out;
}
