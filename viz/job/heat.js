// All processes as rows of colour, over time or steps, so that thousands of ranks are visible at once. If there are
// more rows than pixels, a pixel shows the value of its processes that is farthest from the scale's middle.

import { countTicks, timeTicks } from "../src/draw/axis.js";
import { scaleColours, word } from "../src/draw/palette.js";
import { formatBytes } from "../src/format.js";
import { colour, drawing, prepare } from "./canvas.js";
import { Curves } from "./data.js";

const LEFT = 66;
const BOTTOM = 20;
const COLUMNS = 128;
const SHADES = 256;

export class Heat {
  constructor(box, job, state) {
    Object.assign(this, { box, job, state });
    this.canvas = drawing(box, "the course of all processes' memory as colours; the view Processes lists them");
  }

  /** The values of each process in columns of equal width; NaN: no value. */
  matrix(order, curves) {
    const end = curves.end(order);
    const columns = Math.min(COLUMNS, curves.byStep ? end : COLUMNS);
    const values = new Float64Array(order.length * columns).fill(NaN);
    for (let row = 0; row < order.length; row++) {
      const curve = curves.of[order[row]];
      for (let i = 0; curve && i < curve.at.length; i++) {
        const until = i + 1 < curve.at.length ? Curves.start(curve, i + 1) : Curves.start(curve, i) + curve.unit;
        const first = Math.floor(Curves.start(curve, i) / end * columns);
        const last = Math.min(Math.max(Math.ceil(until / end * columns), first + 1), columns);
        for (let column = first; column < last; column++) {
          const at = row * columns + column;
          if (!(values[at] >= curve.most[i])) values[at] = curve.most[i];
        }
      }
    }
    return { values, columns, end };
  }

  /** The difference of each value from its column's median, so that only differences between ranks remain. */
  apart({ values, columns, end }, rows) {
    const out = new Float64Array(values.length);
    for (let column = 0; column < columns; column++) {
      const known = [];
      for (let row = 0; row < rows; row++) {
        const value = values[row * columns + column];
        if (value === value) known.push(value);
      }
      const sorted = Float64Array.from(known).sort();
      const median = sorted.length ? sorted[sorted.length >> 1] : 0;
      for (let row = 0; row < rows; row++) out[row * columns + column] = values[row * columns + column] - median;
    }
    return { values: out, columns, end };
  }

  draw(order, curves, differences) {
    if (order !== this.order || curves !== this.curves || differences !== this.differences) {
      Object.assign(this, { order, curves, differences });
      this.bytes = this.matrix(order, curves);
      this.shown = differences ? this.apart(this.bytes, order.length) : this.bytes;
      this.most = this.shown.values.reduce((most, value) => value === value ? Math.max(most, Math.abs(value)) : most, 0) || 1;
    }
    this.paint();
  }

  /** Colours from least to most; for differences, from negative over 0 to positive. */
  colours() {
    const dark = document.documentElement.dataset.theme === "dark";
    if (!this.differences) return scaleColours(SHADES, dark);
    const [less, none, more] = dark ? [[108, 178, 247], [34, 37, 43], [255, 184, 112]] : [[11, 99, 176], [236, 238, 241], [179, 68, 0]];
    return Array.from({ length: SHADES }, (_, i) => {
      const share = i / (SHADES - 1) * 2 - 1;
      const to = share < 0 ? less : more;
      return none.map((value, k) => Math.round(value + (to[k] - value) * Math.sqrt(Math.abs(share))));
    });
  }

  shade(value) {
    const share = this.differences ? (value / this.most + 1) / 2 : value / this.most;
    return Math.min(Math.max(Math.round(share * (SHADES - 1)), 0), SHADES - 1);
  }

