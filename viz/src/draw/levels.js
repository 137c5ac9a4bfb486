// Lines over the picture: reserved bytes of the track's allocator, and of its private pools; sampled counters; the
// capacity.

import { lowerBound } from "../data/track.js";
import { formatBytes } from "../format.js";
import { LEFT } from "./ink.js";

const POOLS = 4; // most envelopes of pools in a picture
const DASHES = [[5, 4], [8, 3, 2, 3], [2, 3], [10, 4]];

/**
 * The lines of a track. `top` is the highest line that is near enough to the blocks to be shown at first. Higher lines
 * appear when the byte axis reaches them.
 * @returns {{lines: {name, time, bytes, most}[], top: number}}
 */
export function levelsOf(recording, track, index) {
  const device = track.info.id.split("/")[0];
  const reserved = recording.notes.reserved.get(index);
  const lines = [];
  if (reserved) {
    lines.push({ name: "reserved", ...reserved, most: Math.max(track.info.reserved_peak_bytes ?? 0, 1) });
  }
  // The reserved bytes of the largest private pools, an envelope each.
  for (const { pool, ...line } of (track.info.pools ?? []).slice(0, POOLS)) {
    lines.push({ name: `reserved by pool ${pool}`, envelope: true, ...line });
  }
  // Bytes that the driver's pools and graphs hold: tracks whose ids begin with this track's id.
  recording.header.tracks.forEach(({ id, reserved_peak_bytes: most }, i) => {
    const line = recording.notes.reserved.get(i);
    const name = id.startsWith(track.info.id + "/") && id.slice(track.info.id.length + 1);
    if (line && name) lines.push({ name: `held by ${name}`, ...line, most: most ?? 0 });
  });
  lines.push(...recording.samples.filter((line) => line.device === device));
  const capacity = track.info.capacity_bytes;
  if (capacity) lines.push({ name: `capacity ${formatBytes(capacity)}`, time: [0], bytes: [capacity], most: capacity });
  let top = Math.max(track.peak.bytes, 1);
  for (const { most } of [...lines].sort((a, b) => a.most - b.most)) if (most <= top * 1.4) top = Math.max(top, most);
  return { lines, top };
}

/** @param {function(string, number, number): void} label draws a text at x and at the height y of its line */
export function drawLevels(context, plot, ink, label) {
  context.save();
  context.beginPath();
  context.rect(LEFT, plot.top, plot.width, plot.height);
  context.clip();
  context.lineWidth = 1.5;
  const named = [];
  plot.levels.lines.forEach((line, i) => {
    context.strokeStyle = i ? ink.text : ink.accent;
    context.setLineDash(DASHES[i % DASHES.length]);
    const last = drawLine(context, plot, line, line.envelope && ink.text);
    if (last >= plot.top - 2 && last <= plot.top + plot.height) named.push([line.name, last]);
  });
  const placed = [];
  for (const [name, y] of named) {
    const width = context.measureText(name).width + 16;
    let right = LEFT + plot.width - 4;
    // Left of names that it would cover.
    for (const other of placed) if (Math.abs(other.y - y) < 20 && right > other.left) right = other.left;
    placed.push({ y, left: right - width });
    label(name, right - width + 8, y);
  }
  context.restore();
}

/**
 * Adds the visible part of a stepped line to `path`, from point `first` on. If several points are in one pixel, only
 * the lowest and the highest are drawn. Returns the line's end.
 * @param {CanvasPath} path
 * @param {function(number): boolean} inSight
 * @param {function(number): number} xOf
 * @param {function(number): number} yOf
 */
export function stepPath(path, first, right, inSight, xOf, yOf) {
  let y = yOf(first);
  path.moveTo(Math.max(xOf(first), LEFT - 2), y);
  let pixel = -1;
  let low = y;
  let high = y;
  const finish = () => {
    if (pixel < 0) return;
    path.lineTo(pixel, low);
    path.lineTo(pixel, high);
    path.lineTo(pixel, y);
  };
  for (let i = first + 1; inSight(i); i++) {
    const x = Math.round(xOf(i));
    const next = yOf(i);
    if (x !== pixel) {
      finish();
      path.lineTo(x, y);
      [pixel, low, high] = [x, y, y];
    }
    y = next;
    low = Math.max(low, y);
    high = Math.min(high, y);
  }
  finish();
  path.lineTo(right + 2, y);
  return y;
}

function drawLine(context, plot, { time, bytes }, shade) {
  const [start, end] = plot.sight();
  const right = LEFT + plot.width;
  context.beginPath();
  const y = stepPath(context, Math.max(lowerBound(time, start) - 1, 0), right,
    (i) => i < time.length && time[i] <= end, (i) => plot.x(time[i]), (i) => plot.y(bytes[i]));
  context.stroke();
  if (shade) {
    const floor = plot.y(0);
    context.lineTo(right + 2, floor);
    context.lineTo(LEFT - 2, floor);
    context.globalAlpha = 0.08;
    context.fillStyle = shade;
    context.fill();
    context.globalAlpha = 1;
  }
  return y;
}
