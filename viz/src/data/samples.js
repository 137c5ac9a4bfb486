// Sampled counters: a device's memory in use, the resident memory of the process.

import { readNumbers, readUint32s } from "./varint.js";

export const SAMPLE_COLUMNS = ["time", "counter", "value"];

/** Names of the lines. Other counters, such as memory in use before the recording, are not drawn. */
const WORDS = {
  device: "device, in use", process: "device, this process", others: "device, others",
  resident: "process, resident", shared: "process, shared",
};

/** @typedef {{name: string, device: string, time: number[], bytes: number[], most: number}} Line */

/** @returns {Line[]} in order of first appearance, each of a known counter */
export function readSamples(columns, stacks) {
  const { time, counter, value } = columns;
  const times = readNumbers(time.bytes, time.count);
  const counters = readUint32s(counter.bytes, counter.count);
  const values = readNumbers(value.bytes, value.count);
  const lines = new Map();
  for (let i = 0, now = 0; i < times.length; i++) {
    now += times[i];
    let line = lines.get(counters[i]);
    if (!line) lines.set(counters[i], line = newLine(stacks.string(counters[i])));
    line.time.push(now);
    line.bytes.push(values[i]);
    line.most = Math.max(line.most, values[i]);
  }
  return [...lines.values()].filter(({ name }) => name);
}

/** Counters are called DEVICE/WHAT, as tracks are called DEVICE/LAYER. */
function newLine(counter) {
  const cut = counter.indexOf("/");
  const what = counter.slice(cut + 1);
  return { name: WORDS[what], device: counter.slice(0, Math.max(cut, 0)), time: [], bytes: [], most: 0 };
}
