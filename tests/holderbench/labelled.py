"""The labelled leaks of programs/*.py; containers.py explains them."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


class Case:
    def __init__(self, file, name, text):
        self.file, self.name, self.text = file, name, text
        self.labels = dict(re.findall(r"^# (\w+): (.*)$", text, re.M))


def cases():
    for file in sorted(os.listdir(os.path.join(HERE, "programs"))):
        if file.endswith(".py"):
            with open(os.path.join(HERE, "programs", file), encoding="utf-8") as opened:
                parts = re.split(r"^#--- (.*)$", opened.read(), flags=re.M)
            for name, text in zip(parts[1::2], parts[2::2]):
                yield Case(file, name, text)
