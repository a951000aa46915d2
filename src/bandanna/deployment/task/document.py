"""The task document, its secrets and keys, and where it is found."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bandanna import validation
from bandanna.agent.preflight import calibrations_by_phase, find_first_query, restore_calibrations
from bandanna.data.features.map import Map, Range
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    agreed_key,
    decode_base64url,
    digest,
    dumps,
    encode_base64url,
    is_sound,
    loads,
    make_tls_context,
    public_half,
    sealing_key,
    sign,
    signing_key,
    ticket_key_info,
    verify,
)
from bandanna.deployment.task.query_plan import QueryPlan, client_task_section, first_batches, make_batch
from bandanna.device.arm_sets import FixedArmSet
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra, Unreadable
from bandanna.policies.base import Episode, Policy
from bandanna.policies.registry import make_encoding
from bandanna.storage import files
from bandanna.storage.encoding import matches_type
from bandanna.types import Floats

# The document


FORMAT, VERSION = "bandanna task", 1
ROLES = ("analyzer", "shuffler", "helper", "registrar")
_FIELDS: dict[str, Any] = {
    "format": str, "version": int, "title": str, "algorithm": str, "policy": str, "calibrations": str,
    "arms": str | None, "mixers": int, "grace": float, "close": str, "max_age": int, "urls": dict[str, str],
    "keys": dict[str, str], "dealer": bool, "joins": dict[str, Any],
    "seed": int | None, "test": bool, "guarantee": dict[str, Any], "promise": str,
    "expected": dict[str, Any] | None, "schema": dict[str, Any] | None, "device": dict[str, Any] | None,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task as every party has it: the content of its document.

    Fields of the document that need an explanation:

        grace    seconds for which a full batch waits for final reports
        close    "grace", or "answered" (tests only): when all users have reported
        max_age  the greatest age, in releases, of a snapshot on which a device may act
        mixers   the number of mixers between devices and analyzer
        seed     tests only: the seed of noise and coins
        keys     public keys: ROLE to sign, "agree ROLE" to agree on keys, "seal analyzer", "seal helper"
        dealer   whether one machine drew the keys of all roles
        joins    without a dealer: for each role {"operator", "signature"}, its signature of its own keys
        device   the section for clients without policies (`query_plan.client_task_section`), or null
    """

    content: Mapping[str, Any]

    @cached_property
    def document(self) -> bytes:
        """The bytes that are hashed."""
        return dumps(dict(self.content))

    @cached_property
    def id(self) -> str:
        """The hash of the document: base64url(SHA-256(document))."""
        return digest(self.document)

    @cached_property
    def digest(self) -> bytes:
        return decode_base64url(self.id, 32)

    @cached_property
    def policy(self) -> Policy[Any]:
        """The policy with the stored calibration, which is never searched again."""
        policy = make_encoding().loads(self.content["policy"])
        if not isinstance(policy, Policy):
            raise Unreadable("the task's policy is none")
        restore_calibrations(policy, make_encoding().loads(self.content["calibrations"]))
        return policy

    @cached_property
    def arms(self) -> FixedArmSet | None:
        if self.content["arms"] is None:
            return None
        ids, features, of_users = make_encoding().loads(self.content["arms"])
        return FixedArmSet(ids=ids, features=features, of_users=of_users)

    @property
    def fixed_features(self) -> Floats | None:
        return None if self.arms is None else self.arms.features

    @cached_property
    def features(self) -> Map | None:
        """The map from a user's record to features, given or made from ranges."""
        schema = self.content["schema"]
        if schema is None:
            return None
        if "ranges" not in schema:
            return Map.from_dict(schema)
        try:
            return Map(Range({name: schema["ranges"][name] for name in schema["names"]}))
        except (BandannaError, KeyError, TypeError) as error:
            raise Unreadable(f"the task's schema is none: {error}") from error

    @property
    def trust(self) -> str:
        return self.policy.privacy.model

    @property
    def mixers(self) -> int:
        """The number of mixers between devices and analyzer."""
        return int(self.content["mixers"])

    @property
    def collector(self) -> str:
        """The role to which devices report."""
        return "shuffler" if self.mixers else "analyzer"

    @property
    def roles(self) -> tuple[str, ...]:
        return ("registrar", "analyzer", *("shuffler",) * (self.mixers > 0), *("helper",) * (self.mixers == 2))

    @property
    def seed(self) -> int | None:
        seed: int | None = self.content["seed"]
        return seed

    def url(self, role: str) -> str:
        return str(self.content["urls"][role]).rstrip("/")

    def key(self, name: str) -> str:
        return str(self.content["keys"][name])

    @classmethod
    def made(cls, content: Mapping[str, Any]) -> Task:
        """Make a task from the parts of a document after checking their types."""
        if set(content) != set(_FIELDS):
            odd = sorted(set(content) ^ set(_FIELDS))
            raise Unreadable(f"a task with other fields than this program knows: {', '.join(map(str, odd))[:80]}")
        if (content["format"], content["version"]) != (FORMAT, VERSION):
            raise Unreadable(f"not a {FORMAT} of version {VERSION}")
        wrong = next((name for name, hint in _FIELDS.items() if not matches_type(content[name], hint)), None)
        if wrong is not None:
            raise Unreadable(f"a task whose {wrong} is a {type(content[wrong]).__name__}")
        if content["seed"] is not None and not content["test"]:
            raise InvalidArgument("seed", content["seed"], "None", "Only a test has a seed, since its noise is known")
        if content["close"] == "answered" and not content["test"]:
            hint = "Only a test closes by answers, since they show who answered"
            raise InvalidArgument("close", "answered", '"grace"', hint)
        return cls(content=dict(content))

    @classmethod
    def from_bytes(cls, document: bytes, name: str | None = None) -> Task:
        """Read a document, which must have this id if one is given."""
        task = cls.made(loads(document))
        if name is not None and task.id != name:
            raise BandannaError(f"a task {task.id} where {name} belongs")
        return task

    @classmethod
    def read(cls, path: Path) -> Task:
        """Read the task of a file, or of a folder of `bandanna task create`."""
        file = validation.path("task", path, folder=True)
        file = file / "task.json" if file.is_dir() else file
        try:
            return cls.from_bytes(file.read_bytes())
        except OSError as error:
            raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
        except Unreadable as error:
            raise Unreadable(f"{file} is not a task: {error}") from error


