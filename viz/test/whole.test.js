// Compares whole answers on a random recording with answers computed in the simplest way.

import { createHash } from "node:crypto";

import { assert, test } from "./asserted.js";
import { growthRows } from "../src/data/growth.js";
import { GROUPS, groupsFor, groupText } from "../src/data/group.js";
import { readWords } from "../src/data/modules.js";
import { Notes, STEP_COLUMNS } from "../src/data/notes.js";
import { Recording } from "../src/data/recording.js";
import { SCOPES, scopeName, scopeOf } from "../src/data/scope.js";
import { hashName } from "../src/data/stacks.js";
import { blockColour, classesOf, COLOURS } from "../src/draw/colour_by.js";
import { apartColour, categoryColour, css, mix, noColour, PALETTE, scaleColours, siteColour, textOn, word } from "../src/draw/palette.js";
import { formatBytes, formatDuration } from "../src/format.js";
import { Store } from "../src/store.js";
import { liveAfter, makeLife, randomFrom, trackOf, varints } from "./make.js";

const column = (values) => ({ bytes: varints(values), count: values.length });
const bytesColumn = (values) => ({ bytes: Uint8Array.from(values), count: values.length });
const deltas = (values) => values.map((value, i) => value - (i ? values[i - 1] : 0));
const textColumns = (texts) => {
  const bytes = texts.map((text) => new TextEncoder().encode(text));
  return { length: column(bytes.map(({ length }) => length)), text: bytesColumn(bytes.flatMap((one) => [...one])) };
};

const NAMES = ["", "forward", "backward", "train", "été"];
const MODULES = ["", "net.0.attn", "net.1.attn", "head"];
const CATEGORIES = ["", "gradients", "input"];
const UNIT = 1000;

/** Stacks of nine sites: lists of frames, innermost first, and the position from 1 of the frame that names the site. */
const frame = (name, python, more = {}) => ({ function: name, file: `/src/${name}.py`, line: name.length, python, ...more });
const SITES = [
  { frames: [frame("malloc", false), frame("one", true), frame("two", true)], headline: 2, library: "libc" },
  { frames: [frame("two", true), frame("mid", false), frame("one", true), { cut: true }], headline: 1, library: "" },
  { frames: [], headline: 0, library: "" },
  { frames: [frame("grad", false, { backward: true }), frame("one", true)], headline: 2, library: "libtorch",
    backward: "backward of" },
  { frames: [frame("", false, { file: "" }), frame("raw", false)], headline: 1, library: "libx" },
  ...Array.from({ length: 4 }, (_, i) => ({ frames: [frame("f" + i, true)], headline: 1, library: "lib" + i % 2 })),
];
const STACKS = {
  stack: (site) => SITES[site].frames.slice(), headline: SITES.map(({ headline }) => headline),
  head: (site) => SITES[site].frames[SITES[site].headline - 1],
  library: (site) => SITES[site].library,
  describe: (site) => ({ backward: SITES[site].backward ?? "" }),
  hash: (site) => site * 7 + 3, string: (id) => NAMES[id],
};

/** Rows of notes in order of time: {type, time, thread, track, name, bytes, site}. */
function makeRows(random, count, until) {
  const times = Array.from({ length: count }, () => random(until)).sort((a, b) => a - b);
  return times.map((time) => ({
    type: [4, 6, 6, 6, 7, 7, 8, 9, 10, 11, 5][random(11)], time, thread: random(4), track: random(2), name: random(NAMES.length),
    bytes: random(5000), site: random(9),
  }));
}

function columnsOf(rows) {
  const of = (name) => rows.map((row) => row[name]);
  return {
    type: bytesColumn(of("type")), time: column(deltas(of("time"))), thread: column(of("thread")), track: column(of("track")),
    name: column(of("name")), bytes: column(of("bytes")), site: column(of("site")),
  };
}

const stepColumns = (times, names) => ({ time: column(deltas(times)), name: column(names) });

