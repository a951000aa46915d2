"""Compute the regret of LinTS as a share of random play's, by users, epsilon and privacy model.

The table of docs/how-to/choose-policy.md, for 20 arms with 5 features that are fresh for each user. Change DIM and ARMS
to yours. It takes some minutes.

    python examples/how_many_users.py
"""

from __future__ import annotations

import bandanna as bd

DIM, ARMS = 5, 20
USERS = (1_000, 10_000, 100_000)
EPSILONS = (0.3, 1.0, 3.0, 10.0)
SEEDS = 10


def cell(users: int, trust: str, epsilon: float = 1.0) -> str:
    """Return the share and its standard error."""
    (found,) = bd.plan(dim=DIM, n_arms=ARMS, users=users, epsilon=epsilon, trust=trust, n_seeds=SEEDS, search=False)
    return f"{found.share:.3f} ± {found.stderr:.3f}"


def main() -> None:
    """Print a Markdown table."""
    print("| users | trust |", " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "|")
    print("| --- " * (2 + len(EPSILONS)) + "|")
    for users in USERS:
        print(f"| {users:,} | none |", " | ".join([cell(users, "none"), *[""] * (len(EPSILONS) - 1)]), "|", flush=True)
        for trust in ("central", "shuffle", "local"):
            cells = " | ".join(cell(users, trust, epsilon) for epsilon in EPSILONS)
            print(f"| {users:,} | {trust} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
