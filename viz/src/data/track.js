// One track's events and blocks as columns, and the state after any event.
//
// "State e" is what is live after event e; state -1 is the base. Events are indices from 0 in order of time.

import { LiveSet } from "./live.js";
import { arrayFor, readNumbers, readUint32s, unzigzag } from "./varint.js";

export const TRACK_COLUMNS = ["op", "free", "time", "size", "site", "reuse", "address", "thread", "kind", "resized",
  "note"];

const SUMMARY_SHIFT = 6; // events in a summary
const UPPER_SHIFT = 6; // summaries in an upper summary
const CHECKPOINT_EVENTS = 65536;

/** Values with lengths, searched by index. */
class Runs {
  constructor(column) {
    const pairs = readUint32s(column.bytes, column.count * 2);
    this.values = new Uint32Array(column.count);
    this.ends = new Uint32Array(column.count);
    for (let i = 0, end = 0; i < column.count; i++) {
      this.values[i] = pairs[2 * i];
      this.ends[i] = end += pairs[2 * i + 1];
    }
  }

  at(index) {
    return this.values[upperBound(this.ends, index)];
  }
}

/** Index of the first element greater than `value` in a sorted array. */
export function upperBound(array, value, low = 0, high = array.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the first element not less than `value` in a sorted array. */
export function lowerBound(array, value, low = 0, high = array.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Track {
  /**
   * @param {object} info the header's entry of this track
   * @param {object} columns by name: {bytes, count}
   * @param {Float64Array} sizes the page's dictionary of sizes; entry 0 stands for "not known"
   * @param {{timeUnit: number, addressShift: number, duration: number}} units no event is later than `duration`
   */
  constructor(info, columns, sizes, units) {
    this.info = info;
    this.timeUnit = units.timeUnit;
    this.duration = units.duration;
    this.addressScale = 2 ** units.addressShift;
    this.count = info.events;
    this.baseCount = info.base_blocks;
    this.columns = columns;
    this.readBlocks(sizes);
    this.readEvents();
    this.summarise();
    this.cursor = new Cursor(this);
  }

  /** A second cursor, so that a look at one moment does not send the picture's back and forth. */
  get side() {
    return this.sideCursor ??= new Cursor(this);
  }

  /** Per note of the recording: how many of this track's events came before it. */
  notePositions() {
    if (!this.notes) {
      this.notes = readUint32s(this.columns.note.bytes, this.columns.note.count);
      for (let i = 1; i < this.notes.length; i++) this.notes[i] += this.notes[i - 1];
    }
    return this.notes;
  }

  readBlocks(sizes) {
    const index = readUint32s(this.columns.size.bytes, this.info.blocks);
    const site = readUint32s(this.columns.site.bytes, this.info.blocks);
    let maxSite = 0;
    for (let i = 0; i < site.length; i++) if (site[i] > maxSite) maxSite = site[i];
    const sizeIndex = arrayFor(sizes.length, index.length);
    sizeIndex.set(index);
    const sites = arrayFor(maxSite, site.length);
    sites.set(site);
    this.blocks = {
      count: this.info.blocks, sizeIndex, sizes, site: sites,
      birth: new Int32Array(this.info.blocks).fill(-1), // event, -1: in the base
      death: new Int32Array(this.info.blocks).fill(-1), // event, -1: live at the end
    };
    this.siteCount = this.info.blocks ? maxSite + 1 : 0;
  }

  readEvents() {
    const { op, free, time } = this.columns;
    const frees = readUint32s(free.bytes, free.count);
    const { birth, death } = this.blocks;
    const deltas = time.bytes;
    const ops = op.bytes;
    this.subject = new Int32Array(this.count); // block, or ~block where the event frees it
    const times = this.duration < 2 ** 32 ? new Uint32Array(this.count) : new Float64Array(this.count);
    let next = this.baseCount;
    let nextFree = 0;
    let now = 0;
    let at = 0;
    for (let i = 0; i < this.count; i++) {
      let byte = deltas[at++];
      now += byte & 0x7f;
      for (let scale = 128; byte >= 0x80; scale *= 128) {
        byte = deltas[at++];
        now += (byte & 0x7f) * scale;
      }
      times[i] = now;
      if (ops[i] === 0) {
        birth[next] = i;
        this.subject[i] = next++;
      } else {
        const block = next - 1 - frees[nextFree++];
        death[block] = i;
        this.subject[i] = ~block;
      }
    }
    this.time = times;
    for (const name of ["op", "free", "time", "size", "site"]) delete this.columns[name];
  }

  /** One pass over all events: totals per 64 and 4096 events, the peak, and checkpoints to replay from. */
  summarise() {
    const count = ((this.count - 1) >>> SUMMARY_SHIFT) + 1;
    const { sizeIndex, sizes } = this.blocks;
    this.start = new Float64Array(this.count ? count : 0); // total before a summary's first event
    this.max = new Float64Array(this.start.length);
    this.min = new Float64Array(this.start.length);
    const live = new LiveSet(this.blocks);
    for (let id = 0; id < this.baseCount; id++) live.add(id);
    this.checkpoints = [{ event: -1, ids: live.ids() }];
    this.peak = { event: -1, bytes: live.total };
    let due = CHECKPOINT_EVENTS;
    for (let summary = 0; summary < this.start.length; summary++) {
      const from = summary << SUMMARY_SHIFT;
      const to = Math.min(from + (1 << SUMMARY_SHIFT), this.count);
      let max = -1;
      let min = Infinity;
      this.start[summary] = live.total;
      for (let i = from; i < to; i++) {
        const subject = this.subject[i];
        if (subject >= 0) live.add(subject);
        else live.remove(~subject);
        const total = live.total;
        if (total < min) min = total;
        if (total > max) {
          max = total;
          if (total > this.peak.bytes) this.peak = { event: i, bytes: total };
        }
      }
      this.max[summary] = max;
      this.min[summary] = min;
      if (to >= due) {
        this.checkpoints.push({ event: to - 1, ids: live.ids() });
        due = to + Math.max(CHECKPOINT_EVENTS, 4 * live.count);
      }
    }
    this.upperMax = this.fold(this.max, Math.max);
    this.upperMin = this.fold(this.min, Math.min);
    this.end = { bytes: live.total, blocks: live.count };
  }

  fold(values, better) {
    const out = new Float64Array((values.length + (1 << UPPER_SHIFT) - 1) >>> UPPER_SHIFT);
    for (let i = 0; i < values.length; i++) {
      const to = i >>> UPPER_SHIFT;
      out[to] = i & ((1 << UPPER_SHIFT) - 1) ? better(out[to], values[i]) : values[i];
    }
    return out;
  }

  bytesOf(id) {
    return this.blocks.sizes[this.blocks.sizeIndex[id]];
  }

  sizeKnown(id) {
    return this.blocks.sizeIndex[id] !== 0;
  }

  /** In the page's unit of time; -1 before the recording. */
  birthTime(id) {
    const event = this.blocks.birth[id];
    return event < 0 ? -1 : this.time[event];
  }

  /** Infinity: live at the end. */
  deathTime(id) {
    const event = this.blocks.death[id];
    return event < 0 ? Infinity : this.time[event];
  }

  /** Bytes live in state `event`. */
  totalAt(event) {
    if (event < 0 || !this.count) return this.start.length ? this.start[0] : this.peak.bytes;
    const summary = event >>> SUMMARY_SHIFT;
    let total = this.start[summary];
    for (let i = summary << SUMMARY_SHIFT; i <= event; i++) total += this.change(i);
    return total;
  }

  change(event) {
    const subject = this.subject[event];
    return subject >= 0 ? this.bytesOf(subject) : -this.bytesOf(~subject);
  }

  /** The state that stands at a time: the index of the last event not later than it. */
  stateAt(time) {
    return upperBound(this.time, time) - 1;
  }

  /**
   * Highest and lowest totals of the states first..last (both included), and the first state with the highest.
   * @param {{max: number, min: number, at: number}} out
   */
  range(first, last, out) {
    out.max = -1;
    out.min = Infinity;
    if (first < 0) {
      out.max = out.min = this.totalAt(-1);
      out.at = -1;
      first = 0;
    }
    let best = -1; // summary that holds a higher total than all before
    const step = 1 << SUMMARY_SHIFT;
    let i = first;
    while (i <= last) {
      const summary = i >>> SUMMARY_SHIFT;
      if (i === summary << SUMMARY_SHIFT && i + step - 1 <= last) {
        const upper = summary >>> UPPER_SHIFT;
        const span = step << UPPER_SHIFT;
        if (i === upper * span && i + span - 1 <= last) {
          if (this.upperMin[upper] < out.min) out.min = this.upperMin[upper];
          if (this.upperMax[upper] > out.max) {
            out.max = this.upperMax[upper];
            best = upper << UPPER_SHIFT;
            while (this.max[best] !== out.max) best++;
          }
          i += span;
          continue;
        }
        if (this.min[summary] < out.min) out.min = this.min[summary];
        if (this.max[summary] > out.max) {
          out.max = this.max[summary];
          best = summary;
        }
        i += step;
        continue;
      }
      let total = this.totalAt(i - 1);
      const end = Math.min(last + 1, (summary + 1) << SUMMARY_SHIFT);
      for (; i < end; i++) {
        total += this.change(i);
        if (total < out.min) out.min = total;
        if (total > out.max) {
          out.max = total;
          out.at = i;
          best = -1;
        }
      }
    }
    if (best >= 0) out.at = this.firstWith(best, out.max);
    return out;
  }

  firstWith(summary, wanted) {
    let total = this.start[summary];
    for (let i = summary << SUMMARY_SHIFT; ; i++) {
      total += this.change(i);
      if (total === wanted) return i;
    }
  }

  /** How many blocks are live at some time of the states first..last. */
  blocksIn(first, last) {
    const born = this.bornBefore(last) - this.bornBefore(first);
    return this.liveCount(first) + born;
  }

  /** Blocks, base included, that exist up to state `event`. */
  bornBefore(event) {
    return this.baseCount + upperBound(this.bornEvents(), event);
  }

  bornEvents() {
    return this.blocks.birth.subarray(this.baseCount);
  }

  liveCount(event) {
    // Every event up to `event` is a birth or a death, and births are counted by bornBefore().
    const births = this.bornBefore(event) - this.baseCount;
    return this.baseCount + births - (event + 1 - births);
  }

  thread(id) {
    if (!this.threadRuns) this.threadRuns = new Runs(this.columns.thread);
    return this.threadRuns.at(id);
  }

  kind(id) {
    if (!this.kindRuns) this.kindRuns = new Runs(this.columns.kind);
    return this.kindRuns.at(id);
  }

  /** 0 where it is not known. Unpacked when first asked for: the picture does not need it. */
  address(id) {
    if (!this.addresses) {
      const { reuse, address } = this.columns;
      const ago = readUint32s(reuse.bytes, reuse.count);
      const deltas = readNumbers(address.bytes, address.count);
      this.addresses = new Float64Array(reuse.count);
      let last = 0;
      for (let i = 0, next = 0; i < ago.length; i++) {
        if (ago[i] === 0) last += unzigzag(deltas[next++]);
        this.addresses[i] = ago[i] === 0 ? last : this.addresses[i - ago[i]];
      }
    }
    return this.addresses[id] * this.addressScale;
  }

  /** The block that this one was before it was resized, or -1. */
  resizedFrom(id) {
    if (!this.resizes) {
      const column = this.columns.resized;
      const pairs = readUint32s(column.bytes, column.count * 2);
      this.resizes = new Map();
      for (let i = 0, block = 0; i < column.count; i++) {
        block += pairs[2 * i];
        this.resizes.set(block, block - pairs[2 * i + 1]);
      }
    }
    return this.resizes.get(id) ?? -1;
  }
}

/** A live set that moves through the states, forward from where it is or from the nearest checkpoint. */
export class Cursor {
  constructor(track) {
    this.track = track;
    this.live = new LiveSet(track.blocks);
    this.event = -2; // nothing is replayed yet
    this.lowest = 0; // the lowest id whose being live the latest move may have changed
  }

  seek(event) {
    const { checkpoints, subject } = this.track;
    let low = 0;
    for (let high = checkpoints.length; high - low > 1;) {
      const middle = (low + high) >>> 1;
      if (checkpoints[middle].event <= event) low = middle;
      else high = middle;
    }
    const nearest = checkpoints[low];
    let lowest = this.track.blocks.count;
    if (this.event < nearest.event || this.event > event) {
      this.live.clear();
      for (const id of nearest.ids) this.live.add(id);
      this.event = nearest.event;
      lowest = 0;
    }
    // A block that is born and freed on the way need not be touched.
    const { birth, death } = this.track.blocks;
    const from = this.event;
    const live = this.live;
    for (let i = from + 1; i <= event; i++) {
      const block = subject[i];
      if (block >= 0) {
        if (death[block] >= 0 && death[block] <= event) continue;
        live.add(block);
        if (block < lowest) lowest = block;
      } else if (birth[~block] <= from) {
        live.remove(~block);
        if (~block < lowest) lowest = ~block;
      }
    }
    this.lowest = lowest;
    this.event = event;
    return live;
  }
}
