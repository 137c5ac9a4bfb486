// The panel next to the drawings: one process, or two and their differences; if none is chosen, findings worth a look.

import { byteTicks, axisTop } from "../src/draw/axis.js";
import { byId, copyText, element, option } from "../src/dom.js";
import { formatBytes, formatCount, formatCounted, formatDuration, formatExact } from "../src/format.js";
import { colour, fillUnder, prepare, trace } from "./canvas.js";

/** A path quoted as one word of a shell's command, and not mistakable for an option. */
function shellWord(path) {
  const word = path.startsWith("-") ? "./" + path : path;
  return /^[A-Za-z0-9._/-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

const signed = (bytes) => bytes === 0 ? "0" : (bytes > 0 ? "+" : "−") + formatBytes(Math.abs(bytes));

function heldBy(leak) {
  return leak.holder ? element("div", {}, `held by ${leak.holder}`) : "";
}

export class Panel {
  /** @param {{choose: function(number), compare: function(number)}} page */
  constructor(job, state, page) {
    Object.assign(this, { job, state, page, box: byId("block") });
  }

  draw(curves) {
    this.curves = curves;
    const { process, other } = this.state;
    this.box.replaceChildren(...(process < 0 ? this.overview() : other < 0 ? this.one(process) : this.two(process, other)));
    this.drawCurve();
  }

  link(process, words = this.job.processes.name[process]) {
    return element("button", { type: "button", class: "link inline", onclick: () => this.page.choose(process) }, words);
  }

  /* ---- nothing chosen ---- */

  overview() {
    const { facts, processes } = this.job;
    const out = [];
    if (facts.outliers.length) {
      out.push(element("h2", {}, `Out of line: ${formatCount(facts.outlier_count)} of ${formatCount(this.job.count)}`),
        element("ul", {}, ...facts.outliers.slice(0, 8).map((one) => element("li", {}, this.link(one.process),
          ` ${formatBytes(one.distance)} ${one.more ? "more" : "less"} than usual`,
          ...one.sites.slice(0, 1).map(([stack, own, others]) =>
            element("div", { class: "soft" }, `${signed(own - others)}  ${this.job.label(stack)}`))))));
    }
    if (facts.leaks.length) {
      out.push(element("h2", {}, `Leaks in ${formatCount(facts.leaking)} of ${formatCount(this.job.count)}`),
        element("ul", {}, ...[...this.job.causes.values()].slice(0, 8).map((one) => element("li", {},
          this.link(one.process), one.count > 1 ? ` and ${formatCount(one.count - 1)} more` : "",
          element("strong", { class: "leak-word" }, ` +${formatBytes(one.growth)} a step`), ` since step ${formatCount(one.step)}`,
          element("div", { class: "soft" }, this.job.label(one.stack)), heldBy(one)))));
    }
    if (facts.devices.length) {
      out.push(element("h2", {}, "Devices that several share"),
        element("ul", {}, ...facts.devices.slice(0, 8).map((one) => element("li", {},
          element("strong", {}, one.device), one.host ? ` of ${one.host}: ` : ": ", `up to ${formatBytes(one.most)}`,
          one.capacity ? ` of ${formatBytes(one.capacity)}` : "",
          element("div", { class: "soft" }, `by ${formatCount(one.processes)} processes together, at ${formatDuration(one.at_ns)}`)))));
    }
    const highest = facts.highest;
    if (highest !== null) {
      out.push(element("h2", {}, "The highest peak"), element("p", {}, this.link(highest), ` ${formatBytes(processes.peak[highest])} on `,
        `${processes.track[highest]}, at ${formatDuration(processes.peak_ns[highest])}`,
        processes.peak_step[highest] ? `, step ${formatCount(processes.peak_step[highest])}` : ""));
    }
    out.push(element("p", { class: "hint" }, "Click a bar, a curve or a row to see a process; Shift + click another to see what differs."));
    return out;
  }

  /* ---- one process ---- */

  facts(i) {
    const p = this.job.processes;
    const median = this.job.median(i);
    const rows = [
      ["peak", [formatExact(p.peak[i]), median && p.peak[i] !== median ? `, ${signed(p.peak[i] - median)} from the median` : ""]],
      ["at", [formatDuration(p.peak_ns[i]), p.peak_step[i] ? `, step ${formatCount(p.peak_step[i])} of ${formatCount(p.steps[i])}` : ""]],
      ["on", [p.track[i] ?? "no memory recorded", p.capacity[i] ? ` of ${formatBytes(p.capacity[i])}` : ""]],
      ["reserved", p.reserved[i] === null ? null : [formatBytes(p.reserved[i])]],
      ["at the end", [formatExact(p.end[i]), " outstanding"]],
      ["verdict", [p.verdict[i], p.growth[i] ? `, +${formatBytes(p.growth[i])} a step` : p.reason[i] ? `: ${p.reason[i]}` : ""]],
      ["command", p.command[i] ? [p.command[i]] : null],
      ["host", p.host[i] ? [p.host[i], p.pid[i] === null ? "" : `, pid ${p.pid[i]}`] : null],
      ["recorded", [formatCounted(p.events[i], "event"), ` in ${formatDuration(p.duration_ns[i])}`]],
      ["ended", p.exit[i] ? [p.exit[i]] : null],
      ["missing", p.missing[i] ? [p.missing[i]] : null],
    ];
    return element("dl", {}, ...rows.filter(([, values]) => values).flatMap(([name, values]) =>
      [element("dt", {}, name), element("dd", {}, ...values)]));
  }

  one(i) {
    const { job } = this;
    const held = job.held(i);
    const leaks = job.leaks.get(i) ?? [];
    const whole = job.processes.peak[i];
    return [
      element("div", { class: "who" }, element("strong", { class: "headline first" }, job.processes.name[i]), this.chooser(i)),
      element("canvas", { class: "curve", role: "img", "aria-label": "the course of its memory" }),
      ...this.ownPage(i),
      this.facts(i),
      ...(leaks.length ? [element("h3", {}, "Leaks"), element("ul", {}, ...leaks.map((one) => element("li", {},
        element("strong", { class: "leak-word" }, `+${formatBytes(one.growth)} a step`), ` since step ${formatCount(one.step)}, ${formatBytes(one.bytes)} by now`,
        this.site(one.stack), heldBy(one))))] : []),
      ...(held.length ? [element("h3", {}, "What it held most of, at its peak"), element("table", { class: "held" },
        ...held.map((one) => element("tr", {},
          element("td", {}, this.site(one.stack)), element("td", { class: "number" }, formatBytes(one.bytes)),
          element("td", { class: "number soft" }, whole ? (100 * one.bytes / whole).toFixed(0) + " %" : ""))))] : []),
    ];
  }

  /** The command that makes the page of the process alone. */
  ownPage(i) {
    const command = `memprof trace_plot ${shellWord(this.job.processes.path[i])} -o trace.html`;
    return [element("details", {}, element("summary", { class: "soft" }, "Every block of it"),
      element("code", { class: "line" }, command),
      element("button", { type: "button", onclick: async (event) => {
        event.target.textContent = await copyText(command) ? "copied" : "cannot copy";
      } }, "Copy"))];
  }

  site(stack) {
    const frames = this.job.frames(stack);
    return element("details", {}, element("summary", {}, this.job.label(stack)),
      element("ol", { class: "stack" }, ...frames.map((frame) => element("li", { class: frame.python ? "python" : "native" },
        element("span", { class: "function" }, frame.name), " ", element("span", { class: "place" }, frame.place)))));
  }

  /** A list to choose the process to compare with, for users of the keyboard. */
  chooser(i) {
    if (this.job.count < 2) return "";
    const { name } = this.job.processes;
    const { highest, outliers } = this.job.facts;
    const usual = this.job.usual(i);
    const first = new Map([[usual, " (usual)"], [highest, " (highest peak)"], ...outliers.slice(0, 20).map((one) => [one.process, " (out of line)"])]);
    for (let k = Math.max(i - 20, 0); k < name.length && k < i + 60; k++) if (!first.has(k)) first.set(k, "");
    const select = element("select", { "aria-label": "Compare with", title: "Shift + click compares any other", onchange: () => this.page.compare(Number(select.value)) },
      option(-1, "compare with …"), ...[...first].flatMap(([k, words]) => k === i || k === null || k < 0 ? [] : [option(k, name[k] + words)]));
    select.value = String(this.state.other);
    return select;
  }

  /* ---- two ---- */

  two(a, b) {
    const p = this.job.processes;
    const row = (words, key, format = formatBytes, change = signed) => element("tr", {}, element("td", {}, words),
      element("td", { class: "number" }, format(p[key][a])), element("td", { class: "number" }, format(p[key][b])),
      element("td", { class: "number" }, change(p[key][a] - p[key][b])));
    const count = (number) => (number > 0 ? "+" : number < 0 ? "−" : "") + formatCount(Math.abs(number));
    const bound = { "": "", a: "≤ ", b: "≥ " };
    const other = [["program", "command"], ["host", "host"], ["track", "track"], ["verdict", "verdict"]]
      .filter(([, key]) => p[key][a] !== p[key][b]);
    return [
      element("div", { class: "who" }, element("strong", { class: "headline first" }, p.name[a]), " and ",
        element("strong", { class: "headline second" }, p.name[b]),
        element("button", { type: "button", id: "swap", onclick: () => this.page.swap() }, "swap"),
        element("button", { type: "button", onclick: () => this.page.compare(-1) }, "alone")),
      element("canvas", { class: "curve", role: "img", "aria-label": "the course of both" }),
      element("table", { class: "held" },
        element("tr", {}, element("th"), element("th", { class: "first" }, p.name[a]), element("th", { class: "second" }, p.name[b]), element("th", {}, "differs")),
        row("peak", "peak"), row("at the end", "end"), row("a step", "growth"), row("steps", "steps", formatCount, count),
        row("peak in step", "peak_step", formatCount, count)),
      ...(other.length ? [element("h3", {}, "Also different"), element("dl", {}, ...other.flatMap(([words, key]) =>
        [element("dt", {}, words), element("dd", {}, `${p[key][a]} / ${p[key][b]}`)]))] : []),
      element("h3", {}, "At their peaks"),
      element("table", { class: "held", id: "differs" }, ...this.job.difference(a, b).slice(0, 20).map((one) => {
        const side = (which) => (one.atMost === which ? "≤ " : "") + formatBytes(one[which]);
        return element("tr", {}, element("td", {}, this.site(one.stack)), element("td", { class: "number" }, side("a")),
          element("td", { class: "number" }, side("b")),
          element("td", { class: "number" }, bound[one.atMost] + signed(one.a - one.b)));
      })),
      element("p", { class: "hint" }, "≤: not among the 16 sites of which it held most; memprof compare of the two recordings has all."),
    ];
  }

  /* ---- curves ---- */

  drawCurve() {
    const canvas = this.box.querySelector(".curve");
    const { process, other } = this.state;
    if (!canvas || process < 0) return;
    const { context, width, height } = prepare(canvas);
    const shown = [process, other].filter((i) => i >= 0);
    const { peak } = this.job.processes;
    const top = axisTop(shown.reduce((most, i) => Math.max(most, peak[i]), 0));
    const end = this.curves.end(shown);
    const box = { x: 56, y: 6, width: width - 58, height: height - 10 };
    for (const { value, label } of byteTicks(0, top, 3)) {
      const y = box.y + box.height * (1 - value / top);
      context.fillStyle = colour("--line");
      context.fillRect(box.x, Math.round(y), box.width, 1);
      context.fillStyle = colour("--soft");
      context.textAlign = "right";
      context.fillText(label, box.x - 4, Math.max(y, 8));
    }
    shown.forEach((i, k) => {
      const curve = this.curves.of[i];
      if (!curve) return;
      if (shown.length === 1) fillUnder(context, trace(context, curve, box, end, top), colour("--area-light"));
      trace(context, curve, box, end, top);
      context.strokeStyle = colour(k ? "--module" : "--accent");
      context.lineWidth = 1.5;
      context.stroke();
    });
  }
}
