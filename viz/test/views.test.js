import { assert, test } from "./asserted.js";
import { paintRects, Ranges } from "../src/data/address_time.js";
import { COLOURS } from "../src/draw/colour_by.js";
import { apart } from "../src/data/sites.js";
import { alongOf } from "../src/draw/along.js";
import { csvText } from "../src/export.js";
import { flameBoxes, flameTree, foldedText, frameKey, pathsUnder, underFor } from "../src/data/flame.js";
import { GROUPS } from "../src/data/group.js";
import { growthRows, liveCurves } from "../src/data/growth.js";
import { MEASURES, scopeName, scopeOf, sumBy } from "../src/data/scope.js";
import { moduleKind, modulePattern, moduleSteps } from "../src/data/modules.js";
import { naturesOf } from "../src/data/nature.js";
import { findBlocks, matchCurve, parseQuery } from "../src/data/search.js";
import { addressMap, trackBelow } from "../src/data/segments.js";
import { addedBySteps, categoriesOfSteps, stepRows } from "../src/data/steps.js";
import { liveAfter, makeLife, randomFrom, totalAfter, trackOf } from "./make.js";

const NO_CHOICE = { of: "peak", moment: -2, window: null };

function isLive({ birth, death }, event) {
  return birth <= event && (death < 0 || death > event);
}

/** Stacks as the views use them: site i has the i-th list of function names, innermost first. */
function stacksOf(lists) {
  const frame = (name) => ({
    function: name, file: name + ".py", line: 1, module: "", address: 0, cut: name === "cut",
    python: name < "n", user: name < "g",
  });
  return { stack: (site) => lists[site].map(frame), head: (site) => frame(lists[site][0]), library: () => "" };
}

function holdsScopes(life) {
  const track = trackOf(life);
  const duration = life.events.at(-1).time + 1;
  const states = Array.from({ length: life.events.length + 1 }, (_, i) => i - 1);
  const totals = states.map((event) => totalAfter(life, event));
  const peak = totals.indexOf(Math.max(...totals)) - 1;
  const of = (state) => [...scopeOf(track, { ...NO_CHOICE, ...state }).ids];
  assert.deepEqual(of({}), liveAfter(life, peak));
  assert.deepEqual(of({ of: "end" }), liveAfter(life, life.events.length - 1));
  assert.deepEqual(of({ of: "moment", moment: 333 }), liveAfter(life, 333));
  for (const [from, to] of [[0, duration], [duration / 3, duration / 2], [duration / 4, duration / 4]]) {
    const window = [from, to];
    // The state when the window begins, and every state reached in it.
    const first = life.events.filter((event) => event.time < from).length - 1;
    const last = life.events.filter((event) => event.time <= to).length - 1;
    const inside = states.filter((event) => event >= first && event <= last);
    const most = inside.reduce((best, event) => totals[event + 1] > totals[best + 1] ? event : best);
    assert.deepEqual(of({ of: "window", window }), liveAfter(life, most));
    assert.deepEqual(of({ of: "across", window }),
      life.blocks.flatMap((block, id) => isLive(block, first) && isLive(block, last) ? [id] : []));
    assert.deepEqual(of({ of: "born", window }),
      life.blocks.flatMap(({ birth }, id) => birth > first && birth <= last ? [id] : []));
    assert.deepEqual(of({ of: "freed", window }),
      life.blocks.flatMap(({ death }, id) => death > first && death <= last ? [id] : []));
  }
}

test("a scope holds the blocks of its moment or window", () => {
  holdsScopes(makeLife(randomFrom(3), { events: 900 }));
  holdsScopes(makeLife(randomFrom(4), { events: 400, base: 0 })); // the first block is allocated like any other
  assert.equal(scopeName({ ...NO_CHOICE, of: "window" }), "peak");
});

