"""How each role draws its own keys and joins a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bandanna import validation
from bandanna.deployment.messages.canonical import dumps, is_sound, loads, public_half, sign, verify
from bandanna.deployment.task.document import Secrets, Task, draw_role_keys, seals_reports
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.storage import files
from bandanna.storage.encoding import matches_type

_FIELDS: dict[str, Any] = {
    "draft": str, "role": str, "operator": str, "keys": dict[str, str], "signature": str,
}  # fmt: skip
_LONGEST = 200  # characters of an operator


@dataclass(frozen=True, kw_only=True)
class RoleJoin:
    """What one role says of itself.

    draft      the id of the draft that it has read
    operator   who runs it, for people
    keys       its public halves: "sign", "agree", and "seal" where it opens anything
    signature  by its key to sign
    """

    draft: str
    role: str
    operator: str
    keys: Mapping[str, str]
    signature: str = ""

    @property
    def _signed(self) -> bytes:
        said = {name: getattr(self, name) for name in ("draft", "role", "operator")}
        return dumps({**said, "keys": dict(self.keys)})

    def signed(self, secret: str) -> RoleJoin:
        """Return this join with the signature of its key over all other fields."""
        return replace(self, signature=sign(secret, self.draft, "join", self._signed))

    @property
    def genuine(self) -> bool:
        """Whether the owner of its keys has said this."""
        return verify(self.keys.get("sign", ""), self.draft, "join", self._signed, self.signature)

    def write(self, folder: Path) -> Path:
        """Into ROLE.join.json, which is public."""
        file = folder / f"{self.role}.join.json"
        files.write_private_file(file, dumps({**vars(self), "keys": dict(self.keys)}).decode() + "\n")
        return file

    @classmethod
    def read(cls, file: Path) -> RoleJoin:
        """Read a ROLE.join.json; Unreadable if a field is missing or has a wrong type."""
        try:
            plain = loads(file.read_bytes())
        except OSError as error:
            raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
        if not isinstance(plain, dict) or set(plain) != set(_FIELDS):
            raise Unreadable(f"{file} is not what a role has joined with: take its ROLE.join.json")
        if not all(matches_type(plain[name], hint) for name, hint in _FIELDS.items()):
            raise Unreadable(f"{file} has a field of a wrong type: take the role's ROLE.join.json")
        return cls(**plain)


def join_role(draft: Task, role: str, operator: str) -> tuple[Secrets, RoleJoin]:
    """Draw a role's keys: what it alone keeps, and what it tells the others.

    Parameters
    ----------
    draft : the task without keys
    role : one of the draft's
    operator : who runs it, a text of 1 to 200 characters that `task show` prints
    """
    validation.one_of("role", role, draft.roles)
    if not isinstance(operator, str) or not 0 < len(operator) <= _LONGEST or not operator.isprintable():
        hint = f"Name the organisation that runs the {role}"
        raise InvalidArgument("operator", operator, f"a text of 1 to {_LONGEST} characters", hint)

    if draft.content["keys"]:
        raise BandannaError("the task has its keys already: roles join a draft, of `bandanna task draft`")
    secrets, keys = draw_role_keys(role, draft)
    said = RoleJoin(draft=draft.id, role=role, operator=operator, keys=keys).signed(secrets.sign)
    return replace(secrets, draft=draft.id), said


def join_all(draft: Task, joins: Sequence[RoleJoin]) -> Task:
    """The task of a draft that all its roles have joined."""
    found = {each.role: each for each in joins}
    lacking = [role for role in draft.roles if role not in found]
    if lacking or len(found) < len(joins) or set(found) - set(draft.roles):
        said = f"joins of {', '.join(each.role for each in joins) or 'nobody'}"
        raise BandannaError(f"{said}, where one of each of {', '.join(draft.roles)} is needed")
    keys = {
        role if kind == "sign" else f"{kind} {role}": key for role in found for kind, key in found[role].keys.items()
    }
    told = {role: {"operator": each.operator, "signature": each.signature} for role, each in found.items()}
    task = Task.made({**draft.content, "keys": keys, "joins": told})
    check_joins(task)
    return Task.from_bytes(task.document, task.id)  # as every party will have it


def read_joins(task: Task) -> list[RoleJoin]:
    """What every role of a task without a dealer has said; Unreadable if one has said nothing."""
    draft, told = strip_keys(task).id, task.content["joins"]
    if set(told) != set(task.roles) or not all(matches_type(each, dict[str, str]) for each in told.values()):
        raise Unreadable("a task without a dealer that not all of its roles have joined")
    if any(set(each) != {"operator", "signature"} for each in told.values()):
        raise Unreadable("a join with other fields than operator and signature")
    return [RoleJoin(draft=draft, role=role, keys=_keys_of(task, role), **told[role]) for role in task.roles]


def check_joins(task: Task) -> None:
    """Refuse a task whose keys are not those that its roles have signed, each for itself."""
    sealing = {"helper"} if task.mixers == 2 else {"analyzer"} if seals_reports(task) else set()
    for each in read_joins(task):
        if set(each.keys) != {"sign", "agree"} | ({"seal"} if each.role in sealing else set()):
            raise BandannaError(f"the {each.role} has joined with other kinds of keys than it needs")
        if not each.genuine:
            raise BandannaError(f"the {each.role} has not signed its keys, or has joined another draft")
        if not all(is_sound(kind, key) for kind, key in each.keys.items()):  # type: ignore[arg-type]
            raise BandannaError(f"the {each.role} has joined with a key that nobody can own")
    if len(set(task.content["keys"].values())) < len(task.content["keys"]):
        raise BandannaError("two keys of a task are the same: a role has joined with one that is another's")
    known = {kind + role for role in task.roles for kind in ("", "agree ", "seal ")}
    if not set(task.content["keys"]) <= known:
        raise BandannaError("a task with keys of roles that it has not")


def accept_task(task: Task, secrets: Secrets) -> Secrets:
    """The secrets of a role for the task that its draft has become; BandannaError if it is another task.

    The task must be the draft that the role has joined, the role's own keys must be in it, and all roles must have
    signed theirs.
    """
    if not secrets.draft or strip_keys(task).id != secrets.draft:
        raise BandannaError(f"the {secrets.role} has joined another draft: nothing is accepted")
    check_joins(task)
    (own,) = (each for each in read_joins(task) if each.role == secrets.role)
    if not replace(own, signature="").signed(secrets.sign).genuine:
        raise BandannaError(f"the {secrets.role} of this task has other keys than these secrets: nothing is accepted")
    if public_half(secrets.agree) != own.keys["agree"] or (
        secrets.seal and public_half(secrets.seal) != own.keys["seal"]
    ):
        raise BandannaError(f"the {secrets.role} of this task has other keys than these secrets: nothing is accepted")
    return replace(secrets, task=task.id)


def strip_keys(task: Task) -> Task:
    """The task without its keys and joins, as its roles have read it."""
    return Task.made({**task.content, "keys": {}, "joins": {}})


def _keys_of(task: Task, role: str) -> dict[str, str]:
    names = {"sign": role, "agree": f"agree {role}", "seal": f"seal {role}"}
    return {kind: task.key(name) for kind, name in names.items() if name in task.content["keys"]}
