// The plot: every block of a track as a band over time, with steps, regions and marks above.

import { byId, inNextFrame } from "../dom.js";
import { axisTop, byteTicks, timeTicks } from "../draw/axis.js";
import { chooseColumns } from "../draw/columns.js";
import { layOut, outlineOf, NOTHING } from "../draw/layout.js";
import { Colours, paint } from "../draw/paint.js";
import { css, siteColour } from "../draw/palette.js";
import { formatBytes, formatCount, formatDuration } from "../format.js";
import { hashName } from "../data/stacks.js";

const LEFT = 74;
const RIGHT = 10;
const BOTTOM = 26;
const STEP_LANE = 18;
const REGION_LANE = 17;
const MAX_REGION_LANES = 4;
const MAX_PIXELS = 3e6; // above that the picture is drawn coarser than the screen
const FONT = "12px system-ui, sans-serif";

export class Timeline {
  constructor(recording, store) {
    this.recording = recording;
    this.store = store;
    this.box = byId("plot");
    this.picture = byId("picture");
    this.over = byId("over");
    this.stale = { layout: true, colours: true };
    this.timings = {};
    this.draw = inNextFrame(() => this.drawNow());
    new ResizeObserver(() => this.invalidate("layout")).observe(this.box);
    store.subscribe((state, changed) => this.changed(changed));
  }

  /** @param {import("../data/track.js").Track} track */
  show(track) {
    this.track = track;
    this.lanes = this.recording.notes.lanes.slice(0, MAX_REGION_LANES);
    this.top = 8 + (this.recording.notes.steps.length ? STEP_LANE : 0) + this.lanes.length * REGION_LANE;
    this.invalidate("layout");
  }

  changed(changed) {
    if (["start", "end", "low", "high"].some((key) => changed.has(key))) this.invalidate("layout");
    else if (changed.has("site") || changed.has("dark")) this.invalidate("colours");
    else if (changed.has("hover") || changed.has("pinned")) this.draw();
  }

  invalidate(what) {
    this.stale[what] = true;
    this.draw();
  }

  /** The byte axis: what the user chose, else all of the track. */
  range() {
    const { low, high } = this.store.state;
    return high !== null ? [low, high] : [0, this.fullHeight()];
  }

  /** The upper end of the byte axis that shows the whole track, its reserved line, and the capacity if it is near. */
  fullHeight() {
    const { info, peak } = this.track;
    const most = Math.max(peak.bytes, info.reserved_peak_bytes ?? 0);
    const capacity = info.capacity_bytes ?? 0;
    return axisTop(capacity <= most * 1.4 ? Math.max(most, capacity) : most);
  }

  drawNow() {
    if (!this.track) return;
    const began = performance.now();
    if (this.stale.layout) this.layOut();
    const laidOut = performance.now();
    if (this.stale.layout || this.stale.colours) this.paint();
    const painted = performance.now();
    this.stale = { layout: false, colours: false };
    this.drawOver();
    this.timings = { layout: laidOut - began, paint: painted - laidOut, over: performance.now() - painted };
    this.store.set({ frame: this.store.state.frame + 1 });
  }

  layOut() {
    const { start, end } = this.store.state;
    this.width = Math.max(this.box.clientWidth - LEFT - RIGHT, 10);
    this.height = Math.max(this.box.clientHeight - this.top - BOTTOM, 10);
    const wanted = window.devicePixelRatio || 1;
    this.ratio = Math.min(wanted, Math.sqrt(MAX_PIXELS / (this.width * this.height)));
    this.columns = Math.max(1, Math.round(this.width * this.ratio));
    this.rows = Math.max(1, Math.round(this.height * this.ratio));
    Object.assign(this.picture, { width: this.columns, height: this.rows });
    Object.assign(this.picture.style, {
      left: LEFT + "px", top: this.top + "px", width: this.width + "px", height: this.height + "px",
    });
    if (!this.pickBuffer || this.pickBuffer.length !== this.columns * this.rows) {
      this.pickBuffer = new Int32Array(this.columns * this.rows);
      this.image = new ImageData(this.columns, this.rows);
    }
    [this.low, this.high] = this.range();
    this.chosen = chooseColumns(this.track, start, end, this.columns);
    layOut(this.track, this.chosen, this.low, this.high, this.columns, this.rows, this.pickBuffer);
    this.inView = this.track.blocksIn(this.chosen.first, this.chosen.last);
  }

