// The page's address contains the state of the view, so that the address is a link to it:
// #track=cpu/torch&t=START-END&b=BLOCK&v=flame Times are in nanoseconds, bytes in bytes.

import { FRAMES, UNDER } from "./data/flame.js";
import { GROUPS } from "./data/group.js";
import { SEGMENT_LOOKS } from "./data/segments.js";
import { MEASURES, SCOPES } from "./data/scope.js";
import { ALONG } from "./draw/along.js";
import { COLOURS } from "./draw/colour_by.js";
import { VIEWS } from "./views/pane.js";

const BY_ID = Object.fromEntries(VIEWS.map((View) => [View.id, View]));

/** Settings whose values are words: [name in the state, name in the address, words, default]. */
const WORDS = [
  ["view", "v", BY_ID, "sites"], ["of", "of", SCOPES, "peak"], ["colour", "c", COLOURS, "site"],
    ["group", "g", GROUPS, "stack"],
  ["measure", "m", MEASURES, "bytes"], ["frames", "f", FRAMES, "user"], ["under", "u", UNDER, "nothing"],
  ["along", "x", ALONG, "time"],
  ["segments", "sg", SEGMENT_LOOKS, "map"],
];

/** The state, unless the address or the recording (usualFor()) sets another. */
export const DEFAULTS = { ...Object.fromEntries(WORDS.map(([key, , , value]) => [key, value])), inverted: false, strips: false,
  query: "" };

/** The defaults for a recording: colours by category, if known, tell more than colours by site. */
export function usualFor(recording) {
  return { ...DEFAULTS, ...(recording.categories.length > 1 ? { colour: "category" } : {}),
    ...(recording.timeless ? { along: "events" } : {}) };
}

export function readAddress(hash, recording) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const out = {};
  const track = recording.header.tracks.findIndex((info) => info.id === values.get("track"));
  if (track >= 0) out.track = track;
  const times = (name) => pair(values.get(name))?.map((ns) => ns / recording.timeUnit);
  const events = values.get("x") === "events";
  const shown = events ? pair(values.get("e")) : times("t");
  if (shown) [out.start, out.end] = shown;
  const window = times("w");
  if (window) out.window = window;
  const bytes = pair(values.get("y"));
  if (bytes) [out.low, out.high] = bytes;
  const block = whole(values.get("b"));
  if (block !== null) out.pinned = block;
  const moment = whole(values.get("at"));
  if (moment !== null) out.moment = moment - 1;
  const site = whole(values.get("s"));
  if (site !== null && site < recording.stacks.count) out.site = site;
  const change = whole(values.get("ad"));
  if (change !== null && recording.changes[change - 1]?.curve) out.change = change - 1;
  for (const [key, name, words] of WORDS) {
    const value = values.get(name);
    if (value !== null && Object.hasOwn(words, value)) out[key] = value;
  }
  if (values.has("i")) out.inverted = true;
  if (values.has("all")) out.strips = true;
  if (values.get("q")) out.query = values.get("q");
  return out;
}

function pair(text) {
  const [, low, high] = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "") ?? [];
  return low !== undefined && Number(high) > Number(low) ? [Number(low), Number(high)] : null;
}

function whole(text) {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : null;
}

export function writeAddress(state, recording) {
  const parts = ["track=" + encodeURIComponent(recording.header.tracks[state.track].id).replaceAll("%3A",
    ":").replaceAll("%2F", "/")];
  const times = (from, to) => `${Math.round(from * recording.timeUnit)}-${Math.round(to * recording.timeUnit)}`;
  if (state.along === "events") parts.push(`e=${Math.round(state.start)}-${Math.round(state.end)}`);
  else if (state.start > recording.from || state.end < recording.to) parts.push("t=" + times(state.start, state.end));
  if (state.window) parts.push("w=" + times(...state.window));
  if (state.high !== null) parts.push(`y=${Math.round(state.low)}-${Math.round(state.high)}`);
  if (state.pinned >= 0) parts.push("b=" + state.pinned);
  if (state.moment >= -1) parts.push("at=" + (state.moment + 1));
  if (state.site >= 0) parts.push("s=" + state.site);
  if (state.change >= 0) parts.push("ad=" + (state.change + 1));
  const usual = usualFor(recording);
  for (const [key, name] of WORDS) if (state[key] !== usual[key]) parts.push(`${name}=${state[key]}`);
  if (state.inverted) parts.push("i");
  if (state.strips) parts.push("all");
  if (state.query) parts.push("q=" + encodeURIComponent(state.query));
  return "#" + parts.join("&");
}
