from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutants.sites import mutants, mutated

ROOT = Path(__file__).resolve().parents[2]
TOY = """
def noise_std(sensitivity, dim, participations):
    if sensitivity <= 0:
        raise ValueError(f"sensitivity {2 * sensitivity}")
    std = math.sqrt(participations) * sensitivity / 3
    return draw(std=std, dim=dim) * math.sqrt(2)

def composed(one, other):
    return Price(mu=math.hypot(one.mu, other.mu), tail=one.tail + other.tail)

def summed(parts):
    spent = 0.0
    for part in parts:
        spent += part.epsilon
    return spent + math.fsum(part.rho for part in parts)

class Noise:
    def variance(self, users):
        return measured(self.trials * users, users=users)
"""
EXPECTED = {
    ("noise_std", "participations", "math.sqrt(participations)", "1.0"),
    ("noise_std", "sensitivity", "sensitivity", "0.9 * (sensitivity)"),
    ("noise_std", "noise", "std", "0.9 * (std)"),
    ("noise_std", "dimension", "dim", "1"),
    ("noise_std", "sqrt 2", "math.sqrt(2)", "1.0"),
    ("composed", "composition", "math.hypot(one.mu, other.mu)", "one.mu"),
    ("composed", "composition", "one.tail + other.tail", "one.tail"),
    ("summed", "composition", "part.epsilon", "0 * part.epsilon"),
    (
        "summed",
        "composition",
        "math.fsum((part.rho for part in parts))",
        "max((part.rho for part in parts), default=0)",
    ),
    ("summed", "composition", "spent + math.fsum((part.rho for part in parts))", "spent"),
    ("Noise.variance", "noise", "self.trials", "self.trials * 81 // 100"),
    ("Noise.variance", "users", "users", "2 * users"),
}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A file with one fault to make of every kind."""
    (tmp_path / "toy.py").write_text(TOY)
    return tmp_path / "toy.py"


def test_every_kind_is_found(toy: Path) -> None:
    found = {(each.where, each.kind, each.before, _plain(each.after)) for each in mutants(toy, toy.parent)}
    assert {(where, kind, before, _plain(after)) for where, kind, before, after in EXPECTED} <= found


def _plain(expression: str) -> str:
    return ast.unparse(ast.parse(expression, mode="eval"))


def test_messages_and_checks_are_left_alone(toy: Path) -> None:
    assert all(each.line not in (3, 4) for each in mutants(toy, toy.parent))


def test_a_mutant_changes_one_expression(toy: Path) -> None:
    found = mutants(toy, toy.parent)
    plain = ast.unparse(mutated(TOY, None)).splitlines()
    changed = [ast.unparse(mutated(TOY, each)) for each in found]
    assert len(set(changed)) == len(found) == len({each.name for each in found})
    for text in changed:
        assert sum(one != other for one, other in zip(plain, text.splitlines(), strict=True)) == 1


def test_names_outlive_moved_lines(toy: Path) -> None:
    before = {each.name for each in mutants(toy, toy.parent)}
    toy.write_text("# a line\n\n" + TOY)
    assert {each.name for each in mutants(toy, toy.parent)} == before


def test_every_protocol_has_mutants() -> None:
    names = (
        "continual concurrent_shuffle gaussian laplace randomized_response shuffle_binomial shuffle_bits spherical_cap"
    )
    for name in names.split():
        assert mutants(ROOT / "src/bandanna/protocols" / f"{name}.py", ROOT), name


def test_functions_of_one_name_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text("@one\ndef _(std):\n    return 2 * std\n\n@two\ndef _(std):\n    return 2 * std\n")
    found = mutants(tmp_path / "toy.py", tmp_path)
    assert {each.where for each in found} == {"_", "_#2"}