  paint() {
    const { dark, site } = this.store.state;
    const background = dark ? [24, 26, 31] : [255, 255, 255];
    const key = `${dark} ${site}`;
    if (this.coloursFor !== key) {
      this.colours = new Colours(this.recording.stacks, { dark, background, site });
      this.coloursFor = key;
    }
    const faintTo = new Int32Array(this.columns);
    const scale = this.rows / (this.high - this.low);
    for (let x = 0; x < this.columns; x++) {
      faintTo[x] = this.rows - Math.round((this.chosen.min[x] - this.low) * scale);
    }
    const pixels = new Uint32Array(this.image.data.buffer);
    paint(pixels, this.pickBuffer, faintTo, this.columns, this.rows, this.track.blocks.site, this.colours);
    this.picture.getContext("2d").putImageData(this.image, 0, 0);
  }

  x(time) {
    const { start, end } = this.store.state;
    return LEFT + (time - start) / (end - start) * this.width;
  }

  y(bytes) {
    return this.top + this.height - (bytes - this.low) / (this.high - this.low) * this.height;
  }

  timeAt(x) {
    const { start, end } = this.store.state;
    return start + (x - LEFT) / this.width * (end - start);
  }

  bytesAt(y) {
    return this.low + (this.top + this.height - y) / this.height * (this.high - this.low);
  }

  inside(x, y) {
    return x >= LEFT && x < LEFT + this.width && y >= this.top && y < this.top + this.height;
  }

  /** The block at a place of the box, or -1. */
  pick(x, y) {
    if (!this.pickBuffer || !this.inside(x, y)) return NOTHING;
    const column = Math.min(Math.floor((x - LEFT) * this.ratio), this.columns - 1);
    const row = Math.min(Math.floor((y - this.top) * this.ratio), this.rows - 1);
    return this.pickBuffer[column * this.rows + row];
  }

  /** The state that the column under x shows. */
  stateUnder(x) {
    const column = Math.min(Math.max(Math.floor((x - LEFT) * this.ratio), 0), this.columns - 1);
    return this.chosen.state[column];
  }