/** The notes, computed by walking all rows for each answer. */
function plainNotes(rows, end) {
  const regions = [];
  const open = [];
  for (const row of rows) {
    const mine = open.filter((region) => region.thread === row.thread);
    if (row.type === 6) {
      const region = { start: row.time, end, name: NAMES[row.name], thread: row.thread, depth: mine.length };
      regions.push(region);
      open.push(region);
    } else if (row.type === 7) {
      const named = NAMES[row.name] ? mine.filter(({ name }) => name === NAMES[row.name]) : mine;
      if (!named.length) continue;
      for (const region of mine.slice(mine.indexOf(named.at(-1)))) {
        region.end = row.time;
        open.splice(open.indexOf(region), 1);
      }
    }
  }
  const kinds = { 4: "oom", 8: "mark", 10: "start", 11: "stop" };
  const marks = rows.filter(({ type }) => kinds[type]).map(({ type, time, name, bytes, track, site }) =>
    ({ time, name: NAMES[name], kind: kinds[type], bytes, track, site: site - 1 }));
  const reserved = new Map();
  for (const { type, time, track, bytes } of rows) {
    if (type !== 9) continue;
    if (!reserved.has(track)) reserved.set(track, { time: [], bytes: [] });
    reserved.get(track).time.push(time);
    reserved.get(track).bytes.push(bytes);
  }
  return { regions, marks, reserved };
}

/** The path on a thread at a time, after the events of that time. */
function plainPath(regions, time, thread) {
  const threads = [thread, ...new Set(regions.map((region) => region.thread))];
  for (const own of threads) {
    const path = regions.filter((region) => region.thread === own && region.start <= time && region.end > time)
      .map(({ name }) => name).join(" › ");
    if (path) return path;
  }
  return "";
}

test("notes are what their rows say", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = randomFrom(seed);
    const rows = makeRows(random, random(60), 200);
    const times = Array.from({ length: random(6) }, () => random(200)).sort((a, b) => a - b);
    const names = times.map(() => seed % 3 ? 1 : random(3));
    const notes = new Notes(columnsOf(rows), stepColumns(times, names), STACKS, { end: 250, stepsEnd: 240, before: 6 });
    const plain = plainNotes(rows, 250);
    assert.deepEqual(notes.regions, plain.regions);
    assert.deepEqual(notes.marks, plain.marks);
    assert.deepEqual(notes.reserved, plain.reserved);
    const sameNames = times.length > 1 && new Set(names).size === 1;
    const steps = times.map((time, i) =>
      ({ time, end: times[i + 1] ?? 240, name: sameNames ? "" : NAMES[names[i]], index: 7 + i }));
    assert.deepEqual(notes.steps, steps);
    for (let time = 0; time < 255; time += 1 + random(4)) {
      assert.deepEqual(notes.stepAt(time), steps.findLast((step) => step.time <= time));
      for (let thread = 0; thread < 5; thread++) {
        // Skip rows with an empty name: in a path with other names it leaves no trace.
        if (plain.regions.some(({ name }) => !name)) continue;
        assert.equal(notes.regionPath(time, thread), plainPath(plain.regions, time, thread), `${seed} ${time} ${thread}`);
      }
    }
    const busy = (thread) => plain.regions.filter((region) => region.thread === thread).length;
    const lanes = [...new Set(plain.regions.map(({ thread, depth }) => thread * 100 + depth))]
      .map((lane) => ({ thread: Math.floor(lane / 100), depth: lane % 100 }))
      .sort((a, b) => busy(b.thread) - busy(a.thread) || a.thread - b.thread || a.depth - b.depth)
      .map((lane) => ({ ...lane, regions: plain.regions.filter((one) => one.thread === lane.thread && one.depth === lane.depth) }));
    assert.deepEqual(notes.lanes, lanes);
  }
  assert.deepEqual(STEP_COLUMNS, ["time", "name"]);
});

function made(seed, withSteps = true) {
  const random = randomFrom(seed);
  const life = makeLife(random, { events: 500 });
  const until = life.events.at(-1).time + 1;
  const rows = makeRows(random, 40, until).filter(({ name, type }) => name || type !== 6);
  const times = withSteps ? [until * 0.1, until * 0.4, until * 0.5, until * 0.8].map(Math.floor) : [];
  const header = {
    time_unit_ns: UNIT, from_ns: 0, to_ns: until * UNIT, duration_ns: until * UNIT, cut: false, steps_before: 2, steps_end_ns: until * UNIT,
    categories: CATEGORIES.slice(1), threads: [{ tid: 10, name: "main" }, { tid: 11, name: "" }, { tid: 12, name: "io" }],
    lanes: [{ stream: "", pool: "0x7" }], kinds: ["device"], metadata: true, tensors: true, births: { first_ns: 3 * UNIT, part_ns: until * UNIT / 16 },
    tracks: [{ id: "cuda:0/torch" }],
  };
  const parts = {
    notes: columnsOf(rows), steps: stepColumns(times, times.map((_, i) => i % 2)), samples:
      { time: column([]), counter: column([]), value: column([]) },
    modules: textColumns(MODULES.slice(1)), words: textColumns(["phase 1", "float32 [8, 128] of addmm"]), sizes: column([512, 1024]),
  };
  const recording = new Recording({ header }, STACKS, parts);
  return { life, track: trackOf(life, { steps: times.map((time) => life.events.filter((event) => event.time < time).length) }),
    recording, rows, times, until };
}

