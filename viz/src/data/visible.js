// Parses JSON whose names people will read. Names may have invisible characters that change how the text around them
// reads, such as U+202E, which reverses text.

// src/base/utf8.h has the same.
const HIDDEN = new RegExp("[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]", "gu");

/** The text of a JSON document, with U+FFFD in place of each such character. */
export function parseVisible(text) {
  return JSON.parse(text, (_, value) => typeof value === "string" ? value.replace(HIDDEN, "\ufffd") : value);
}
