import { readFileSync } from "node:fs";

import { assert, test } from "./asserted.js";
import { APART_COLOURS, apartColour, luminance, noColour, PALETTE, scaleColours, textOn } from "../src/draw/palette.js";

// Machado, Oliveira, Fernandes: "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, on
// linear RGB, severity 1.
const VISIONS = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
};

/** CIE L*a*b* (D65) of a colour for an eye with `vision`. */
function seen(colour, vision) {
  const linear = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const [r, g, b] = vision.map((row) =>
    Math.min(Math.max(row.reduce((sum, share, i) => sum + share * linear[i], 0), 0), 1));
  const xyz = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089];
  const [x, y, z] = xyz.map((value) => value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function difference(a, b, vision) {
  const [p, q] = [seen(a, vision), seen(b, vision)];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** The inks of shell.css, light and dark. */
function themes() {
  const style = readFileSync(new URL("../shell.css", import.meta.url), "utf8");
  return style.split('[data-theme="dark"]').slice(0, 2).map((part) => Object.fromEntries(
    [...part.slice(0, part.indexOf("}")).matchAll(/--([a-z-]+): #([0-9a-f]{6});/g)].map(([, name, hex]) =>
      [name, [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16))])));
}

test("any two colours of sites differ, and of categories and modules with their grey, whatever an eye is blind to", () => {
  assert.equal(APART_COLOURS, 13); // as many as there are categories
  for (const dark of [false, true]) {
    const apart = [noColour(dark), ...Array.from({ length: APART_COLOURS }, (_, i) => apartColour(i, dark))];
    for (const [name, vision] of Object.entries(VISIONS)) {
      for (const [colours, least] of [[PALETTE.map((pair) => pair[Number(dark)]), 12], [apart, 12.8]]) {
        colours.forEach((one, i) => colours.slice(0, i).forEach((other) => assert.ok(
          difference(one, other, vision) >= least, `${name}: ${one} and ${other}`)));
      }
    }
  }
});

test("a scale rises in lightness for every eye, step by step", () => {
  for (const dark of [false, true]) {
    for (const vision of Object.values(VISIONS)) {
      const lightness = scaleColours(8, dark).map((colour) => seen(colour, vision)[0]);
      for (let i = 1; i < lightness.length; i++) assert.ok(lightness[i] - lightness[i - 1] > 3, `${lightness}`);
    }
  }
});

test("colours, words and lines stand out from what is behind them", () => {
  for (const [i, ink] of themes().entries()) {
    for (const pair of PALETTE) {
      assert.ok(contrast(pair[i], ink.panel) >= 3, `${pair[i]}`);
      assert.ok(contrast(textOn(pair[i]), pair[i]) >= 4.5);
    }
    for (const name of ["text", "soft", "peak", "oom", "warn", "accent"]) {
      for (const behind of ["panel", "page", "chosen"]) {
        assert.ok(contrast(ink[name], ink[behind]) >= 4.5, `${name} on ${behind}: ${contrast(ink[name], ink[behind])}`);
      }
    }
  }
});