const UNKNOWN = "(unknown)";
const birthOf = (life, { birth }) => birth < 0 ? -1 : life.events[birth].time;

/** The name of a block's group by `count` lines: in the language of the line that names the block. */
function plainLines({ frames, headline, backward }, count) {
  if (!headline) return UNKNOWN;
  const out = [];
  for (const one of frames.slice(headline - 1)) {
    if (one.cut || one.backward || one.python !== frames[headline - 1].python || out.length === count) continue;
    out.push(`${one.function || "?"}${one.file ? ` ${one.file.split("/").at(-1)}:${one.line}` : ""}`);
  }
  return (backward ? backward + " " : "") + out.join(" < ");
}

function plainGroups({ life, recording, rows, times, until }) {
  const { regions } = plainNotes(rows, until);
  const lineOf = (count) => ({ site }) => plainLines(SITES[site], count);
  const head = ({ site }) => SITES[site].frames[SITES[site].headline - 1];
  const regionOf = (block) => (birthOf(life, block) < 0 ? "" : plainPath(regions, birthOf(life, block), block.thread)) || "(no region)";
  return {
    stack: ({ site }) => String(site),
    "stack:1": lineOf(1), "stack:2": lineOf(2), "stack:3": lineOf(3), "stack:5": lineOf(5),
    function: (block) => head(block) ? (SITES[block.site].backward ? "backward of " : "") + head(block).function || UNKNOWN : UNKNOWN,
    file: (block) => head(block)?.file || UNKNOWN,
    library: ({ site }) => SITES[site].library || UNKNOWN,
    category: ({ site }) => CATEGORIES[site % 3] || "(no category)",
    module: ({ site }) => MODULES[site % 4] || "(no module)",
    modules: ({ site }) => ["(no module)", "net.*.attn", "net.*.attn", "head"][site % 4],
    metadata: ({ site }) => site % 5 === 4 ? "phase 1" : "(no metadata)",
    dtype: ({ site }) => site % 4 === 3 ? "float32" : "(unknown)",
    operator: ({ site }) => site % 4 === 3 ? "addmm" : "(unknown)",
    size: ({ bytes }) => formatBytes(bytes),
    step: (block) => {
      const birth = birthOf(life, block);
      const at = times.findLastIndex((time) => time <= birth);
      return birth < 0 ? recording.before : at < 0 ? "before the first step" : `step ${3 + at}`;
    },
    region: regionOf,
    thread: (block) => birthOf(life, block) < 0 ? UNKNOWN : ["10 main", "11", "12 io"][block.thread],
    stream: ({ thread }) => thread % 2 ? "default stream" : UNKNOWN,
    pool: ({ thread }) => thread % 2 ? "pool 0x7" : UNKNOWN,
    kind: () => "device",
  };
}

test("each way to group says of every block what it is", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const all = made(seed);
    const plain = plainGroups(all);
    assert.deepEqual(Object.keys(GROUPS).sort(), Object.keys(plain).sort());
    for (const [name, wanted] of Object.entries(plain)) {
      const key = GROUPS[name].key(all.track, all.recording);
      const said = all.life.blocks.map((_, id) => groupText(name, key(id), all.recording));
      assert.deepEqual(said, all.life.blocks.map(wanted), name);
    }
  }
});

test("a way to group is offered where it says something", () => {
  const { recording } = made(1);
  assert.deepEqual(groupsFor(recording), Object.keys(GROUPS));
  const bare = { ...recording, header: { ...recording.header, lanes: [], metadata: false, tensors: false }, notes: { steps: [], regions: [] }, modules: [""],
    categories: [""] };
  assert.deepEqual(Object.keys(GROUPS).filter((name) => !groupsFor(bare).includes(name)),
    ["category", "modules", "module", "metadata", "dtype", "operator", "step", "region", "stream", "pool"]);
});

/** The name of a value's class by limits. */
function plainRange(value, limits, names) {
  return names[limits.filter((limit) => value >= limit).length];
}

