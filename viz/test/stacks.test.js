import { assert, test } from "./asserted.js";
import { DEFAULTS, readAddress, usualFor, writeAddress } from "../src/address.js";
import { framesShown } from "../src/data/flame.js";
import { NOTE_COLUMNS, Notes } from "../src/data/notes.js";
import { changeOf, readAdvice } from "../src/data/advice.js";
import { readSamples } from "../src/data/samples.js";
import { hashName, shortName, STACK_COLUMNS, Stacks, stackText } from "../src/data/stacks.js";
import { formatBytes, formatCount, formatDuration, formatShare } from "../src/format.js";
import { randomFrom, varints, zigzag } from "./make.js";

const column = (values, count = values.length) => ({ bytes: varints(values), count });
const raw = (bytes) => ({ bytes: Uint8Array.from(bytes), count: bytes.length });

/**
 * - Frame 0: f in a.py:7, the user's.
 * - Frame 1: native, two lines.
 * - Frame 2: native without a symbol.
 * - Frame 3: the border to backward.
 */
function makeStacks({ line = 7, address = 64 } = {}) {
  const texts = ["", "f", "/x/a.py", "inner", "outer", "/lib/l.so"].map((text) => new TextEncoder().encode(text));
  texts.push(Uint8Array.of(0xff, 0x41), new TextEncoder().encode("backward of")); // the first is not UTF-8
  const columns = {
    site: column([1, 3, 4, 0, 5, 7]), headline: column([1, 3, 3, 0, 2, 4]),
    parent: column([1, 1, 1, 1, 1, 5, 1]), frame: column([1, 2, 3, 0, 3, 4, 2]),
    language: raw([1, 0, 0, 2]), module: column([0, 5, 5, 0]), address: column([0, 32, address, 0]),
    graph: column([2, 0, 0, 0]), lines: column([1, 2, 0, 1]), line: column([1, 2, line, 3, 0, 0, 4, 6, 12, 7, 0, 0], 4), user: raw([1, 0, 0, 0]),
    length: column(texts.map((text) => text.length)), text: raw(texts.flatMap((text) => [...text])),
    library: column([0, 6, 6, 0, 6, 6]),
  };
  assert.deepEqual(Object.keys(columns), STACK_COLUMNS);
  return new Stacks(columns);
}

test("a site's stack is the path to the root, inlined frames and the cut included", () => {
  const stacks = makeStacks();
  const names = (site) => stacks.stack(site).map((frame) => frame.cut ? "cut" : frame.function || frame.address);
  assert.deepEqual(names(0), ["f"]);
  assert.deepEqual(names(1), [64, "inner", "outer", "f"]);
  assert.deepEqual(names(2), ["cut", 64, "inner", "outer", "f"]);
  assert.deepEqual(names(3), []);
  assert.equal(stacks.string(6), "\ufffdA");
  assert.deepEqual(stacks.stack(1).map((frame) => frame.graph), [undefined, undefined, undefined, 2]);
});

test("a site is called by the line that the writer chose", () => {
  const stacks = makeStacks();
  assert.deepEqual(stacks.describe(0), { name: "f", place: "a.py:7", inside: "", backward: "" });
  assert.deepEqual(stacks.describe(1), { name: "outer", place: "\ufffdA:12", inside: "", backward: "" });
  assert.deepEqual(stacks.describe(3), { name: "no stack", place: "", inside: "", backward: "" });
  assert.equal(stackText(stacks.stack(1)), "0x40  (/lib/l.so)\ninner  (/lib/l.so)\nouter  (\ufffdA:12)\nf  (/x/a.py:7)");
});

test("what backward allocated is called by the line that made its node, and has a colour of its own", () => {
  const stacks = makeStacks();
  assert.deepEqual(stacks.stack(5).map((frame) => [frame.function, frame.backward]),
    [["inner", false], ["outer", false], ["backward of", true], ["f", false]]);
  assert.deepEqual(stacks.describe(5), { name: "f", place: "a.py:7", inside: "", backward: "backward of" });
  assert.notEqual(stacks.hash(5), stacks.hash(0));
  for (const [frames, expected] of [["user", ["f", "backward of"]], ["line", ["f", "backward of"]],
    ["all", ["f", "backward of", "outer", "inner"]]]) {
    assert.deepEqual(framesShown(stacks, 5, frames).map((frame) => frame.function), expected);
  }
});

