// Parts of the recording that are not in the page, and why, in words.

import { formatBytes, formatCounted, formatDuration } from "../format.js";

/** Sentences; none if the page has the whole recording. */
export function cutWords({ header }) {
  const { cut, filter, from_ns: from, to_ns: to, duration_ns: duration, tracks } = header;
  if (!cut && !filter) return [];
  const out = tracks.reduce((sum, track) => sum + track.left_out, 0);
  const inside = tracks.reduce((sum, track) => sum + track.blocks, 0);
  const part = cut ? `what was live between ${formatDuration(from)} and ${formatDuration(to)} of ` +
    `${formatDuration(duration)} (--from, --to)` : "";
  const kind = filter ? `blocks that --filter ${filter} picks` : "";
  const higher = tracks.filter((track) => track.whole_peak_bytes !== track.peak_bytes);
  return [
    `A part of the recording: ${[part, kind].filter(Boolean).join(", of it only ")}. ` +
      `${formatCounted(inside, "block")} of it are in this page, ${formatCounted(out, "block")} are not.`,
    ...higher.map((track) => `With those that the filter leaves out, the peak of ${track.id} is ` +
      `${formatBytes(track.whole_peak_bytes)} instead of ${formatBytes(track.peak_bytes)}.`),
  ];
}
