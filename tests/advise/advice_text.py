"""Compares the text of `memprof advise` with its JSON: each change's saving, words, cost and code."""
import re

ROW = re.compile(r"^ *(~ )? *(\d+)\. +(?:([\d.]+) (B|[KMGTPE]iB)|it fits) +([\d.]+) (B|[KMGTPE]iB) +(allocated|reserved) +(\S.*?) *$", re.M)


def is_about(number, unit, count):
    """True if a printed size of three digits stands for that many bytes."""
    return abs(float(number) * 1024 ** "BKMGTPE".index(unit[0]) - count) <= 0.005 * count + 1


def differences(found, text):
    """Parts of the changes in an answer of advise that are missing or different in its text."""
    rows = ROW.findall(text)
    ends = [match.start() for match in ROW.finditer(text)][1:] + [len(text)]
    if len(rows) != len(found["changes"]):
        return [f"{len(rows)} rows of {len(found['changes'])} changes: {text}"]
    wrong = []
    for i, (change, row, end) in enumerate(zip(found["changes"], rows, ends)):
        mark, number, saves, unit, peak, peak_unit, what, words = row
        saved, left = ((change["saved_reserved_bytes"], change["reserved_peak_bytes"]) if what == "reserved" else
                       (change["saved_bytes"], change["peak_bytes"]))
        below = text[:end].rsplit(words, 1)[-1]
        told = {"number": int(number) == i + 1, "mark": bool(mark) != change["exact"], "text": words == change["text"],
                "saving": is_about(saves, unit, saved) if saves else not saved, "peak": is_about(peak, peak_unit, left),
                "cost": not change["cost"] or change["cost"] in below,
                "code": change["pattern"] == "settings" or not change["code"] or change["code"] in below}
        wrong += [f"{change['pattern']}: {name}: {row}, {change}" for name, right in told.items() if not right]
    return wrong