  drawOver() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.box;
    if (this.over.width !== Math.round(clientWidth * ratio) || this.over.height !== Math.round(clientHeight * ratio)) {
      Object.assign(this.over, { width: Math.round(clientWidth * ratio), height: Math.round(clientHeight * ratio) });
    }
    const style = getComputedStyle(document.documentElement);
    this.ink = Object.fromEntries(["text", "soft", "line", "accent", "peak", "oom", "panel"].map((name) =>
      [name, style.getPropertyValue("--" + name).trim()]));
    const context = this.over.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, clientWidth, clientHeight);
    context.font = FONT;
    this.drawAxes(context);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.width, this.top + this.height);
    context.clip();
    this.drawSteps(context);
    this.drawRegions(context);
    this.drawLevels(context);
    this.drawMarks(context);
    this.drawPeak(context);
    const { hover, pinned } = this.store.state;
    if (pinned >= 0) this.drawOutline(context, pinned, 2);
    if (hover >= 0 && hover !== pinned) this.drawOutline(context, hover, 1.5);
    context.restore();
  }

  drawAxes(context) {
    const { start, end } = this.store.state;
    const unit = this.recording.timeUnit;
    const bottom = this.top + this.height;
    context.strokeStyle = this.ink.line;
    context.fillStyle = this.ink.soft;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.beginPath();
    for (const { value, label } of byteTicks(this.low, this.high, Math.max(2, this.height / 60))) {
      const y = Math.round(this.y(value)) + 0.5;
      context.globalAlpha = 0.16;
      context.fillRect(LEFT, y - 0.5, this.width, 1);
      context.globalAlpha = 1;
      context.moveTo(LEFT - 4, y);
      context.lineTo(LEFT, y);
      context.fillText(label, LEFT - 8, Math.min(y, bottom - 2));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const ticks = timeTicks(start * unit, end * unit, Math.max(2, this.width / 110));
    for (const { value, label } of ticks) {
      const x = Math.round(this.x(value / unit)) + 0.5;
      context.moveTo(x, bottom);
      context.lineTo(x, bottom + 5);
      const half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(Math.max(x, LEFT + half), LEFT + this.width - half), bottom + 8);
    }
    context.moveTo(LEFT, bottom + 0.5);
    context.lineTo(LEFT + this.width, bottom + 0.5);
    context.stroke();
  }

  drawSteps(context) {
    const { steps } = this.recording.notes;
    if (!steps.length) return;
    const { start, end } = this.store.state;
    context.textAlign = "left";
    context.textBaseline = "middle";
    let freeFrom = -Infinity;
    let lineFrom = -Infinity;
    for (const step of steps) {
      if (step.end < start || step.time > end) continue;
      const x = this.x(step.time);
      const right = this.x(step.end);
      if (x > lineFrom) {
        context.fillStyle = this.ink.soft;
        context.globalAlpha = right - x > 24 ? 0.45 : 0.25;
        context.fillRect(Math.round(x), 4, 1, STEP_LANE - 4);
        if (right - x > 24) {
          context.globalAlpha = 0.22;
          context.fillRect(Math.round(x), STEP_LANE, 1, this.top + this.height - STEP_LANE);
        }
        context.globalAlpha = 1;
        lineFrom = x + 2;
      }
      const text = step.name || (x < LEFT ? `step ${step.index}` : String(step.index));
      const at = Math.max(x, LEFT) + 4;
      const width = context.measureText(text).width;
      if (at > freeFrom && at + width < right - 2) {
        context.fillStyle = this.ink.soft;
        context.fillText(text, at, 4 + (STEP_LANE - 4) / 2);
        freeFrom = at + width + 8;
      } else if (at > freeFrom && right - x <= width + 6 && step.index % 10 === 0) {
        context.fillStyle = this.ink.soft;
        context.fillText(text, at, 4 + (STEP_LANE - 4) / 2);
        freeFrom = at + width + 24;
      }
    }
  }

  drawRegions(context) {
    const { start, end } = this.store.state;
    const base = 4 + (this.recording.notes.steps.length ? STEP_LANE : 0);
    context.textAlign = "left";
    context.textBaseline = "middle";
    this.lanes.forEach((lane, i) => {
      const y = base + i * REGION_LANE;
      let drawnTo = -Infinity;
      for (const region of lane.regions) {
        if (region.end < start) continue;
        if (region.start > end) break;
        const x = Math.max(this.x(region.start), LEFT - 1);
        const right = Math.min(this.x(region.end), LEFT + this.width + 1);
        if (right - x < 1 && x < drawnTo + 0.5) continue;
        const width = Math.max(right - x - (right - x > 3 ? 1 : 0), 0.7);
        context.fillStyle = css(siteColour(hashName(region.name), this.store.state.dark));
        context.globalAlpha = 0.55;
        context.fillRect(x, y, width, REGION_LANE - 3);
        context.globalAlpha = 1;
        drawnTo = x + width;
        if (width > 30) {
          context.save();
          context.beginPath();
          context.rect(x, y, width - 3, REGION_LANE);
          context.clip();
          context.fillStyle = this.ink.text;
          context.fillText(region.name, x + 4, y + (REGION_LANE - 3) / 2 + 0.5);
          context.restore();
        }
      }
    });
  }

  /** Reserved bytes and the device's capacity. */
  drawLevels(context) {
    const line = this.recording.notes.reserved.get(this.store.state.track);
    context.save();
    context.beginPath();
    context.rect(LEFT, this.top, this.width, this.height);
    context.clip();
    context.lineWidth = 1.5;
    context.strokeStyle = this.ink.accent;
    if (line) {
      context.beginPath();
      let y = this.y(0);
      context.moveTo(this.x(0), y);
      for (let i = 0; i < line.time.length; i++) {
        const x = this.x(line.time[i]);
        context.lineTo(x, y);
        y = this.y(line.bytes[i]);
        context.lineTo(x, y);
      }
      context.lineTo(LEFT + this.width + 2, y);
      context.setLineDash([5, 4]);
      context.stroke();
      this.label(context, "reserved", this.y(line.bytes.at(-1)));
    }
    const capacity = this.track.info.capacity_bytes;
    if (capacity !== null && capacity < this.high) {
      context.beginPath();
      context.moveTo(LEFT, this.y(capacity));
      context.lineTo(LEFT + this.width, this.y(capacity));
      context.setLineDash([1, 3]);
      context.strokeStyle = this.ink.text;
      context.stroke();
      this.label(context, "capacity " + formatBytes(capacity), this.y(capacity));
    }
    context.restore();
  }

  label(context, text, y) {
    const width = context.measureText(text).width;
    const x = LEFT + 8;
    const top = y - 18 < this.top ? y + 3 : y - 18;
    this.plate(context, x - 4, top, width + 8);
    context.fillStyle = this.ink.text;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, x, top + 8);
  }

  plate(context, x, y, width) {
    context.globalAlpha = 0.85;
    context.fillStyle = this.ink.panel;
    context.fillRect(x, y, width, 16);
    context.globalAlpha = 1;
  }

  drawMarks(context) {
    const { start, end } = this.store.state;
    for (const mark of this.recording.notes.marks) {
      if (mark.time < start || mark.time > end) continue;
      const x = Math.round(this.x(mark.time)) + 0.5;
      const oom = mark.kind === "oom";
      const text = oom ? `out of memory: ${formatBytes(mark.bytes)} asked for` : mark.name || mark.kind;
      context.strokeStyle = oom ? this.ink.oom : this.ink.text;
      context.lineWidth = oom ? 2 : 1;
      context.setLineDash(oom ? [] : [2, 3]);
      context.beginPath();
      context.moveTo(x, this.top);
      context.lineTo(x, this.top + this.height);
      context.stroke();
      context.setLineDash([]);
      const width = context.measureText(text).width;
      const left = x + width + 12 > LEFT + this.width ? x - width - 8 : x + 4;
      this.plate(context, left - 2, this.top + 4, width + 6);
      context.fillStyle = oom ? this.ink.oom : this.ink.text;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(text, left, this.top + 12);
    }
  }

  drawPeak(context) {
    const { peak, time } = this.track;
    const x = this.x(peak.event < 0 ? 0 : time[peak.event]);
    const y = this.y(peak.bytes);
    context.strokeStyle = this.ink.peak;
    context.lineWidth = 1;
    context.setLineDash([4, 4]);
    context.beginPath();
    if (y >= this.top) {
      context.moveTo(LEFT, Math.round(y) + 0.5);
      context.lineTo(LEFT + this.width, Math.round(y) + 0.5);
    }
    context.stroke();
    context.setLineDash([]);
    if (x < LEFT || x > LEFT + this.width || y < this.top || y > this.top + this.height) return;
    context.fillStyle = this.ink.peak;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y - 8);
    context.lineTo(x + 5, y - 8);
    context.fill();
    const text = "peak " + formatBytes(peak.bytes);
    const width = context.measureText(text).width;
    const left = x + width + 14 > LEFT + this.width ? x - width - 10 : x + 9;
    const top = Math.max(y - 19, this.top);
    this.plate(context, left - 3, top, width + 6);
    context.fillStyle = this.ink.peak;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left, top + 8);
  }

  drawOutline(context, id, thickness) {
    const from = Math.max(0, Math.floor((this.x(this.track.birthTime(id)) - LEFT) * this.ratio) - 1);
    const right = Math.min(this.x(this.track.deathTime(id)), LEFT + this.width);
    const to = Math.min(this.columns, Math.ceil((right - LEFT) * this.ratio) + 1);
    const spans = outlineOf(this.pickBuffer, this.rows, id, from, to);
    if (!spans.length) return;
    // Around the block, so that a low one keeps its colour.
    const place = (column, row, out) => [LEFT + column / this.ratio, this.top + row / this.ratio + out];
    const path = new Path2D();
    for (let i = 0; i < spans.length;) {
      let j = i;
      while (j + 3 < spans.length && spans[j + 3] === spans[j] + 1) j += 3;
      path.moveTo(...place(spans[i], spans[i + 1], -1));
      for (let k = i; k <= j; k += 3) {
        path.lineTo(...place(spans[k], spans[k + 1], -1));
        path.lineTo(...place(spans[k] + 1, spans[k + 1], -1));
      }
      for (let k = j; k >= i; k -= 3) {
        path.lineTo(...place(spans[k] + 1, spans[k + 2], 1));
        path.lineTo(...place(spans[k], spans[k + 2], 1));
      }
      path.closePath();
      i = j + 3;
    }
    context.lineJoin = "round";
    context.strokeStyle = this.ink.panel;
    context.lineWidth = thickness + 2;
    context.stroke(path);
    context.strokeStyle = this.ink.text;
    context.lineWidth = thickness;
    context.stroke(path);
  }

  /** The picture in words, for those who cannot see it. */
  describe() {
    const { start, end } = this.store.state;
    const unit = this.recording.timeUnit;
    const { peak, info } = this.track;
    return `Stacked blocks of ${info.id} from ${formatDuration(start * unit)} to ${formatDuration(end * unit)}. ` +
      `Peak ${formatBytes(peak.bytes)} at ${formatDuration(info.peak_ns)}, ${formatBytes(this.track.end.bytes)} at ` +
      `the end. ${formatCount(this.inView)} of ${formatCount(info.blocks)} blocks are in this window.`;
  }
}
