// Makes columns as the program writes them, from lists; and finds answers the slow way, to compare the data layer with.

import { Track } from "../src/data/track.js";
import { readTrack, TRACK_COLUMNS } from "../src/data/track_read.js";

export function varints(values) {
  const out = [];
  for (let value of values) {
    while (value >= 128) {
      out.push(value % 128 + 128);
      value = Math.floor(value / 128);
    }
    out.push(value);
  }
  return Uint8Array.from(out);
}

export function zigzag(value) {
  return value >= 0 ? 2 * value : -2 * value - 1;
}

/** The same numbers in every run (mulberry32). */
export function randomFrom(seed) {
  return (below) => {
    seed = seed + 0x6d2b79f5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return Math.floor(((t ^ t >>> 14) >>> 0) / 4294967296 * below);
  };
}

/**
 * A random life of a heap: {events: [{time, block, free}], blocks: [{bytes, site, address, thread, birth, death}],
 * baseCount}.
 */
export function makeLife(random, { events = 2000, base = 5, sizes = 50, keep = 60, burst = 1 } = {}) {
  const life = { events: [], blocks: [], baseCount: base };
  const live = [];
  const newBlock = (birth) => {
    const block = {
      bytes: random(10) ? random(sizes) * 100 : 0, site: random(9), address: (random(300) * 4000 + 1) * 512,
      thread: Math.floor(life.blocks.length / 7) % 3, kind: 0, birth, death: -1,
    };
    live.push(life.blocks.length);
    life.blocks.push(block);
    return life.blocks.length - 1;
  };
  for (let i = 0; i < base; i++) newBlock(-1);
  let time = 0;
  for (let i = 0; i < events; i++) {
    if (i % burst === 0) time += random(20);
    if (live.length && random(keep * 2) < live.length) {
      const [block] = live.splice(random(live.length), 1);
      life.blocks[block].death = i;
      life.events.push({ time, block, free: true });
    } else {
      life.events.push({ time, block: newBlock(i), free: false });
    }
  }
  return life;
}

export function trackOf(life, { resized = [], steps = [], stepsEnd = life.events.length } = {}) {
  const sizes = [...new Set(life.blocks.map((block) => block.bytes))];
  const column = (values, count = values.length) => ({ bytes: varints(values), count });
  const runs = (values) => {
    const out = [];
    for (const value of values) {
      if (out.length && out.at(-2) === value) out[out.length - 1]++;
      else out.push(value, 1);
    }
    return column(out, out.length / 2);
  };
  const frees = [];
  const last = {};
  const addresses = [...new Set(life.blocks.map((block) => block.address))];
  let next = life.baseCount;
  for (const event of life.events) {
    if (event.free) frees.push(next - 1 - event.block);
    else next++;
  }
  const columns = {
    op: { bytes: Uint8Array.from(life.events, (event) => event.free ? 1 : 0), count: life.events.length },
    free: column(frees),
    time: column(life.events.map((event, i) => event.time - (i ? life.events[i - 1].time : 0))),
    size: column(life.blocks.map((block) => sizes.indexOf(block.bytes) + 1)),
    site: column(life.blocks.map((block) => block.site)),
    reuse: column(life.blocks.map(({ address }, id) => {
      const ago = address in last ? id - last[address] : 0;
      last[address] = id;
      return ago;
    })),
    address: column(addresses.map((address, i) => zigzag((address - (i ? addresses[i - 1] : 0)) / 512))),
    thread: runs(life.blocks.map((block) => block.thread)),
    kind: runs(life.blocks.map((block) => block.kind)),
    lane: runs(life.blocks.map((block) => block.thread % 2)),
    rounding: runs(life.blocks.map((block) => block.site % 2 && Math.min(block.bytes, block.site) + 1)),
    module: runs(life.blocks.map((block) => block.site % 4)),
    category: runs(life.blocks.map((block) => block.site % 3)),
    freed: runs(life.blocks.map((block) => block.death < 0 ? 0 : (block.site + 2) % 5)),
    metadata: runs(life.blocks.map((block) => block.site % 5 === 4 ? 1 : 0)),
    tensor: runs(life.blocks.map((block) => block.site % 4 === 3 ? 2 : 0)),
    used: runs(life.blocks.map((block) => block.site % 4 === 3 ? 7 : 0)),
    resized: column(resized, resized.length / 2),
    step: column(steps.map((at, i) => at - (i ? steps[i - 1] : 0))),
  };
  if (Object.keys(columns).join() !== TRACK_COLUMNS.join()) throw new Error("columns have changed");
  const info = { id: "test", events: life.events.length, blocks: life.blocks.length, base_blocks: life.baseCount,
    step_events: stepsEnd };
  const units = { timeUnit: 1, addressShift: 9, from: 0, to: (life.events.at(-1)?.time ?? 0) + 1 };
  const dictionary = Float64Array.of(0, ...sizes);
  return new Track(info, readTrack(info, columns, dictionary, units.to), dictionary, units);
}

/** Ids live after an event, in order of allocation. */
export function liveAfter(life, event) {
  return life.blocks.flatMap(({ birth, death }, id) => birth <= event && (death < 0 || death > event) ? [id] : []);
}

export function totalAfter(life, event) {
  return liveAfter(life, event).reduce((sum, id) => sum + life.blocks[id].bytes, 0);
}
