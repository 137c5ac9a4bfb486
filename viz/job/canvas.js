// Shared by the drawings of a job: a canvas in the screen's resolution, colours of the theme, an area under a curve.

import { Curves } from "./data.js";

/** A canvas that fills a box; screen readers read `label`. */
export function drawing(box, label) {
  const canvas = document.createElement("canvas");
  canvas.className = "drawn";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  box.append(canvas);
  return canvas;
}

/** Sizes the canvas to its box and clears it. @returns {{context, width, height}} in CSS pixels */
export function prepare(canvas, width = canvas.clientWidth, height = canvas.clientHeight) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  return { context, width, height };
}

let known = {};
let ofTheme = "";

/** A colour of the theme, as "--area". */
export function colour(name) {
  const theme = document.documentElement.dataset.theme;
  if (theme !== ofTheme) [known, ofTheme] = [{}, theme];
  return known[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The path of a curve's highest bytes in a box. Each point's value lasts until the next point. */
export function trace(context, curve, box, end, top) {
  const x = (value) => box.x + Math.min(value / end, 1) * box.width;
  const y = (bytes) => box.y + box.height - Math.min(bytes / top, 1) * box.height;
  const count = curve.at.length;
  context.beginPath();
  for (let i = 0; i < count; i++) {
    const [left, right] = [Curves.start(curve, i), i + 1 < count ? Curves.start(curve, i + 1) : Curves.start(curve, i) + curve.unit];
    if (i === 0) context.moveTo(x(left), y(curve.most[i]));
    else context.lineTo(x(left), y(curve.most[i]));
    context.lineTo(x(right), y(curve.most[i]));
  }
  return { left: x(Curves.start(curve, 0)), right: x(Curves.start(curve, count - 1) + curve.unit), floor: box.y + box.height };
}

export function fillUnder(context, ends, fill) {
  context.lineTo(ends.right, ends.floor);
  context.lineTo(ends.left, ends.floor);
  context.closePath();
  context.fillStyle = fill;
  context.fill();
}