test("sums over any grouping add up to the scope, and are those of its blocks", () => {
  const life = makeLife(randomFrom(5));
  const track = trackOf(life);
  const duration = life.events.at(-1).time + 1;
  const window = [duration * 0.2, duration * 0.7];
  for (const of of ["peak", "window", "across", "born", "freed"]) {
    const scope = scopeOf(track, { ...NO_CHOICE, of, window });
    const [from, to] = of === "peak" ? [0, duration] : window;
    const recording = { notes: { steps: [], stepAt: () => undefined }, header: { threads: [], kinds: ["device"] } };
    for (const group of ["size", "kind", "step"]) {
      const rows = sumBy(track, scope, GROUPS[group].key(track, recording));
      assert.equal(rows.reduce((sum, row) => sum + row.bytes, 0), scope.bytes);
      assert.equal(rows.reduce((sum, row) => sum + row.blocks, 0), scope.ids.length);
    }
    const time = (id) => {
      const { birth, death, bytes } = life.blocks[id];
      const start = birth < 0 ? -1 : life.events[birth].time;
      const end = death < 0 ? Infinity : life.events[death].time;
      return bytes * Math.max(Math.min(end, to) - Math.max(start, from), 0);
    };
    for (const row of sumBy(track, scope, (id) => track.blocks.site[id])) {
      const ids = [...scope.ids].filter((id) => life.blocks[id].site === row.key);
      assert.equal(row.bytes, ids.reduce((sum, id) => sum + life.blocks[id].bytes, 0));
      assert.equal(row.blocks, ids.length);
      assert.equal(row.time, ids.reduce((sum, id) => sum + time(id), 0));
    }
    assert.equal(MEASURES.blocks.of(track, 0, scope), 1);
  }
});

test("a flame graph's calls hold what the stacks through them hold", () => {
  const random = randomFrom(9);
  const names = ["a", "b", "c", "h", "i", "p", "q"];
  const lists = Array.from({ length: 60 }, () => Array.from({ length: random(7) }, () => names[random(names.length)]));
  const stacks = stacksOf(lists);
  const rows = lists.map((_, site) => ({ site, value: random(50) + 1 }));
  const shownOf = (list, frames) => {
    for (const limit of { user: ["g", "n", "z"], python: ["n", "z"], all: ["z"] }[frames]) {
      const kept = list.filter((name) => name < limit);
      if (kept.length) return kept;
    }
    return list;
  };
  for (const frames of ["all", "python", "user"]) {
    for (const inverted of [false, true]) {
      const expected = new Map(); // path to value
      for (const { site, value } of rows) {
        const path = shownOf(lists[site], frames).slice();
        if (!inverted) path.reverse();
        for (let i = 0; i <= path.length; i++) {
          const key = path.slice(0, i).join("/");
          expected.set(key, (expected.get(key) ?? 0) + value);
        }
      }
      const found = new Map();
      const walk = (node, path) => {
        found.set(path.join("/"), node.value);
        assert.equal(node.value, node.own + [...node.children.values()].reduce((sum, child) => sum + child.value, 0));
        for (const child of node.children.values()) walk(child, [...path, child.frame.function]);
      };
      const tree = flameTree(stacks, rows, { frames, inverted });
      walk(tree, []);
      assert.deepEqual(new Map([...found].sort()), new Map([...expected].sort()));
      const { boxes, hidden } = flameBoxes(tree, 0);
      assert.equal(boxes.length, expected.size);
      assert.equal(hidden, 0);
      for (const { node, left, width } of boxes) {
        if (node.parent) {
          const outer = boxes.find((box) => box.node === node.parent);
          assert.ok(left >= outer.left - 1e-9 && left + width <= outer.left + outer.width + 1e-9);
        }
      }
    }
  }
  const folded = new Map();
  for (const line of foldedText(stacks, rows, (frame) => frame.function).trimEnd().split("\n")) {
    folded.set(line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1)));
  }
  for (const [line, value] of folded) {
    const same = rows.filter(({ site }) => (lists[site].slice().reverse().join(";") || "no stack") === line);
    assert.equal(value, same.reduce((sum, row) => sum + row.value, 0));
  }
  assert.notEqual(frameKey(stacks.stack(lists.findIndex((list) => list.length))[0]), frameKey({ cut: true }));
});