def make_content(policy: Policy[Any], *, arms: FixedArmSet | None, **parts: Any) -> dict[str, Any]:
    """Return the parts of a document for a calibrated policy."""
    encoding = make_encoding()
    find_first_query(
        policy, policy.init(None if arms is None else arms.features)
    )  # calibrates what is calibrated at once
    seeded = parts["seed"] is not None
    fixed = None if arms is None else encoding.dumps((arms.ids, arms.features, arms.of_users))
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": encoding.dumps(policy),
        "calibrations": encoding.dumps(calibrations_by_phase(policy)),
        "arms": fixed,
        "keys": {},
        "joins": {},
        "dealer": False,
        "device": client_task_section(
            policy, None if arms is None else arms.features, mixers=parts["mixers"], seeded=seeded
        ),
        **parts,
    }


def make_client_section(task: Task) -> dict[str, Any] | None:
    """Return the section for clients without policies."""
    return client_task_section(task.policy, task.fixed_features, mixers=task.mixers, seeded=task.seed is not None)


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """The secrets of one role."""

    task: str  # "" until a role that joined a draft accepts the task
    role: str
    sign: str = ""  # signs what it sends
    seal: str = ""  # opens what is sealed for it
    agree: str = ""  # its half of shared keys
    person: str = ""  # of the registrar: hashes users and derives their slots
    token: str = ""  # of its administrators
    draft: str = ""  # the id of the draft that it joined

    def ticket_key(self, task: Task, verifier: str) -> bytes:
        """Return the key that the registrar shares with a verifier of tickets."""
        owner = task.collector if verifier == COLLECTOR else HELPER
        other = owner if self.role == "registrar" else "registrar"
        return agreed_key(self.agree, task.key(f"agree {other}"), salt=task.digest, info=ticket_key_info(verifier))

    def write(self, folder: Path) -> None:
        """Write the secrets to a file that only its owner can read."""
        self.write_to(folder / f"{self.role}.secret.json")

    def write_to(self, file: Path) -> None:
        files.write_private_file(file, dumps(vars(self)).decode() + "\n")

    @classmethod
    def of_file(cls, file: Path) -> Secrets:
        """Read the secrets of any role and task."""
        plain = loads(files.read_private_file(file))
        if not isinstance(plain, dict) or set(plain) != set(cls.__dataclass_fields__):
            raise Unreadable(f"{file} does not hold the secrets of a role")
        if not all(isinstance(value, str) for value in plain.values()):
            raise Unreadable(f"{file} does not hold the secrets of a role")
        return cls(**plain)

    @classmethod
    def read(cls, path: Path, role: str, task: Task) -> Secrets:
        file = path / f"{role}.secret.json" if path.is_dir() else path
        made = cls.of_file(file)
        if made.role == role and not made.task:
            raise BandannaError(
                f"{file} has not accepted a task yet. Run bandanna task accept TASK --secret {file.name}"
            )
        if made.role != role or made.task != task.id:
            raise BandannaError(f"{file} has the secrets of the {made.role} of task {made.task[:12]}, not of this one")
        return made


