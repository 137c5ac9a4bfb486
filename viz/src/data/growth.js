// Growth by site: in how many distinct steps (or parts of the recording) its live blocks were born, at the moment that
// `memprof leaks` uses; and live bytes over time.

import { upperBound } from "./track.js";

const PARTS = 64; // MP_TIME_PARTS of src/analysis/sites/growth.h

/** The period in which a block was born, from 1; 0 for a block of the base. */
function periodOf(track, recording) {
  const { births } = recording.header;
  return (id) => {
    const birth = track.blocks.birth[id];
    if (birth < 0) return 0;
    if (recording.notes.steps.length) return upperBound(track.stepPositions(), birth) + 1;
    return Math.floor((track.time[birth] * recording.timeUnit - births.first_ns) / births.part_ns) + 1;
  };
}

/** Sites of the blocks live at `event`: {site, bytes, blocks, births}, in the order of `memprof leaks --sort growth`.
 * */
export function growthRows(track, recording, event) {
  const rows = new Map();
  const period = periodOf(track, recording);
  for (const id of track.side.seek(event).ids()) {
    const site = track.blocks.site[id];
    let row = rows.get(site);
    if (!row) rows.set(site, row = { site, bytes: 0, blocks: 0, births: 0, last: 0 });
    row.bytes += track.bytesOf(id);
    row.blocks++;
    const born = period(id);
    // Ids are in order of birth, so periods never decrease.
    if (born > row.last) {
      row.births++;
      row.last = born;
    }
  }
  return [...rows.values()].sort((a, b) => b.births - a.births || b.bytes - a.bytes || a.site - b.site);
}

/**
 * Live bytes of each of some sites at the end of each of `count` equal parts of the time: Map of site to Float64Array.
 */
export function liveCurves(track, sites, count) {
  const curves = new Map(sites.map((site) => [site, new Float64Array(count)]));
  const bySite = [];
  for (const [site, curve] of curves) bySite[site] = { curve, live: 0 };
  const all = [...curves.keys()].map((site) => bySite[site]);
  const { site } = track.blocks;
  for (let id = 0; id < track.baseCount; id++) if (bySite[site[id]]) bySite[site[id]].live += track.bytesOf(id);
  let event = 0;
  for (let part = 0; part < count; part++) {
    const end = track.from + (part + 1) / count * (track.to - track.from);
    for (; event < track.count && track.time[event] <= end; event++) {
      const subject = track.subject[event];
      const id = subject >= 0 ? subject : ~subject;
      const entry = bySite[site[id]];
      if (entry) entry.live += subject >= 0 ? track.bytesOf(id) : -track.bytesOf(id);
    }
    for (const entry of all) entry.curve[part] = entry.live;
  }
  return curves;
}