  paint() {
    const { box, order } = this;
    const [width, height] = [box.clientWidth, box.clientHeight];
    this.canvas.style.cssText = `width: ${width}px; height: ${height}px`;
    const { context } = prepare(this.canvas, width, height);
    const area = this.area = { x: LEFT, y: 4, width: Math.max(width - LEFT - 10, 1), height: Math.max(height - BOTTOM - 6, 1) };
    const { values, columns } = this.shown;
    const lines = Math.min(order.length, Math.floor(area.height * (devicePixelRatio || 1)));
    const words = this.colours().map(word);
    const image = new ImageData(columns, Math.max(lines, 1));
    const pixels = new Uint32Array(image.data.buffer);
    for (let line = 0; line < lines; line++) {
      const first = Math.floor(order.length * line / lines);
      const last = Math.max(Math.floor(order.length * (line + 1) / lines), first + 1);
      for (let column = 0; column < columns; column++) {
        let found = NaN;
        for (let row = first; row < last; row++) {
          const value = values[row * columns + column];
          if (value === value && !(Math.abs(found) >= Math.abs(value))) found = value;
        }
        if (found === found) pixels[line * columns + column] = words[this.shade(found)];
      }
    }
    this.stamp(context, image, area);
    this.axes(context, area);
    this.chosen(context, area);
  }

  stamp(context, image, area) {
    const small = this.small ??= document.createElement("canvas");
    [small.width, small.height] = [image.width, image.height];
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, area.x, area.y, area.width, area.height);
  }

  axes(context, area) {
    const { order } = this;
    const { end } = this.shown;
    const { name } = this.job.processes;
    context.fillStyle = colour("--soft");
    context.textAlign = "right";
    const every = Math.max(Math.ceil(order.length * 14 / area.height), 1);
    for (let i = 0; i < order.length; i += every) {
      const words = name[order[i]];
      context.fillText(words.length > 11 ? words.slice(0, 10) + "…" : words, LEFT - 6, area.y + area.height * (i + 0.5) / order.length);
    }
    const ticks = this.curves.byStep ? countTicks(0, end - 1, 8).map((value) => ({ value, label: `step ${value}` })) : timeTicks(0, end, 8);
    context.textAlign = "center";
    for (const { value, label } of ticks) {
      const x = area.x + area.width * value / end;
      if (x > area.x + area.width - 20 || (value === 0 && this.curves.byStep)) continue;
      context.fillText(label, Math.max(x, LEFT + 14), area.y + area.height + 11);
    }
  }

  chosen(context, area) {
    for (const [process, name] of [[this.state.other, "--module"], [this.state.process, "--accent"]]) {
      const at = this.order.indexOf(process);
      if (at < 0) continue;
      const high = Math.max(area.height / this.order.length, 2);
      context.strokeStyle = colour(name);
      context.lineWidth = 2;
      context.strokeRect(area.x - 1, area.y + area.height * at / this.order.length - 1, area.width + 2, high + 2);
    }
  }

  /** Meaning of the colours, from left to right. */
  scale() {
    const stops = this.colours().filter((_, i) => i % 51 === 0).map(([r, g, b]) => `rgb(${r} ${g} ${b})`);
    const least = this.differences ? "−" + formatBytes(this.most) : "0";
    return { gradient: `linear-gradient(to right, ${stops.join(", ")})`, least, most: (this.differences ? "+" : "") + formatBytes(this.most) };
  }

  /** @returns {{process: number, at: number, bytes: number, apart: number}|null} */
  at(x, y) {
    const { area, order } = this;
    if (!area || x < area.x || x >= area.x + area.width || y < area.y || y >= area.y + area.height) return null;
    const { columns, end } = this.bytes;
    const column = Math.floor((x - area.x) / area.width * columns);
    const lines = Math.min(order.length, Math.floor(area.height * (devicePixelRatio || 1)));
    const line = Math.floor((y - area.y) / area.height * lines);
    const first = Math.floor(order.length * line / lines);
    const last = Math.max(Math.floor(order.length * (line + 1) / lines), first + 1);
    let [best, most] = [first, NaN];
    for (let row = first; row < last; row++) {
      const value = Math.abs(this.shown.values[row * columns + column]);
      if (value === value && !(most >= value)) [best, most] = [row, value];
    }
    return { process: order[best], at: column / columns * end, bytes: this.bytes.values[best * columns + column] };
  }
}

