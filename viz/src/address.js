// The page's address holds what is shown, so that copying it gives a link: #track=cpu/torch&t=START-END&y=..&b=BLOCK&s=SITE
// Times are in nanoseconds, bytes in bytes.

export function readAddress(hash, recording) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const out = {};
  const track = recording.header.tracks.findIndex((info) => info.id === values.get("track"));
  if (track >= 0) out.track = track;
  const window = pair(values.get("t"));
  if (window) {
    out.start = window[0] / recording.timeUnit;
    out.end = window[1] / recording.timeUnit;
  }
  const bytes = pair(values.get("y"));
  if (bytes) [out.low, out.high] = bytes;
  const block = whole(values.get("b"));
  if (block !== null) out.pinned = block;
  const site = whole(values.get("s"));
  if (site !== null && site < recording.stacks.count) out.site = site;
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
  const parts = ["track=" + recording.header.tracks[state.track].id];
  if (state.start > 0 || state.end < recording.duration) {
    parts.push(`t=${Math.round(state.start * recording.timeUnit)}-${Math.round(state.end * recording.timeUnit)}`);
  }
  if (state.high !== null) parts.push(`y=${Math.round(state.low)}-${Math.round(state.high)}`);
  if (state.pinned >= 0) parts.push("b=" + state.pinned);
  if (state.site >= 0) parts.push("s=" + state.site);
  return "#" + parts.join("&");
}
