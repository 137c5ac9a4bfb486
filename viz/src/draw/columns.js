// For each pixel column of a window: its state with most bytes, and its lowest total.

/**
 * @param {import("../data/track.js").Track} track
 * @param {function(number, number): number} firstAt the first event not before a place, searched from the event in the
 *        second argument on
 * @returns {{state: Int32Array, max: Float64Array, min: Float64Array, first: number, last: number}} first and last: the
 *        states at the window's two ends
 */
export function chooseColumns(track, firstAt, start, end, width) {
  const state = new Int32Array(width);
  const max = new Float64Array(width);
  const min = new Float64Array(width);
  const out = { max: 0, min: 0, at: -1 };
  const scale = (end - start) / width;
  let from = firstAt(start, 0);
  const first = from - 1;
  for (let x = 0; x < width; x++) {
    const to = firstAt(start + (x + 1) * scale, from);
    if (to === from && x > 0) {
      // No event: the state in which the column before ended.
      out.at = to - 1;
      out.max = out.min = state[x - 1] === to - 1 ? max[x - 1] : track.totalAt(to - 1);
    } else {
      track.range(from - 1, to - 1, out);
    }
    state[x] = out.at;
    max[x] = out.max;
    min[x] = out.min;
    from = to;
  }
  return { state, max, min, first, last: from - 1 };
}
