// Bytes, times and counts as people read them; the same words as src/base/units.c.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Three significant digits: "9.66 GiB". */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  let unit = 0;
  let value = bytes;
  while (Math.abs(value) >= 1023.5 && unit < BYTES.length - 1) {
    value /= 1024;
    unit++;
  }
  if (unit === 0) return value + " B";
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return value.toFixed(digits) + " " + BYTES[unit];
}

/** "1 234 567": thousands apart by a thin no-break space. */
export function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Exact bytes beside the rounded ones where the two differ. */
export function formatExact(bytes) {
  return bytes < 1024 ? formatBytes(bytes) : `${formatBytes(bytes)} (${formatCount(bytes)} B)`;
}

/** "850 ns", "12.7 ms", "38.2 s", "3 h 20 min". */
export function formatDuration(ns) {
  if (ns < 1e3) return Math.round(ns) + " ns";
  if (ns < 999.5e3) return digits(ns / 1e3) + " µs";
  if (ns < 999.5e6) return digits(ns / 1e6) + " ms";
  if (ns < 99.95e9) return digits(ns / 1e9) + " s";
  if (ns < 3600e9) return `${Math.floor(ns / 60e9)} min ${Math.round(ns % 60e9 / 1e9)} s`;
  return `${Math.floor(ns / 3600e9)} h ${Math.round(ns % 3600e9 / 60e9)} min`;
}

function digits(value) {
  return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
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
