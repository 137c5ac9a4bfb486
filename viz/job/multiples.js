// Small multiples: the curve of each process in a box of its own, all on the same scales, so that differences are
// visible.

import { axisTop } from "../src/draw/axis.js";
import { formatBytes } from "../src/format.js";
import { colour, drawing, fillUnder, prepare, trace } from "./canvas.js";

const LEAST_WIDTH = 66;
const LEAST_HEIGHT = 46;
const HEAD = 13;

/** Columns and sizes: all in sight if boxes stay large enough to read, else a list that scrolls. */
function arrange(count, width, height) {
  let best = null;
  for (let columns = 1; columns <= Math.max(Math.floor(width / LEAST_WIDTH), 1); columns++) {
    const rows = Math.ceil(count / columns);
    const box = { columns, rows, width: width / columns, height: Math.min(height / rows, 150) };
    const worth = Math.min(box.width / 1.8, box.height); // boxes about twice as wide as high are easiest to read
    if (box.height >= LEAST_HEIGHT && (!best || worth > best.worth)) best = { ...box, worth };
  }
  if (best) return best;
  const columns = Math.max(Math.floor(width / 92), 1);
  return { columns, rows: Math.ceil(count / columns), width: width / columns, height: 58 };
}

export class Multiples {
  constructor(box, job, state) {
    Object.assign(this, { box, job, state });
    this.canvas = drawing(box, "the course of each process's memory; the view Processes lists them");
    box.addEventListener("scroll", () => this.paint());
  }

  draw(order, curves) {
    Object.assign(this, { order, curves });
    this.paint();
  }

  /** Paints only the visible boxes: a canvas for thousands of boxes is too large for a browser. */
  paint() {
    const { order, curves, box } = this;
    if (!order) return;
    const place = arrange(order.length, box.clientWidth, box.clientHeight - 2);
    this.place = place;
    const whole = place.rows * place.height;
    const height = Math.min(box.clientHeight, Math.max(whole, 1));
    this.canvas.style.cssText = `position: sticky; top: 0; width: ${box.clientWidth}px; height: ${height}px`;
    this.canvas.style.marginBottom = Math.max(whole - height, 0) + "px";
    const { context } = prepare(this.canvas, box.clientWidth, height);
    const { peak, name } = this.job.processes;
    const top = axisTop(order.reduce((sum, i) => Math.max(sum, peak[i]), 0));
    const end = curves.end(order);
    this.first = Math.floor(box.scrollTop / place.height) * place.columns;
    const last = Math.min(this.first + (Math.ceil(height / place.height) + 1) * place.columns, order.length);
    for (let k = this.first; k < last; k++) {
      const process = order[k];
      const x = k % place.columns * place.width;
      const y = Math.floor(k / place.columns) * place.height - box.scrollTop;
      const area = { x: x + 4, y: y + HEAD + 2, width: place.width - 8, height: place.height - HEAD - 6 };
      context.fillStyle = colour("--page");
      context.fillRect(area.x, area.y, area.width, area.height);
      const curve = curves.of[process];
      if (curve) {
        fillUnder(context, trace(context, curve, area, end, top), colour(this.job.odd.has(process) ? "--warn" : "--area"));
      }
      this.head(context, process, name[process], formatBytes(peak[process]), area);
      const chosen = process === this.state.process ? "--accent" : process === this.state.other ? "--module" : "";
      if (!chosen) continue;
      context.strokeStyle = colour(chosen);
      context.lineWidth = 2;
      context.strokeRect(x + 2, y + 1, place.width - 4, place.height - 3);
    }
  }

  head(context, process, name, bytes, area) {
    const leak = this.job.processes.verdict[process] === "leak";
    context.fillStyle = colour(leak ? "--peak" : "--text");
    context.textAlign = "left";
    const room = area.width - context.measureText(bytes).width - 4;
    const short = context.measureText(name).width <= room ? name : name.replace(/^rank /, "");
    const wide = context.measureText(short).width;
    const cut = wide <= room ? short : short.slice(0, Math.max(Math.floor(short.length * room / wide) - 1, 1)) + "…";
    context.fillText(cut, area.x, area.y - 7);
    context.fillStyle = colour("--soft");
    context.textAlign = "right";
    if (room > 18) context.fillText(bytes, area.x + area.width, area.y - 7);
  }

  /** @returns {{process: number, at: number}|null} */
  at(x, y) {
    const { place, order, box } = this;
    if (!place || x < 0 || x >= place.columns * place.width) return null;
    const k = Math.floor((y + box.scrollTop) / place.height) * place.columns + Math.floor(x / place.width);
    if (k >= order.length) return null;
    const along = (x % place.width - 4) / (place.width - 8);
    return { process: order[k], at: Math.min(Math.max(along, 0), 1) * this.curves.end(order) };
  }
}