test("names of C++ are shown without arguments and types", () => {
  const short = (name, python = false) => shortName({ function: name, python });
  assert.equal(short("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)"),
    "torch::autograd::AccumulateGrad::apply");
  assert.equal(short("std::tuple<at::Tensor, long> at::_ops::max::call<int>(at::Tensor const&) const"), "at::_ops::max::call");
  assert.equal(short("at::(anonymous namespace)::f(int)"), "at::{anonymous}::f");
  assert.equal(short("A::operator()(int) const"), "A::operator()(int) const");
  assert.equal(short("std::function<void (int)>::~function() [clone .cold]"), "std::function::~function");
  assert.equal(short("<lambda>", true), "<lambda>");
  assert.equal(short("malloc"), "malloc");
});

test("a site's colour hangs on its source lines, not on addresses", () => {
  assert.equal(makeStacks().hash(1), makeStacks({ address: 128 }).hash(1));
  assert.notEqual(makeStacks().hash(1), makeStacks({ line: 8 }).hash(1));
});

test("samples are a line per counter, of the device that its name says", () => {
  const stacks = { string: (id) => ["", "cpu/resident", "cuda:0/device"][id] };
  const lines = readSamples({ time: column([1, 2, 0, 5]), counter: column([1, 2, 1, 2]), value: column([10, 20, 30, 5]) },
    stacks);
  assert.deepEqual(lines.map(({ device, time, bytes, most }) => ({ device, time, bytes, most })), [
    { device: "cpu", time: [1, 3], bytes: [10, 30], most: 30 },
    { device: "cuda:0", time: [3, 8], bytes: [20, 5], most: 20 },
  ]);
});

test("changes have the curves that were written, each from nothing on", () => {
  const random = randomFrom(11);
  const curves = [1, 0, 40, 3].map((count) => Array.from({ length: count },
    (_, i) => [3 * i + random(3), random(2 ** 31) * 512, random(2 ** 31) * 512]));
  const differences = (k, code) => curves.flatMap((curve) => curve.map((point, i) => code(point[k] - (i ? curve[i - 1][k] : 0))));
  const columns = { points: column(curves.map((curve) => curve.length)), event: column(differences(0, (value) => value)),
    allocated: column(differences(1, zigzag)), reserved: column(differences(2, zigzag)) };
  const changes = curves.map((_, i) => ({ text: "change " + i }));
  const of = (curve, k) => curve && [...curve[k]];
  const read = readAdvice({ changes, reserved_peak_bytes: 5 }, columns);
  assert.deepEqual(read.map(({ text, curve }) => [text, of(curve, "event"), of(curve, "allocated"), of(curve, "reserved")]),
    curves.map((curve, i) => ["change " + i, ...[0, 1, 2].map((k) => curve.length ? curve.map((point) => point[k]) : null)]));
  const plain = readAdvice({ changes, reserved_peak_bytes: null }, { ...columns, reserved: column([]) });
  assert.deepEqual(plain[2].curve, { ...read[2].curve, reserved: null });
  const recording = { header: { advice: { track: 1 } }, changes: read };
  assert.equal(changeOf(recording, { track: 1, change: 2 }), read[2]);
  assert.equal(changeOf(recording, { track: 0, change: 2 }), undefined);
  assert.equal(changeOf(recording, { track: 1, change: -1 }), undefined);
});

test("steps follow each other, regions nest per thread, an end closes what is inside", () => {
  const rows = [ // type, time, thread, name
    [6, 11, 0, 1], [6, 12, 0, 3], [6, 12, 1, 4], [7, 15, 0, 1], [7, 16, 1, 1], [8, 21, 0, 3],
    [6, 22, 2, 1], [6, 23, 2, 3], [7, 24, 2, 0],
  ];
  const times = rows.map(([, time], i) => time - (i ? rows[i - 1][1] : 0));
  const columns = {
    type: raw(rows.map(([type]) => type)), time: column(times), thread: column(rows.map(([, , thread]) => thread)),
    track: column(rows.map(() => 0)), name: column(rows.map(([, , , name]) => name)),
    bytes: column(rows.map(() => 0)), site: column(rows.map(() => 0)),
  };
  assert.deepEqual(Object.keys(columns), NOTE_COLUMNS);
  const steps = { time: column([10, 10]), name: column([0, 1]) };
  const notes = new Notes(columns, steps, makeStacks(), { end: 30, stepsEnd: 30, before: 6 });
  assert.deepEqual(notes.steps.map(({ time, end }) => [time, end]), [[10, 20], [20, 30]]);
  assert.equal(notes.stepAt(9), undefined);
  assert.equal(notes.stepAt(19).index, 7); // number in the program; its first six steps are not in the file
  assert.equal(notes.stepAt(20).name, "f");
  assert.deepEqual(notes.regions.map(({ start, end, name, depth }) => [start, end, name, depth]),
    [[11, 15, "f", 0], [12, 15, "inner", 1], [12, 30, "outer", 0], [22, 30, "f", 0], [23, 24, "inner", 1]]);
  const namesAt = (time, thread) => notes.regionPath(time, thread).split(" › ").filter(Boolean);
  assert.deepEqual([namesAt(13, 0), namesAt(13, 1), namesAt(13, 9)], [["f", "inner"], ["outer"], ["f", "inner"]]);
  assert.deepEqual([namesAt(15, 0), namesAt(10, 0)], [["outer"], []]);
  assert.deepEqual(notes.marks.map(({ kind, time, name }) => [kind, time, name]), [["mark", 21, "inner"]]);
  assert.deepEqual(notes.lanes.map(({ thread, depth }) => [thread, depth]), [[0, 0], [0, 1], [2, 0], [2, 1], [1, 0]]);
});

