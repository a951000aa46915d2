"""The wheel and the source distribution install, run and are complete."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import bandanna

ROOT = Path(__file__).parents[1]
SNIPPET = """
import pathlib, sys
import bandanna as bd
assert pathlib.Path(bd.__file__).is_relative_to(sys.prefix), bd.__file__
assert (pathlib.Path(bd.__file__).parent / "deployment" / "dashboard" / "assets" / "style.css").is_file()
policy = bd.LinTS(dim=3, horizon=1_000, intercept=True, privacy=bd.shuffle(epsilon=1.0, delta=1e-5))
agent = bd.Agent(policy=policy)
decision = agent.act({"tea": [0.5, 0.1, 1.0], "coffee": [0.2, 0.7, 1.0]})
agent.observe(decision, 1.0)
assert policy.guarantee.epsilon <= 1.0
print(decision.arm)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": source}


def test_the_wheel_holds_what_runs_or_is_served_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("bandanna/")}
        others = {name.split("/")[0] for name in wheel.namelist()} - {"bandanna"}
    here = ROOT / "src"
    wanted = {
        path.relative_to(here).as_posix()
        for path in (here / "bandanna").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == wanted
    served = {"assets/live.js", "templates/task.html"}
    assert {"bandanna/py.typed", *(f"bandanna/deployment/dashboard/{name}" for name in served)} <= names
    assert others == {f"bandanna-{bandanna.__version__}.dist-info"}


def test_the_source_has_what_its_makefile_needs(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    for needed in ("Makefile", "LICENSE", "README.md", "pyproject.toml", "mkdocs.yml", "docs/index.md",
                   "src/bandanna/deployment/dashboard/assets/style.css", "tests/test_dist.py", "tools/words.py",
                   "clients/js/src/index.ts",
                   "clients/js/package-lock.json", "examples/quick_start.ipynb"):  # fmt: skip
        assert needed in names, needed
    assert not [name for name in names if "node_modules" in name or "__pycache__" in name or "/dist/" in name]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_installed_package_runs(kind: str, built: dict[str, Path], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "new")], check=True)
    (site,) = (tmp_path / "new").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # no network is needed
    python = tmp_path / "new" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--ignore-installed", "--no-index", str(built[kind])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    clean = {"PATH": str(python.parent), "BANDANNA_CACHE": str(tmp_path / "cache")}
    said = subprocess.run([python.parent / "bandanna", "--version"], env=clean, capture_output=True, text=True)
    assert bandanna.__version__ in said.stdout, said.stderr
    ran = subprocess.run([python, "-c", SNIPPET], env=clean, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.strip() in ("tea", "coffee"), ran.stderr
