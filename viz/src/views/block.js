// The panel that says everything about the block under the pointer, or the pinned one.

import { byId, copyText, element } from "../dom.js";
import { frameName, framePlace, shortName, stackText } from "../data/stacks.js";
import { formatBytes, formatCounted, formatDuration, formatExact, formatMoment } from "../format.js";
import { siteTotals } from "../data/sites.js";
import { PeakPart } from "./peak.js";

export class BlockPanel {
  constructor(recording, store, controls) {
    this.controls = controls;
    this.recording = recording;
    this.store = store;
    this.box = byId("block");
    this.peak = new PeakPart(recording, store);
    store.subscribe((state, changed) => {
      if (changed.has("hover") || changed.has("pinned")) this.draw();
      else if (changed.has("site") || changed.has("dark")) this.redraw();
    });
  }

  show(track) {
    this.track = track;
    this.peak.show(track);
    this.redraw();
  }

  draw() {
    if (!this.track) return;
    const { hover, pinned } = this.store.state;
    const id = pinned >= 0 ? pinned : hover;
    if (id < 0 && this.shown >= 0 && pinned < 0) return; // keep the last block's text readable
    if (this.shown === id && this.wasPinned === pinned) return;
    this.shown = id;
    this.wasPinned = pinned;
    this.box.replaceChildren(...(id >= 0 ? this.content(id, pinned === id) : this.siteContent()));
  }

  redraw() {
    this.shown = undefined;
    this.draw();
  }

  /** The content without a block: the site that is shown alone, else the parts of the peak and the site with most
   * bytes. */
  siteContent() {
    const { site: chosen } = this.store.state;
    const { heaviest } = this.peak;
    const site = chosen >= 0 ? chosen : heaviest?.site;
    const hint = element("p", { class: "hint" }, "Point at a block to see who allocated it; click to keep it here.");
    if (site === undefined) return [hint];
    const { bytes, blocks } = siteTotals(this.track, site);
    const { title, text } = chosen < 0 ? this.peak.heaviestWords() : {
      title: "This site's blocks alone; Esc shows all",
      text: `${formatCounted(blocks, "block")}, ${formatBytes(bytes)} in all`,
    };
    const { module, category } = this.peak.natureOf(site) ?? {};
    return [
      ...chosen < 0 ? this.peak.parts() : [],
      element("div", { class: "soft" }, title),
      this.headline(site, "headline"),
      element("div", {}, text),
      module || category ? element("div", { class: "nature" }, [category, module].filter(Boolean).join(", in ")) : "",
      chosen >= 0 ? "" : hint,
      ...this.stackParts(site, []),
    ];
  }

  /** The name of a site, and its line. */
  headline(site, look) {
    const { name, place, backward } = this.recording.stacks.describe(site);
    return element("div", { class: `block-site ${look}` },
      backward ? element("span", { class: "backward" }, backward + " ") : "", element("strong", {}, name), " ", element("span", { class: "place" }, place));
  }

