// The panel that says everything about the block under the pointer, or the pinned one.

import { byId, copyText, element } from "../dom.js";
import { frameName, framePlace, stackText } from "../data/stacks.js";
import { formatBytes, formatCounted, formatDuration, formatExact, formatMoment } from "../format.js";
import { sitesAt, siteTotals } from "../data/sites.js";

export class BlockPanel {
  constructor(recording, store, controls) {
    this.controls = controls;
    this.recording = recording;
    this.store = store;
    this.box = byId("block");
    store.subscribe((state, changed) => {
      if (changed.has("hover") || changed.has("pinned")) this.draw();
      else if (changed.has("site")) this.redraw();
    });
  }

  show(track) {
    this.track = track;
    this.heaviest = null;
    this.redraw();
  }

  draw() {
    if (!this.track) return;
    const { hover, pinned } = this.store.state;
    const id = pinned >= 0 ? pinned : hover;
    if (id < 0 && this.shown >= 0 && pinned < 0) return; // what was looked at last stays readable
    if (this.shown === id && this.wasPinned === pinned) return;
    this.shown = id;
    this.wasPinned = pinned;
    this.box.replaceChildren(...(id >= 0 ? this.content(id, pinned === id) : this.siteContent()));
  }

  redraw() {
    this.shown = undefined;
    this.draw();
  }

  /** Without a block: the site that is shown alone, else the one that holds most at the peak. */
  siteContent() {
    const { site: chosen } = this.store.state;
    if (!this.heaviest) {
      const { rows } = sitesAt(this.track, this.track.peak.event);
      this.heaviest = rows.find(({ site }) => this.recording.stacks.headline[site]) ?? rows[0];
      this.isMost = this.heaviest === rows[0];
    }
    const site = chosen >= 0 ? chosen : this.heaviest?.site;
    const hint = element("p", { class: "hint" }, "Point at a block to see who allocated it; click to keep it here.");
    if (site === undefined) return [hint];
    const description = this.recording.stacks.describe(site);
    const { bytes, blocks } = siteTotals(this.track, site);
    const { heaviest, track } = this;
    const words = chosen >= 0 ? `${formatCounted(blocks, "block")}, ${formatBytes(bytes)} in all`
      : `${formatBytes(heaviest.bytes)} of ${formatBytes(track.peak.bytes)} in ${formatCounted(heaviest.blocks, "block")}`;
    const most = this.isMost ? "Holds most at the peak" : "Holds most at the peak, of what has a stack";
    return [
      element("div", { class: "soft" }, chosen >= 0 ? "This site's blocks alone; Esc shows all" : most),
      element("div", { class: "block-site headline" }, element("strong", {}, description.name), " ",
        element("span", { class: "place" }, description.place)),
      element("div", {}, words),
      chosen >= 0 ? "" : hint,
      ...this.stackParts(site, []),
    ];
  }

  content(id, pinned) {
    const { track, recording } = this;
    const site = track.blocks.site[id];
    const description = recording.stacks.describe(site);
    const same = element("button", { type: "button", "aria-pressed": String(this.store.state.site === site),
      onclick: () => {
      this.store.set({ site: this.store.state.site === site ? -1 : site });
    } }, "Show its site");
    const walk = (text, title, step) => element("button", { type: "button", title, "aria-label": title,
      onclick: () => this.controls.sameSite(step) }, text);
    const reuse = (text, title, step) => element("button", { type: "button", title, "aria-label": title,
      onclick: () => this.controls.sameAddress(step) }, text);
    const walks = pinned ? [walk("‹", "The block of this site before (,)", -1),
      walk("›", "The next block of this site (.)", 1),
      reuse("‹ address", "The block at this address before (<)", -1),
      reuse("address ›", "The next block at this address (>)", 1)] : [];
    return [
      element("div", { class: "block-head" },
        element("strong", { class: "block-bytes" },
          track.sizeKnown(id) ? formatBytes(track.bytesOf(id)) : "size unknown"),
        element("span", { class: "soft" }, pinned ? "pinned; Esc lets go" : "")),
      element("div", { class: "block-site" }, description.name, " ",
        element("span", { class: "soft" }, description.place)),
      this.facts(id, site),
      ...this.stackParts(site, [same, ...walks]),
    ];
  }

