#!/usr/bin/env python3
"""memprof's table of tensors that autograd's operators save for backward (src/analysis/advise/operators.c), compared
with PyTorch 2.6's own formulas. torchgen installs them in derivatives.yaml."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "cuda_torch")]
sys.dont_write_bytecode = True
import bed
import harness

# Text after a tensor's name in a formula that asks for its shape or type, and so saves no tensor.
SHAPE = (r"\b\w+(\.|->)(sym_)?(sizes|size|scalar_type|options|dim|numel|strides|layout|is_\w+|defined|suggest_memory_format|"
         r"device|dtype|type)\b|to_args_\w+\(\w+\)")


def formulas(path):
    """Each operator's tensors, results and backward formula, by its name with the overload."""
    found, entry, dispatch = {}, None, None
    for line in open(path):
        head = re.match(r"- name: ([\w.]+)\((.*)\) -> (.*)$", line)
        if head:
            tensors = re.findall(r"Tensor(?:\([^)]*\))?\??(?:\[\])? (\w+)", head[2])
            results = re.findall(r"Tensor(?:\([^)]*\))? (\w+)", head[3]) + ["result", "result0", "result1", "result2", "result3"]
            entry = found[head[1].replace(".", "_")] = (tensors, results, [])
            dispatch = None
            continue
        part = re.match(r"( +)([\w, ]+): (.*)$", line)
        other = re.match(r"    (\w+):\s*$", line)
        if other:
            dispatch = other[1]
        if not entry or not part or dispatch not in (None, "Default"):
            continue
        if re.fullmatch(r"result\d*|output_differentiability|name|dispatch", part[2]):
            continue
        if set(part[2].split(", ")) <= set(entry[0]):
            entry[2].append(part[3])
    return found


def saves_of(entry):
    tensors, results, texts = entry
    words = set(re.findall(r"\b[a-z_]\w*\b", re.sub(SHAPE, "", " ".join(texts))))
    return ("RESULTS" if words & set(results) else "INPUTS" if words & set(tensors) else "NOTHING")


class Operators(harness.TestCase):
    def test_formulas(self):
        import torch
        import torchgen
        path = os.path.join(os.path.dirname(torchgen.__file__), "packaged", "autograd", "derivatives.yaml")
        known = formulas(path)
        with open(bed.SOURCE / "src" / "analysis" / "advise" / "operators.c") as source:
            rows = re.findall(r'\{"(\w+)", "(\w+)",\s+MP_SAVES_(\w+)\}', source.read())
        self.assertGreater(len(rows), 90)
        for name, node, saves in rows:
            self.assertIn(name, known)
            self.assertEqual(saves_of(known[name]), saves, name)
            self.assertTrue(any(hasattr(torch._C._functions, f"{node}Backward{number}") for number in range(6)), node)


if __name__ == "__main__":
    bed.main()
