"""The keys of a task: drawn together, given to each role apart."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from bandanna.tasks.document import Secrets, Task
from bandanna.wire.canonical import packed
from bandanna.wire.keys import sealing_key, signing_key
from bandanna.wire.ticket import KEY


@dataclass(frozen=True, kw_only=True)
class Keys:
    """All keys of a task, before each role is given its own: of pairs (secret, public), by role.

    sign, seal  to sign, and to open what is sealed; the registrar signs nothing, and hides people by its own
    ticket      shared by registrar, collector and helper
    tokens      of administrators
    """

    sign: Mapping[str, tuple[str, str]]
    seal: Mapping[str, tuple[str, str]]
    ticket: str
    tokens: Mapping[str, str]

    @classmethod
    def drawn(cls, *, mixers: int, sealed: bool) -> Keys:
        """New ones."""
        signing = ("analyzer", "shuffler", "helper")[: 1 + mixers]
        sealing = (*("analyzer",) * sealed, *("helper",) * (mixers == 2))
        return cls(
            sign={role: signing_key() for role in ("registrar", *signing)},
            seal={role: sealing_key() for role in sealing},
            ticket=packed(secrets.token_bytes(KEY)),
            tokens={role: packed(secrets.token_bytes(KEY)) for role in ("registrar", *signing)},
        )

    def public(self) -> dict[str, str]:
        """As the document has them."""
        opened = {f"seal {role}": pair[1] for role, pair in self.seal.items()}
        return {role: pair[1] for role, pair in self.sign.items() if role != "registrar"} | opened

    def of(self, role: str, task: Task) -> Secrets:
        """What one role is given."""
        checks = role in ("registrar", "helper", task.collector)
        return Secrets(
            task=task.id,
            role=role,
            sign=self.sign.get(role, ("", ""))[0],
            seal=self.seal.get(role, ("", ""))[0],
            ticket=self.ticket if checks else "",
            token=self.tokens[role],
        )
