import { readFileSync } from "node:fs";

import { TRACK_COLUMNS } from "../src/data/track_read.js";
import { assert, test } from "./asserted.js";
import { sitesAt, siteTotals } from "../src/data/sites.js";
import { lowerBound, upperBound } from "../src/data/track.js";
import { readNumbers, readUint32s, unzigzag } from "../src/data/varint.js";
import { liveAfter, makeLife, randomFrom, totalAfter, trackOf, varints, zigzag } from "./make.js";

test("the page's writer, its reader and its description name the same columns of a track", () => {
  const text = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
  const writer = text("../../src/output/page/page.c");
  const rows = writer.slice(writer.indexOf("page_track_rows(struct"), writer.indexOf("page_track_end(struct"));
  const runs = writer.match(/#define RUNS\(X\)(.*)/)[1];
  const written = [...rows.matchAll(/\{"(\w+)", &track/g), ...runs.matchAll(/X\((\w+)\)/g)].map(([, name]) => name);
  const described = [...text("../FORMAT.md").matchAll(/`tN\.(\w+)`/g)].map(([, name]) => name);
  assert.deepEqual(written.sort(), [...TRACK_COLUMNS].sort());
  assert.deepEqual([...new Set(described)].sort(), [...TRACK_COLUMNS].sort());
});

test("varints read back, to the edge of 32 bits and of what a double holds", () => {
  const small = [0, 1, 127, 128, 16383, 16384, 2 ** 31, 2 ** 32 - 1];
  assert.deepEqual([...readUint32s(varints(small), small.length)], small);
  const large = [...small, 2 ** 32, 2 ** 47 - 1, 2 ** 53 - 1];
  assert.deepEqual([...readNumbers(varints(large), large.length)], large);
  for (const value of [0, -1, 1, 2 ** 40, -(2 ** 40) - 1]) assert.equal(unzigzag(zigzag(value)), value);
  assert.throws(() => readUint32s(varints([1, 2]), 3));
  assert.throws(() => readNumbers(Uint8Array.of(0x80), 1));
});

test("bounds in sorted arrays with equal values", () => {
  const array = [1, 3, 3, 3, 7];
  for (let value = 0; value < 9; value++) {
    assert.equal(upperBound(array, value), array.filter((x) => x <= value).length);
    assert.equal(lowerBound(array, value), array.filter((x) => x < value).length);
  }
});

test("where blocks were freed, where somebody told", () => {
  const life = makeLife(randomFrom(11));
  const track = trackOf(life);
  const freed = life.blocks.map(({ site, death }) => death < 0 ? -1 : (site + 2) % 5 - 1);
  assert.ok(freed.some((site) => site >= 0) && freed.includes(-1));
  assert.deepEqual(life.blocks.map((block, id) => track.freedAt(id)), freed);
});

test("what was asked for, where somebody told", () => {
  const life = makeLife(randomFrom(3));
  const track = trackOf(life);
  life.blocks.forEach(({ bytes, site }, id) =>
    assert.equal(track.asked(id), site % 2 ? bytes - Math.min(bytes, site) : -1));
});

test("any state, in any order, has the blocks that a full scan finds", () => {
  const random = randomFrom(1);
  const life = makeLife(random);
  const track = trackOf(life);
  for (let i = 0; i < 300; i++) {
    const event = random(life.events.length + 1) - 1;
    const live = track.cursor.seek(event);
    assert.deepEqual([...live.ids()], liveAfter(life, event));
    assert.equal(live.total, totalAfter(life, event));
    assert.equal(track.totalAt(event), live.total);
    assert.equal(track.liveCount(event), live.count);
  }
});

test("states far from a checkpoint and behind several, with many live blocks", () => {
  const random = randomFrom(2);
  const life = makeLife(random, { events: 400000, keep: 5000, base: 3000 });
  const track = trackOf(life);
  assert.ok(track.checkpoints.length > 3);
  for (const event of [399999, 70000, 65535, 65536, -1, 200000, 199999, 399998]) {
    const live = track.cursor.seek(event);
    const expected = liveAfter(life, event);
    assert.equal(live.count, expected.length);
    assert.deepEqual(live.ids(), Uint32Array.from(expected));
    assert.equal(live.total, totalAfter(life, event));
  }
});

test("sums of 32, 1024 and 32 768 blocks are those of their live blocks", () => {
  const random = randomFrom(3);
  const life = makeLife(random, { events: 80000, keep: 3000 });
  const track = trackOf(life);
  for (const event of [100, 79999, 5000]) {
    const live = track.cursor.seek(event);
    const words = new Float64Array(live.wordBytes.length);
    const groups = new Float64Array(live.groupBytes.length);
    const tops = new Float64Array(2);
    for (const id of liveAfter(life, event)) {
      words[id >>> 5] += life.blocks[id].bytes;
      groups[id >>> 10] += life.blocks[id].bytes;
      tops[id >>> 15] += life.blocks[id].bytes;
    }
    assert.deepEqual(live.wordBytes, words);
    assert.deepEqual(live.groupBytes, groups);
    assert.deepEqual(live.topBytes, tops);
  }
});

test("the highest and lowest totals of any range, and the first state with the highest", () => {
  const random = randomFrom(4);
  const life = makeLife(random, { events: 20000 });
  const track = trackOf(life);
  let total = totalAfter(life, -1);
  const totals = [total];
  for (const { block, free } of life.events) totals.push(total += (free ? -1 : 1) * life.blocks[block].bytes);
  const out = {};
  const lengths = [0, 1, 5, 63, 64, 65, 200, 4095, 4096, 9000, 19999];
  for (let i = 0; i < 600; i++) {
    const length = lengths[i % lengths.length];
    const first = random(life.events.length - length) - (i % 5 === 0 ? 1 : 0);
    const last = first + length;
    track.range(first, last, out);
    const slice = totals.slice(first + 1, last + 2);
    const max = Math.max(...slice);
    assert.deepEqual(out, { max, min: Math.min(...slice), at: first + slice.indexOf(max) });
  }
  assert.deepEqual(track.peak, { bytes: Math.max(...totals), event: totals.indexOf(Math.max(...totals)) - 1 });
  assert.deepEqual(track.end, { bytes: totals.at(-1), blocks: liveAfter(life, life.events.length - 1).length });
});

test("what is known of each block reads back", () => {
  const life = makeLife(randomFrom(5), { base: 9 });
  const track = trackOf(life, { resized: [20, 3, 30, 50] });
  life.blocks.forEach((block, id) => {
    assert.equal(track.bytesOf(id), block.bytes);
    assert.equal(track.address(id), block.address);
    assert.equal(track.thread(id), block.thread);
    assert.equal(track.blocks.site[id], block.site);
    assert.equal(track.birthTime(id), block.birth < 0 ? -1 : life.events[block.birth].time);
    assert.equal(track.deathTime(id), block.death < 0 ? Infinity : life.events[block.death].time);
  });
  assert.equal(track.resizedFrom(20), 17);
  assert.equal(track.resizedFrom(50), 0);
  assert.equal(track.resizedFrom(21), -1);
});

test("how many blocks a window holds", () => {
  const random = randomFrom(6);
  const life = makeLife(random);
  const track = trackOf(life);
  for (let i = 0; i < 100; i++) {
    const first = random(1900) - 1;
    const last = first + random(100);
    const expected = life.blocks.filter(({ birth, death }) => birth <= last && (death < 0 || death > first)).length;
    assert.equal(track.blocksIn(first, last), expected);
  }
});

test("sites of a moment add up to it", () => {
  const life = makeLife(randomFrom(7));
  const track = trackOf(life);
  const { rows, bytes, blocks } = sitesAt(track, 1234);
  const expected = new Map();
  for (const id of liveAfter(life, 1234)) {
    const row = expected.get(life.blocks[id].site) ?? { site: life.blocks[id].site, bytes: 0, blocks: 0 };
    row.bytes += life.blocks[id].bytes;
    row.blocks++;
    expected.set(row.site, row);
  }
  assert.deepEqual(rows, [...expected.values()].sort((a, b) => b.bytes - a.bytes || a.site - b.site));
  assert.equal(bytes, totalAfter(life, 1234));
  assert.equal(blocks, liveAfter(life, 1234).length);
  const ofSite = life.blocks.filter((block) => block.site === 3);
  assert.deepEqual(siteTotals(track, 3),
    { blocks: ofSite.length, bytes: ofSite.reduce((sum, block) => sum + block.bytes, 0) });
});

test("a track without events, with and without a base", () => {
  const blocks = [{ bytes: 100, site: 0, address: 512, thread: 0, kind: 0, birth: -1, death: -1 }];
  for (const base of [blocks, []]) {
    const track = trackOf({ events: [], blocks: base, baseCount: base.length });
    assert.equal(track.totalAt(-1), 100 * base.length);
    assert.deepEqual(track.peak, { event: -1, bytes: 100 * base.length });
    assert.deepEqual(track.range(-1, -1, {}), { max: 100 * base.length, min: 100 * base.length, at: -1 });
    assert.equal(track.blocksIn(-1, -1), base.length);
  }
});

test("steps over whole parts of 1024 events leave what single steps leave", () => {
  const life = makeLife(randomFrom(8), { events: 9000, keep: 700, base: 40 });
  const track = trackOf(life);
  const states = [-1, 0, 1022, 1023, 1024, 2046, 2047, 2048, 2049, 5119, 5120, 8191, 8192, 8999];
  for (const from of states) {
    for (const to of states) {
      track.cursor.seek(from);
      const before = [...track.cursor.live.ids()];
      const live = track.cursor.seek(to);
      const after = liveAfter(life, to);
      assert.deepEqual([...live.ids()], after);
      assert.equal(live.total, totalAfter(life, to));
      if (to >= from) {
        const changed = [...before.filter((id) => !after.includes(id)), ...after.filter((id) => !before.includes(id))];
        assert.ok(track.cursor.lowest <= Math.min(...changed, life.blocks.length));
      }
    }
  }
});

test("blocks at one address follow each other", () => {
  const life = makeLife(randomFrom(29), { events: 900 });
  const track = trackOf(life);
  life.blocks.forEach(({ address }, id) => {
    const same = life.blocks.flatMap((block, other) => block.address === address ? [other] : []);
    assert.equal(track.sameAddress(id, 1), same.find((other) => other > id) ?? -1);
    assert.equal(track.sameAddress(id, -1), same.findLast((other) => other < id) ?? -1);
  });
});
