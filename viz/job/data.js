// A job as the page holds it: processes, groups, sites and curves. Curves are unpacked when they are first drawn.

import { readNumbers, unzigzag } from "../src/data/varint.js";

/** Curves along the same axis: one of each process's chosen track, and those of all tracks. */
export class Curves {
  /** @param {number[][]} rows [process, track, shift, points] @param {Uint8Array} bytes @param {number} count of points */
  constructor(rows, bytes, count, facts, byStep) {
    const values = readNumbers(bytes, 3 * count);
    this.byStep = byStep;
    this.all = [];
    this.of = new Array(facts.processes.name.length).fill(null);
    let from = 0;
    for (const [process, track, shift, points] of rows) {
      const curve = { process, track, unit: 2 ** shift, at: new Float64Array(points), most: new Float64Array(points),
        last: new Float64Array(points) };
      let [at, most] = [0, 0];
      for (let i = 0; i < points; i++, from += 3) {
        curve.at[i] = at += values[from];
        curve.most[i] = most += unzigzag(values[from + 1]);
        curve.last[i] = most - unzigzag(values[from + 2]);
      }
      this.all.push(curve);
      if (track === facts.processes.track[process]) this.of[process] = curve;
    }
  }

  /** The position of a curve's point: its first step, or nanoseconds since the job began. */
  static start(curve, i) {
    return curve.at[i] * curve.unit;
  }

  end(processes) {
    let end = 1;
    for (const process of processes) {
      const curve = this.of[process];
      if (curve) end = Math.max(end, (curve.at[curve.at.length - 1] + 1) * curve.unit);
    }
    return end;
  }
}

export class Job {
  /** @param {Unpacker} unpacker */
  static async open(unpacker) {
    const { facts } = await unpacker.group("job", ["facts"]);
    return new Job(unpacker, JSON.parse(new TextDecoder().decode(facts.bytes)));
  }

  constructor(unpacker, facts) {
    this.unpacker = unpacker;
    this.facts = facts;
    this.processes = facts.processes;
    this.count = facts.processes.name.length;
    this.odd = new Map(facts.outliers.map((one) => [one.process, one]));
    this.heldFrom = new Uint32Array(this.count + 1); // rows of holdings are in order of their processes
    for (let i = 0; i < facts.holdings.length; i += 4) this.heldFrom[facts.holdings[i] + 1] += 4;
    for (let i = 0; i < this.count; i++) this.heldFrom[i + 1] += this.heldFrom[i];
    this.leaks = new Map();
    this.causes = new Map(); // of the processes whose leaks have one stack and holder, that with the highest rate
    for (const [process, stack, growth, step, bytes, blocks, certain, holder] of facts.leaks) {
      if (!this.leaks.has(process)) this.leaks.set(process, []);
      this.leaks.get(process).push({ process, stack, growth, step, bytes, blocks, certain, holder });
      const cause = this.causes.get(`${stack} ${holder}`) ?? { process, stack, growth: 0, step, holder, count: 0 };
      cause.growth += growth;
      cause.count++;
      this.causes.set(`${stack} ${holder}`, cause);
    }
    this.curves = {};
  }

  /** @param {"step"|"clock"} along */
  async curvesAlong(along) {
    this.curves[along] ??= this.unpacker.group("job", [along]).then((columns) =>
      new Curves(this.facts["by_" + along], columns[along].bytes, columns[along].count, this.facts, along === "step"));
    return this.curves[along];
  }

  hasSteps() {
    return this.facts.by_step.length > 0;
  }

  median(process) {
    return this.facts.groups[this.processes.group[process]]?.median ?? 0;
  }

  /** The usual process of a process's group: the one whose peak is nearest to the median. */
  usual(process) {
    const { group, peak } = this.processes;
    let best = -1;
    for (let i = 0; i < this.count; i++) {
      if (i === process || group[i] !== group[process]) continue;
      if (best < 0 || Math.abs(peak[i] - this.median(i)) < Math.abs(peak[best] - this.median(i))) best = i;
    }
    return best;
  }

  /** The sites with most bytes at a process's peak, largest first. */
  held(process) {
    const out = [];
    for (let i = this.heldFrom[process]; i < this.heldFrom[process + 1]; i += 4) {
      const [, stack, bytes, blocks] = this.facts.holdings.slice(i, i + 4);
      out.push({ stack, bytes, blocks });
    }
    return out;
  }

  label(stack) {
    return this.facts.stacks[stack][0] || "no stack";
  }

  /** Innermost first. */
  frames(stack) {
    return this.facts.stacks[stack].slice(1).map((frame) => {
      const [name, file, line, language] = this.facts.frames[frame];
      return { name: name ?? "?", place: file ? file + (line ? ":" + line : "") : "", python: language === 1 };
    });
  }

  /** Sites at the peaks of two processes, by the size of the difference. The page has at most 16 sites of a process. A
   * site not among these has at most the bytes of the smallest of them (`atMost`), or none if there are fewer than
   * 16. */
  difference(a, b) {
    const least = (list) => list.length < 16 ? 0 : list[list.length - 1].bytes;
    const [first, second] = [this.held(a), this.held(b)];
    const rows = new Map();
    for (const one of first) rows.set(one.stack, { stack: one.stack, a: one.bytes, b: least(second), atMost: least(second) ? "b" : "" });
    for (const one of second) {
      const row = rows.get(one.stack);
      if (row) Object.assign(row, { b: one.bytes, atMost: "" });
      else rows.set(one.stack, { stack: one.stack, a: least(first), b: one.bytes, atMost: least(first) ? "a" : "" });
    }
    return [...rows.values()].sort((x, y) => Math.abs(y.a - y.b) - Math.abs(x.a - x.b));
  }

  /** Processes in one of the orders. @param {number|null} group */
  ordered(order, group) {
    const { peak, end, growth } = this.processes;
    const all = Array.from({ length: this.count }, (_, i) => i)
      .filter((i) => group === null || this.processes.group[i] === group);
    const key = { peak, end, growth }[order];
    if (key) all.sort((a, b) => key[b] - key[a] || a - b);
    return all;
  }

  /** Processes whose name, host, file or pid contains the words. A number alone is a rank, if there are ranks. */
  find(words) {
    const wanted = words.trim().toLowerCase();
    const { name, host, path, pid, rank } = this.processes;
    if (!wanted) return [];
    const ranks = /^\d+$/.test(wanted) ? rank.flatMap((one, i) => String(one) === wanted ? [i] : []) : [];
    if (ranks.length) return ranks;
    return name.flatMap((_, i) =>
      [name[i], host[i], path[i], String(pid[i] ?? "")].some((text) => text.toLowerCase().includes(wanted)) ? [i] : []);
  }
}