test("each block has the colour of its class, and classes come by their bytes at the peak", () => {
  const SIZES = [512, 4096, 65536];
  const sizeNames = ["below 512 B", "512 B – 4.00 KiB", "4.00 KiB – 64.0 KiB"];
  const lives = [1e4, 1e5, 1e6, 1e7];
  const lifeNames = ["below 10.0 µs", "10.0 µs – 100 µs", "100 µs – 1.0 ms", "1.0 ms – 10.0 ms", "10.0 ms – 100 ms"];
  for (let seed = 1; seed <= 4; seed++) {
    const all = made(seed);
    const { life, track, recording, rows, until } = all;
    const { regions } = plainNotes(rows, until);
    const ages = [0, 1, 2, 3, 4, 5, 6, 7].map((part) => part / 8 * until);
    const plain = {
      ...plainGroups(all),
      size: ({ bytes }) => plainRange(bytes, SIZES, sizeNames),
      life: (block) => plainRange(((block.death < 0 ? until : life.events[block.death].time) - Math.max(birthOf(life, block), 0)) * UNIT,
        lives, lifeNames),
      age: (block) => plainRange(birthOf(life, block), ages,
        ["before the recording", ...ages.map((limit) => `born from ${formatDuration(limit * UNIT)}`)]),
      region: (block) => plainPath(regions, birthOf(life, block), block.thread).split(" › ").at(-1) || "(no region)",
    };
    for (const [colour, { make }] of Object.entries(COLOURS)) {
      assert.equal(typeof make, "function");
      for (const dark of [false, true]) {
        const classes = classesOf(track, recording, { colour, dark });
        assert.equal(classesOf(track, recording, { colour, dark }), classes);
        if (colour === "site") {
          life.blocks.forEach(({ site }, id) =>
            assert.deepEqual(blockColour(track, recording, { colour, dark }, id), siteColour(STACKS.hash(site), dark)));
          continue;
        }
        const names = life.blocks.map((_, id) => classes.names[classes.of[id]]);
        assert.deepEqual(names, life.blocks.map(plain[colour]), colour);
        const ranged = ["size", "life", "age"].includes(colour);
        const scale = scaleColours(classes.names.length, dark);
        classes.names.forEach((name, i) => assert.deepEqual(classes.colours[i],
          ranged ? scale[i] : colour === "category" ? categoryColour(name, recording.categories, dark)
            : colour.startsWith("module") ? COLOURS[colour].colourOf(name, recording, dark, track)
            : name.startsWith("(") ? noColour(dark) : siteColour(hashName(name), dark), `${colour} ${name}`));
        if (ranged) {
          assert.deepEqual(new Set(classes.names), new Set(names), colour); // no empty classes
          continue;
        }
        const held = new Map([...new Set(names)].map((name) => [name, 0]));
        for (const id of liveAfter(life, track.peak.event)) held.set(names[id], held.get(names[id]) + life.blocks[id].bytes);
        const order = classes.order.map((i) => classes.names[i]).filter((name) => held.has(name));
        if (colour.startsWith("module")) {
          // Grey, and 13 that are told apart.
          const largest = classes.order.slice(0, 13).map((i) => String(classes.colours[i]));
          assert.equal(new Set(largest).size, largest.length, colour);
          const apart = [noColour(dark), ...Array.from({ length: 13 }, (_, i) => apartColour(i, dark))].map(String);
          assert.ok(classes.colours.every((one) => apart.includes(String(one))));
        }
        assert.deepEqual(order.map((name) => held.get(name)), [...held.values()].sort((a, b) => b - a), colour);
        assert.equal(new Set(order).size, held.size);
      }
    }
  }
});

test("modules are read by number, the first being none", () => {
  assert.deepEqual(readWords(textColumns(["net.0", "", "été.1"])), ["", "net.0", "", "été.1"]);
  assert.deepEqual(readWords(textColumns([])), [""]);
});

test("a recording begins and ends where its page does", () => {
  const { recording, until } = made(1);
  assert.deepEqual([recording.from, recording.to, recording.timeless, recording.before], [0, until, false, "before the recording"]);
  assert.deepEqual([...recording.sizes], [0, 512, 1024]);
  assert.deepEqual(recording.modules, MODULES);
  assert.deepEqual(recording.categories, CATEGORIES);
  const empty = { bytes: new Uint8Array(), count: 0 };
  const parts = { notes: columnsOf([]), steps: stepColumns([], []), samples: { time: empty, counter: empty, value: empty },
    modules: textColumns([]), words: textColumns([]), sizes: empty };
  const header = { ...recording.header, from_ns: 1500, to_ns: 1700, duration_ns: 0, cut: true };
  const part = new Recording({ header }, STACKS, parts);
  assert.deepEqual([part.from, part.to, part.timeless, part.before], [1, 2, true, "before this part"]);
  const later = new Recording({ header: { ...header, to_ns: 9100 } }, STACKS, parts);
  assert.equal(later.to, 10);
});