# Keys and secrets


_KEY = 32  # bytes of a secret that is no pair's


def seals_reports(task: Task) -> bool:
    """Tell whether devices seal whole reports for the analyzer."""
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None)
    return any(part.form == "sealed" for batch in batches for each in batch.rounds for part in each.parts)


def draw_role_keys(role: str, task: Task) -> tuple[Secrets, dict[str, str]]:
    """Draw the secrets of a role, and their public halves "sign", "agree" and perhaps "seal"."""
    pairs = {"sign": signing_key(), "agree": sealing_key()}
    if (role == "helper" and task.mixers == 2) or (role == "analyzer" and seals_reports(task)):
        pairs["seal"] = sealing_key()
    person = encode_base64url(secrets.token_bytes(_KEY)) if role == "registrar" else ""
    private = {kind: pair[0] for kind, pair in pairs.items()}
    made = Secrets(task="", role=role, person=person, token=encode_base64url(secrets.token_bytes(_KEY)), **private)
    return made, {kind: pair[1] for kind, pair in pairs.items()}


@dataclass(frozen=True, kw_only=True)
class Keys:
    """All keys of a task before they are distributed: pairs (secret, public) by role, and tokens."""

    sign: Mapping[str, tuple[str, str]]
    agree: Mapping[str, tuple[str, str]]
    seal: Mapping[str, tuple[str, str]]
    person: str
    tokens: Mapping[str, str]

    @classmethod
    def drawn(cls, *, mixers: int, sealed: bool) -> Keys:
        roles = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
        sealing = (*("analyzer",) * sealed, *("helper",) * (mixers == 2))
        return cls(
            sign={role: signing_key() for role in roles},
            agree={role: sealing_key() for role in roles},
            seal={role: sealing_key() for role in sealing},
            person=encode_base64url(secrets.token_bytes(_KEY)),
            tokens={role: encode_base64url(secrets.token_bytes(_KEY)) for role in roles},
        )

    def public(self) -> dict[str, str]:
        named = {"": self.sign, "agree ": self.agree, "seal ": self.seal}
        return {kind + role: pair[1] for kind, pairs in named.items() for role, pair in pairs.items()}

    def of(self, role: str, task: Task) -> Secrets:
        return Secrets(
            task=task.id,
            role=role,
            sign=self.sign[role][0],
            seal=self.seal.get(role, ("", ""))[0],
            agree=self.agree[role][0],
            person=self.person if role == "registrar" else "",
            token=self.tokens[role],
        )


# Where a task is found


_MOST = 1 << 24  # bytes of a document
_SECONDS = 10.0


class AddressNotFound(BandannaError):
    """The address answers 404."""


def is_url(place: str) -> bool:
    """Return whether a place is an http or https address with a host."""
    return re.match(r"https?://[^/?#\s]", place) is not None


def find_task(place: str) -> Task:
    """Return the task of a folder, a file, or an analyzer (`GET {place}/task`)."""
    if not re.match(r"https?://", place):
        path = validation.path("task", place, folder=True)
        return Task.read(path / "task.json" if path.is_dir() else path)
    url = f"{place.rstrip('/')}/task"
    try:
        return Task.from_bytes(fetch_url(url)[0])
    except BandannaError as error:
        raise BandannaError(f"{url} has no task: {error}") from error


def find_analyzer_url(task: Task, place: str) -> str:
    """Return the address where the task was read, or else the task's analyzer."""
    return place.rstrip("/") if is_url(place) else task.url("analyzer")


