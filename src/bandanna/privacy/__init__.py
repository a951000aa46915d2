"""Privacy accounting: budgets, events and their prices, the accountant, calibration, and the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "accountant": "Accountant",
    "budgets": "ApproxDP Budget PureDP RenyiDP ZCDP",
    "definitions": "ExplicitPolicy",
    "guarantee": "Guarantee",
    "ledger": "Ledger LedgerView",
    "stores.base": "LedgerStore MemoryStore",
    "stores.sqlite": "SQLiteStore",
}
_MODULES = {"events": "events", "gdp": "gdp"}

if TYPE_CHECKING:
    from bandanna.privacy import events as events
    from bandanna.privacy import gdp as gdp
    from bandanna.privacy.accountant import Accountant as Accountant
    from bandanna.privacy.budgets import ZCDP as ZCDP
    from bandanna.privacy.budgets import ApproxDP as ApproxDP
    from bandanna.privacy.budgets import Budget as Budget
    from bandanna.privacy.budgets import PureDP as PureDP
    from bandanna.privacy.budgets import RenyiDP as RenyiDP
    from bandanna.privacy.definitions import ExplicitPolicy as ExplicitPolicy
    from bandanna.privacy.guarantee import Guarantee as Guarantee
    from bandanna.privacy.ledger import Ledger as Ledger
    from bandanna.privacy.ledger import LedgerView as LedgerView
    from bandanna.privacy.stores.base import LedgerStore as LedgerStore
    from bandanna.privacy.stores.base import MemoryStore as MemoryStore
    from bandanna.privacy.stores.sqlite import SQLiteStore as SQLiteStore
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, _MODULES)
