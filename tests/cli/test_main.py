"""The command `bandanna` as a shell sees it: exit codes, one clear line on errors, version and help."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bandanna
from bandanna.cli import main


def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int | str | None, str, str]:
    """Exit code, standard output and standard error of the command."""
    monkeypatch.setattr(sys, "argv", ["bandanna", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


GOOD = {"--dim": "5", "--epsilon": "1", "--delta": "1e-5", "--batch": "20"}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--dim", "0", ("--dim must be ", "got 0", "whole number >= 1")),
        ("--epsilon", "0", ("epsilon must be ", "got 0.0", "> 0")),
        ("--epsilon", "-1", ("epsilon must be ", "got -1.0", "> 0")),
        ("--epsilon", "nan", ("epsilon must be ", "got nan", "> 0")),
        ("--epsilon", "inf", ("epsilon must be ", "got inf", "finite")),
        ("--delta", "1", ("delta must be ", "got 1.0", "[0, 1)")),
        ("--delta", "-0.1", ("delta must be ", "got -0.1", "[0, 1)")),
        ("--delta", "0", ("delta must be ", "got 0.0", "never pure")),
        ("--batch", "1", ("batch must be ", "got 1", ">= 2")),
        ("--participations", "0", ("participations must be ", "got 0", ">= 1")),
        ("--horizon", "-2", ("horizon must be ", "got -2", ">= 1")),
        ("--mechanism", "forest", ("'forest'", "'blt', 'tree'")),
        ("--calibration", "loose", ("calibration must be ", "got 'loose'", "'tight', 'paper'")),
        ("--std", "8", ("--std must be left out with --epsilon", "got 8.0")),
    ],
)
def test_bad_input_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, value: str, words: tuple[str, ...]
) -> None:
    options = {**GOOD, option: value}
    code, out, err = shell(monkeypatch, capsys, "calibrate", *(word for pair in options.items() for word in pair))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words)
    assert "Traceback" not in err


def test_calibrate_needs_a_budget_or_a_noise_level(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = shell(monkeypatch, capsys, "calibrate", "--dim", "5", "--batch", "20")
    assert code == 2
    assert "--epsilon" in err
    assert "--std" in err


@pytest.mark.parametrize(
    "arguments", [("calibrate", "--dim", "five", "--batch", "20"), ("calibrate", "--batch", "20"), ("calibrat",)]
)
def test_usage_errors_end_with_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = shell(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()


@pytest.mark.parametrize("arguments", [(), ("task",)])
def test_no_command_is_answered_by_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = shell(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out.count("Usage:") == 1
    assert "create" in out or "calibrate" in out
    assert err == ""


def test_success_ends_with_code_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shell(monkeypatch, capsys, "calibrate", *(word for pair in GOOD.items() for word in pair))
    assert code in (0, None)
    assert "shuffle_binomial" in out
    assert err == ""


def test_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shell(monkeypatch, capsys, "--version")
    assert code in (0, None)
    assert out == f"bandanna {bandanna.__version__}\n"


def test_help_names_commands_and_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    code, out, _ = shell(monkeypatch, capsys, "--help")
    assert code in (0, None)
    assert "calibrate" in out
    assert "--version" in out
    code, out, _ = shell(monkeypatch, capsys, "calibrate", "--help")
    assert code in (0, None)
    for option in (
        "--dim",
        "--batch",
        "--epsilon",
        "--delta",
        "--std",
        "--participations",
        "--horizon",
        "--mechanism",
        "--calibration",
        "--bits-limit",
        "--json",
        "--explain",
    ):
        assert option in out


def test_a_real_process_ends_the_same_way() -> None:
    command = [sys.executable, "-c", "from bandanna.cli.main import main; main()", "calibrate"]
    done = subprocess.run([*command, "--dim", "5", "--epsilon", "-1", "--batch", "20"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: --epsilon must be a number > 0 (inf for no privacy), got -1.0")
    assert done.stderr.count("\n") == 1
