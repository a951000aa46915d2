"""The keys of a task: drawn together and given to each role apart, or drawn by each role for itself."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from bandanna.tasks.beginning import first_batches
from bandanna.tasks.document import Secrets, Task
from bandanna.wire.canonical import packed
from bandanna.wire.keys import sealing_key, signing_key

_KEY = 32  # bytes of a secret that is no pair's


def seals_reports(task: Task) -> bool:
    """Whether devices seal whole reports for the analyzer."""
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None)
    return any(part.form == "sealed" for batch in batches for each in batch.rounds for part in each.parts)


def own_keys(role: str, task: Task) -> tuple[Secrets, dict[str, str]]:
    """New secrets of a role of a task, and their public halves: "sign", "agree", and "seal" where it opens anything."""
    pairs = {"sign": signing_key(), "agree": sealing_key()}
    if (role == "helper" and task.mixers == 2) or (role == "analyzer" and seals_reports(task)):
        pairs["seal"] = sealing_key()
    person = packed(secrets.token_bytes(_KEY)) if role == "registrar" else ""
    private = {kind: pair[0] for kind, pair in pairs.items()}
    made = Secrets(task="", role=role, person=person, token=packed(secrets.token_bytes(_KEY)), **private)
    return made, {kind: pair[1] for kind, pair in pairs.items()}


@dataclass(frozen=True, kw_only=True)
class Keys:
    """All keys of a task, before each role is given its own: of pairs (secret, public), by role.

    sign, agree, seal  to sign, to agree with another role upon a key, and to open what is sealed
    person  of the registrar, which hides people by it;  tokens: of administrators
    """

    sign: Mapping[str, tuple[str, str]]
    agree: Mapping[str, tuple[str, str]]
    seal: Mapping[str, tuple[str, str]]
    person: str
    tokens: Mapping[str, str]

    @classmethod
    def drawn(cls, *, mixers: int, sealed: bool) -> Keys:
        """New ones."""
        roles = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
        sealing = (*("analyzer",) * sealed, *("helper",) * (mixers == 2))
        return cls(
            sign={role: signing_key() for role in roles},
            agree={role: sealing_key() for role in roles},
            seal={role: sealing_key() for role in sealing},
            person=packed(secrets.token_bytes(_KEY)),
            tokens={role: packed(secrets.token_bytes(_KEY)) for role in roles},
        )

    def public(self) -> dict[str, str]:
        """As the document has them."""
        named = {"": self.sign, "agree ": self.agree, "seal ": self.seal}
        return {kind + role: pair[1] for kind, pairs in named.items() for role, pair in pairs.items()}

    def of(self, role: str, task: Task) -> Secrets:
        """What one role is given."""
        return Secrets(
            task=task.id,
            role=role,
            sign=self.sign[role][0],
            seal=self.seal.get(role, ("", ""))[0],
            agree=self.agree[role][0],
            person=self.person if role == "registrar" else "",
            token=self.tokens[role],
        )
