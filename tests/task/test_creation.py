"""Tasks from files: made whole, or refused in a sentence."""

from __future__ import annotations

import datetime
import math
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.data.features.map import Intercept, Map, OneHot, Project, Range, UnitBall
from bandanna.deployment.messages.canonical import digest, dumps, loads
from bandanna.deployment.task import creation
from bandanna.deployment.task.creation import create_task, parse_duration, write_task
from bandanna.deployment.task.description import guarantee_of_task, task_facts
from bandanna.deployment.task.document import Keys, Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.registry import ALGORITHMS, make_from_table

from ..drawn import examples
from ..simulation.golden_runs import RUNS
from .files import DP, LINEAR, TRUSTED, file

EARLY = ("RS-OFUL", "AdaC-OFUL")  # their episodes end by what devices have seen
PLANNING = ("GOPE", "AdaC-GOPE", "AdaC-GOPE-early", "DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE")
ELIMINATING = (*PLANNING, "DPE-FixedU", "PE")
FOUR = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8], "d": [-0.6, 0.8]}


def of(name: str) -> dict[str, Any]:
    arms = {"arms": {"features": FOUR}} if name in ELIMINATING else {}
    small = {"horizon": 60, **({} if "CSDP" in name else {"batch": 20})}  # calibrated in no time
    policy = {**RUNS[name][0], **(small if name.startswith("Lin") else {})}
    return {"title": name, "algorithm": name, "policy": policy, **arms}


SLOW = {"LinUCB-SDP-Vec", "LinUCB-LDP", "AdaC-OFUL-JDP", "GLM-SDP", "LinUCB-JDP", "GLM-JDP", "LinUCB-SDP-Amp", "LinUCB"}
EACH = [pytest.param(name, marks=[pytest.mark.full] if name in SLOW else []) for name in ALGORITHMS]


@pytest.mark.parametrize("name", EACH)
def test_every_algorithm_is_a_task_or_refused(name: str) -> None:
    if name in EARLY:
        with pytest.raises(InvalidArgument, match="looks at every round"):
            create_task(of(name), expect=False)
        return
    task, secrets = create_task(of(name), expect=False)
    assert task.trust == ALGORITHMS[name].trust.partition(" ")[0]
    assert task_facts(task)["guarantee"] == task.content["guarantee"]
    assert [each.role for each in secrets] == list(task.roles)
    assert (task.fixed_features is None) == (name not in ELIMINATING and "n_arms" not in RUNS[name][0])


@pytest.mark.parametrize("name", ELIMINATING)
def test_arms_that_are_planned_with_are_needed(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"arms must be a table \[arms\] with features .* for .*, got None"):
        create_task({table: given for table, given in of(name).items() if table != "arms"})


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("GOPE", "reward_std", 1e308),
        ("GOPE", "reward_std", 1e-300),
        ("LDP-DPE", "sigma", 1e308),
        ("GLM-UCB", "dim", 10**15),
        ("LinTS-LDP", "reward_std", 2**31),
        ("UCB1", "n_arms", 10**9),
        ("UCB1", "horizon", 10**13),
    ],
)
def test_numbers_that_do_not_fit_are_refused(name: str, argument: str, value: float) -> None:
    given = of(name)
    with pytest.raises(BandannaError, match="policy"):
        create_task({**given, "policy": {**given["policy"], argument: value}}, expect=False)


@pytest.mark.parametrize("mixers", [0, 1, 2])
@pytest.mark.parametrize(("trust", "name"), [(trust, name) for trust, names in TRUSTED.items() for name in names])
def test_every_privacy_model_has_its_mixers(trust: str, name: str, mixers: int) -> None:
    mixed = trust in ("shuffle", "concurrent")
    if mixed != (mixers > 0):
        with pytest.raises(InvalidArgument, match=r"rules\.mixers"):
            create_task(file(name, rules={"mixers": mixers}), expect=False)
        return
    task, secrets = create_task(file(name, rules={"mixers": mixers}), expect=False)
    assert task.trust == trust
    assert task.mixers == mixers
    assert task.roles == ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    pairs = {*task.roles, *(f"agree {role}" for role in task.roles)}
    assert set(task.content["keys"]) == pairs | ({"seal helper"} if mixers == 2 else set())
    assert set(task.content["urls"]) == set(task.roles)
    assert all(each.sign and each.agree and bool(each.person) == (each.role == "registrar") for each in secrets)
    if mixed and mixers == 1:
        assert create_task(file(name), expect=False)[0].mixers == 1


