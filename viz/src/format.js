// Bytes, times and counts as people read them; the same words as src/base/units.c.

const BYTES = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Rounds like C's printf, ties to the even digit, so that the page shows the same numbers as the reports. */
function fixed(value, digits) {
  const scale = 10 ** digits;
  const whole = Math.floor(value * scale);
  const tie = value * scale - whole === 0.5;
  return tie ? ((whole + whole % 2) / scale).toFixed(digits) : value.toFixed(digits);
}

/** Three significant digits: "9.66 GiB". */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  if (bytes < 1024) return bytes + " B";
  let unit = 0;
  let value = bytes / 1024;
  for (; value >= 1023.5 && unit < BYTES.length - 1; unit++) value /= 1024;
  return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + " " + BYTES[unit];
}

/** "1 234 567": thousands are separated by a thin no-break space. */
export function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** "1 block", "1 224 blocks" */
export function formatCounted(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** The exact bytes, to follow the rounded ones; "" if both are equal. */
export function formatExact(bytes) {
  return bytes < 1024 ? formatBytes(bytes) : `${formatBytes(bytes)} (${formatCount(bytes)} B)`;
}

/** "850 ns", "12.7 ms", "38.2 s", "3 h 20 min". */
export function formatDuration(ns) {
  for (const [below, unit, name] of [[1e3, 1, "ns"], [1e6, 1e3, "µs"], [1e9, 1e6, "ms"], [600e9, 1e9, "s"]]) {
    if (ns >= below) continue;
    return fixed(ns / unit, unit === 1 || ns / unit >= 99.95 ? 0 : 1) + " " + name;
  }
  const minutes = Math.floor((ns + 30e9) / 60e9);
  return minutes < 60 ? minutes + " min" : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A moment, to the resolution of the recording: "12.610234 s". */
export function formatMoment(ns, unitNs) {
  return (ns / 1e9).toFixed(unitNs >= 1000 ? 6 : 9) + " s";
}

export function formatShare(part, whole) {
  if (!whole) return "";
  const share = 100 * part / whole;
  return (share >= 9.95 ? share.toFixed(0) : share.toFixed(1)) + " %";
}

/** Bytes held for a time: "3.20 GiB·s". */
export function formatByteTime(byteNs) {
  const value = byteNs / 1e9;
  return formatBytes(value < 1024 ? Math.round(value) : value) + "·s";
}
