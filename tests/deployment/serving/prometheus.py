"""A strict reader of Prometheus' text format, written from its description: whatever is not allowed is an error."""

from __future__ import annotations

import math
import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{((?:{_LABEL})(?:,{_LABEL})*)\}})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_HELP = re.compile(rf"# HELP ({_NAME}) ((?:[^\\\n]|\\[\\n])*)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge|histogram|untyped)")
_PART = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
_ESCAPE = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> tuple[dict[str, str], Samples]:
    assert text.endswith("\n")
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: Samples = {}
    for line in text[:-1].split("\n"):
        if match := _HELP.fullmatch(line):
            assert match[1] not in helped, line
            helped.add(match[1])
        elif match := _TYPE.fullmatch(line):
            assert match[1] not in types, line
            types[match[1]] = match[2]
        else:
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            labels = frozenset((key, unescaped(value)) for key, value in _PART.findall(match[2] or ""))
            assert (match[1], labels) not in samples, line
            assert match[1] in types or re.sub("_(bucket|sum|count)$", "", match[1]) in types, line
            samples[match[1], labels] = float(match[3])
    for name in (name for name, kind in types.items() if kind == "histogram"):
        _check_histogram(name, samples)
    return types, samples


def unescaped(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPE[match[0]], text)


def _check_histogram(name: str, samples: Samples) -> None:
    for (sample, labels), count in samples.items():
        if sample != f"{name}_count":
            continue
        ends = {
            float(dict(inside)["le"]): value
            for (each, inside), value in samples.items()
            if each == f"{name}_bucket" and {pair for pair in inside if pair[0] != "le"} == labels
        }
        values = [ends[end] for end in sorted(ends)]
        assert values == sorted(values)
        assert ends[math.inf] == count
        assert (f"{name}_sum", labels) in samples