test("an address reads back what it says, and ignores nonsense", () => {
  const recording = {
    timeUnit: 1000, from: 0, to: 5000, header: { tracks: [{ id: "cpu/torch" }, { id: "cuda:0/torch" }] }, stacks: { count: 9 },
    categories: [""], timeless: false, changes: [{ curve: {} }, { curve: {} }, { curve: null }],
  };
  const state = { track: 1, start: 100, end: 250, low: 10, high: 4096, pinned: 77, site: 3, window: [120, 200],
    moment: -1, view: "advice", change: 1, of: "born", colour: "life", group: "library", measure: "time", frames: "all", inverted: true,
    query: "a&b=c #<i>" };
  assert.deepEqual(readAddress(writeAddress(state, recording), recording), state);
  const whole = { track: 0, start: 0, end: 5000, low: 0, high: null, pinned: -1, site: -1, window: null, moment: -2, ...DEFAULTS };
  assert.deepEqual(readAddress(writeAddress(whole, recording), recording), { track: 0 });
  const known = { ...recording, categories: ["", "input"], timeless: true };
  assert.deepEqual([usualFor(recording).colour, usualFor(known).colour, usualFor(known).along],
    ["site", "category", "events"]);
  for (const colour of ["site", "category"]) {
    assert.equal({ ...usualFor(known), ...readAddress(writeAddress({ ...whole, colour }, known), known) }.colour, colour);
  }
  assert.deepEqual(readAddress("#t=9-1&b=x&ad=3&s=99&track=no&y=&v=toString&of=__proto__&w=1", recording), {});
});

test("numbers as people read them", () => {
  assert.equal(formatBytes(0), "0 B");
  assert.equal(formatBytes(1023), "1023 B");
  assert.equal(formatBytes(1024), "1.00 KiB");
  assert.equal(formatBytes(9.66 * 2 ** 30), "9.66 GiB");
  assert.equal(formatBytes(61.4 * 2 ** 30), "61.4 GiB");
  assert.equal(formatBytes(2 ** 40 - 1), "1.00 TiB");
  assert.equal(formatBytes(59.25 * 2 ** 20), "59.2 MiB"); // as printf rounds
  assert.equal(formatBytes(59.75 * 2 ** 20), "59.8 MiB");
  assert.equal(formatDuration(850), "850 ns");
  assert.equal(formatDuration(12000e9), "3 h 20 min");
  assert.equal(formatDuration(12.7e6), "12.7 ms");
  assert.equal(formatDuration(38.2e9), "38.2 s");
  assert.equal(formatCount(1234567), "1\u202f234\u202f567");
  assert.equal(formatShare(1, 3), "33 %");
});

test("names have numbers of 32 bits, each its own", () => {
  const names = Array.from({ length: 3000 }, (_, i) => `layer.${i}`);
  const numbers = names.map(hashName);
  assert.ok(numbers.every((number) => Number.isInteger(number) && number >= 0 && number < 2 ** 32));
  assert.equal(new Set(numbers).size, names.length);
  assert.deepEqual(names.map(hashName), numbers);
  // Colours use the hash's low digits, which must distinguish as many names as random numbers would.
  for (const colours of [8, 12, 16]) {
    const counts = Array.from({ length: colours }, (_, colour) => numbers.filter((n) => n % colours === colour).length);
    assert.ok(Math.min(...counts) > names.length / colours / 2, `${counts}`);
  }
});