test("modules are one in a line where they differ in numbers only", () => {
  assert.equal(moduleKind("blocks.12.attn.3"), "blocks.*.attn.*");
  const pattern = (...paths) => modulePattern(new Map(paths.map((path, i) => [path, 100 - i])));
  assert.equal(pattern(), "");
  assert.equal(pattern(""), "");
  assert.equal(pattern("blocks.3.attn"), "blocks.3.attn");
  assert.equal(pattern("blocks.3.attn", "blocks.4.attn", ""), "blocks.*.attn");
  assert.equal(pattern("blocks.3.attn.0", "blocks.4.attn.0"), "blocks.*.attn.0");
  assert.equal(pattern("head", "blocks.4.attn", "blocks.1.attn", "norm"), "blocks.*.attn +2");
  assert.equal(pattern("a.1", "b.1", "b.2", "b.3"), "b.* +1");
  assert.equal(pattern("", "head", "", "norm"), "head +1");
  assert.deepEqual(moduleSteps("blocks.3.attn"), ["blocks", "blocks.3", "attn"]);
});

test("what the blocks of a site are is what most of their bytes are", () => {
  const life = makeLife(randomFrom(37));
  const track = trackOf(life);
  const recording = { modules: ["", "net.0.attn", "net.1.attn", "head"], categories: ["", "gradients", "input"] };
  const ids = liveAfter(life, 900);
  const byParity = (id) => life.blocks[id].site % 2;
  const found = naturesOf(track, recording, ids, byParity);
  for (const parity of [0, 1]) {
    const bytesOf = (fits) => ids.filter((id) => byParity(id) === parity && fits(life.blocks[id].site))
      .reduce((sum, id) => sum + life.blocks[id].bytes, 0);
    const [gradients, input] = [1, 2].map((category) => bytesOf((site) => site % 3 === category));
    assert.equal(found.get(parity).category, (gradients > input ? "gradients" : "input") + " +1");
    // Sites of even number are of module 0 or 2, the others of 1 or 3.
    const head = parity && bytesOf((site) => site % 4 === 3) > bytesOf((site) => site % 4 === 1);
    assert.equal(found.get(parity).module, parity ? head ? "head +1" : "net.0.attn +1" : "net.1.attn");
  }
  assert.equal(naturesOf(track, { modules: [""], categories: [""] }, ids, byParity).size, 0);
});

test("under modules and categories, a flame graph holds what their blocks hold", () => {
  const life = makeLife(randomFrom(29));
  const track = trackOf(life);
  const recording = { modules: ["", "net.0.attn", "net.1.mlp", "head"], categories: ["", "gradients", "input"],
    notes: { regions: [] }, stacks: { headline: new Uint32Array(9).fill(1) } };
  const stack = (site) => [{ function: "f" + site, file: "a.py", line: site, python: true, user: true }];
  const ids = liveAfter(life, 1000);
  for (const [under, namesOf] of [
    ["module", ({ site }) => [["(no module)"], ["net", "net.0", "attn"], ["net", "net.1", "mlp"], ["head"]][site % 4]],
    ["both", ({ site }) => [["(no category)", "gradients", "input"][site % 3],
      ...[["(no module)"], ["net", "net.*", "attn"], ["net", "net.*", "mlp"], ["head"]][site % 4]]],
    ["nothing", () => []],
  ]) {
    const { keyOf, paths } = pathsUnder(track, recording, under);
    const rows = ids.map((id) => ({ ...paths[keyOf(id)], value: track.bytesOf(id) }));
    const tree = flameTree({ stack, headline: recording.stacks.headline }, rows, { frames: "line", inverted: false });
    const expected = new Map();
    for (const id of ids) {
      const path = [...namesOf(life.blocks[id]), "f" + life.blocks[id].site];
      for (let i = 0; i <= path.length; i++) {
        const key = path.slice(0, i).join("/");
        expected.set(key, (expected.get(key) ?? 0) + life.blocks[id].bytes);
      }
    }
    const found = new Map();
    const walk = (node, path) => {
      found.set(path.join("/"), node.value);
      for (const child of node.children.values()) walk(child, [...path, child.frame.function]);
    };
    walk(tree, []);
    assert.deepEqual(new Map([...found].sort()), new Map([...expected].sort()));
  }
  const without = { modules: [""], categories: [""], notes: { regions: [] } };
  assert.deepEqual(underFor(without), ["nothing"]);
});

