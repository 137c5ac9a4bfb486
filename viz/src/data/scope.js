// The scope: the blocks that the views show, of one moment or of a window of time.

import { lowerBound, upperBound } from "./track.js";

/** Scopes by their names in the page's address, in the order of the menu. */
export const SCOPES = {
  peak: { name: "at the peak" },
  moment: { name: "at the clicked moment", needs: "moment" },
  window: { name: "at the selection's fullest moment", needs: "window" },
  across: { name: "live throughout the selection", needs: "window" },
  born: { name: "allocated in the selection", needs: "window" },
  freed: { name: "freed in the selection", needs: "window" },
  end: { name: "outstanding at the end" },
};

/**
 * @typedef {object} Scope
 * @property {string} of a key of SCOPES
 * @property {Uint32Array} ids the blocks, in order of allocation
 * @property {number} bytes
 * @property {number} unknown blocks whose size is not known
 * @property {number} from the beginning of the time over which lifetimes count
 * @property {number} to its end
 * @property {number} at the time of the moment, or undefined for a window
 */

/** The scope that a state asks for; the peak if the state lacks the scope's window or moment. */
export function scopeName(state) {
  const needs = SCOPES[state.of]?.needs;
  if (!SCOPES[state.of] || (needs === "moment" && state.moment < -1) ||
    (needs === "window" && !state.window)) return "peak";
  return state.of;
}

/** The first and the last state of a window of time. */
export function statesIn(track, [from, to]) {
  return [lowerBound(track.time, from) - 1, upperBound(track.time, to) - 1];
}

/** @returns {Scope} */
export function scopeOf(track, state) {
  const of = scopeName(state);
  const whole = { from: track.from, to: track.to };
  if (of === "peak") return moment(track, of, track.peak.event, whole);
  if (of === "end") return moment(track, of, track.count - 1, whole);
  if (of === "moment") return moment(track, of, Math.min(state.moment, track.count - 1), whole);
  const [first, last] = statesIn(track, state.window);
  const span = { from: state.window[0], to: state.window[1] };
  if (of === "window") return moment(track, of, track.range(first, last, {}).at, span);
  if (of === "born") {
    const from = track.bornBefore(first);
    return finish(track, of, Uint32Array.from({ length: track.bornBefore(last) - from }, (_, i) => from + i), span);
  }
  if (of === "freed") {
    return finish(track, of, track.subject.subarray(first + 1, last + 1).filter((subject) => subject < 0)
      .map((subject) => ~subject).sort(), span);
  }
  const { death } = track.blocks;
  return finish(track, of, track.side.seek(first).ids().filter((id) => death[id] < 0 || death[id] > last), span);
}

function moment(track, of, event, span) {
  const at = event < 0 ? track.from : track.time[event];
  return { ...finish(track, of, track.side.seek(event).ids(), span), at, event };
}

function finish(track, of, ids, span) {
  let bytes = 0;
  let unknown = 0;
  for (const id of ids) {
    bytes += track.bytesOf(id);
    if (!track.sizeKnown(id)) unknown++;
  }
  return { of, ids, bytes, unknown, ...span };
}

/** Quantities that can be summed over blocks, with a function that gives the value of block `id` in a scope. */
export const MEASURES = {
  bytes: { name: "bytes", of: (track, id) => track.bytesOf(id) },
  blocks: { name: "blocks", of: () => 1 },
  time: {
    name: "bytes × lifetime",
    of: (track, id, scope) => track.bytesOf(id) *
      Math.max(Math.min(track.deathTime(id), scope.to) - Math.max(track.birthTime(id), scope.from), 0),
  },
};

/**
 * Blocks summed by a key: rows of {key, bytes, blocks, time, largest}. `time` is bytes times the page's unit of time,
 * `largest` the id of a block.
 * @param {function(number): *} keyOf
 */
export function sumBy(track, scope, keyOf) {
  const rows = new Map();
  const { of: timeOf } = MEASURES.time;
  for (const id of scope.ids) {
    const key = keyOf(id);
    let row = rows.get(key);
    if (!row) rows.set(key, row = { key, bytes: 0, blocks: 0, time: 0, largest: id });
    if (track.bytesOf(id) > track.bytesOf(row.largest)) row.largest = id;
    row.bytes += track.bytesOf(id);
    row.blocks++;
    row.time += timeOf(track, id, scope);
  }
  return [...rows.values()];
}
