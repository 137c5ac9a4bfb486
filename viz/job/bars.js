// A bar for each process: its peak, and in it the bytes outstanding at its end. If there are more processes than
// pixels, a column shows the highest of its processes.

import { axisTop, byteTicks } from "../src/draw/axis.js";
import { formatBytes } from "../src/format.js";
import { colour, prepare } from "./canvas.js";

const LEFT = 66;
const TOP = 14; // room for marks of leaks
const BOTTOM = 16;

export class Bars {
  constructor(canvas, job, state) {
    Object.assign(this, { canvas, job, state, order: [] });
  }

  draw(order) {
    const { context, width, height } = prepare(this.canvas);
    const { peak, end, verdict, capacity } = this.job.processes;
    const room = Math.max(width - LEFT - 8, 1);
    const floor = height - BOTTOM;
    const most = order.reduce((sum, i) => Math.max(sum, peak[i]), 0);
    const limit = order.reduce((least, i) => capacity[i] ? Math.min(least, capacity[i]) : least, Infinity);
    const top = axisTop(limit < 1.6 * most ? Math.max(limit, most) : most);
    const y = (bytes) => floor - (floor - TOP) * bytes / top;
    Object.assign(this, { order, room });

    for (const { value, label } of byteTicks(0, top, 4)) {
      context.fillStyle = colour("--line");
      context.fillRect(LEFT, Math.round(y(value)), room, 1);
      context.fillStyle = colour("--soft");
      context.textAlign = "right";
      context.fillText(label, LEFT - 6, y(value));
    }
    const slot = room / Math.max(order.length, 1);
    const gap = slot >= 5 ? Math.min(slot * 0.2, 4) : 0;
    const columns = Math.min(order.length, Math.floor(room));
    for (let column = 0; column < columns; column++) {
      const [first, last] = this.span(column, columns);
      let [high, kept, odd, leak] = [0, 0, false, false];
      for (let k = first; k < last; k++) {
        const process = order[k];
        high = Math.max(high, peak[process]);
        kept = Math.max(kept, end[process]);
        odd ||= this.job.odd.has(process);
        leak ||= verdict[process] === "leak";
      }
      const x = LEFT + room * column / columns + gap / 2;
      const wide = Math.max(room / columns - gap, 0.5);
      context.globalAlpha = odd ? 0.45 : 1;
      context.fillStyle = colour(odd ? "--warn" : "--area-light");
      context.fillRect(x, y(high), wide, floor - y(high));
      context.globalAlpha = 1;
      context.fillStyle = colour(odd ? "--warn" : "--area");
      context.fillRect(x, y(kept), wide, floor - y(kept));
      if (leak) this.mark(context, x + wide / 2, y(high) - 3);
    }
    this.chosen(context, floor, slot);
    this.lines(context, y, room, limit <= top ? limit : null);
    this.names(context, floor, slot);
    this.describe(most);
  }

  /** The first process of a column, and the first of the next column. */
  span(column, columns) {
    const count = this.order.length;
    return [Math.floor(count * column / columns), Math.max(Math.floor(count * (column + 1) / columns), Math.floor(count * column / columns) + 1)];
  }

  mark(context, x, y) {
    context.fillStyle = colour("--peak");
    context.beginPath();
    context.moveTo(x - 4, y - 6);
    context.lineTo(x + 4, y - 6);
    context.lineTo(x, y);
    context.fill();
  }

  chosen(context, floor, slot) {
    for (const [process, name] of [[this.state.other, "--module"], [this.state.process, "--accent"]]) {
      const at = this.order.indexOf(process);
      if (at < 0) continue;
      context.strokeStyle = colour(name);
      context.lineWidth = 2;
      context.strokeRect(LEFT + slot * at - 1, TOP - 12, Math.max(slot, 2) + 2, floor - TOP + 12);
    }
  }

  lines(context, y, room, limit) {
    const groups = new Set(this.order.map((i) => this.job.processes.group[i]));
    context.lineWidth = 1;
    context.textAlign = "left";
    const line = (bytes, name, words) => {
      context.setLineDash([5, 4]);
      context.strokeStyle = colour(name);
      context.beginPath();
      context.moveTo(LEFT, y(bytes));
      context.lineTo(LEFT + room, y(bytes));
      context.stroke();
      context.setLineDash([]);
      const wide = context.measureText(words).width;
      context.fillStyle = colour("--panel");
      context.fillRect(LEFT + 4, y(bytes) - 15, wide + 8, 14);
      context.fillStyle = colour(name);
      context.fillText(words, LEFT + 8, y(bytes) - 8);
    };
    if (limit !== null) line(limit, "--peak", `the device has ${formatBytes(limit)}`);
    if (groups.size === 1 && this.order.length > 2) {
      const median = this.job.median(this.order[0]);
      line(median, "--soft", `median ${formatBytes(median)}`);
    }
  }

  names(context, floor, slot) {
    const { name, rank } = this.job.processes;
    context.fillStyle = colour("--soft");
    context.textAlign = "center";
    const text = (process) => rank[process] !== null && name[process].startsWith("rank ") ? String(rank[process]) : name[process];
    let free = LEFT;
    for (let i = 0; i < this.order.length; i += Math.max(Math.floor(24 / slot), 1)) {
      const [words, middle] = [text(this.order[i]), LEFT + slot * (i + 0.5)];
      const half = context.measureText(words).width / 2;
      if (middle - half < free || middle + half > LEFT + this.room + 8) continue;
      context.fillText(words, middle, floor + 9);
      free = middle + half + 10;
    }
  }

  describe(most) {
    const names = this.order.slice(0, 8).map((i) => `${this.job.processes.name[i]} ${formatBytes(this.job.processes.peak[i])}`);
    this.canvas.setAttribute("aria-label", `Peaks of ${this.order.length} processes, up to ${formatBytes(most)}: ` +
      names.join(", ") + (this.order.length > 8 ? ", …; the view Processes lists all" : ""));
  }

  /** The process under the pointer: the highest of its column; -1: none. */
  at(x) {
    const place = (x - LEFT) / this.room;
    if (place < 0 || place >= 1 || !this.order.length) return -1;
    const columns = Math.min(this.order.length, Math.floor(this.room));
    const [first, last] = this.span(Math.floor(place * columns), columns);
    const { peak } = this.job.processes;
    return this.order.slice(first, last).reduce((best, i) => peak[i] > peak[best] ? i : best, this.order[first]);
  }
}
