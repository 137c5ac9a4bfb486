// One track's events and blocks as columns, and the state after any event.
//
// "State e" is the set of live blocks after event e; state -1 is the base. Events are indices from 0 in order of time.

import { LiveSet } from "./live.js";
import { NET_SHIFT, SUMMARY_SHIFT, UPPER_SHIFT } from "./track_read.js";
import { arrayFor, readNumbers, readUint32s, unzigzag } from "./varint.js";

const MUCH_IDLE = 0.2; // of a recording's time: a longer idle part is not shown at first
const NET_EVENTS = 1 << NET_SHIFT;

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

/** Expands runs to one value per index: for short runs that are read often. */
function spread(column, count) {
  const pairs = readUint32s(column.bytes, column.count * 2);
  const out = arrayFor(pairs.reduce((most, value, i) => i % 2 ? most : Math.max(most, value), 0), count);
  for (let i = 0, at = 0; i < pairs.length; i += 2) out.fill(pairs[i], at, at += pairs[i + 1]);
  return out;
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
   * @param {object} data as readTrack() gives it
   * @param {Float64Array} sizes the page's dictionary of sizes; entry 0 stands for "not known"
   * @param {{timeUnit: number, addressShift: number, from: number, to: number}} units no event is outside from..to
   */
  constructor(info, data, sizes, units) {
    this.info = info;
    this.timeUnit = units.timeUnit;
    [this.from, this.to] = [units.from, units.to];
    this.addressScale = 2 ** units.addressShift;
    this.count = info.events;
    this.baseCount = info.base_blocks;
    this.stepEvents = info.step_events; // before the last step's end
    Object.assign(this, data);
    this.blocks = { count: info.blocks, sizes, ...data.blocks };
    this.cursor = new Cursor(this);
  }

  /** A second cursor for single moments, so that the picture's cursor need not move back and forth. */
  get side() {
    return this.sideCursor ??= new Cursor(this);
  }

  /** Per step of the recording: how many of this track's events came before it. */
  stepPositions() {
    if (!this.steps) {
      this.steps = readUint32s(this.columns.step.bytes, this.columns.step.count);
      for (let i = 1; i < this.steps.length; i++) this.steps[i] += this.steps[i - 1];
    }
    return this.steps;
  }

  bytesOf(id) {
    return this.blocks.sizes[this.blocks.sizeIndex[id]];
  }

  sizeKnown(id) {
    return this.blocks.sizeIndex[id] !== 0;
  }

  /** In the page's unit of time; -1 before the page's first moment. */
  birthTime(id) {
    const event = this.blocks.birth[id];
    return event < 0 ? -1 : this.time[event];
  }

  /** Infinity: live at the end. */
  deathTime(id) {
    const event = this.blocks.death[id];
    return event < 0 ? Infinity : this.time[event];
  }

  /** How long a block lives, as far as the page shows. */
  life(id) {
    return Math.min(this.deathTime(id), this.to) - Math.max(this.birthTime(id), this.from);
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

  /** The state at a time: the index of the last event not later than `time`. */
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
    let best = -1; // summary with a higher total than all before
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

  /** Times without live blocks before the first event and after the last: {from, to, words}. */
  idle() {
    const out = [];
    if (!this.count || this.to - this.from < 2) return out;
    if (!this.baseCount) out.push({ from: this.from, to: this.time[0], words: "nothing live yet" });
    if (!this.end.blocks) out.push({ from: this.time[this.count - 1], to: this.to, words: "nothing live" });
    return out;
  }

  /** The times to show at first: all, without idle parts if they are long. */
  busy() {
    const [whole, span] = [[this.from, this.to], this.to - this.from];
    for (const { from, to } of this.idle()) {
      if (to - from < MUCH_IDLE * span) continue;
      if (from === this.from) whole[0] = Math.max(to - 0.02 * span, this.from);
      else whole[1] = Math.min(from + 0.02 * span, this.to);
    }
    return whole;
  }

  /** How many blocks are live at some time of the states first..last. */
  blocksIn(first, last) {
    const born = this.bornBefore(last) - this.bornBefore(first);
    return this.liveCount(first) + born;
  }

  /** The number of blocks, base included, that were born up to state `event`. */
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

  /** The number of the block's lane (stream and pool) in the header, from 1; 0: unknown. */
  lane(id) {
    if (!this.laneRuns) this.laneRuns = new Runs(this.columns.lane);
    return this.laneRuns.at(id);
  }

  /** The requested bytes, before rounding; -1 if unknown. */
  asked(id) {
    if (!this.roundingRuns) this.roundingRuns = new Runs(this.columns.rounding);
    const more = this.roundingRuns.at(id);
    return more ? this.bytesOf(id) - (more - 1) : -1;
  }

  /** The site of the block's free; -1: unknown, or live at the end. */
  freedAt(id) {
    if (!this.freedRuns) this.freedRuns = new Runs(this.columns.freed);
    return this.freedRuns.at(id) - 1;
  }

  /** The number of the recording's text about the block; 0: none. */
  metadata(id) {
    if (!this.metadataRuns) this.metadataRuns = new Runs(this.columns.metadata);
    return this.metadataRuns.at(id);
  }

  /** The number of the recording's text about the block's tensor, "float32 [8, 128] of addmm in forward"; 0: none. */
  tensor(id) {
    return (this.tensors ??= spread(this.columns.tensor, this.blocks.count))[id];
  }

  /** By block: when an operator last used it; -1: not known. */
  get usedTo() {
    if (this.used) return this.used;
    const { used } = this.columns;
    const pairs = readNumbers(used.bytes, used.count * 2);
    this.used = new Float64Array(this.blocks.count);
    for (let i = 0, at = 0; i < pairs.length; i += 2) this.used.fill(pairs[i] - 1, at, at += pairs[i + 1]);
    return this.used;
  }

  /** The number of the recording's module that allocated the block; 0: none or unknown. */
  module(id) {
    return this.allModules()[id];
  }

  /** The number of the block's category in the header; 0: none. */
  category(id) {
    return this.allCategories()[id];
  }

  allModules() {
    return this.modules ??= spread(this.columns.module, this.blocks.count);
  }

  allCategories() {
    return this.categories ??= spread(this.columns.category, this.blocks.count);
  }

  /** A block's address; 0: unknown. Addresses are unpacked when first needed, since the picture does not need them. */
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

  /** The block that used this block's address next (step 1) or before (step -1); -1: none. */
  sameAddress(id, step) {
    const address = this.address(id);
    const { count } = this.blocks;
    for (let other = id + step; address > 0 && other >= 0 && other < count; other += step) {
      if (this.address(other) === address) return other;
    }
    return -1;
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

/** A live set that moves through the states. It replays events forward, from its present state or from the nearest
 * checkpoint. */
export class Cursor {
  constructor(track) {
    this.track = track;
    this.live = new LiveSet(track.blocks);
    this.event = -2; // nothing is replayed yet
    this.lowest = 0; // the lowest id that may have become live or not live in the latest move
  }

  seek(event) {
    const { checkpoints } = this.track;
    const { live } = this;
    let low = 0;
    for (let high = checkpoints.length; high - low > 1;) {
      const middle = (low + high) >>> 1;
      if (checkpoints[middle].event <= event) low = middle;
      else high = middle;
    }
    const nearest = checkpoints[low];
    let lowest = this.track.blocks.count;
    if (this.event < nearest.event || this.event > event) {
      live.clear();
      for (const id of nearest.ids) live.add(id);
      this.event = nearest.event;
      lowest = 0;
    }
    this.lowest = lowest;
    const head = ((this.event + NET_EVENTS) >>> NET_SHIFT) * NET_EVENTS - 1; // the next state at the end of a part
    if (head + NET_EVENTS <= event) {
      this.replay(head);
      this.skipTo(event);
    }
    this.replay(event);
    return live;
  }

  /** Moves event by event. */
  replay(event) {
    const { subject } = this.track;
    const { birth, death } = this.track.blocks;
    const { event: from, live } = this;
    let { lowest } = this;
    for (let i = from + 1; i <= event; i++) {
      const block = subject[i];
      // Skip a block that is born and freed on the way.
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
  }

  /** Moves by whole parts, from the end of a part to the end of the last part that ends not after `event`. */
  skipTo(event) {
    const { nets, netEnds } = this.track;
    const first = (this.event + 1) >>> NET_SHIFT;
    const last = ((event + 1) >>> NET_SHIFT) - 1;
    const { live } = this;
    let { lowest } = this;
    for (let i = first ? netEnds[first - 1] : 0; i < netEnds[last]; i++) {
      const block = nets[i];
      const id = block >= 0 ? block : ~block;
      if (block >= 0) live.add(id);
      else live.remove(id);
      if (id < lowest) lowest = id;
    }
    this.lowest = lowest;
    this.event = (last + 1) * NET_EVENTS - 1;
  }
}