  /** The stack, above it the button that copies it and other buttons. */
  stackParts(site, buttons) {
    const stack = this.recording.stacks.stack(site);
    const copy = element("button", { type: "button", id: "copy-stack", onclick: async () => {
      copy.textContent = await copyText(stackText(stack)) ? "Copied" : "Could not copy";
      setTimeout(() => { copy.textContent = "Copy stack"; }, 1500);
    } }, "Copy stack");
    return [element("div", { class: "buttons" }, copy, ...buttons), element("h3", {}, "Stack, innermost first"),
      this.stackList(stack)];
  }

  facts(id, site) {
    const { track, recording } = this;
    const unit = recording.timeUnit;
    const birth = track.birthTime(id);
    const death = track.deathTime(id);
    const thread = recording.header.threads[track.thread(id)];
    const from = track.resizedFrom(id);
    const rows = [
      ["size", track.sizeKnown(id) ? formatExact(track.bytesOf(id)) : "not known: only its free was seen"],
      ["born", birth < 0 ? `${recording.before} began` : formatMoment(birth * unit, unit)],
      ["freed", death === Infinity ? "live at the end" : formatMoment(death * unit, unit)],
      ["lived", this.lifeText(id)],
      ["where", this.momentText(birth, track.thread(id))],
      ["thread", birth < 0 || !thread ? null : `${thread.tid}${thread.name ? " " + thread.name : ""}`],
      ["address", track.address(id) ? "0x" + track.address(id).toString(16) : null],
      ["stream", this.laneText(id)],
      ["kind", recording.header.kinds[track.kind(id)] ?? null],
      ["resized", from < 0 ? null : "from " + formatBytes(track.bytesOf(from))],
      ["its site", this.siteText(site)],
    ];
    return element("dl", {}, ...rows.filter(([, value]) => value).flatMap(([name, value]) =>
      [element("dt", {}, name), element("dd", {}, value)]));
  }

  /** "default stream, pool (0, 1)"; null where the recording does not say. */
  laneText(id) {
    const lane = this.recording.header.lanes[this.track.lane(id) - 1];
    return lane ? `${lane.stream || "default"}${lane.pool ? `, private pool ${lane.pool}` : ""}` : null;
  }

  lifeText(id) {
    const { track, recording } = this;
    const birth = track.birthTime(id);
    const death = track.deathTime(id);
    const life = track.life(id);
    const text = life === 0 && recording.timeUnit > 1 ? "less than 1 µs" : formatDuration(life * recording.timeUnit);
    return birth < 0 || death === Infinity ? "at least " + text : text;
  }

  /** "step 3, forward > attention" */
  momentText(time, thread) {
    if (time < 0) return null;
    const step = this.recording.notes.stepAt(time);
    const regions = this.recording.notes.regionPath(time, thread);
    const parts = [];
    if (step) parts.push(step.name || `step ${step.index}`);
    if (regions) parts.push(regions);
    return parts.join(", ") || null;
  }

  siteText(site) {
    const { blocks, bytes } = siteTotals(this.track, site);
    return blocks === 1 ? "this block alone" :
      `${formatCounted(blocks, "block")} like it, ${formatBytes(bytes)} in all`;
  }

  /** Python frames stand out; runs of native frames fold away where there are Python frames. */
  stackList(stack) {
    const list = element("ol", { class: "stack" });
    const python = stack.some((frame) => frame.python);
    for (let i = 0; i < stack.length;) {
      let j = i;
      while (j < stack.length && python && !stack[j].python && !stack[j].cut) j++;
      if (j > i) {
        list.append(element("li", {}, element("details", {},
          element("summary", {}, `${j - i} native frame${j - i > 1 ? "s" : ""}`),
          element("ol", { class: "stack" }, ...stack.slice(i, j).map((frame) => this.frameItem(frame))))));
        i = j;
      } else {
        list.append(this.frameItem(stack[i]));
        i++;
      }
    }
    if (!stack.length) list.append(element("li", { class: "soft" }, "no stack was recorded"));
    return list;
  }

  frameItem(frame) {
    const kind = frame.cut ? "cut" : frame.user ? "python" : frame.python ? "python library" : "native";
    const place = frame.file ? `${frame.file}${frame.line ? ":" + frame.line : ""}` : frame.module;
    return element("li", { class: kind, title: `${frameName(frame)}\n${place}` },
      element("span", { class: "function" }, frameName(frame)), " ",
      element("span", { class: "place" }, framePlace(frame)));
  }
}