test("sites of the same name are told apart by the call in which they differ", () => {
  const frame = (name, user = true) => ({ function: name, file: user ? "m.py" : "", line: 1, user, python: user });
  const stacks = [
    ["f", "layer", "main"], ["f", "other", "main"], ["f", "layer", "main", "start"], ["g", "layer", "main"],
    ["h", "!a", "main"], ["h", "!b", "main"],
  ].map((names) => names.map((name) => frame(name, !name.startsWith("!"))));
  const made = { headline: stacks.map(() => 1), stack: (site) => stacks[site],
    describe: (site) => ({ name: stacks[site][0].function, place: "", inside: "", backward: "" }) };
  const found = apart(made, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...found].map(([site, { function: name }]) => [site, name]),
    [[0, "layer"], [1, "other"], [2, "layer"], [4, "!a"], [5, "!b"]]);
  assert.deepEqual([...apart(made, [0, 2])].map(([site, { function: name }]) => [site, name]), [[2, "start"]]);
});

test("idle ends of a recording are known, and left out of the first picture where they are long", () => {
  const life = makeLife(randomFrom(31), { events: 400, base: 0 });
  const [first, last] = [life.events[0].time, life.events.at(-1).time];
  for (const [over, gone] of [[1, false], [1, true], [10, true]]) {
    const track = trackOf(life);
    track.to = Math.round(last * over) + 5;
    if (gone) track.end = { blocks: 0, bytes: 0 };
    const idle = track.idle().map(({ from, to }) => [from, to]);
    assert.deepEqual(idle, [[0, first], ...gone ? [[last, track.to]] : []]);
    const [start, end] = track.busy();
    assert.equal(start, 0);
    if (over === 1) assert.equal(end, track.to);
    else assert.ok(end > last && end < track.to / 4);
  }
});

