// Meanings of a colour: every block is of a class, every class has a colour.

import { GROUPS, NO_CATEGORY, NO_MODULE } from "../data/group.js";
import { moduleKind } from "../data/modules.js";
import { arrayFor } from "../data/varint.js";
import { hashName } from "../data/stacks.js";
import { formatBytes, formatDuration } from "../format.js";
import { apartColour, categoryColour, noColour, scaleColours, siteColour } from "./palette.js";

/** Classes by limits: the first class has values below limits[0], and so on. Empty classes are left out. */
function ranges(track, dark, limits, valueOf, names) {
  const of = new Uint8Array(track.blocks.count);
  const used = new Uint8Array(limits.length + 1);
  for (let id = 0; id < of.length; id++) {
    const value = valueOf(id);
    let at = 0;
    while (at < limits.length && value >= limits[at]) at++;
    of[id] = at;
    used[at] = 1;
  }
  const classes = [...used.keys()].filter((at) => used[at]);
  const place = new Uint8Array(used.length);
  classes.forEach((at, i) => { place[at] = i; });
  for (let id = 0; id < of.length; id++) of[id] = place[of[id]];
  return { of, colours: scaleColours(classes.length, dark), names: classes.map((at) => names[at]) };
}

function rangeNames(limits, format) {
  return limits.map((limit, i) => i ? `${format(limits[i - 1])} – ${format(limit)}` : `below ${format(limit)}`)
    .concat(`${format(limits.at(-1))} and more`);
}

/** "(no module)" and the like are grey. */
function nameColour(name, dark) {
  return name.startsWith("(") ? noColour(dark) : siteColour(hashName(name), dark);
}

/** Classes by a key, by decreasing bytes at the peak. */
function named(track, dark, keyOf, textOf = String, colourOf = (name) => nameColour(name, dark)) {
  const classes = new Map();
  const of = arrayFor(track.blocks.count, track.blocks.count);
  for (let id = 0; id < of.length; id++) {
    const key = keyOf(id);
    let at = classes.get(key);
    if (at === undefined) classes.set(key, at = classes.size);
    of[id] = at;
  }
  const names = [...classes.keys()].map((key) => textOf(key));
  return { of, colours: names.map(colourOf), names, order: byPeak(track, of, names) };
}

/** Classes by their bytes at the peak, most first. */
function byPeak(track, of, names) {
  const bytes = new Float64Array(names.length);
  for (const id of track.side.seek(track.peak.event).ids()) bytes[of[id]] += track.bytesOf(id);
  return [...names.keys()].sort((a, b) => bytes[b] - bytes[a]);
}

/** The same if each block has a number, and the number a name. This is faster, for the colours that a page opens
 * with. */
function numbered(track, numbers, names, colourOf) {
  const distinct = [...new Set(names)];
  const places = new Map(distinct.map((name, i) => [name, i]));
  const classOf = Uint32Array.from(names, (name) => places.get(name));
  const plain = distinct.length === names.length;
  const of = plain ? numbers : arrayFor(distinct.length, numbers.length);
  const used = new Uint8Array(distinct.length);
  for (let id = 0; id < numbers.length; id++) {
    const one = classOf[numbers[id]];
    used[one] = 1;
    if (!plain) of[id] = one;
  }
  return { of, colours: distinct.map(colourOf), names: distinct,
    order: byPeak(track, of, distinct).filter((one) => used[one]) };
}

/** The classes of a track's blocks: {of, colours, names, order}; cached until the colours change. */
export function classesOf(track, recording, { colour, dark }) {
  const key = `${colour} ${dark}`;
  if (track.classes?.key !== key) track.classes = { key, ...COLOURS[colour].make(track, recording, dark) };
  return track.classes;
}

/** The colour that a block has in the plot. */
export function blockColour(track, recording, state, id) {
  const { of, colours } = classesOf(track, recording, state);
  return colours[of[id]];
}

const SIZES = [512, 4096, 2 ** 16, 2 ** 20, 2 ** 24, 2 ** 27, 2 ** 30];
const LIVES = [1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/** Colours by a grouping of data/group.js. */
function byGroup(group) {
  const { name, fits, key, text = String } = GROUPS[group];
  return {
    name, fits, colourOf: (value, recording, dark) => nameColour(text(value, recording), dark),
    make: (track, recording, dark) => named(track, dark, key(track, recording), (one) => text(one, recording)),
  };
}

/** By name of a module: the index of its colour. The modules with most bytes at the peak get the most distinct ones. */
function moduleColours(track, names) {
  const bytes = new Map(names.map((name) => [name, 0]));
  for (const id of track.side.seek(track.peak.event).ids()) {
    const name = names[track.module(id)];
    bytes.set(name, bytes.get(name) + track.bytesOf(id));
  }
  bytes.delete(NO_MODULE);
  const order = [...bytes].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1));
  return new Map(order.map(([name], i) => [name, i]));
}

function byModule(group, nameOf) {
  const namesOf = ({ modules }) => modules.map((path) => path ? nameOf(path) : NO_MODULE);
  const colourOf = (name, recording, dark, track) => {
    const known = (track.moduleColours ??= {})[group] ??= moduleColours(track, namesOf(recording));
    return known.has(name) ? apartColour(known.get(name), dark) : noColour(dark);
  };
  return {
    ...byGroup(group), colourOf,
    make: (track, recording, dark) => numbered(track, track.allModules(), namesOf(recording),
      (name) => colourOf(name, recording, dark, track)),
  };
}

export const COLOURS = {
  site: {
    name: "site",
    make: (track, { stacks }, dark) => ({
      of: track.blocks.site, colours: Array.from({ length: track.siteCount },
        (_, site) => siteColour(stacks.hash(site), dark)),
    }),
  },
  size: {
    name: "size",
    make: (track, recording, dark) => ranges(track, dark, SIZES, (id) => track.bytesOf(id), rangeNames(SIZES, formatBytes)),
  },
  life: {
    name: "how long it lives",
    make: (track, { timeUnit }, dark) => ranges(track, dark, LIVES, (id) => track.life(id) * timeUnit,
      rangeNames(LIVES, formatDuration)),
  },
  age: {
    name: "age",
    make: (track, { timeUnit, from, to, before }, dark) => {
      const limits = [0, 1, 2, 3, 4, 5, 6, 7].map((part) => from + part / 8 * (to - from));
      const names = [before, ...limits.map((limit) => `born from ${formatDuration(limit * timeUnit)}`)];
      return ranges(track, dark, limits, (id) => track.birthTime(id), names);
    },
  },
  category: {
    ...byGroup("category"),
    colourOf: (name, { categories }, dark) => categoryColour(name, categories, dark),
    make: (track, { categories }, dark) => numbered(track, track.allCategories(),
      categories.map((name) => name || NO_CATEGORY), (name) => categoryColour(name, categories, dark)),
  },
  modules: byModule("modules", moduleKind),
  module: byModule("module", (path) => path),
  dtype: byGroup("dtype"),
  operator: byGroup("operator"),
  function: byGroup("function"),
  file: byGroup("file"),
  library: byGroup("library"),
  kind: byGroup("kind"),
  stream: byGroup("stream"),
  pool: byGroup("pool"),
  region: {
    ...byGroup("region"),
    make: (track, { notes }, dark) => named(track, dark, (id) =>
      notes.regionPath(track.birthTime(id), track.thread(id)).split(" › ").at(-1) || "(no region)"),
  },
  step: byGroup("step"),
  thread: byGroup("thread"),
};