def test_sealed_reports_have_a_key() -> None:
    task, secrets = create_task(file("LinUCB-SDP-Amp"), expect=False)
    assert set(task.content["keys"]) == {*task.roles, *(f"agree {role}" for role in task.roles), "seal analyzer"}
    assert [each.role for each in secrets if each.seal] == ["analyzer"]
    with pytest.raises(InvalidArgument, match="Only counts can be split"):
        create_task(file("LinUCB-SDP-Amp", rules={"mixers": 2}), expect=False)


def test_no_role_has_a_secret_of_another(tmp_path: Path) -> None:
    task, secrets = create_task(file("LinTS-SDP", rules={"mixers": 2}), expect=False)
    write_task(tmp_path / "task", task, secrets)
    held: list[set[str]] = []
    for role in task.roles:
        path = tmp_path / "task" / f"{role}.secret.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        read = Secrets.read(tmp_path / "task", role, task)
        own = {read.sign, read.seal, read.agree, read.person, read.token} - {""}
        assert not any(secret in path.with_name("task.json").read_text() for secret in own)
        held.append(own)
    assert (
        sum(map(len, held)) == len(set().union(*held)) == 4 + 4 + 4 + 1 + 1
    )  # to sign, to agree, tokens, people, a seal
    assert stat.S_IMODE((tmp_path / "task").stat().st_mode) == 0o700


def test_the_id_is_the_hash(tmp_path: Path) -> None:
    task, secrets = create_task(file(), expect=False)
    write_task(tmp_path, task, secrets)
    document = (tmp_path / "task.json").read_bytes()
    assert digest(document) == task.id == Task.read(tmp_path).id == Task.read(tmp_path / "task.json").id


