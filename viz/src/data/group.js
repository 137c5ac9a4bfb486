// Properties by which blocks can be grouped. Function, file and library are those that the reports group by.

import { formatBytes } from "../format.js";
import { moduleKind } from "./modules.js";
import { baseName } from "./stacks.js";

const UNKNOWN = "(unknown)";

/** A caching allocator's name for a block's stream or pool; "" is the one that programs use unasked. */
function byLane(what, name) {
  return {
    name, fits: ({ header }) => header.lanes.length > 0,
    key: (track, { header }) => (id) => header.lanes[track.lane(id) - 1]?.[what] ?? UNKNOWN,
    text: (value) => value === "" ? `default ${what}` : value === UNKNOWN ? UNKNOWN : `${what} ${value}`,
  };
}

/** `modules` of a recording as `nameOf` calls them, those of the same name being one. */
function byModule(name, nameOf) {
  return {
    name, fits: hasModules,
    key: (track, { modules }) => {
      const names = modules.map((path) => path ? nameOf(path) : NO_MODULE);
      return (id) => names[track.module(id)];
    },
  };
}

export const NO_MODULE = "(no module)";
export const NO_CATEGORY = "(no category)";
export const NO_METADATA = "(no metadata)";
const hasModules = ({ modules }) => modules.length > 1;

/** The name that a group shows; `siteOf`: the group is decided by a block's site alone. */
export const GROUPS = {
  stack: { name: "stack", siteOf: true, key: ({ blocks }) => (id) => blocks.site[id] },
  ...Object.fromEntries([1, 2, 3, 5].map((count) => ["stack:" + count, {
    name: count === 1 ? "innermost line" : `innermost ${count} lines`, siteOf: true,
    key: bySite((stacks, site) => innermost(stacks, site, count)),
  }])),
  function: { name: "function", siteOf: true, key: bySite(functionOf) },
  file: { name: "file", siteOf: true, key: bySite((stacks, site) => stacks.head(site)?.file) },
  category: {
    name: "category", fits: ({ categories }) => categories.length > 1,
    key: (track, { categories }) => (id) => categories[track.category(id)] || NO_CATEGORY,
  },
  modules: byModule("module kind", moduleKind),
  module: byModule("module", (path) => path),
  metadata: {
    name: "metadata", fits: ({ header }) => header.metadata,
    key: (track, { words }) => (id) => words[track.metadata(id)] || NO_METADATA,
  },
  library: { name: "library", siteOf: true, key: bySite((stacks, site) => stacks.library(site)) },
  size: {
    name: "size",
    key: (track) => (id) => track.sizeKnown(id) ? track.bytesOf(id) : -1,
    text: (bytes) => bytes < 0 ? "size unknown" : formatBytes(bytes),
  },
  step: {
    name: "step of birth", fits: ({ notes }) => notes.steps.length > 0,
    key: (track, { notes }) => (id) => {
      const birth = track.birthTime(id);
      return birth < 0 ? -1 : notes.stepAt(birth)?.index ?? 0;
    },
    text: (step, { before }) => step < 0 ? before : step ? `step ${step}` : "before the first step",
  },
  region: {
    name: "region of birth", fits: ({ notes }) => notes.regions.length > 0,
    key: (track, { notes }) => (id) => {
      const birth = track.birthTime(id);
      return (birth < 0 ? "" : notes.regionPath(birth, track.thread(id))) || "(no region)";
    },
  },
  thread: {
    name: "thread",
    key: (track, { header }) => (id) => {
      const thread = track.birthTime(id) < 0 ? null : header.threads[track.thread(id)];
      return thread ? `${thread.tid} ${thread.name}`.trim() : UNKNOWN;
    },
  },
  stream: byLane("stream", "stream"),
  pool: byLane("pool", "pool"),
  kind: { name: "kind", key: (track, { header }) => (id) => header.kinds[track.kind(id)] ?? UNKNOWN },
};

/** "backward of ", as the reports say it of a line whose node's backward it was. */
function before(stacks, site) {
  const { backward } = stacks.describe(site);
  return backward && backward + " ";
}

function functionOf(stacks, site) {
  const head = stacks.head(site);
  return head && before(stacks, site) + head.function;
}

/** As `--group stack:N` says it: lines of one language, from the one that names the site outwards. */
function innermost(stacks, site, count) {
  const stack = stacks.stack(site);
  const first = stacks.headline[site] - 1;
  if (first < 0) return "";
  const ofOneLanguage = (frame) => !frame.cut && !frame.backward && frame.python === stack[first].python;
  return before(stacks, site) + stack.slice(first).filter(ofOneLanguage).slice(0, count)
    .map((frame) => `${frame.function || "?"}${frame.file ? ` ${baseName(frame.file)}:${frame.line}` : ""}`).join(" < ");
}

function bySite(nameOf) {
  return (track, { stacks }) => {
    const names = [];
    return (id) => {
      const site = track.blocks.site[id];
      return names[site] ??= nameOf(stacks, site) || UNKNOWN;
    };
  };
}

/** The groups that say something of a recording. */
export function groupsFor(recording) {
  return Object.keys(GROUPS).filter((name) => !GROUPS[name].fits || GROUPS[name].fits(recording));
}

export function groupText(group, key, recording) {
  return GROUPS[group].text ? GROUPS[group].text(key, recording) : String(key);
}
