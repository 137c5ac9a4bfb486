// What each step of which the page shows something did to a track, as `memprof steps` counts it.

/** @returns {{index, name, start, end, first, last, allocated, freed, peak, kept, endBytes}[]} first..last: its
 * events */
export function stepRows(track, notes) {
  const at = track.stepPositions();
  const prefix = (event) => track.totalAt(event);
  const rows = notes.steps.map((step, i) => {
    const first = at[i]; // the first event of the track in the step
    const end = i + 1 < at.length ? at[i + 1] : track.count;
    let allocated = 0;
    for (let event = first; event < end; event++) {
      if (track.subject[event] >= 0) allocated += track.bytesOf(track.subject[event]);
    }
    const before = prefix(first - 1);
    const after = prefix(end - 1);
    return {
      index: step.index, name: step.name, start: step.time, end: step.end, first, last: end - 1,
      allocated, freed: allocated - (after - before), peak: track.range(first - 1, end - 1, {}).max,
      kept: after - before, endBytes: after,
    };
  });
  return rows.filter(({ start, end }) => (start >= track.from || end > track.from) && start <= track.to);
}