def fetch_url(url: str) -> tuple[bytes, dict[str, str]]:
    """Return the content of an address, and its headers in lower case; BandannaError without an answer."""
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("serve", "reading a task from an address") from error
    content, known = bytearray(), make_tls_context(environment=True)
    try:
        with httpx.stream(
            "GET", url, timeout=_SECONDS, headers={"accept-encoding": "identity"}, verify=known
        ) as answer:
            if answer.status_code != 200:
                kind = AddressNotFound if answer.status_code == 404 else BandannaError
                raise kind(f"it answers {answer.status_code}")
            for part in answer.iter_bytes():
                content += part
                if len(content) > _MOST:
                    raise BandannaError(f"it sends more than {_MOST} bytes")
            headers = {name.lower(): value for name, value in answer.headers.items()}
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BandannaError(f"it cannot be reached: {error or type(error).__name__}") from error
    return bytes(content), headers


# Announced batches


def check_planned_queries(task: Task, state: Any, episode: Episode, shown: Batch) -> QueryPlan:
    """Return the queries of an episode's batch; BandannaError for less noise or fewer users than the policy's."""
    batch, plan = make_batch(
        task.policy, state, episode, epoch=shown.epoch, mixer_count=task.mixers, seeded=task.seed is not None
    )
    if batch != shown:
        raise BandannaError(f"batch {shown.epoch} was announced with another plan than the task's policy has")
    return plan


def check_announced(task: Task, state: str, batches: Sequence[Batch]) -> None:
    """Check the running and the next batch of a publication against the policy at `state`."""
    if not batches:
        return
    try:
        loaded = make_encoding().loads(state)
        episode = task.policy.episode(loaded)
        for place, shown in enumerate(batches):
            if place:
                episode = None if episode is None else task.policy.next_episode(episode)
            if episode is None:
                raise BandannaError(f"batch {shown.epoch} was announced where the policy has none")
            check_planned_queries(task, loaded, episode, shown)
    except BandannaError:
        raise
    except Exception as error:  # a state that is none of this policy's fails anywhere
        raise Unreadable(f"a publication whose state is none of the policy's ({type(error).__name__})") from error


# Joining with own keys


_JOIN_FIELDS: dict[str, Any] = {
    "draft": str, "role": str, "operator": str, "keys": dict[str, str], "signature": str,
}  # fmt: skip
_OPERATOR_LENGTH = 200  # characters of an operator


@dataclass(frozen=True, kw_only=True)
class RoleJoin:
    """The public part of a role that has joined a draft, signed by its own key."""

    draft: str  # the id of the draft
    role: str
    operator: str
    keys: Mapping[str, str]  # public halves: "sign", "agree", and "seal" where it opens anything
    signature: str = ""

    @property
    def _signed(self) -> bytes:
        said = {name: getattr(self, name) for name in ("draft", "role", "operator")}
        return dumps({**said, "keys": dict(self.keys)})

    def signed(self, secret: str) -> RoleJoin:
        """Return this join with the signature of its key over the other fields."""
        return replace(self, signature=sign(secret, self.draft, "join", self._signed))

    @property
    def genuine(self) -> bool:
        """Whether the owner of its keys signed this."""
        return verify(self.keys.get("sign", ""), self.draft, "join", self._signed, self.signature)

    def write(self, folder: Path) -> Path:
        """Write ROLE.join.json, which is public, and return its path."""
        file = folder / f"{self.role}.join.json"
        files.write_private_file(file, dumps({**vars(self), "keys": dict(self.keys)}).decode() + "\n")
        return file

    @classmethod
    def read(cls, file: Path) -> RoleJoin:
        """Read a ROLE.join.json; raise Unreadable for an invalid one."""
        try:
            plain = loads(file.read_bytes())
        except OSError as error:
            raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
        if not isinstance(plain, dict) or set(plain) != set(_JOIN_FIELDS):
            raise Unreadable(f"{file} is not a ROLE.join.json of `bandanna task join`")
        if not all(matches_type(plain[name], hint) for name, hint in _JOIN_FIELDS.items()):
            raise Unreadable(f"{file} has a field of a wrong type. Use the role's ROLE.join.json")
        return cls(**plain)


def join_role(draft: Task, role: str, operator: str) -> tuple[Secrets, RoleJoin]:
    """Draw the keys of a role of a draft, and return its secrets and the public join.

    `operator` names who runs the role, in 1 to 200 characters, which `task show` prints.
    """
    validation.one_of("role", role, draft.roles)
    if not isinstance(operator, str) or not 0 < len(operator) <= _OPERATOR_LENGTH or not operator.isprintable():
        hint = f"Name the organisation that runs the {role}"
        raise InvalidArgument("operator", operator, f"a text of 1 to {_OPERATOR_LENGTH} characters", hint)

    if draft.content["keys"]:
        raise BandannaError("the task has its keys already. Roles join a draft of `bandanna task draft`")
    secrets, keys = draw_role_keys(role, draft)
    said = RoleJoin(draft=draft.id, role=role, operator=operator, keys=keys).signed(secrets.sign)
    return replace(secrets, draft=draft.id), said