test("a track is asked for by what the recording knows", async () => {
  const { recording } = made(1);
  const asked = [];
  recording.archive.track = async (...given) => {
    asked.push(given);
    throw new Error("it is damaged");
  };
  await assert.rejects(recording.track(0), /it is damaged/);
  assert.deepEqual(asked, [[0, recording.sizes, recording.to]]);
});

test("without steps, what grows is counted by parts of the time", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const { life, track, recording } = made(seed, false);
    const { first_ns: first, part_ns: part } = recording.header.births;
    for (const event of [0, 100, 499]) {
      const wanted = new Map();
      for (const id of liveAfter(life, event)) {
        const block = life.blocks[id];
        const row = wanted.get(block.site) ?? { site: block.site, bytes: 0, blocks: 0, parts: new Set() };
        wanted.set(block.site, row);
        row.bytes += block.bytes;
        row.blocks++;
        const birth = birthOf(life, block);
        if (birth >= 0) row.parts.add(Math.floor((birth * UNIT - first) / part));
      }
      const got = growthRows(track, recording, event);
      assert.deepEqual(got.map(({ site, bytes, blocks }) => ({ site, bytes, blocks, births: got.find((row) => row.site === site).births })),
        [...wanted.values()].map(({ site, bytes, blocks, parts }) => ({ site, bytes, blocks, births: parts.size }))
          .sort((a, b) => b.births - a.births || b.bytes - a.bytes || a.site - b.site));
    }
  }
});

test("a clicked moment, and one beyond the end", () => {
  const { life, track } = made(2);
  const last = life.events.length - 1;
  for (const [asked, event] of [[-1, -1], [0, 0], [77, 77], [last, last], [last + 5, last]]) {
    const scope = scopeOf(track, { of: "moment", moment: asked, window: null });
    assert.deepEqual([scope.of, [...scope.ids], scope.event, scope.from, scope.to],
      ["moment", liveAfter(life, event), event, track.from, track.to]);
    assert.equal(scope.at, event < 0 ? track.from : life.events[event].time);
    assert.equal(scope.bytes, liveAfter(life, event).reduce((sum, id) => sum + life.blocks[id].bytes, 0));
  }
  assert.deepEqual(Object.keys(SCOPES).map((of) => scopeName({ of, moment: -2, window: null })),
    ["peak", "peak", "peak", "peak", "peak", "peak", "end"]);
  assert.deepEqual(Object.keys(SCOPES).map((of) => scopeName({ of, moment: -1, window: [0, 1] })), Object.keys(SCOPES));
  assert.equal(scopeName({ of: "nonsense", moment: 3, window: [0, 1] }), "peak");
});

test("colours stay what they were: pages of two versions are compared by them", () => {
  const all = [PALETTE, PALETTE.map((_, i) => [siteColour(i + 20, false), siteColour(i, true)]),
    [1, 2, 5, 9].map((count) => [scaleColours(count, false), scaleColours(count, true)]), [noColour(false), noColour(true)],
    Array.from({ length: 13 }, (_, i) => categoryColour(i, Array.from({ length: 13 }, (__, k) => k), i % 2 === 1)),
    categoryColour("none", ["", "a"], false)];
  assert.equal(createHash("sha256").update(JSON.stringify(all)).digest("hex"), "de9e97793a1fe659423d2134f000bc303e4a92f5b70fee7581c6231b395e0c33");
  assert.deepEqual(mix([0, 100, 255], [100, 0, 255], 0.25), [25, 75, 255]);
  assert.deepEqual([textOn([255, 255, 255]), textOn([0, 0, 0]), textOn([120, 120, 120])], [[0, 0, 0], [255, 255, 255], [0, 0, 0]]);
  assert.equal(css([1, 2, 3]), "rgb(1 2 3)");
  assert.equal(word([1, 2, 3]), 0xff030201);
});

test("who listens hears what changed, and nothing where nothing did", () => {
  const store = new Store({ a: 1, b: 2 });
  const heard = [];
  store.subscribe((state, changed) => heard.push([{ ...state }, [...changed]]));
  store.subscribe(() => heard.push("second"));
  store.set({ a: 1 });
  store.set({ a: 3, b: 2, c: 4 });
  assert.deepEqual(heard, [[{ a: 3, b: 2, c: 4 }, ["a", "c"]], "second"]);
});
