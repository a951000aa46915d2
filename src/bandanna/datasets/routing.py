"""LLM routing: prompts of public benchmarks, and how well each of three models answered, at which price."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.datasets.finding import content_of, installed
from bandanna.datasets.reading import rows_of_jsonl
from bandanna.errors import BandannaError, MissingExtra
from bandanna.features.map import Map
from bandanna.features.parts import Ball, Hash, Project

_PACKAGE = "pareto_bandit"
_FILES = ("data/examples/val.jsonl", "data/examples/test_holdout.jsonl")
_ARMS = ("meta-llama/llama-3.1-8b-instruct", "mistralai/mistral-large-2512", "google/gemini-2.5-pro")
_PRICES = (0.0, 0.05, 0.1)  # what quality has to make up for: the models by their price, cheap, middle and dear

FEATURES = Map(Hash("prompt", buckets=64), Project(4, seed=0), Ball())

CARD = Card(
    name="routing",
    title="LLM routing: which of three language models should answer a prompt",
    kind="table",
    rows=3_609,
    arms=_ARMS,
    reward="quality of the answer, from 0 to 1, minus 0, 0.05 or 0.1 for the cheap, the middle and the dear model; "
    "at least 0",
    propensities="none: the reward of every model is known for every prompt",
    features="words of the prompt in 64 buckets, projected to 4 features",
    public="the price list, and nothing of the prompts: words are hashed",
    source="ParetoBandit's example data: prompts of MMLU, GSM8K, HellaSwag, ARC and others, judged answers",
    package="paretobandit, pareto_bandit/data/examples/*.jsonl",
    package_licence="Apache-2.0",
    data_licence="not stated for the prompts, which come from public benchmarks",
    get="pip install 'bandanna[data]'; or pip download --no-deps paretobandit, and path= of the wheel",
    people=False,
)


def load(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """From the installed package, or from its wheel, its folder or one of its files at `path`."""
    contents = _contents(path)
    rows = [row for content in contents for row in rows_of_jsonl(content, "the routing data")]
    prompts: list[Any] | None = None
    with suppress(KeyError, TypeError, ValueError):  # whose texts show what is there
        quality = np.array([[float(row["arms"][arm]["reward"]) for arm in _ARMS] for row in rows])
        prompts = [str(row["prompt"]) for row in rows]
    if prompts is None:
        raise BandannaError("the routing data lack a prompt or a model's reward")
    if not np.all((quality >= 0) & (quality <= 1)):
        raise BandannaError("the routing data have rewards outside of [0, 1]")
    return DataSet(
        card=CARD,
        records={"prompt": prompts, "length": np.array([float(len(prompt)) for prompt in prompts])},
        features=FEATURES if features is None else features,
        arms=_ARMS,
        rewards=np.maximum(quality - np.array(_PRICES), 0.0),
    )


def where() -> Path | None:
    """Of the installed files."""
    return installed(_PACKAGE, _FILES[0])


def _contents(path: str | PathLike[str] | None) -> list[bytes]:
    if path is not None:
        single = Path(path).suffix == ".jsonl"
        return [content_of(path, file) for file in (_FILES[:1] if single else _FILES)]
    files = [installed(_PACKAGE, file) for file in _FILES]
    if None in files:
        raise MissingExtra("data", "LLM routing (of paretobandit; or path= of its wheel)")
    return [file.read_bytes() for file in files if file is not None]
