"""Texts of somebody who wants a page to do something."""

from __future__ import annotations

PAYLOADS = (
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</script><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "]]><!--<b>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "a\u202egpj.exe",
    "line\u2028break\u0085",
    "\x00\x1b[31mred",
    "\ud800lone",
    "<\u0000script>alert(1)</script>",
    "x" * 5000,
)
MARK = "alert(1)"


def harmless(text: str) -> bool:
    """Whether no payload stands in a page, or its twin, as markup."""
    low = text.lower()
    return not any(
        each in low for each in ("<script>alert", "<svg onload", "<img src=x", "onmouseover='", "<b>", "\u202e", "\x1b")
    )