test("search finds what its words, sizes and addresses say", () => {
  assert.deepEqual(parseQuery("attn >1MiB <= 2.5k =512 0x7f00 Model.py \"Two words\""), {
    words: ["attn", "model.py", "two words"], addresses: [0x7f00],
    sizes: [{ sign: ">", bytes: 2 ** 20 }, { sign: "<=", bytes: 2560 }, { sign: "=", bytes: 512 }],
  });
  const life = makeLife(randomFrom(13));
  const track = trackOf(life);
  // Site i is a separate node under node 9; the word is in the frames of sites 2 and 5, or in the root's.
  const stacks = (hits) => ({
    count: 9, node: Uint32Array.from({ length: 9 }, (_, i) => i + 2),
      frame: Uint32Array.from({ length: 11 }, (_, i) => i),
    parent: Uint32Array.from({ length: 11 }, (_, i) => i < 2 ? 0 : 1),
    framesWith: () => Uint8Array.from({ length: 10 }, (_, frame) => hits.includes(frame - 1) ? 1 : 0),
  });
  const check = (text, hits, fits) => {
    const recording = { stacks: stacks(hits), modules: ["", "net.0.attn", "net.1.mlp", "head"],
      categories: ["", "gradients", "optimizer state"], words: ["", "phase one", "relu_1"] };
    const { mask, blocks, bytes } = findBlocks(track, recording, parseQuery(text));
    const expected = life.blocks.map((block, id) => fits(block, id) ? 1 : 0);
    assert.deepEqual([...mask], expected);
    assert.equal(blocks, expected.reduce((sum, one) => sum + one, 0));
    assert.equal(bytes, life.blocks.reduce((sum, block, id) => sum + expected[id] * block.bytes, 0));
    const duration = life.events.at(-1).time + 1;
    const curve = matchCurve(track, mask, 50, alongOf(track, { along: "time" }));
    curve.forEach((most, column) => {
      const now = (event) => liveAfter(life, event).reduce((sum, id) => sum + expected[id] * life.blocks[id].bytes, 0);
      const first = life.events.filter(({ time }) => Math.floor(time / duration * 50) < column).length - 1;
      const last = life.events.filter(({ time }) => Math.floor(time / duration * 50) <= column).length - 1;
      let highest = now(first);
      for (let event = first + 1; event <= last; event++) highest = Math.max(highest, now(event));
      assert.equal(most, highest);
    });
  };
  check("word", [2, 5], (block) => block.site === 2 || block.site === 5);
  check("word", [-1], () => true);
  check("phase", [3], (block) => block.site === 3 || block.site % 5 === 4);
  check("word >2k", [3], (block) => block.site === 3 && block.bytes > 2048);
  check("net.1.mlp", [], (block) => block.site % 4 === 2);
  check("NET.*", [4], (block) => [1, 2].includes(block.site % 4) || block.site === 4);
  check('"optimizer state" net', [], (block) => block.site % 3 === 2 && [1, 2].includes(block.site % 4));
  check("=1200", [], (block) => block.bytes === 1200);
  const { address, bytes } = life.blocks.find((block) => block.bytes > 1);
  check("0x" + (address + 1).toString(16), [], (block) =>
    block.address <= address + 1 && address + 1 < block.address + Math.max(block.bytes, 1));
  assert.ok(bytes > 1);
});

test("growth counts distinct periods of birth, and curves end at the live bytes", () => {
  const life = makeLife(randomFrom(17), { events: 1500 });
  const notes = Array.from({ length: 20 }, (_, i) => i * 70 + 5);
  const track = trackOf(life, { steps: notes });
  const steps = notes.map((at) => ({ time: life.events[at].time }));
  const recording = { notes: { steps }, header: {}, timeUnit: 1 };
  const rows = growthRows(track, recording, 1200);
  const expected = new Map();
  for (const id of liveAfter(life, 1200)) {
    const { site, bytes, birth } = life.blocks[id];
    const row = expected.get(site) ?? { bytes: 0, blocks: 0, born: new Set() };
    expected.set(site, row);
    row.bytes += bytes;
    row.blocks++;
    if (birth >= 0) row.born.add(notes.filter((at) => at <= birth).length);
  }
  assert.deepEqual(rows.map(({ site, bytes, blocks, births }) => ({ site, bytes, blocks, births })),
    [...expected].map(([site, { bytes, blocks, born }]) => ({ site, bytes, blocks, births: born.size }))
      .sort((a, b) => b.births - a.births || b.bytes - a.bytes || a.site - b.site));
  const duration = life.events.at(-1).time + 1;
  const curves = liveCurves(track, [0, 4, 8], 30);
  for (const [site, curve] of curves) {
    curve.forEach((bytes, part) => {
      const last = life.events.filter(({ time }) => time <= (part + 1) / 30 * duration).length - 1;
      assert.equal(bytes, liveAfter(life, last).filter((id) => life.blocks[id].site === site)
        .reduce((sum, id) => sum + life.blocks[id].bytes, 0));
    });
  }
});

