// A flame graph: the stacks of some sites as one tree of calls, with the bytes under each call. Below the calls, if
// chosen, are the network's modules or the categories.

import { GROUPS } from "./group.js";
import { moduleSteps } from "./modules.js";

/** Which frames of a stack are drawn. A stack without frames of the chosen kind keeps all frames. */
export const FRAMES = {
  user: { name: "your code", keep: (frame) => frame.user },
  line: { name: "one line" },
  python: { name: "Python", keep: (frame) => frame.python },
  all: { name: "all, native too", keep: () => true },
};

const GROUP_FRAME = { function: "", file: "", line: 0, module: "", address: 0, python: false, user: false, cut: false,
  backward: false, group: true };

const ofGroup = (name) => ({ ...GROUP_FRAME, function: name });
const moduleFrames = (group) => group.startsWith("(") ? [ofGroup(group)] : moduleSteps(group).map(ofGroup);

/** The boxes below the calls: `groups` of data/group.js, outermost first, and the label of each. */
export const UNDER = {
  nothing: { name: "calls only", groups: [] },
  modules: { name: "under module kinds", groups: ["modules"] },
  module: { name: "under modules", groups: ["module"] },
  category: { name: "under categories", groups: ["category"] },
  both: { name: "under category + module", groups: ["category", "modules"] },
  region: { name: "under regions", groups: ["region"] },
};

const FRAMES_OF = { module: moduleFrames, modules: moduleFrames, region: (path) => path.split(" › ").map(ofGroup) };

/** The choices of UNDER for which the recording has data. */
export function underFor(recording) {
  return Object.keys(UNDER).filter((key) => UNDER[key].groups.every((group) => GROUPS[group].fits(recording)));
}

/** Numbers the paths: for each block the number of its path, and by number the path, {site, frames: outermost
 * first}. */
export function pathsUnder(track, recording, under) {
  const groups = UNDER[under].groups.filter((group) => GROUPS[group].fits(recording));
  const keys = groups.map((group) => GROUPS[group].key(track, recording));
  const paths = [];
  const known = new Map();
  const { site } = track.blocks;
  const keyOf = (id) => {
    let at = known;
    for (const key of keys) {
      const name = key(id);
      let next = at.get(name);
      if (!next) at.set(name, next = new Map());
      at = next;
    }
    let path = at.get(site[id]);
    if (path === undefined) {
      at.set(site[id], path = paths.length);
      paths.push({ site: site[id], frames: groups.flatMap((group, i) =>
        (FRAMES_OF[group] ?? ((name) => [ofGroup(name)]))(keys[i](id))) });
    }
    return path;
  };
  return { keyOf, paths };
}

/** A site's drawn frames, outermost first. If `which` keeps none, the next wider choice counts: user, python, all. */
export function framesShown(stacks, site, which) {
  const stack = stacks.stack(site);
  const head = which === "line" ? stacks.headline[site] - 1 : -1;
  if (head >= 0) return stack.filter((frame, i) => i === head || frame.backward).reverse();
  stack.reverse();
  const order = ["user", "python", "all"];
  for (let i = Math.max(order.indexOf(which), 0); i < order.length; i++) {
    const kept = stack.filter((frame) => frame.cut || frame.backward || FRAMES[order[i]].keep(frame));
    if (kept.some((frame) => !frame.cut && !frame.backward)) return kept;
  }
  return stack;
}

function newNode(frame, parent) {
  return { frame, parent, value: 0, own: 0, site: -1, children: new Map() };
}

/** Frames with equal function, file and line are the same call. */
export function frameKey(frame) {
  if (frame.cut) return "cut";
  if (frame.group) return "group\n" + frame.function;
  return frame.function || frame.file ? `${frame.function}\n${frame.file}\n${frame.line}`
    : `${frame.module}\n${frame.address}`;
}

/**
 * @param {{site: number, frames: object[], value: number}[]} rows `frames`: the boxes below the site's calls
 * @param {{frames: string, inverted: boolean}} look inverted: from the innermost call outwards
 * @returns the root; a node's `value` is its children's and its `own`; `site` is the heaviest that passes through it
 */
export function flameTree(stacks, rows, { frames, inverted }) {
  const root = newNode(null, null);
  for (const { site, frames: under = [], value } of [...rows].sort((a, b) => b.value - a.value)) {
    const calls = framesShown(stacks, site, frames);
    if (inverted) calls.reverse();
    let node = root;
    root.value += value;
    for (const frame of [...under, ...calls]) {
      const key = frameKey(frame);
      let child = node.children.get(key);
      if (!child) node.children.set(key, child = newNode(frame, node));
      child.value += value;
      if (child.site < 0) child.site = site;
      node = child;
    }
    node.own += value;
    if (node.site < 0) node.site = site;
  }
  return root;
}

/**
 * Boxes of a tree, as shares of the root's width: {node, left, width, depth}. Boxes narrower than `least` are left out;
 * `hidden` counts them.
 */
export function flameBoxes(root, least) {
  const boxes = [];
  let hidden = 0;
  const place = (node, left, depth) => {
    boxes.push({ node, left, width: node.value / root.value, depth });
    let at = left;
    for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
      const width = child.value / root.value;
      if (width < least) hidden += 1;
      else place(child, at, depth + 1);
      at += width;
    }
  };
  if (root.value > 0) place(root, 0, 0);
  return { boxes, hidden };
}

/** Lines `outer;inner;innermost value`, as flame graph tools read them. */
export function foldedText(stacks, rows, name) {
  const sums = new Map();
  for (const { site, value } of rows) {
    const line = stacks.stack(site).reverse().map((frame) => name(frame).replace(/[;\n\r]/g, "_")).join(";") ||
      "no stack";
    sums.set(line, (sums.get(line) ?? 0) + value);
  }
  return [...sums].map(([line, value]) => `${line} ${value}\n`).join("");
}
