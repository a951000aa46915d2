"""Simulate readers of the front page. Each has its own cookie, and some click.

python examples/news/readers.py --readers 500
"""

from __future__ import annotations

import argparse
import asyncio
import re
from html import unescape

import httpx
import numpy as np

CLICKS = (0.1, 0.2, 0.15, 0.5)  # how often each headline is clicked; the page does not know
ACTION = re.compile(r'class="lead" method="post" action="(/story/(\d)[^"]*)"')


async def read(client: httpx.AsyncClient, readers: int, rng: np.random.Generator) -> list[int]:
    """Send readers one after the other; return how often each headline was shown."""
    shown = [0] * len(CLICKS)
    for _ in range(readers):
        client.cookies.clear()
        found = ACTION.search((await client.get("/")).text)
        assert found is not None
        number = int(found[2])
        shown[number] += 1
        if rng.random() < CLICKS[number]:
            await client.post(unescape(found[1]))
    return shown


async def main(url: str, readers: int) -> None:
    """Run the readers over HTTP."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        print("Shown:", *await read(client, readers, np.random.default_rng()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Simulated readers of the front page.")
    parser.add_argument("--url", default="http://127.0.0.1:8712")
    parser.add_argument("--readers", type=int, default=500)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.url, chosen.readers))