test("a step has the peak, the sums and the rest of its events", () => {
  const life = makeLife(randomFrom(19), { events: 700 });
  const at = [0, 10, 10, 200, 450];
  for (const stepsEnd of [630, 700]) { // ended by the program, or not
    const track = trackOf(life, { steps: at, stepsEnd });
    const time = (event) => life.events[event]?.time ?? track.to;
    const ends = [...at.slice(1), stepsEnd];
    const notes = { end: track.to, steps: at.map((event, i) => ({ index: i + 1, time: time(event), end: time(ends[i]) })) };
    const rows = stepRows(track, notes);
    assert.equal(rows.length, at.length);
    rows.forEach((row, i) => {
      const [from, to] = [at[i], ends[i]];
      const events = life.events.slice(from, to);
      const sum = (free) => events.filter((event) => event.free === free)
        .reduce((bytes, event) => bytes + life.blocks[event.block].bytes, 0);
      assert.equal(row.allocated, sum(false));
      assert.equal(row.freed, sum(true));
      let peak = 0;
      for (let event = from - 1; event < to; event++) peak = Math.max(peak, totalAfter(life, event));
      assert.equal(row.peak, peak);
      assert.equal(row.endBytes, totalAfter(life, to - 1));
      assert.equal(row.toEnd, to === 700);
    });
    const last = stepsEnd === 700 ? 450 : stepsEnd; // the last moment at which the program ended a step
    assert.deepEqual(addedBySteps(rows),
      { bytes: totalAfter(life, last - 1) - totalAfter(life, 9), index: stepsEnd === 700 ? 4 : 5 });
  }
  assert.equal(addedBySteps([{ toEnd: false, endBytes: 5 }, { toEnd: true, endBytes: 0 }]), null);
});

test("what a step held at its peak is the sum of what was live then", () => {
  const life = makeLife(randomFrom(41), { events: 900 });
  const at = [100, 350, 360, 800];
  const track = trackOf(life, { steps: at });
  const steps = at.map((event, i) => ({ time: life.events[event].time, index: i + 1, name: "",
    end: life.events[at[i + 1]]?.time ?? track.to }));
  const rows = stepRows(track, { steps });
  const found = categoriesOfSteps(track, { categories: ["", "gradients", "input"] }, rows);
  assert.equal(found.length, 4);
  rows.forEach((row, i) => {
    const live = liveAfter(life, row.peakAt);
    assert.equal(totalAfter(life, row.peakAt), row.peak);
    [0, 1, 2].forEach((category) => assert.equal(found[i][category], live
      .filter((id) => life.blocks[id].site % 3 === category).reduce((sum, id) => sum + life.blocks[id].bytes, 0)));
  });
  assert.equal(categoriesOfSteps(track, { categories: [""] }, rows), null);
});

test("the address map puts blocks into segments and finds the largest hole", () => {
  const track = (blocks) => ({
    stateAt: () => 0, side: { seek: () => ({ ids: () => Uint32Array.from(blocks.keys()) }) },
    address: (id) => blocks[id][0], bytesOf: (id) => blocks[id][1],
  });
  const lower = track([[1000, 100], [5000, 1000], [3000, 10]]);
  const upper = track([[5200, 300], [1000, 40], [5000, 100], [9000, 5], [0, 7]]);
  const map = addressMap(lower, upper, 0);
  assert.deepEqual(map.map(({ address, bytes, used, largest, blocks }) =>
    [address, bytes, used, largest, blocks.length]),
    [[1000, 100, 40, 60, 1], [3000, 10, 0, 10, 0], [5000, 1000, 400, 500, 2]]);
  const header = { tracks: [{ id: "cuda:0/torch" }, { id: "cuda:1/driver", blocks: 4 },
    { id: "cuda:0/driver", blocks: 2 }] };
  assert.equal(trackBelow(header, 0), 2);
  assert.equal(trackBelow(header, 2), -1);
});

test("CSV quotes what must be, and no name becomes a formula", () => {
  assert.equal(csvText({ columns: ["a", "b"], rows: [[1, "x,\"y\""], [-2.5, "=1+1"], [3, "@cmd"]] }),
    "a,b\r\n1,\"x,\"\"y\"\"\"\r\n-2.5,'=1+1\r\n3,'@cmd\r\n");
});

