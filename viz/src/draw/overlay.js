// Draws over the picture: axes, steps and regions; levels and marks; the peak and outlines of blocks.

import { hashName } from "../data/stacks.js";
import { formatBytes, formatCount } from "../format.js";
import { placesOf } from "./along.js";
import { byteTicks, countTicks, timeTicks } from "./axis.js";
import { drawChanged } from "./changed.js";
import { outlineOf } from "./layout.js";
import { drawLevels } from "./levels.js";
import { inks, LEFT } from "./ink.js";
import { drawMarks } from "./marks.js";
import { css, siteColour } from "./palette.js";

export const STEP_LANE = 18;
const STEP_MIDDLE = 4 + (STEP_LANE - 4) / 2;
export const REGION_LANE = 17;
const FONT = "12px system-ui, sans-serif";

export class Overlay {
  /** @param {import("../views/timeline.js").Timeline} plot */
  constructor(plot) {
    this.plot = plot;
  }

  draw(context) {
    const { top, width, height, store } = this.plot;
    this.ink = inks("text", "soft", "line", "accent", "peak", "oom", "panel", "veil");
    context.font = FONT;
    this.drawAxes(context);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width, top + height);
    context.clip();
    this.drawIdle(context);
    this.drawSteps(context);
    this.drawRegions(context);
    const label = (text, x, y) => this.label(context, text, x, y);
    drawChanged(context, this.plot, this.ink, (text, x, y) => label(text, this.besidePeak(context, text, x, y), y));
    drawLevels(context, this.plot, this.ink, label);
    this.marks = drawMarks(context, this.plot, this.ink, this.plot.marksTop);
    this.drawPeak(context);
    this.drawSelection(context);
    const { hover, pinned } = store.state;
    if (pinned >= 0) this.drawOutline(context, pinned, 2);
    if (hover >= 0 && hover !== pinned) this.drawOutline(context, hover, 1.5);
    context.restore();
  }

  drawAxes(context) {
    const bottom = this.plot.top + this.plot.height;
    context.strokeStyle = this.ink.line;
    context.fillStyle = this.ink.soft;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.beginPath();
    for (const { value, label } of byteTicks(this.plot.low, this.plot.high, Math.max(2, this.plot.height / 60))) {
      const y = Math.round(this.plot.y(value)) + 0.5;
      context.globalAlpha = 0.16;
      context.fillRect(LEFT, y - 0.5, this.plot.width, 1);
      context.globalAlpha = 1;
      context.moveTo(LEFT - 4, y);
      context.lineTo(LEFT, y);
      context.fillText(label, LEFT - 8, Math.min(y, bottom - 2));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const { place, label } of this.ticks()) {
      const x = Math.round(this.plot.xAt(place)) + 0.5;
      context.moveTo(x, bottom);
      context.lineTo(x, bottom + 5);
      const half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(Math.max(x, LEFT + half), LEFT + this.plot.width - half), bottom + 8);
    }
    context.moveTo(LEFT, bottom + 0.5);
    context.lineTo(LEFT + this.plot.width, bottom + 0.5);
    context.stroke();
    if (!this.plot.recording.notes.steps.length) return;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("step", LEFT - 8, STEP_MIDDLE);
  }

  /** Along the plot: {place, label}. */
  ticks() {
    const { start, end, along } = this.plot.store.state;
    const unit = this.plot.recording.timeUnit;
    const count = Math.max(2, this.plot.width / 110);
    if (this.plot.recording.timeless && (along === "time" || !this.plot.track.count)) {
      return [{ place: (start + end) / 2, label: "one moment: the file has no times" }];
    }
    if (along === "events") {
      return countTicks(start, end, count).map((value) => ({ place: value, label: formatCount(value) }));
    }
    return timeTicks(start * unit, end * unit, count).map(({ value, label }) => ({ place: value / unit, label }));
  }

  /** Writes "nothing live" where no block is live, so that nobody takes the empty part for an error. */
  drawIdle(context) {
    const { top, height, track, along } = this.plot;
    for (const { from, to, words } of track.idle()) {
      const [left, right] = [from, to].map((time) => this.plot.xAt(along.ofTime(time)));
      const [x, end] = [Math.max(left, LEFT), Math.min(right, LEFT + this.plot.width)];
      if (end - x < context.measureText(words).width + 12) continue;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillStyle = this.ink.soft;
      context.fillText(words, (x + end) / 2, top + height - 16);
    }
  }

  drawSteps(context) {
    const [start, end] = this.plot.sight();
    let lineFrom = -Infinity;
    let textFrom = -Infinity;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = this.ink.soft;
    for (const step of this.plot.recording.notes.steps) {
      if (step.end < start || step.time > end) continue;
      const x = this.plot.x(step.time);
      const room = this.plot.x(step.end) - Math.max(x, LEFT);
      if (x > lineFrom) {
        this.drawStepLine(context, Math.round(x), room > 24);
        lineFrom = x + 2;
      }
      // If steps are too narrow for their numbers, every tenth gets one.
      if (x + 4 > textFrom && (room > 20 || step.index % 10 === 0)) textFrom = this.drawStepName(context, step, x,
        room);
    }
  }

  drawStepLine(context, x, wide) {
    context.globalAlpha = wide ? 0.45 : 0.25;
    context.fillRect(x, 4, 1, STEP_LANE - 4);
    context.globalAlpha = 0.22;
    if (wide) context.fillRect(x, STEP_LANE, 1, this.plot.top + this.plot.height - STEP_LANE);
    context.globalAlpha = 1;
  }

  /** Returns where the next name may begin. */
  drawStepName(context, step, x, room) {
    const text = step.name || (x < LEFT ? `step ${step.index}` : String(step.index));
    const at = Math.max(x, LEFT) + 4;
    const width = context.measureText(text).width;
    if (step.name && width + 6 > room) return at;
    context.fillText(text, at, STEP_MIDDLE);
    return at + width + (width + 6 > room ? 24 : 8);
  }

  drawRegions(context) {
    const [start, end] = this.plot.sight();
    const base = 4 + (this.plot.recording.notes.steps.length ? STEP_LANE : 0);
    context.textAlign = "left";
    context.textBaseline = "middle";
    this.plot.lanes.forEach((lane, i) => {
      const y = base + i * REGION_LANE;
      let drawnTo = -Infinity;
      for (const region of lane.regions) {
        if (region.end < start) continue;
        if (region.start > end) break;
        const x = Math.max(this.plot.x(region.start), LEFT - 1);
        const right = Math.min(this.plot.x(region.end), LEFT + this.plot.width + 1);
        if (right - x < 1 && x < drawnTo + 0.5) continue;
        const width = Math.max(right - x - (right - x > 3 ? 1 : 0), 0.7);
        context.fillStyle = css(siteColour(hashName(region.name), this.plot.store.state.dark));
        context.globalAlpha = 0.55;
        context.fillRect(x, y, width, REGION_LANE - 3);
        context.globalAlpha = 1;
        drawnTo = x + width;
        if (width > 60 || (width > 24 && context.measureText(region.name).width + 8 < width)) {
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

  label(context, text, x, y) {
    const { width } = context.measureText(text);
    const top = y - 18 < this.plot.top ? y + 3 : y - 18;
    this.plate(context, x - 4, top, width + 8);
    context.fillStyle = this.ink.text;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, x, top + 8);
  }

  /** The x at which a label begins: left of the peak's label if it would cover that. */
  besidePeak(context, text, x, y) {
    const peak = this.peakLabel(context);
    const { width } = context.measureText(text);
    const covered = peak && Math.abs(y - 18 - peak.top) < 18 && x - 4 < peak.right && peak.left < x + width + 4;
    return covered ? Math.max(peak.left - width - 8, LEFT + 4) : x;
  }

  plate(context, x, y, width) {
    context.globalAlpha = 0.85;
    context.fillStyle = this.ink.panel;
    context.fillRect(x, y, width, 16);
    context.globalAlpha = 1;
  }

  /** The peak's position and label; null if not visible. */
  peakLabel(context) {
    const { peak } = this.plot.track;
    const x = this.plot.xAt(this.plot.along.ofState(peak.event));
    const y = this.plot.y(peak.bytes);
    if (x < LEFT || x > LEFT + this.plot.width || y < this.plot.top || y > this.plot.top + this.plot.height) return null;
    const text = "peak " + formatBytes(peak.bytes);
    const width = context.measureText(text).width;
    const left = x + width + 14 > LEFT + this.plot.width ? x - width - 10 : x + 9;
    return { x, y, text, left, right: left + width, top: Math.max(y - 19, this.plot.top) };
  }

  drawPeak(context) {
    const y = this.plot.y(this.plot.track.peak.bytes);
    context.strokeStyle = this.ink.peak;
    context.lineWidth = 1;
    context.setLineDash([4, 4]);
    context.beginPath();
    if (y >= this.plot.top) {
      context.moveTo(LEFT, Math.round(y) + 0.5);
      context.lineTo(LEFT + this.plot.width, Math.round(y) + 0.5);
    }
    context.stroke();
    context.setLineDash([]);
    const label = this.peakLabel(context);
    if (!label) return;
    const { x, text, left, right, top } = label;
    context.fillStyle = this.ink.peak;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y - 8);
    context.lineTo(x + 5, y - 8);
    context.fill();
    this.plate(context, left - 3, top, right - left + 6);
    context.fillStyle = this.ink.peak;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left, top + 8);
  }

  /** The selected window of time, and the moment that was clicked. */
  drawSelection(context) {
    const { window: selected, moment } = this.plot.store.state;
    const { track, top, height } = this.plot;
    context.fillStyle = this.ink.accent;
    context.strokeStyle = this.ink.accent;
    if (selected) {
      const [from, to] = selected.map((time) => this.plot.x(time));
      context.globalAlpha = 0.14;
      context.fillRect(from, 0, to - from, top + height);
      context.globalAlpha = 1;
      context.fillRect(from, 0, 1.5, top + height);
      context.fillRect(to - 1.5, 0, 1.5, top + height);
    }
    if (moment >= -1 && !selected) {
      const x = this.plot.xAt(this.plot.along.ofState(Math.min(moment, track.count - 1)));
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(Math.round(x) + 0.5, top);
      context.lineTo(Math.round(x) + 0.5, top + height);
      context.stroke();
    }
  }

  drawOutline(context, id, thickness) {
    const [birth, death] = placesOf(this.plot.track, this.plot.along, id).map((place) => this.plot.xAt(place));
    const from = Math.max(0, Math.floor((birth - LEFT) * this.plot.ratio) - 1);
    const right = Math.min(death, LEFT + this.plot.width);
    const to = Math.min(this.plot.columns, Math.ceil((right - LEFT) * this.plot.ratio) + 1);
    const spans = outlineOf(this.plot.pickBuffer, this.plot.rows, id, from, to);
    if (!spans.length) return;
    // Around the block, so that a low one keeps its colour.
    const place = (column, row, out) => [LEFT + column / this.plot.ratio, this.plot.top + row / this.plot.ratio + out];
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
}
