// Events that are not about a block: steps, regions and marks, out-of-memory, reserved bytes. Times are in the page's
// unit.

import { upperBound } from "./track.js";
import { readNumbers, readUint32s } from "./varint.js";

export const STEP_COLUMNS = ["time", "name"];
export const NOTE_COLUMNS = ["type", "time", "thread", "track", "name", "bytes", "site"];

const OOM = 4;
const REGION_BEGIN = 6;
const REGION_END = 7;
const MARK = 8;
const RESERVED = 9;
const START = 10;
const STOP = 11;

/** Rows of {time, end, name, index}. Each ends where the next one begins. The index is the program's count, from 1. */
function readSteps({ time, name }, stacks, end, before) {
  const times = readNumbers(time.bytes, time.count);
  const names = readUint32s(name.bytes, name.count);
  const out = [];
  for (let i = 0, now = 0; i < times.length; i++) {
    now += times[i];
    if (i) out[i - 1].end = now;
    out.push({ time: now, end, name: stacks.string(names[i]), index: before + i + 1 });
  }
  // If all steps have the same name, their numbers are shown instead.
  if (out.length > 1 && out.every((step) => step.name === out[0].name)) for (const step of out) step.name = "";
  return out;
}

function pathAt(list, time) {
  return list ? list.paths[upperBound(list.times, time) - 1] ?? "" : "";
}

export class Notes {
  /**
   * @param {object} columns by name: {bytes, count}
   * @param {object} steps likewise
   * @param {import("./stacks.js").Stacks} stacks for the names
   * @param {{end, stepsEnd, before}} times the ends of the recording and of its last step; the number of steps that the
   *        program began before the recording
   */
  constructor(columns, steps, stacks, { end, stepsEnd, before }) {
    const count = columns.type.count;
    const type = columns.type.bytes;
    const time = readNumbers(columns.time.bytes, count);
    const thread = readUint32s(columns.thread.bytes, count);
    const track = readUint32s(columns.track.bytes, count);
    const name = readUint32s(columns.name.bytes, count);
    const bytes = readNumbers(columns.bytes.bytes, count);
    const site = readUint32s(columns.site.bytes, count);
    this.end = end;
    this.steps = readSteps(steps, stacks, stepsEnd, before);
    this.marks = []; // {time, name, kind: "mark" | "oom" | "start" | "stop", bytes, track, site}
    this.regions = []; // {start, end, name, thread, depth}, by start
    this.reserved = new Map(); // by track: {time: [], bytes: []}
    const open = new Map(); // by thread
    for (let i = 0, now = 0; i < count; i++) {
      now += time[i];
      const text = stacks.string(name[i]);
      switch (type[i]) {
      case REGION_BEGIN: {
        const stack = open.get(thread[i]) ?? [];
        const region = { start: now, end, name: text, thread: thread[i], depth: stack.length };
        open.set(thread[i], stack);
        stack.push(region);
        this.regions.push(region);
        break;
      }
      case REGION_END: {
        // Ends the innermost region of that name (any name if it has none), and the regions opened inside of it.
        const stack = open.get(thread[i]) ?? [];
        const at = text ? stack.findLastIndex((region) => region.name === text) : stack.length - 1;
        if (at >= 0) for (const region of stack.splice(at)) region.end = now;
        break;
      }
      case RESERVED: {
        const line = this.reserved.get(track[i]) ?? { time: [], bytes: [] };
        this.reserved.set(track[i], line);
        line.time.push(now);
        line.bytes.push(bytes[i]);
        break;
      }
      case OOM:
      case MARK:
      case START:
      case STOP:
        this.marks.push({
          time: now, name: text, kind: { [OOM]: "oom", [MARK]: "mark", [START]: "start", [STOP]: "stop" }[type[i]],
          bytes: bytes[i], track: track[i], site: site[i] - 1,
        });
        break;
      default:
        break;
      }
    }
    this.stepTimes = Float64Array.from(this.steps, (step) => step.time);
    this.lanes = this.assignLanes();
  }

  /** The step that a time falls into, or undefined. */
  stepAt(time) {
    return this.steps[upperBound(this.stepTimes, time) - 1];
  }

  /** The regions open at a time on a thread, as "outer › inner". If the thread has none, those of the first thread that
   * has some, since an autograd thread works for the thread in backward(). "" for none. */
  regionPath(time, thread) {
    this.paths ??= this.makePaths();
    const own = pathAt(this.paths.get(thread), time);
    if (own) return own;
    for (const other of this.paths.values()) {
      const path = pathAt(other, time);
      if (path) return path;
    }
    return "";
  }

  /** By thread: {times, paths}, the path from each time on. */
  makePaths() {
    const out = new Map();
    const threads = new Map();
    for (const region of this.regions) {
      if (!threads.has(region.thread)) threads.set(region.thread, []);
      threads.get(region.thread).push(region);
    }
    for (const [thread, regions] of threads) {
      const times = [];
      const paths = [];
      const open = [];
      const put = (time) => {
        times.push(time);
        paths.push(open.map((region) => region.name).join(" › "));
      };
      const close = (until) => {
        while (open.length && open.at(-1).end <= until) {
          const { end } = open.pop();
          put(end);
        }
      };
      for (const region of regions) {
        close(region.start);
        open.push(region);
        put(region.start);
      }
      close(Infinity);
      out.set(thread, { times: Float64Array.from(times), paths });
    }
    return out;
  }

  /** Assigns a lane to every (thread, depth) with regions, the busiest thread first. */
  assignLanes() {
    const lanes = new Map();
    for (const region of this.regions) {
      const key = region.thread * 64 + Math.min(region.depth, 63);
      const lane = lanes.get(key) ?? { thread: region.thread, depth: region.depth, regions: [] };
      lanes.set(key, lane);
      lane.regions.push(region);
    }
    const busy = new Map();
    for (const region of this.regions) busy.set(region.thread, (busy.get(region.thread) ?? 0) + 1);
    return [...lanes.values()].sort((a, b) =>
      busy.get(b.thread) - busy.get(a.thread) || a.thread - b.thread || a.depth - b.depth);
  }
}