test("ranges of addresses join what overlaps and leave gaps out", () => {
  const ranges = new Ranges([{ address: 5000, bytes: 100 }, { address: 1000, bytes: 200 }, { address: 1100, bytes: 300 },
    { address: 5050, bytes: 10 }, { address: 0, bytes: 9 }, { address: 7000, bytes: 0 }]);
  assert.deepEqual([ranges.starts, ranges.sizes, ranges.total], [[1000, 5000], [400, 100], 500]);
  for (const [address, under] of [[999, -1], [1000, 0], [1399, 399], [1400, -1], [5000, 400], [5099, 499], [5100, -1]]) {
    assert.equal(ranges.under(address), under);
    if (under >= 0) assert.equal(ranges.addressAt(under), address);
  }
  assert.equal(new Ranges([]).total, 0);
});

test("a block over time is a box of its bytes and its life, and at least a pixel", () => {
  const pick = new Int32Array(10 * 8).fill(-1);
  paintRects(pick, 10, 8, 80, [
    { from: 2, to: 7, under: 0, bytes: 40, id: 5 }, { from: 3, to: 3.1, under: 60, bytes: 1, id: 6 },
    { from: -9, to: 99, under: 70, bytes: 10, id: 7 },
  ]);
  for (let y = 0; y < 8; y++) {
    for (let x = 0; x < 10; x++) {
      const under = 7 - y; // rows from the lower edge
      const expected = under < 4 && x >= 2 && x < 7 ? 5 : under === 6 && x === 3 ? 6 : under === 7 ? 7 : -1;
      assert.equal(pick[y * 10 + x], expected, `${x} ${y}`);
    }
  }
});

test("colours by category and module are of the classes that blocks have, those that hold most first", () => {
  const life = makeLife(randomFrom(43));
  const track = trackOf(life);
  const recording = { modules: ["", "net.0.attn", "net.1.attn", "head", "unused"],
    categories: ["", "gradients", "input", "unused"] };
  const expected = {
    category: (id) => ["(no category)", "gradients", "input"][life.blocks[id].site % 3],
    module: (id) => ["(no module)", "net.0.attn", "net.1.attn", "head"][life.blocks[id].site % 4],
    modules: (id) => ["(no module)", "net.*.attn", "net.*.attn", "head"][life.blocks[id].site % 4],
  };
  const live = liveAfter(life, track.peak.event);
  for (const [colour, nameOf] of Object.entries(expected)) {
    const { of, names, order, colours } = COLOURS[colour].make(track, recording, false);
    assert.deepEqual(life.blocks.map((block, id) => names[of[id]]), life.blocks.map((block, id) => nameOf(id)));
    assert.equal(colours.length, names.length);
    const bytes = (name) => live.filter((id) => nameOf(id) === name)
      .reduce((sum, id) => sum + life.blocks[id].bytes, 0);
    const sums = order.map((at) => bytes(names[at]));
    assert.deepEqual(sums, [...sums].sort((a, b) => b - a));
    assert.deepEqual(new Set(order.map((at) => names[at])), new Set(life.blocks.map((block, id) => nameOf(id))));
  }
});

test("colours by size name the classes that there are, from low to high", () => {
  const life = makeLife(randomFrom(23), { events: 300, sizes: 200 });
  const track = trackOf(life);
  const { of, colours, names } = COLOURS.size.make(track, {}, false);
  assert.equal(names[0], "below 512 B");
  assert.equal(colours.length, names.length);
  const largest = [];
  life.blocks.forEach(({ bytes }, id) => {
    largest[of[id]] = Math.max(largest[of[id]] ?? -1, bytes);
    for (const [other, most] of largest.entries()) if (most !== undefined && other < of[id]) assert.ok(bytes > most);
  });
  assert.equal(largest.length, names.length);
  assert.ok(largest.every((bytes) => bytes >= 0));
});
