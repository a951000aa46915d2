"""As much of YAML as deploy/compose.yaml uses: block mappings, flow lists and mappings, anchors, merges, comments.

Anything else is an error, so that what this reads is what every other reader reads.
"""

from __future__ import annotations

import json
import re
from typing import Any

_LINE = re.compile(r"( *)(\"[^\"]+\"|[\w.<-]+):(?: (.*))?")
_WORD = re.compile(r"[\w./:@%+-]+")


def parse(text: str) -> Any:
    """The document."""
    lines = [_bare(line) for line in text.splitlines()]
    reader = _Reader([line for line in lines if line.strip()])
    document = reader.mapping(0)
    assert not reader.lines, f"not read: {reader.lines[0]!r}"
    return document


def _bare(line: str) -> str:
    assert "\t" not in line, line
    return re.sub(r"(^|\s)#.*", "", line).rstrip()


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines, self.anchors = lines, dict[str, Any]()

    def mapping(self, depth: int) -> dict[str, Any]:
        """All keys at this depth."""
        made: dict[str, Any] = {}
        while self.lines:
            found = _LINE.fullmatch(self.lines[0])
            assert found is not None, f"no key: {self.lines[0]!r}"
            assert len(found[1]) <= depth, f"too deep: {self.lines[0]!r}"
            if len(found[1]) < depth:
                break
            self.lines.pop(0)
            name, value = found[2].strip('"'), (found[3] or "").strip()
            if name == "<<":
                made = {**self.anchors[value.removeprefix("*")], **made}
                continue
            assert name not in made or name in self._merged(made), f"twice: {name}"
            made[name] = self.value(value, depth)
        return made

    def _merged(self, made: dict[str, Any]) -> set[str]:
        return {name for anchor in self.anchors.values() for name in anchor if made.get(name) == anchor[name]}

    def value(self, text: str, depth: int) -> Any:
        """What stands behind a colon."""
        if text.startswith("&"):
            made = self.mapping(depth + 2)
            self.anchors[text[1:]] = made
            return made
        return self.mapping(depth + 2) if not text else flow(text)


def flow(text: str) -> Any:
    """A list, a mapping, or a word, on one line."""
    if text[0] not in "[{":
        return json.loads(text) if text[0] == '"' else _word(text)
    quoted = re.sub(r'"[^"]*"|[^\s\[\]{},:"][^\[\]{},"]*', lambda found: _quoted(found[0]), text)
    return json.loads(quoted)


def _quoted(part: str) -> str:
    """Words of flow collections, as JSON has them; `a: b` are two."""
    if part.startswith('"'):
        return part
    name, colon, value = part.strip().partition(": ")
    if not colon:
        name, colon = (name[:-1], ":") if name.endswith(":") else (name, "")
    return json.dumps(_word(name)) + (f": {json.dumps(_word(value))}" if value else colon)


def _word(text: str) -> Any:
    assert _WORD.fullmatch(text), f"no word: {text!r}"
    return {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)
