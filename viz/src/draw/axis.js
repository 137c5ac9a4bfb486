// Ticks at round numbers.

const UNITS = [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"], [2 ** 50, "PiB"]];

function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const digit = rough / power;
  return (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10) * power;
}

/** @returns {{value: number, label: string}[]} about `count` ticks */
export function byteTicks(low, high, count) {
  const span = Math.max(high - low, 1);
  const [unit] = UNITS.findLast(([bytes]) => bytes <= Math.max(high, 1)) ?? UNITS[0];
  let step = roundStep(span / unit / count) * unit;
  if (step < 1) step = 1;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) {
    out.push({ value: i * step, label: labelOf(i * step, step, unit) });
  }
  return out;
}

function labelOf(value, step, unit) {
  if (value === 0) return "0";
  const name = UNITS.find(([bytes]) => bytes === unit)[1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return (value / unit).toFixed(digits) + " " + name;
}

/** Ticks for times in nanoseconds, in a unit that fits the right end, with as many digits as they need to differ. */
export function timeTicks(start, end, count) {
  const step = roundStep(Math.max(end - start, 1) / count);
  const [unit, name] = end >= 1e9 ? [1e9, "s"] : end >= 1e6 ? [1e6, "ms"] : end >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const out = [];
  for (let i = Math.ceil(start / step); i * step <= end; i++) {
    out.push({ value: i * step, label: (i * step / unit).toFixed(digits) + " " + name });
  }
  return out;
}

/** Round whole numbers, about `count` of them. */
export function countTicks(start, end, count) {
  const step = Math.max(roundStep(Math.max(end - start, 1) / count), 1);
  const out = [];
  for (let i = Math.ceil(start / step); i * step <= end; i++) out.push(i * step);
  return out;
}

/** The top of the byte axis for a highest value: a little above it. */
export function axisTop(bytes) {
  return bytes > 0 ? bytes * 1.06 : 1024;
}