  content(id, pinned) {
    const { track, recording } = this;
    const site = track.blocks.site[id];
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
      this.headline(site, ""),
      this.facts(id, site),
      ...this.stackParts(site, [same, ...walks]),
      ...this.freeParts(id),
    ];
  }

  /** The site of the block's free, if known. */
  freeParts(id) {
    const site = this.track.freedAt(id);
    if (site < 0) return [];
    const { stacks } = this.recording;
    return [element("h3", {}, "Freed by, innermost first"),
      this.stackList(stacks.stack(site), stacks.headline[site] - 1)];
  }

  /** "zero_grad train.py:74"; null: unknown. */
  freeText(id) {
    const site = this.track.freedAt(id);
    if (site < 0) return null;
    const { name, place } = this.recording.stacks.describe(site);
    return `${name} ${place}`.trim();
  }

  /** The stack, with a button above to copy it, and `buttons`. */
  stackParts(site, buttons) {
    const stack = this.recording.stacks.stack(site);
    const copy = element("button", { type: "button", id: "copy-stack", onclick: async () => {
      copy.textContent = await copyText(stackText(stack)) ? "Copied" : "Could not copy";
      setTimeout(() => { copy.textContent = "Copy stack"; }, 1500);
    } }, "Copy stack");
    return [element("div", { class: "buttons" }, copy, ...buttons), element("h3", {}, "Stack, innermost first"),
      this.stackList(stack, this.recording.stacks.headline[site] - 1)];
  }

  facts(id, site) {
    const { track, recording } = this;
    const unit = recording.timeUnit;
    const birth = track.birthTime(id);
    const death = track.deathTime(id);
    const thread = recording.header.threads[track.thread(id)];
    const from = track.resizedFrom(id);
    const rows = [
      ["category", recording.categories[track.category(id)]],
      ["module", recording.modules[track.module(id)]],
      ["metadata", recording.words[track.metadata(id)]],
      ["tensor", recording.words[track.tensor(id)]],
      ["last used", this.usedText(id)],
      ["size", track.sizeKnown(id) ? formatExact(track.bytesOf(id)) : "not known: only its free was seen"],
      ["asked for", track.asked(id) < 0 ? null : formatExact(track.asked(id))],
      ["born", recording.timeless ? null : birth < 0 ? `${recording.before} began` : formatMoment(birth * unit, unit)],
      ["freed", recording.timeless ? null : death === Infinity ? "live at the end" : formatMoment(death * unit, unit)],
      ["freed at", this.freeText(id)],
      ["lived", recording.timeless ? null : this.lifeText(id)],
      ["step", birth < 0 ? null : this.stepText(birth)],
      ["region", birth < 0 ? null : recording.notes.regionPath(birth, track.thread(id))],
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

  /** "default stream, pool (0, 1)"; null: unknown. */
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

  /** The end of the last operator that used a block with tensors, as text; null: not known. */
  usedText(id) {
    const { recording, track } = this;
    const used = track.usedTo[id];
    const end = Math.min(track.deathTime(id), recording.to);
    return used < 0 ? null : `${formatMoment(used * recording.timeUnit, recording.timeUnit)}; then idle for ${
      formatDuration(Math.max(end - used, 0) * recording.timeUnit)}`;
  }

  stepText(time) {
    const step = this.recording.notes.stepAt(time);
    return step ? step.name || String(step.index) : null;
  }

  siteText(site) {
    const { blocks, bytes } = siteTotals(this.track, site);
    return blocks === 1 ? "this block alone" :
      `${formatCounted(blocks, "block")} like it, ${formatBytes(bytes)} in all`;
  }

  /** Python frames are highlighted, and runs of native frames are folded. In a stack without Python frames, the frames
   * inside of the line at `head`, which names the site, are folded. */
  stackList(stack, head) {
    const list = element("ol", { class: "stack" });
    const python = stack.some((frame) => frame.python);
    const folds = (frame, i) => (python || i < head) && !frame.python && !frame.cut && !frame.backward;
    for (let i = 0; i < stack.length;) {
      let j = i;
      while (j < stack.length && folds(stack[j], j)) j++;
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
    if (frame.backward) {
      return element("li", { class: "divider" }, element("span", { class: "function" }, frameName(frame)));
    }
    const kind = frame.cut ? "cut" : frame.user ? "python" : frame.python ? "python library" : "native";
    const place = frame.file ? `${frame.file}${frame.line ? ":" + frame.line : ""}` : frame.module;
    const node = frame.graph ? this.recording.words[frame.graph] : "";
    return element("li", { class: kind, title: `${frameName(frame)}\n${place}${node && "\nFX node " + node}` },
      element("span", { class: "function" }, shortName(frame)), " ",
      element("span", { class: "place" }, framePlace(frame)),
      node ? element("span", { class: "soft" }, ` FX node ${node}`) : "");
  }
}