def join_all(draft: Task, joins: Sequence[RoleJoin]) -> Task:
    """Return the task of a draft that all its roles have joined."""
    found = {each.role: each for each in joins}
    lacking = [role for role in draft.roles if role not in found]
    if lacking or len(found) < len(joins) or set(found) - set(draft.roles):
        given = f"joins of {', '.join(each.role for each in joins) or 'no role'}"
        raise BandannaError(f"{given}, where one of each of {', '.join(draft.roles)} is needed")
    keys = {
        role if kind == "sign" else f"{kind} {role}": key for role in found for kind, key in found[role].keys.items()
    }
    signed = {role: {"operator": each.operator, "signature": each.signature} for role, each in found.items()}
    task = Task.made({**draft.content, "keys": keys, "joins": signed})
    check_joins(task)
    return Task.from_bytes(task.document, task.id)  # as every party will have it


def read_joins(task: Task) -> list[RoleJoin]:
    """Return the joins of all roles of a task without a dealer; raise Unreadable if one is missing."""
    draft, signed = strip_keys(task).id, task.content["joins"]
    if set(signed) != set(task.roles) or not all(matches_type(each, dict[str, str]) for each in signed.values()):
        raise Unreadable("a task without a dealer that not all of its roles have joined")
    if any(set(each) != {"operator", "signature"} for each in signed.values()):
        raise Unreadable("a join with other fields than operator and signature")
    return [RoleJoin(draft=draft, role=role, keys=_keys_of(task, role), **signed[role]) for role in task.roles]


def check_joins(task: Task) -> None:
    """Refuse a task with keys that its roles have not signed."""
    sealing = {"helper"} if task.mixers == 2 else {"analyzer"} if seals_reports(task) else set()
    for each in read_joins(task):
        if set(each.keys) != {"sign", "agree"} | ({"seal"} if each.role in sealing else set()):
            raise BandannaError(f"the {each.role} has joined with other kinds of keys than it needs")
        if not each.genuine:
            raise BandannaError(f"the {each.role} has not signed its keys, or has joined another draft")
        if not all(is_sound(kind, key) for kind, key in each.keys.items()):  # type: ignore[arg-type]
            raise BandannaError(f"the {each.role} has joined with a key that has no owner")
    if len(set(task.content["keys"].values())) < len(task.content["keys"]):
        raise BandannaError("two keys of a task are the same: a role has joined with one that is another's")
    known = {kind + role for role in task.roles for kind in ("", "agree ", "seal ")}
    if not set(task.content["keys"]) <= known:
        raise BandannaError("a task with keys of roles that it has not")


def accept_task(task: Task, secrets: Secrets) -> Secrets:
    """Return the secrets of a role for the task that its draft has become.

    The task must be the draft that the role joined, hold the role's keys, and be signed by all roles; else
    BandannaError.
    """
    if not secrets.draft or strip_keys(task).id != secrets.draft:
        raise BandannaError(f"the {secrets.role} has joined another draft. Nothing is accepted")
    check_joins(task)
    (own,) = (each for each in read_joins(task) if each.role == secrets.role)
    if not replace(own, signature="").signed(secrets.sign).genuine:
        raise BandannaError(f"the {secrets.role} of this task has other keys than these secrets. Nothing is accepted")
    if public_half(secrets.agree) != own.keys["agree"] or (
        secrets.seal and public_half(secrets.seal) != own.keys["seal"]
    ):
        raise BandannaError(f"the {secrets.role} of this task has other keys than these secrets. Nothing is accepted")
    return replace(secrets, task=task.id)


def strip_keys(task: Task) -> Task:
    """Return the task without its keys and joins, as its roles have read it."""
    return Task.made({**task.content, "keys": {}, "joins": {}})


def _keys_of(task: Task, role: str) -> dict[str, str]:
    names = {"sign": role, "agree": f"agree {role}", "seal": f"seal {role}"}
    return {kind: task.key(name) for kind, name in names.items() if name in task.content["keys"]}
