"""Compares the text of `memprof advise` with its JSON: each change's saving, words, cost and code."""
import re

NUMBER = r"([\d.]+) (B|[KMGTPE]iB)"
ROW = re.compile(rf"^ *(~ )? *(\d+)\. +(?:{NUMBER}|it fits)(?: +{NUMBER})? +{NUMBER} +(\S.*?) *$", re.M)


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
        mark, number, saves, unit, reserved, reserved_unit, peak, peak_unit, words = row
        below = text[:end].rsplit(words, 1)[-1]
        told = {"number": int(number) == i + 1, "mark": bool(mark) != change["exact"], "text": words == change["text"],
                "saving": is_about(saves, unit, change["saved_bytes"]) if saves else not change["saved_bytes"],
                "reserved": is_about(reserved, reserved_unit, change["saved_reserved_bytes"]) if reserved else
                            change["saved_reserved_bytes"] is None,
                "peak": is_about(peak, peak_unit, change["peak_bytes"]),
                "cost": not change["cost"] or change["cost"] in below,
                "code": change["pattern"] == "settings" or not change["code"] or change["code"] in below}
        wrong += [f"{change['pattern']}: {name}: {row}, {change}" for name, right in told.items() if not right]
    return wrong
