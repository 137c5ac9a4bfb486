import { assert, test } from "./asserted.js";
import { alongOf } from "../src/draw/along.js";
import { byteTicks, timeTicks } from "../src/draw/axis.js";
import { chooseColumns } from "../src/draw/columns.js";
import { levelsOf } from "../src/draw/levels.js";
import { layOut, NOTHING, outlineOf } from "../src/draw/layout.js";
import { groupMarks, labelOf, markLanes } from "../src/draw/marks.js";
import { liveAfter, makeLife, randomFrom, totalAfter, trackOf } from "./make.js";

function chooseInTime(track, ...values) {
  const along = alongOf(track, { along: "time" });
  return chooseColumns(track, (place, from) => along.firstAt(place, from), ...values);
}

/** Each column's states, found by looking at every event: the state at its start, and those reached inside of it. */
function columnsTheSlowWay(life, start, end, width) {
  const scale = (end - start) / width;
  const out = { max: [], min: [] };
  for (let x = 0; x < width; x++) {
    let state = life.events.filter((event) => event.time < start + x * scale).length - 1;
    let total = totalAfter(life, state);
    let [max, min] = [total, total];
    while (state + 1 < life.events.length && life.events[state + 1].time < start + (x + 1) * scale) {
      total = totalAfter(life, ++state);
      if (total > max) max = total;
      if (total < min) min = total;
    }
    out.max.push(max);
    out.min.push(min);
  }
  return out;
}

test("every column has the peak and the lowest total of its time", () => {
  const random = randomFrom(11);
  for (const burst of [1, 30, 300]) {
    const life = makeLife(random, { events: 600, burst });
    const track = trackOf(life);
    const end = life.events.at(-1).time + 1;
    for (const [from, to, width] of [[0, end, 64], [0, end, 700], [end / 3, end / 2, 50], [10, 11, 8]]) {
      const columns = chooseInTime(track, from, to, width);
      const expected = columnsTheSlowWay(life, from, to, width);
      assert.deepEqual([...columns.max], expected.max);
      assert.deepEqual([...columns.min], expected.min);
      columns.state.forEach((state, x) => assert.equal(totalAfter(life, state), expected.max[x]));
    }
  }
});

test("along events, every event has its room, whatever the time", () => {
  const life = makeLife(randomFrom(13), { events: 400, burst: 50 });
  const track = trackOf(life);
  const along = alongOf(track, { along: "events" });
  assert.deepEqual([along.low, along.high], [0, 400]);
  const columns = chooseColumns(track, (place) => along.firstAt(place), 0, 400, 401);
  assert.deepEqual([...columns.max], [...columns.max.keys()].map((x) => totalAfter(life, columns.state[x])));
  const wide = chooseColumns(track, (place) => along.firstAt(place), 100, 110, 100);
  for (let x = 0; x < 100; x++) {
    // A column that begins between two events shows the state at its start, or a higher one that follows.
    const stands = Math.ceil(100 + x / 10) - 1;
    const follows = Math.ceil(100 + (x + 1) / 10) - 1;
    assert.equal(wide.max[x], Math.max(totalAfter(life, stands), totalAfter(life, follows)));
  }
  for (let event = 0; event < 400; event += 7) {
    assert.equal(along.timeOf(along.ofState(event)), life.events[event].time);
    assert.equal(along.timeOf(along.ofTime(life.events[event].time)), life.events[event].time);
  }
  assert.equal(along.ofState(-1), 0);
});

/** By row from the lower edge: the block whose rounded extent covers it. */
function blocksOfColumn(life, state, low, scale, height) {
  const rows = new Array(height).fill(NOTHING);
  let below = 0;
  for (const id of liveAfter(life, state)) {
    const from = Math.round((below - low) * scale);
    below += life.blocks[id].bytes;
    const to = Math.round((below - low) * scale);
    for (let row = Math.max(from, 0); row < Math.min(to, height); row++) rows[row] = id;
  }
  return rows;
}

test("every pixel shows the block that lies there", () => {
  const random = randomFrom(12);
  // Few live blocks; many; few at first and then many.
  for (const options of [{}, { keep: 2000, base: 1500 }, { base: 0, keep: 3000 }, { sizes: 3 }]) {
    const life = makeLife(random, { events: 3000, ...options });
    const track = trackOf(life);
    const [width, height] = [25, 90];
    const columns = chooseInTime(track, 0, life.events.at(-1).time + 1, width);
    const top = track.peak.bytes;
    for (const [low, high] of [[0, top * 1.05], [top * 0.4, top * 0.6], [0, top / 50]]) {
      const pick = new Int32Array(width * height);
      layOut(track, columns, low, high, width, height, pick);
      for (let x = 0; x < width; x++) {
        const expected = blocksOfColumn(life, columns.state[x], low, height / (high - low), height);
        assert.deepEqual([...pick.subarray(x * height, (x + 1) * height)].reverse(), expected);
      }
    }
  }
});

test("an outline is where the block's pixels are", () => {
  const pick = Int32Array.from([NOTHING, 7, 7, 3, NOTHING, 7, 3, 3, 3, 3, 3, 3]);
  assert.deepEqual(outlineOf(pick, 4, 7, 0, 3), [0, 1, 3, 1, 1, 2]);
  assert.deepEqual(outlineOf(pick, 4, 3, 0, 3), [0, 3, 4, 1, 2, 4, 2, 0, 4]);
  assert.deepEqual(outlineOf(pick, 4, 9, 0, 3), []);
});

