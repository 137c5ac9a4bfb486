// Draws live and reserved bytes with a change made over the picture; the saved part is faded.

import { changeOf } from "../data/advice.js";
import { lowerBound } from "../data/track.js";
import { formatBytes } from "../format.js";
import { LEFT } from "./ink.js";
import { stepPath } from "./levels.js";

const RESERVED = [5, 4];

/** @param {function(string, number, number): void} label draws a text at x and at the height y of its line */
export function drawChanged(context, plot, ink, label) {
  const { state } = plot.store;
  const change = changeOf(plot.recording, state);
  if (!change?.curve) return;
  const { event, allocated, reserved } = change.curve;
  const number = state.change + 1;
  context.save();
  context.beginPath();
  context.rect(LEFT, plot.top, plot.width, plot.height);
  context.clip();
  // The allocator's settings change only the reserved bytes, not the blocks.
  if (change.kind !== "allocator") {
    const line = pathOf(plot, event, allocated);
    const above = new Path2D(line);
    above.lineTo(LEFT + plot.width + 2, plot.top - 2);
    above.lineTo(LEFT - 2, plot.top - 2);
    context.fillStyle = ink.veil;
    context.fill(above);
    stroke(context, ink, line, []);
  }
  if (reserved) stroke(context, ink, pathOf(plot, event, reserved), RESERVED);
  context.restore();
  const bytes = change.kind === "allocator" ? reserved : allocated;
  const what = change.kind === "allocator" ? "reserved " : "";
  labelMost(plot, event, bytes, (most, x, y) => label(`with ${number}: ${what}${formatBytes(most)}`, x, y));
}

function xOf(plot, event) {
  return plot.xAt(plot.along.ofState(event - 1));
}

/** The index of the curve's last point before the visible part, or 0. */
function firstOf(plot, event) {
  return Math.max(lowerBound(event, plot.along.firstAt(plot.store.state.start)) - 1, 0);
}

function pathOf(plot, event, bytes) {
  const path = new Path2D();
  const right = LEFT + plot.width;
  stepPath(path, firstOf(plot, event), right, (i) => i < event.length && xOf(plot, event[i]) <= right,
    (i) => xOf(plot, event[i]), (i) => plot.y(bytes[i]));
  return path;
}

/** Strokes a path with an edge, so that it is visible on any colour. */
function stroke(context, ink, path, dash) {
  context.setLineDash(dash);
  for (const [colour, width] of [[ink.panel, 4], [ink.text, 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke(path);
  }
  context.setLineDash([]);
}

/** Labels the highest visible point. */
function labelMost(plot, event, bytes, put) {
  const right = LEFT + plot.width;
  let most = firstOf(plot, event);
  for (let i = most; i < event.length && xOf(plot, event[i]) <= right; i++) if (bytes[i] > bytes[most]) most = i;
  put(bytes[most], Math.min(Math.max(xOf(plot, event[most]), LEFT) + 8, right - 160), plot.y(bytes[most]));
}
