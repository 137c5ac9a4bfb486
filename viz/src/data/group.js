// Properties by which blocks can be grouped. Function, file and library are as in the reports' --group.

import { formatBytes } from "../format.js";
import { moduleKind } from "./modules.js";
import { baseName } from "./stacks.js";

const UNKNOWN = "(unknown)";

/** Groups by a block's stream or pool; "" is the default one. */
function byLane(what, name) {
  return {
    name, fits: ({ header }) => header.lanes.length > 0,
    key: (track, { header }) => (id) => header.lanes[track.lane(id) - 1]?.[what] ?? UNKNOWN,
    text: (value) => value === "" ? `default ${what}` : value === UNKNOWN ? UNKNOWN : `${what} ${value}`,
  };
}

/** Groups by module. `nameOf` names a module; modules with equal names are one group. */
function byModule(name, nameOf) {
  return {
    name, fits: hasModules,
    key: (track, { modules }) => {
      const names = modules.map((path) => path ? nameOf(path) : NO_MODULE);
      return (id) => names[track.module(id)];
    },
  };
}

/** Groups by a part of the words about a block's tensor, "float32 [8, 128] of addmm in forward". */
function byTensor(name, part) {
  return {
    name, fits: ({ header }) => header.tensors,
    key: (track, { words }) => (id) => part(words[track.tensor(id)] ?? "") || UNKNOWN,
  };
}

export const NO_MODULE = "(no module)";
export const NO_CATEGORY = "(no category)";
export const NO_METADATA = "(no metadata)";
const hasModules = ({ modules }) => modules.length > 1;

/** Groupings by name in the address. `siteOf`: a block's site alone decides its group. */
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
  dtype: byTensor("type", (text) => text.startsWith("room of ") ? "" : text.split(" ")[0]),
  operator: byTensor("operator", (text) => text.split(" of ")[1]?.split(/ in |, saved/)[0]),
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

/** "backward of " if the site's line made the node whose backward allocated, as in the reports; else "". */
function before(stacks, site) {
  const { backward } = stacks.describe(site);
  return backward && backward + " ";
}

function functionOf(stacks, site) {
  const head = stacks.head(site);
  return head && before(stacks, site) + head.function;
}

/** As in `--group stack:N`: lines of one language, from the line that names the site outwards. */
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

/** The groupings for which the recording has data. */
export function groupsFor(recording) {
  return Object.keys(GROUPS).filter((name) => !GROUPS[name].fits || GROUPS[name].fits(recording));
}

export function groupText(group, key, recording) {
  return GROUPS[group].text ? GROUPS[group].text(key, recording) : String(key);
}
