"""The same client in a real browser: its store, and what it computes with recorded entropy."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from bandanna.deployment.messages.canonical import sealing_key

from ...browser.conftest import Opening, chromium, client, opening
from . import cases
from .recorded import Words
from .running import CLIENT

pytestmark = pytest.mark.browser
__all__ = ["chromium", "client", "opening"]  # fixtures

SITE = "http://localhost"  # where WebCrypto is allowed; no request leaves the browser


@pytest.fixture
def page(opening: Opening, client: Any) -> Any:
    """An empty page among the files of clients/js."""
    made = opening().new_page()

    def answer(route: Any) -> None:
        path = CLIENT / urlsplit(route.request.url).path.lstrip("/")
        if path.suffix == ".mjs":
            route.fulfill(body=path.read_text(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>A test</title>", content_type="text/html")

    made.route(f"{SITE}/**", answer)
    made.goto(f"{SITE}/")
    return made


def test_the_store_of_browsers_does_what_stores_must(page: Any) -> None:
    script = """async () => {
      const { conformance } = await import("/test/conformance.mjs");
      const { indexedStore } = await import("/dist/bandanna.mjs");
      return conformance((name) => indexedStore(name));
    }"""
    assert len(page.evaluate(script)) == 8


def test_a_store_survives_a_reload(page: Any) -> None:
    kept = """async () => {
      const { indexedStore } = await import("/dist/bandanna.mjs");
      return indexedStore("reload")%s;
    }"""
    assert page.evaluate(kept % '.put("a", Uint8Array.of(1, 2), 0)')
    page.reload()
    assert page.evaluate(kept % '.get("a").then(({ value }) => Array.from(value))') == [1, 2]


def test_browsers_compute_what_python_computes(page: Any) -> None:
    """With the same words Chromium chooses another arm than Python, or draws other counts."""
    words, rng = Words(11), np.random.default_rng(11)
    made = [
        *(
            cases.acting(chooser, words, rng, kind, n)
            for chooser in cases.CHOOSERS
            for kind in ("plain", "ties", "explore")
            for n in range(20)
        ),
        *(
            cases.protecting(device, words, rng, n)
            for domain in cases.DOMAINS
            for device in cases.devices_of(domain)
            for n in range(1, 12)
        ),
    ]
    script = "async (given) => (await import('/test/tasks.mjs')).answered(given)"
    found = page.evaluate(script, [case.given for case in made])
    for each, case in zip(found, made, strict=True):
        assert each["left"] == 0
        for name in ("action", "message"):
            assert each.get(name) == case.expected.get(name)


def test_browsers_seal_and_draw_by_themselves(page: Any) -> None:
    """Chromium lacks what sealing needs, or its own entropy cannot be drawn from."""
    _, public = sealing_key()
    script = """async (key) => {
      const { answered } = await import("/test/tasks.mjs");
      const { unpacked } = await import("/dist/inside.mjs");
      const plain = btoa(String.fromCharCode(...unpacked(key, 32)));
      const seal = { what: "seal", key: plain, content: btoa("sixteen bytes .."), info: "" };
      return answered([seal, { what: "uniforms", draws: 20000 }]);
    }"""
    sealed, drawn = page.evaluate(script, public)
    assert len(sealed["sealed"]) == 88  # 16 bytes and what sealing adds, in base64
    assert 0.45 < np.mean(drawn["drawn"]) < 0.55  # 24 standard deviations
