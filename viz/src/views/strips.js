// The other tracks under the plot, over the same time: a strip each, with its own scale. A click shows that track.

import { byId, element, inNextFrame, onResize } from "../dom.js";
import { lowerBound } from "../data/track.js";
import { chooseColumns } from "../draw/columns.js";
import { inks, LEFT } from "../draw/ink.js";
import { formatBytes } from "../format.js";

const HEIGHT = 40;

export class Strips {
  constructor({ recording, store, changeTrack }, timeline) {
    Object.assign(this, { recording, store, timeline, changeTrack, box: byId("strips"), strips: [] });
    this.button = byId("all-tracks");
    this.button.hidden = this.others(-1).length < 2;
    this.button.addEventListener("click", () => this.toggle());
    this.draw = inNextFrame(() => this.drawNow());
    this.sizeDrawn = onResize(this.box, () => this.drawNow());
    store.subscribe((state, changed) => {
      if (changed.has("strips")) this.show();
      else if (["start", "end", "along", "dark", "window"].some((key) => changed.has(key))) this.draw();
    });
  }

  /** All tracks with events, except the one shown. */
  others(shown) {
    return this.recording.header.tracks.flatMap(({ blocks }, i) => blocks && i !== shown ? [i] : []);
  }

  toggle() {
    if (!this.button.hidden) this.store.set({ strips: !this.store.state.strips });
  }

  /** Called when another track is shown, or strips are turned on or off. */
  async show() {
    const { strips, track: shown } = this.store.state;
    this.button.setAttribute("aria-pressed", String(strips));
    const indices = strips ? this.others(shown) : [];
    const asked = this.asked = {};
    const tracks = await Promise.all(indices.map((index) => this.recording.track(index)));
    if (this.asked !== asked) return;
    this.strips = tracks.map((track, i) => {
      const canvas = element("canvas", { role: "img" });
      const words = `${track.info.id}, peak ${formatBytes(track.peak.bytes)}`;
      canvas.setAttribute("aria-label", words);
      const strip = element("button", { type: "button", class: "strip", title: `Show ${track.info.id}`,
        onclick: () => this.changeTrack(indices[i]) }, canvas, element("span", { class: "strip-name" }, words));
      return { track, canvas, strip };
    });
    this.box.replaceChildren(...this.strips.map(({ strip }) => strip));
    this.box.hidden = !this.strips.length;
    this.draw();
  }

  drawNow() {
    if (this.box.hidden || !this.timeline.track) return;
    this.sizeDrawn();
    for (const { track, canvas } of this.strips) this.drawStrip(track, canvas);
  }

  drawStrip(track, canvas) {
    const { start, end, window: selected } = this.store.state;
    const { along, width } = this.timeline;
    const ratio = globalThis.devicePixelRatio || 1;
    const full = this.box.clientWidth;
    Object.assign(canvas, { width: Math.round(full * ratio), height: Math.round(HEIGHT * ratio) });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const count = Math.max(Math.round(width * ratio), 1);
    const firstAt = (place) => lowerBound(track.time, along.timeOf(place));
    const { max, min } = chooseColumns(track, firstAt, start, end, count);
    const scale = (HEIGHT - 4) / Math.max(track.peak.bytes, 1);
    const ink = inks("area", "area-light", "accent");
    for (const [values, colour] of [[max, ink["area-light"]], [min, ink.area]]) {
      context.fillStyle = colour;
      context.beginPath();
      context.moveTo(LEFT, HEIGHT);
      for (let i = 0; i < count; i++) context.lineTo(LEFT + i / ratio, HEIGHT - values[i] * scale);
      context.lineTo(LEFT + width, HEIGHT);
      context.fill();
    }
    if (!selected) return;
    const [left, right] = selected.map((time) => this.timeline.x(time));
    context.globalAlpha = 0.2;
    context.fillStyle = ink.accent;
    context.fillRect(Math.max(left, LEFT), 0, Math.min(right, LEFT + width) - Math.max(left, LEFT), HEIGHT);
    context.globalAlpha = 1;
  }
}
