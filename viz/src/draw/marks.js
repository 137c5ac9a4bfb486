// Marks and out-of-memories: a line each over the picture, and their labels in lanes above it. Marks whose labels would
// overlap share one.

import { formatBytes, formatCount } from "../format.js";
import { LEFT } from "./ink.js";

export const MARK_LANE = 17;
const MOST_WORDS = 3; // different words of a label; further ones are counted
const GAP = 14;

const READ_BACK = "plan: read back ";
const PLAN = "plan: "; // other marks of a plan say how it works

/** The words that equal marks share. "" for a mark that has no label. */
function wordsOf({ kind, bytes, name }) {
  if (kind === "oom") return `out of memory: ${formatBytes(bytes)} asked for`;
  if (name.startsWith(READ_BACK)) return READ_BACK;
  return name.startsWith(PLAN) ? "" : name || kind;
}

function counted(words, count) {
  if (words === READ_BACK) return count > 1 ? `${formatCount(count)} values read back` : "a value read back";
  return count > 1 ? `${words}, ${formatCount(count)} times` : words;
}

/** The label of a group. */
export function labelOf({ counts }) {
  const parts = [...counts].map(([words, count]) => counted(words, count));
  const more = parts.splice(MOST_WORDS).length;
  return parts.join(", ") + (more ? `, and ${more} more` : "");
}

/** The lanes of a recording's marks: out-of-memories, and others. A lane without marks is left out. The driver and
 * PyTorch report the same out-of-memory, so only those of the shown track count if it has some. */
export function markLanes(marks, track) {
  const shown = marks.map((mark) => ({ ...mark, oom: mark.kind === "oom", words: wordsOf(mark) }))
    .filter(({ words }) => words);
  const [ooms, others] = [true, false].map((oom) => shown.filter((mark) => mark.oom === oom));
  const own = ooms.filter((mark) => mark.track === track);
  return [own.length ? own : ooms, others].filter((lane) => lane.length);
}

/**
 * Groups the marks of a lane, which are by time: {x, left, right, counts}, from left to right. Equal out-of-memories
 * are one group wherever they lie.
 * @param {function(number): number} xOf of a time
 * @param {function(string): number} widthOf
 * @param {number} end where the lane ends
 */
export function groupMarks(lane, xOf, widthOf, end) {
  const groups = [];
  const places = new Map(); // of the groups of equal out-of-memories
  const place = (group) => {
    const width = widthOf(labelOf(group));
    group.left = Math.max(Math.min(group.x + 4, end - width - 2), LEFT + 2);
    group.right = group.left + width;
    group.stale = false;
  };
  const put = (group, words, count) => group.counts.set(words, (group.counts.get(words) ?? 0) + count);
  for (const { time, oom, words } of lane) {
    const known = oom && places.get(words);
    if (known) {
      put(known, words, 1);
      known.stale = true;
      continue;
    }
    const x = xOf(time);
    const last = groups.at(-1);
    if (last?.stale && x >= last.right + GAP) place(last);
    const group = last && x < last.right + GAP ? last : { x, counts: new Map() };
    put(group, words, 1);
    if (group === last) last.stale = true;
    else groups.push(group), place(group);
    if (oom) places.set(words, group);
  }
  for (const group of groups) if (group.stale) place(group);
  for (let i = groups.length - 1; i > 0; i--) {
    // A label at the right end, or one that has grown, may reach its neighbour's.
    if (groups[i].left >= groups[i - 1].right + GAP) continue;
    for (const [words, count] of groups[i].counts) put(groups[i - 1], words, count);
    groups.splice(i, 1);
    place(groups[i - 1]);
    i = Math.min(i + 1, groups.length);
  }
  return groups;
}

/** Draws the marks in sight. `base`: the upper edge of their lanes. Returns the groups by lane. */
export function drawMarks(context, plot, ink, base) {
  const [start, end] = plot.sight();
  const inSight = plot.markLanes.map((lane) => lane.filter(({ time }) => time >= start && time <= end));
  inSight.forEach((lane, i) => drawLines(context, plot, ink, lane, base + i * MARK_LANE));
  context.textAlign = "left";
  context.textBaseline = "middle";
  return inSight.map((lane, i) => {
    const top = base + i * MARK_LANE;
    const groups = groupMarks(lane, (time) => plot.x(time), (text) => context.measureText(text).width,
      LEFT + plot.width);
    for (const group of groups) {
      context.globalAlpha = 0.85;
      context.fillStyle = ink.panel;
      context.fillRect(group.left - 2, top, group.right - group.left + 4, MARK_LANE - 2);
      context.globalAlpha = 1;
      context.fillStyle = lane[0].oom ? ink.oom : ink.text;
      context.fillText(labelOf(group), group.left, top + MARK_LANE / 2 - 1);
    }
    return groups;
  });
}

/** A line for each mark; a short one for a value read back, since plans read many and their lines would hide the curve. */
function drawLines(context, plot, ink, lane, top) {
  if (!lane.length) return;
  const { oom } = lane[0];
  context.strokeStyle = oom ? ink.oom : ink.text;
  context.lineWidth = oom ? 1.5 : 1;
  context.setLineDash(oom ? [] : [2, 3]);
  context.beginPath();
  let drawn = "";
  for (const { time, words } of lane) {
    const x = Math.round(plot.x(time)) + 0.5;
    const bottom = words === READ_BACK ? top + MARK_LANE - 3 : plot.top + plot.height;
    if (drawn === `${x} ${bottom}`) continue;
    drawn = `${x} ${bottom}`;
    context.moveTo(x, top);
    context.lineTo(x, bottom);
  }
  context.stroke();
  context.setLineDash([]);
}