def test_a_changed_byte_is_another_task(tmp_path: Path) -> None:
    task, secrets = create_task(file(), expect=False)
    write_task(tmp_path, task, secrets)
    rng, refused = np.random.default_rng(0), 0
    for place in rng.integers(len(task.document), size=300).tolist():
        changed = bytearray(task.document)
        changed[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(BandannaError):
            Task.from_bytes(bytes(changed), task.id)
        refused += 1
    assert refused == 300
    other = Task.made({**task.content, "title": "another"})
    with pytest.raises(BandannaError, match="not of this one"):
        Secrets.read(tmp_path, "analyzer", other)


def test_a_document_with_another_promise_is_refused() -> None:
    task, _ = create_task(file(), expect=False)
    better = {**task.content["guarantee"], "epsilon": 0.1}
    for change in ({"guarantee": better}, {"promise": "Nobody sees anything."}):
        with pytest.raises(BandannaError, match="something else than its policy keeps"):
            task_facts(Task.made({**task.content, **change}))


def test_a_document_may_promise_less_than_its_policy_keeps() -> None:
    task, _ = create_task(file(), expect=False)
    stated = guarantee_of_task(task)
    older = replace(stated, epsilon=1.25 * stated.epsilon, rho=math.inf)
    numbers = loads(dumps(older.to_dict()))
    said = {"guarantee": numbers, "promise": str(older)}
    assert task_facts(Task.made({**task.content, **said}))["guarantee"]["epsilon"] == older.epsilon
    for change in ({"promise": task.content["promise"]}, {"guarantee": {**numbers, "participations": 2}}):
        with pytest.raises(BandannaError, match="something else than its policy keeps"):
            task_facts(Task.made({**task.content, **said, **change}))


def test_a_document_cannot_mislead_its_reader() -> None:
    task, _ = create_task(file(), expect=False)
    with pytest.raises(BandannaError, match="another policy than the name"):
        task_facts(Task.made({**task.content, "algorithm": "LinUCB-LDP"}))
    assert task_facts(Task.made({**task.content, "title": "a\x1b[2Jb\n"}))["title"] == "a?[2Jb?"


def test_the_same_keys_give_the_same_document() -> None:
    keys = Keys.drawn(mixers=0, sealed=False)
    one, two = (create_task(file(), keys=keys)[0] for _ in range(2))
    assert one.document == two.document
    assert one.content["expected"] is not None
    assert create_task(file())[0].id != one.id


def test_another_task_is_not_overwritten(tmp_path: Path) -> None:
    (task, secrets), (other, others) = (create_task(file(), expect=False) for _ in range(2))
    write_task(tmp_path, task, secrets)
    write_task(tmp_path, task, secrets)
    with pytest.raises(BandannaError, match="holds a task already"):
        write_task(tmp_path, other, others)
    (tmp_path / "task.json").unlink()
    with pytest.raises(BandannaError, match="holds a task already"):
        write_task(tmp_path, task, secrets)
    assert Secrets.read(tmp_path, "analyzer", task) in secrets
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(BandannaError, match="cannot be made"):
        write_task(blocked / "below", other, others)


def test_noise_that_is_not_enough_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:

    def careless(*given: Any) -> Any:
        policy: Any = make_from_table(*given)
        less = {n: replace(each, noise_std=0.8 * each.noise_std) for n, each in policy._channel.protocols.items()}
        vars(policy)["_channel"] = replace(policy._channel, protocols=less)
        return policy

    gaussian = file(policy={**LINEAR, **DP, "protocol": "gaussian"})
    create_task(gaussian, expect=False)
    monkeypatch.setattr(creation, "make_from_table", careless)
    with pytest.raises(BandannaError, match=r"policy: .* not proven to keep"):
        create_task(gaussian, expect=False)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"titel": "x"}, "Did you mean 'title'"),
        ({"rule": {}}, "Did you mean 'rules'"),
        ({"rules": {"mixer": 1}}, r"rules\.mixer .*Did you mean 'mixers'"),
        ({"roles": {"analyser": "http://a"}}, r"roles\.analyser .*Did you mean 'analyzer'"),
        ({"test": {"sead": 1}}, r"test\.sead .*Did you mean 'seed'"),
        ({"arms": {"name": ["a"]}}, r"arms\.name .*Did you mean 'names'"),
        ({"policy": {**LINEAR, "epsilonn": 1.0}}, r"policy\.epsilonn .*Did you mean 'epsilon'"),
        ({"policy": {**LINEAR, **DP, "intercpt": True}}, r"policy\.intercpt .*Did you mean 'intercept'"),
        ({"algorithm": "LinTS-LPD"}, r"algorithm must be .*, got 'LinTS-LPD'\. Did you mean 'LinTS-LDP'"),
        ({"algorithm": "json:JSONDecoder"}, "every party knows"),
        ({"algorithm": 3}, "a word in quotes"),
        ({"title": "two\nlines"}, "one line of"),
        ({"policy": 3}, r"a table \[policy\]"),
        ({"policy": {**LINEAR, "epsilon": "1"}}, r"policy\.epsilon must be a number, got '1'"),
        (
            {"policy": {**LINEAR, **DP, "participations": 2}},
            r"policy\.participations .*left out, got 2\. .*\[rules\]",
        ),
        ({"rules": {"participations": 0}}, r"rules\.participations must be .*, got 0"),
        ({"rules": {"grace": "soon"}}, r'rules\.grace must be .*"10 min".*, got \'soon\''),
        ({"rules": {"grace": -1}}, r"rules\.grace must be .*, got -1"),
        ({"rules": {"max_age": -1}}, r"rules\.max_age"),
        ({"rules": {"noise": "mixers"}}, r"rules\.noise .*, got 'mixers'\. Did you mean 'mixer'"),
        (
            {"algorithm": "LinTS-SDP", "rules": {"noise": "checked", "mixers": 2}},
            r"rules\.noise must be .*, got 'checked'.*Set mixers = 1",
        ),
        ({"rules": {"noise": "mixer"}}, r"rules\.noise must be 'device', because LinTS-LDP .*, got 'mixer'"),
        ({"roles": {"shuffler": "http://s"}}, r"roles\.shuffler must be left out.*0 mixers"),
        ({"roles": {"analyzer": "analyzer.example"}}, r"roles\.analyzer .*an address such as"),
        ({"roles": {"analyzer": "http://a:99999"}}, r"roles\.analyzer .*an address such as"),
        ({"arms": {"names": ["a", "b"]}}, "arms must be features = .* for LinTS-LDP"),
        ({"arms": {"names": ["a"], "features": {}}}, "not both"),
        (
            {"arms": {"features": {"a": [1.0], "b": [0.0, 1.0]}}},
            r"arms, arm 0 must be 2 numbers, got an array of shape \(1,\)",
        ),
        ({"schema": {"age": [18, 80]}}, "2 names, one for each feature of the policy, got 1 names"),
        ({"schema": {"age": [80, 18], "size": [0, 1]}}, r"schema\.age .*the first below"),
        ({"schema": {"age": [1, 2]}, "features": {"columns": {"age": [1, 2]}}}, "not both"),
        ({"features": {"columns": {"age": [18, 80]}}}, "features must be a map to 2 features.*got a map to 1"),
        ({"features": {"columns": {"age": [80, 18], "size": [0, 1]}}}, r"features\.columns\.age .*the first below"),
        ({"features": {"columns": {"age": {"bukets": 3}}}}, r"features\.columns\.age .*range, values and buckets"),
        (
            {"features": {"columns": {"age": {"range": [18, 80], "outside": "refuse"}, "size": [0, 1]}}},
            r"features\.columns\.age must be .*takes every record.*got 'refuse'",
        ),
        (
            {"features": {"columns": {"site": {"values": ["a", "b"], "missing": "refuse"}}}},
            r"features\.columns\.site must be .*takes every record.*got 'refuse'",
        ),
        ({"features": {"colums": {}}}, r"features\.colums .*Did you mean 'columns'"),
        ({"test": {"close": "soon"}}, r"test\.close"),
    ],
)
def test_an_error_about_a_task_file_names_the_key(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(BandannaError, match=words):
        create_task({**file(), **tables}, expect=False)


def test_defaults_of_rules_follow_from_the_policy() -> None:
    linear, _ = create_task(file(), expect=False)
    assert (linear.content["max_age"], linear.content["grace"], linear.content["close"]) == (1, 600.0, "grace")
    assert (linear.content["test"], linear.seed, linear.content["schema"]) == (False, None, None)
    eliminating, _ = create_task(of("DP-SE"), expect=False)
    assert eliminating.content["max_age"] == 0
    assert eliminating.arms is not None
    assert eliminating.arms.ids == (0, 1, 2)
    with pytest.raises(InvalidArgument, match=r"rules\.max_age must be 0, got 1\. DP-SE plans a batch"):
        create_task({**of("DP-SE"), "rules": {"max_age": 1}}, expect=False)


def test_a_file_determines_the_document() -> None:
    chosen = {"participations": 3, "grace": "2 min", "max_age": 0}
    arms, schema = {"features": {"z": [1.0, 0.5], "a": [0.0, 1]}}, {"size": [0, 2.5], "age": [18, 80]}
    tables = {"rules": chosen, "arms": arms, "schema": schema, "test": {"seed": 7, "close": "answered"}}
    task, _ = create_task(file(**tables, roles={"analyzer": "http://localhost:80/b/"}), expect=False)
    assert task.policy.privacy.participations == 3
    assert (task.content["grace"], task.content["max_age"], task.content["close"]) == (120.0, 0, "answered")
    assert task.content["schema"] == {"names": ["size", "age"], "ranges": schema}
    assert task.arms is not None
    assert (task.arms.ids, task.arms.features.tolist()) == (("z", "a"), [[1.0, 0.5], [0.0, 1.0]])
    assert (task.seed, task.content["test"]) == (7, True)
    assert (task.url("analyzer"), task.url("registrar")) == ("http://localhost:80/b", "http://127.0.0.1:8700")
    named, _ = create_task({**of("DP-SE"), "arms": {"names": ["x", "y", "z"]}}, expect=False)
    assert named.arms is not None
    assert named.arms.ids == ("x", "y", "z")


def test_a_map_of_features_travels_with_the_task() -> None:
    columns = {"age": [18, 80], "site": ["north", "south"], "zone": {"values": [1, 2], "unknown": "other"}}
    table = {"columns": columns, "project": {"dim": 1, "seed": 5}, "ball": {"scale": 2.0}, "intercept": True}
    given = file(features=table)
    given["policy"] = {**given["policy"], "intercept": True}
    task, _ = create_task(given, expect=False)
    wanted = Map(
        Range(age=(18, 80)),
        OneHot(site=["north", "south"]),
        OneHot(zone=[1, 2], unknown="other"),
        Project(1, seed=5),
        UnitBall(scale=2.0),
        Intercept(),
    )
    again = Task.from_bytes(task.document, task.id)
    assert again.features == wanted
    assert again.content["schema"] == wanted.to_dict()
    with pytest.raises(InvalidArgument, match=r"with Intercept\(\)"):
        create_task({**given, "features": {**table, "intercept": False, "project": {"dim": 2}}}, expect=False)
    old, _ = create_task(file(schema={"size": [0, 2.5], "age": [18, 80]}), expect=False)
    assert old.features == Map(Range(size=(0, 2.5), age=(18, 80)))
    assert create_task(file(), expect=False)[0].features is None


@pytest.mark.parametrize("name", ["LinTS", "LinTS-CSDP", "SDP-SE"])
def test_participations_are_the_privacys_or_refused(name: str) -> None:
    given = {**(of(name) if name == "SDP-SE" else file(name)), "rules": {"participations": 2}}
    if name == "LinTS":  # promises nothing
        assert create_task(given, expect=False)[0].policy.privacy.participations == 2
        return
    with pytest.raises(InvalidArgument, match=rf"rules\.participations must be 1, because {name} .*, got 2"):
        create_task(given, expect=False)


def test_an_error_about_a_file_begins_with_its_name_once(tmp_path: Path) -> None:
    path = tmp_path / "which.toml"
    path.write_text('algorithm = "LinTS"\n[policy]\ndim = 2\nhorizon = 60\n')
    assert create_task(path, expect=False)[0].content["title"] == "which"
    path.write_text('algorithm = "LinTS"\n[policy]\ndim = 2\nhorizon = 0\n')
    with pytest.raises(InvalidArgument, match=rf"^{re.escape(str(path))}: policy\.horizon must be .*, got 0") as caught:
        create_task(path)
    assert str(caught.value).count("which.toml") == 1
    for text in ("algorithm = ", "a = " + "[" * 5000, "a = 1" + "0" * 5000):
        path.write_text(text)
        with pytest.raises(BandannaError, match=r"which\.toml: bad TOML") as caught:
            create_task(path)
    with pytest.raises(BandannaError, match="cannot be read"):
        create_task(tmp_path / "none.toml")


def test_the_hosts_token_can_be_replaced(tmp_path: Path) -> None:
    from bandanna.deployment import registrar_service
    from bandanna.deployment.http.metrics import EventLog

    task, secrets = create_task(file("LinTS-LDP"), expect=False)
    own = next(each for each in secrets if each.role == "registrar")
    assert own.person
    assert not any(each.person for each in secrets if each.role != "registrar")
    assert own.sign not in {each.sign for each in secrets if each.role != "registrar"}
    assert task.key("registrar") != own.sign
    for token in (own.token, "another"):
        app = registrar_service.build_registrar(
            task, replace(own, token=token), database=str(tmp_path / "r.db"), log=EventLog("registrar")
        )
        office = app.life.start.__self__  # type: ignore[attr-defined]
        office._open()
        office.database.close()


# Where a task's roles are found: each at an address of its own, and all of them said if one is elsewhere


FILE = {
    "title": "a test",
    "algorithm": "LinUCB-SDP-Vec",
    "policy": {"dim": 2, "horizon": 400, "batch": 100, "epsilon": 1.0, "delta": 1e-5},
}


def test_two_roles_at_one_address_are_refused() -> None:
    roles = {"analyzer": "http://127.0.0.1:9001", "shuffler": "http://127.0.0.1:9001/"}
    with pytest.raises(InvalidArgument, match=r"roles\.(analyzer|shuffler).*address of its own"):
        create_task({**FILE, "roles": roles}, expect=False)


def test_an_address_that_is_left_out_is_not_guessed() -> None:
    with pytest.raises(InvalidArgument, match=r"roles\.registrar must be an address.*not on this machine, got None"):
        create_task({**FILE, "roles": {"analyzer": "https://a.example", "shuffler": "https://s.example"}}, expect=False)


# Whatever a task's file says: a task, or a BandannaError


WHOLE: dict[str, dict[str, Any]] = {
    "policy": {**LINEAR, **DP, "intercept": False, "batch": 20, "protocol": "gaussian", "calibration": "tight"},
    "arms": {"features": {"a": [1.0, 0.0], "b": [0.0, 1.0]}},
    "schema": {"age": [18, 80], "size": [0.5, 2.0]},
    "rules": {"participations": 1, "grace": "10 min", "max_age": 1, "mixers": 0, "noise": "device"},
    "roles": {"analyzer": "http://127.0.0.1:8701", "registrar": "http://127.0.0.1:8700"},
    "test": {"seed": 7, "close": "answered"},
}
NUMBERS = [0, -1, 1, 2, 2**63, 10**400, 0.0, -0.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan")]
OTHERS = [True, False, "", "x", "0", "auto", "1 s", "9" * 50, "http://[", "http://a:b", "\u0663 s", "none:none"]
DATES = [datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1), datetime.time(1)]
odd = st.recursive(
    st.sampled_from([*NUMBERS, *OTHERS, *DATES]) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
places = st.sampled_from([(table, key) for table, keys in WHOLE.items() for key in [*keys, "other", None]])


def attempt(document: dict[str, Any]) -> None:
    said = "a task"
    try:
        create_task(document, expect=False)
    except BandannaError as error:
        said = str(error)
    assert 0 < len(said) < 2_000
    assert "\n" not in said


def test_the_whole_file_is_a_task() -> None:
    create_task({"title": "x", "algorithm": "LinTS-LDP", **WHOLE}, expect=False)


FEATURES: dict[str, Any] = {
    "columns": {"age": [18, 80], "size": {"range": [0, 1], "outside": "clip", "missing": "zero"}},
    "project": {"dim": 2, "seed": 0},
    "ball": {"scale": 1.0},
    "intercept": False,
}
spots = st.sampled_from([(), *((name,) for name in [*FEATURES, "other"])]) | st.sampled_from(
    [(name, key) for name in ("columns", "project", "ball") for key in [*FEATURES[name], "other"]]
)


@examples(60, full=200)
@given(spots, odd)
def test_an_odd_value_in_a_feature_map_is_our_error(spot: tuple[str, ...], value: Any) -> None:
    table: Any = value
    for depth in range(len(spot), 0, -1):
        above = FEATURES if depth == 1 else FEATURES[spot[0]]
        table = {**above, spot[depth - 1]: table}
    whole = {name: part for name, part in WHOLE.items() if name not in ("schema", "arms")}
    attempt({"title": "x", "algorithm": "LinTS-LDP", **whole, "features": table})


@examples(100, full=400)
@given(places, odd)
def test_an_odd_value_anywhere_in_a_file_is_our_error(place: tuple[str, str | None], value: Any) -> None:
    table, key = place
    spoilt = {**WHOLE, table: value if key is None else {**WHOLE[table], key: value}}
    attempt({"title": "x", "algorithm": "LinTS-LDP", **spoilt})


@examples(50, full=150)
@given(st.sampled_from(["title", "algorithm", "policy", "arms", "other"]), odd)
def test_an_odd_value_outside_of_tables_is_our_error(key: str, value: Any) -> None:
    attempt({"title": "x", "algorithm": "LinTS-LDP", **WHOLE, key: value})


@examples(40, full=100)
@given(st.dictionaries(st.sampled_from(["title", "algorithm", *WHOLE]) | st.text(max_size=5), odd, max_size=6))
def test_a_document_unlike_a_task_is_our_error(document: dict[str, Any]) -> None:
    attempt(document)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0.0), (2.5, 2.5), ("30 s", 30.0), ("1.5 min", 90.0), ("2 hours", 7200.0), ("1day", 86_400.0)],
)
def test_durations_are_read_in_seconds(given: Any, expected: float) -> None:
    assert parse_duration(given) == expected
    assert type(parse_duration(given)) is float