test("ticks are round, in range, and told apart by their labels", () => {
  const ranges = [[0, 1000], [0, 1500], [0, 61.4 * 2 ** 30], [30.2 * 2 ** 30, 30.21 * 2 ** 30], [0, 3 * 2 ** 40], [0, 9]];
  for (const ticks of [byteTicks, timeTicks]) {
    for (const [low, high] of ranges) {
      const made = ticks(low, high, 6);
      assert.ok(made.length >= 2 && made.length <= 16, `${made.length} ticks in ${low}..${high}`);
      assert.ok(made.every(({ value }) => value >= low && value <= high));
      assert.equal(new Set(made.map(({ label }) => label)).size, made.length, made.map(({ label }) => label).join());
    }
  }
  assert.deepEqual(byteTicks(0, 80 * 2 ** 30, 4).map(({ label }) => label), ["0", "20 GiB", "40 GiB", "60 GiB", "80 GiB"]);
  assert.deepEqual(timeTicks(0, 3e9, 3).map(({ label }) => label), ["0 s", "1 s", "2 s", "3 s"]);
});

test("a track's lines: reserved, its device's counters, what pools below it hold, the capacity", () => {
  const tracks = ["cuda:0/torch", "cuda:0/driver", "cuda:0/driver/pool", "cpu/torch"].map((id) =>
    ({ id, reserved_peak_bytes: id.endsWith("pool") ? 40 : id === "cuda:0/torch" ? 120 : null, capacity_bytes: 1000 }));
  const line = (...bytes) => ({ time: bytes.map((_, i) => i), bytes });
  const recording = {
    header: { tracks }, notes: { reserved: new Map([[0, line(100, 120)], [2, line(40)]]) },
    samples: [{ name: "device, in use", device: "cuda:0", most: 150, ...line(150) },
      { name: "process, resident", device: "cpu", most: 900, ...line(900) }],
  };
  const of = (index) => levelsOf(recording, { info: tracks[index], peak: { bytes: 100 } }, index);
  assert.deepEqual(of(0).lines.map(({ name }) => name), ["reserved", "device, in use", "capacity 1000 B"]);
  assert.equal(of(0).top, 150); // 120 is near 100, 150 near 120, 1000 is not
  assert.deepEqual(of(1).lines.map(({ name }) => name), ["held by pool", "device, in use", "capacity 1000 B"]);
  assert.deepEqual(of(3).lines.map(({ name }) => name), ["process, resident", "capacity 1000 B"]);
  assert.equal(of(3).top, 100);
  tracks[0].pools = [{ pool: "(0, 1)", most: 60, ...line(0, 60, 20) }];
  assert.deepEqual(of(0).lines[1], { name: "reserved by pool (0, 1)", envelope: true, most: 60, ...line(0, 60, 20) });
});

test("labels of marks lie apart, count equal marks, and leave out how a plan works", () => {
  const mark = (time, name) => ({ kind: "mark", time, name, bytes: 0, track: 0 });
  const oom = (time, track, bytes = 1024) => ({ kind: "oom", time, name: "", bytes, track });
  const grouped = (lane, end = 5000) => groupMarks(lane, (time) => 100 + time, (text) => 6 * text.length, end);
  const texts = (lane, end) => grouped(lane, end).map(labelOf);
  const reads = Array.from({ length: 20 }, (_, i) => mark(2 * i, "plan: read back 4"));
  const [plan] = markLanes([mark(0, "plan: torch 2.15"), ...reads, mark(900, "plan: read back 8"), mark(1200, "epoch")], 0);
  assert.deepEqual(texts(plan), ["20 values read back", "a value read back", "epoch"]);
  // Equal out-of-memories are one label, however far apart; the driver's own reports of them are not counted.
  const [ooms, others] = markLanes([oom(0, 0), oom(0, 1), oom(40, 0, 2048), oom(3000, 0), oom(3000, 1), mark(9, "a")], 0);
  assert.deepEqual(texts(ooms), ["out of memory: 1.00 KiB asked for, 2 times, out of memory: 2.00 KiB asked for"]);
  assert.deepEqual(texts(others), ["a"]);
  assert.equal(markLanes([oom(0, 1)], 0)[0].length, 1); // only another track has it
  assert.deepEqual(markLanes([mark(0, "plan: cudnn")], 0), []);
  const random = randomFrom(7);
  for (let round = 0; round < 200; round++) {
    const marks = Array.from({ length: 1 + random(40) }, () => mark(random(1500), "abcdefgh".slice(0, 1 + random(8))));
    const lane = markLanes(marks.sort((a, b) => a.time - b.time), 0)[0];
    const groups = grouped(lane, 1610);
    assert.equal(groups.reduce((sum, { counts }) => sum + [...counts.values()].reduce((a, b) => a + b), 0), marks.length);
    groups.slice(1).forEach((group, i) => assert.ok(group.left >= groups[i].right));
    assert.ok(groups.at(-1).right <= 1610 || groups.length === 1);
  }
});
