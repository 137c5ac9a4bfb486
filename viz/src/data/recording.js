// A recording as the views see it. Tracks are unpacked when they are first shown.

import { ADVICE_COLUMNS, readAdvice } from "./advice.js";
import { WORD_COLUMNS, readWords } from "./modules.js";
import { NOTE_COLUMNS, Notes, STEP_COLUMNS } from "./notes.js";
import { readSamples, SAMPLE_COLUMNS } from "./samples.js";
import { STACK_COLUMNS, Stacks } from "./stacks.js";
import { Track } from "./track.js";
import { readNumbers } from "./varint.js";

export class Recording {
  /** @param {import("./archive.js").Archive} archive */
  static async open(archive) {
    const [stacks, notes, size, steps, samples, modules, words, advice] = await Promise.all([
      archive.group("stack", STACK_COLUMNS), archive.group("note", NOTE_COLUMNS), archive.group("size", ["bytes"]),
      archive.group("step", STEP_COLUMNS), archive.group("sample", SAMPLE_COLUMNS),
      archive.group("module", WORD_COLUMNS), archive.group("word", WORD_COLUMNS),
      archive.header.advice && archive.group("advice", ADVICE_COLUMNS),
    ]);
    return new Recording(archive, new Stacks(stacks), { notes, steps, samples, modules, words, advice, sizes: size.bytes });
  }

  constructor(archive, stacks, { notes, steps, samples, modules, words, advice, sizes }) {
    this.archive = archive;
    this.header = archive.header;
    this.stacks = stacks;
    this.timeUnit = this.header.time_unit_ns;
    // The part that the page shows, from its first moment to its last; all of the recording unless it was cut.
    this.from = Math.floor(this.header.from_ns / this.timeUnit);
    this.to = Math.max(this.from + 1, Math.ceil(this.header.to_ns / this.timeUnit));
    this.timeless = this.header.duration_ns === 0; // imported files without times have only an order
    this.before = this.header.cut ? "before this part" : "before the recording";
    const end = Math.ceil(this.header.duration_ns / this.timeUnit);
    const stepsEnd = Math.min(end, Math.ceil(this.header.steps_end_ns / this.timeUnit));
    this.notes = new Notes(notes, steps, stacks, { end, stepsEnd, before: this.header.steps_before });
    this.modules = readWords(modules);
    this.words = readWords(words); // texts about blocks and frames
    this.categories = ["", ...this.header.categories];
    this.samples = readSamples(samples, stacks);
    this.changes = advice ? readAdvice(this.header.advice, advice) : [];
    this.sizes = new Float64Array(sizes.count + 1);
    this.sizes.set(readNumbers(sizes.bytes, sizes.count), 1);
    this.tracks = new Map();
  }

  async track(index) {
    if (!this.tracks.has(index)) {
      const data = await this.archive.track(index, this.sizes, this.to);
      const units = { timeUnit: this.timeUnit, addressShift: this.header.address_shift, from: this.from, to: this.to };
      this.tracks.set(index, new Track(this.header.tracks[index], data, this.sizes, units));
    }
    return this.tracks.get(index);
  }
}
