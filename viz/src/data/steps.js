// The effect of each step in the page on a track, as `memprof steps` counts it.

const MOST_LOOKED_AT = 4e6; // most blocks for which categories of steps are computed

/** @returns {{index, name, start, end, first, last, allocated, freed, peak, kept, endBytes, toEnd}[]} first..last: its
 * events; toEnd: the step did not end before the recording's end */
export function stepRows(track, notes) {
  const at = track.stepPositions();
  const prefix = (event) => track.totalAt(event);
  const rows = notes.steps.map((step, i) => {
    const first = at[i]; // the first event of the track in the step
    const end = i + 1 < at.length ? at[i + 1] : track.stepEvents;
    let allocated = 0;
    for (let event = first; event < end; event++) {
      if (track.subject[event] >= 0) allocated += track.bytesOf(track.subject[event]);
    }
    const before = prefix(first - 1);
    const after = prefix(end - 1);
    const range = track.range(first - 1, end - 1, {});
    return {
      index: step.index, name: step.name, start: step.time, end: step.end, first, last: end - 1,
      allocated, freed: allocated - (after - before), peak: range.max, peakAt: range.at,
      kept: after - before, endBytes: after, toEnd: step.end >= notes.end,
    };
  });
  return rows.filter(({ start, end }) => (start >= track.from || end > track.from) && start <= track.to);
}

/**
 * Bytes that the steps added, from the end of the first step to the end of the last one before another step. The last
 * step of all does not count, because a program frees all at its end.
 * @returns {{bytes: number, index: number} | null} index: of that last step; null: fewer than two steps
 */
export function addedBySteps(rows) {
  const ended = rows.filter((row) => !row.toEnd);
  if (ended.length < 2) return null;
  return { bytes: ended.at(-1).endBytes - ended[0].endBytes, index: ended.at(-1).index };
}

/**
 * The bytes of each category at a step's peak, by row of stepRows() and by category number. null if there are no
 * categories, or too many blocks.
 */
export function categoriesOfSteps(track, { categories }, rows) {
  if (categories.length === 1) return null;
  const out = [];
  let looked = 0;
  for (const { peakAt } of rows) {
    const ids = track.side.seek(peakAt).ids();
    looked += ids.length;
    if (looked > MOST_LOOKED_AT) return null;
    const bytes = new Float64Array(categories.length);
    for (const id of ids) bytes[track.category(id)] += track.bytesOf(id);
    out.push(bytes);
  }
  return out;
}
