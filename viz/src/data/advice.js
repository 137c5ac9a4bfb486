// Changes to the program that would save memory, from memprof advise, each with its curve of live bytes.

import { readNumbers, readUint32s, unzigzag } from "./varint.js";

export const ADVICE_COLUMNS = ["points", "event", "allocated", "reserved"];

/**
 * @typedef {{event: Uint32Array, allocated: Float64Array, reserved: Float64Array | null}} Curve values from `event`
 * events of the track on; of a group of points only the highest and the last are kept
 */

/** The header's changes, each with its `curve`, or null if it has none. */
export function readAdvice({ changes, reserved_peak_bytes: most }, columns) {
  const { points, event, allocated, reserved } = columns;
  const counts = readUint32s(points.bytes, points.count);
  const events = readUint32s(event.bytes, event.count);
  const allocations = readNumbers(allocated.bytes, allocated.count);
  const reservations = most === null ? null : readNumbers(reserved.bytes, reserved.count);
  let from = 0;
  return changes.map((change, i) => {
    const [first, end] = [from, from += counts[i]];
    if (first === end) return { ...change, curve: null };
    return { ...change, curve: { event: sums(events.slice(first, end), (value) => value),
      allocated: sums(allocations.slice(first, end), unzigzag),
      reserved: reservations && sums(reservations.slice(first, end), unzigzag) } };
  });
}

/** In place. */
function sums(values, differenceOf) {
  let sum = 0;
  for (let i = 0; i < values.length; i++) values[i] = sum += differenceOf(values[i]);
  return values;
}

/** The change that is switched on for the track shown; undefined if none is. */
export function changeOf(recording, { track, change }) {
  return recording.header.advice?.track === track ? recording.changes[change] : undefined;
}
