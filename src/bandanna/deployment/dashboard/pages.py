"""The pages of the dashboard: Jinja2 templates, and numbers as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bandanna.deployment.dashboard import charts

STATES = {
    "well": ("well", "good"),
    "unwell": ("not well", "bad"),
    "silent": ("does not answer", "bad"),
    "unclear": ("does not say", "quiet"),
    "unqueried": ("not queried yet", "quiet"),
    "unnamed": ("not queried: its address was not given with --role-url", "quiet"),
    "running": ("running", "good"),
    "finished": ("finished", "quiet"),
    "exhausted": ("exhausted", "bad"),
}
ERRORS = {
    401: "That is not the token.",
    403: "That request did not come from this site.",
    404: "There is nothing at this address.",
    502: "The analyzer does not answer, or sends something else. Try again later.",
}
_TABLE_ROWS = 12  # rows of the table behind a curve
# Characters that a browser obeys, or that turn the direction of the text around them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def _finalize(value: Any) -> Any:
    """Prepare a value for a template, which escapes everything but Markup."""
    if value is None or isinstance(value, Markup):
        return "" if value is None else value
    return _INVISIBLE.sub("\ufffd", str(value))


def format_number(value: Any, digits: int = 4) -> str:
    """Return a number with a few significant digits and separated thousands, or a dash if it is not known.

    >>> format_number(0.99873), format_number(12345.6), format_number(3), format_number(None)
    ('0.9987', '12,346', '3', '–')
    """
    if type(value) is int:
        return f"{value:,}"
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return "\u2013"
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}") if "e" not in text else text


def format_band(value: Mapping[str, Any] | None, digits: int = 4) -> str:
    """Return a number with its uncertainty, such as "0.5 ± 0.1"."""
    if value is None or value["value"] is None:
        return "\u2013"
    if value["half"] is None:
        return format_number(value["value"], digits)
    return f"{format_number(value['value'], digits)} \u00b1 {format_number(value['half'], max(2, digits - 1))}"


def format_count(count: Any, noun: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{format_number(count)} {noun}{'s' * (count != 1)}"


def format_epsilon(value: Any) -> str:
    """Return an epsilon with four significant digits, as the command line does."""
    return f"{value:.4g}" if isinstance(value, int | float) else "\u2013"


def _sample_series(series: list[dict[str, Any]], value: str) -> list[dict[str, Any]]:
    known = [point for point in series if point[value] is not None]
    step = max(1, -(-len(known) // _TABLE_ROWS))
    return known[::-step][::-1]


def _make_templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("bandanna.deployment.dashboard"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    templates.filters.update(
        number=format_number, band=format_band, count_of=format_count, epsilon=format_epsilon, sampled=_sample_series
    )
    templates.globals.update(states=STATES, errors=ERRORS, charts=charts)
    return templates


TEMPLATES = _make_templates()


def render_page(template: str, document: Mapping[str, Any], *, admin: bool | None) -> bytes:
    """Return a page as HTML from a template and the page's JSON twin; `admin` is None without a login."""
    page = TEMPLATES.get_template(f"{template}.html").render(document=document, admin=admin)
    return page.encode("utf-8", errors="replace")
