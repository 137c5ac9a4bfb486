// All of the recording in a strip, with the window that the plot shows; the window can be dragged and sized.

import { byId, inNextFrame, onResize } from "../dom.js";
import { matchCurve } from "../data/search.js";
import { alongOf } from "../draw/along.js";
import { chooseColumns } from "../draw/columns.js";
import { inks, LEFT } from "../draw/ink.js";

const RIGHT = 10; // pixels, as in the plot
const HANDLE = 6;

export class Minimap {
  constructor(recording, store, moveTo) {
    this.recording = recording;
    this.store = store;
    this.moveTo = moveTo;
    this.canvas = byId("minimap");
    this.draw = inNextFrame(() => this.drawNow());
    this.sizeDrawn = onResize(this.canvas, () => this.drawNow());
    store.subscribe((state, changed) => {
      if (["start", "end", "dark", "found", "window", "along"].some((key) => changed.has(key))) this.draw();
    });
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
  }

  show(track) {
    this.track = track;
    this.columnsOf = null;
    this.draw();
  }

  get along() {
    return alongOf(this.track, this.store.state);
  }

  x(place) {
    const { low, high } = this.along;
    return LEFT + (place - low) / (high - low) * this.width;
  }

  drawNow() {
    if (!this.track) return;
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight: height } = this.canvas;
    this.sizeDrawn();
    this.width = Math.max(clientWidth - LEFT - RIGHT, 10);
    Object.assign(this.canvas, { width: Math.round(clientWidth * ratio), height: Math.round(height * ratio) });
    const count = Math.round(this.width * ratio);
    const { along } = this;
    if (this.columnsOf !== along || this.columns.state.length !== count) {
      this.columns = chooseColumns(this.track, (place, from) => along.firstAt(place, from), along.low, along.high, count);
      this.columnsOf = along;
    }
    const ink = inks("area", "area-light", "veil", "accent", "peak");
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scale = (height - 2) / Math.max(this.track.peak.bytes, 1);
    this.fill(context, this.columns.max, ratio, height, scale, ink["area-light"]);
    this.fill(context, this.columns.min, ratio, height, scale, ink.area);
    this.drawFound(context, ratio, height, scale, ink.accent);
    const { start, end } = this.store.state;
    const from = this.x(start);
    const to = this.x(end);
    context.fillStyle = ink.veil;
    context.fillRect(LEFT, 0, from - LEFT, height);
    context.fillRect(to, 0, LEFT + this.width - to, height);
    context.strokeStyle = ink.accent;
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 1), height - 1.5);
    const selected = this.store.state.window;
    if (selected) {
      context.globalAlpha = 0.3;
      context.fillStyle = ink.accent;
      const [left, right] = selected.map((time) => this.x(along.ofTime(time)));
      context.fillRect(left, 0, Math.max(right - left, 1), height);
      context.globalAlpha = 1;
    }
    const peak = this.x(along.ofState(this.track.peak.event));
    context.fillStyle = ink.peak;
    context.fillRect(peak - 0.75, 0, 1.5, height);
  }

  /** Draws the blocks that match the search: their bytes, and a mark at the upper edge while any is live. */
  drawFound(context, ratio, height, scale, colour) {
    const { found } = this.store.state;
    if (!found) return;
    if (this.curveOf !== found || this.curveAlong !== this.along || this.curve.length !== this.columns.max.length) {
      this.curve = matchCurve(this.track, found.mask, this.columns.max.length, this.along);
      [this.curveOf, this.curveAlong] = [found, this.along];
    }
    this.fill(context, this.curve, ratio, height, scale, colour);
    for (let i = 0; i < this.curve.length; i++) if (this.curve[i]) context.fillRect(LEFT + i / ratio, 0, 1 / ratio, 3);
  }

  fill(context, values, ratio, height, scale, colour) {
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(LEFT, height);
    for (let i = 0; i < values.length; i++) context.lineTo(LEFT + i / ratio, height - values[i] * scale);
    context.lineTo(LEFT + this.width, height);
    context.fill();
  }

  grab(event) {
    const { start, end } = this.store.state;
    const { low, high } = this.along;
    const whole = high - low;
    const at = (moved) => low +
      (moved.clientX - this.canvas.getBoundingClientRect().left - LEFT) / this.width * whole;
    const near = HANDLE / this.width * whole;
    const time = at(event);
    const [grabbed, span] = [time, end - start];
    let move;
    if (Math.abs(time - start) < near) move = (now) => this.moveTo(Math.min(now, end), Math.max(now, end));
    else if (Math.abs(time - end) < near) move = (now) => this.moveTo(Math.min(start, now), Math.max(start, now));
    else if (time > start && time < end && span < whole) {
      move = (now) => this.moveTo(start + now - grabbed, end + now - grabbed);
    } else if (span < whole) {
      move = (now) => this.moveTo(now - span / 2, now + span / 2);
      move(time);
    } else {
      move = (now) => this.moveTo(Math.min(grabbed, now), Math.max(grabbed, now));
    }
    this.canvas.setPointerCapture(event.pointerId);
    const drag = (moved) => move(at(moved));
    this.canvas.addEventListener("pointermove", drag);
    this.canvas.addEventListener("pointerup", () => this.canvas.removeEventListener("pointermove", drag),
      { once: true });
  }
}
