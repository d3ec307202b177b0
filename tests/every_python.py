"""Runs the tests on every Python from 3.11 on that is installed here, each with the newest numpy.

    python tests/every_python.py [--only 3.12,3.13] [arguments of pytest]

Each version has an environment of its own, `.venv-3.12` and so on. The tests that start clusters of
processes take long and depend least on the version: they run on the newest one alone. A version that
fails does not keep the others from running.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST, LAST = 11, 20
SAID = "import numpy, sys; print('== Python', sys.version.split()[0], 'and numpy', numpy.__version__, flush=True)"


def main() -> int:
    """Returns 0 when the tests passed on each version, 1 when they did not, 2 where there is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="VERSIONS", help="such as 3.12,3.13")
    options, rest = parser.parse_known_args()
    wanted = [version for version in options.only.split(",") if version]
    versions = [f"3.{minor}" for minor in range(FIRST, LAST + 1)]
    unknown = [version for version in wanted if version not in versions]
    if unknown:
        parser.error(f"--only takes versions from 3.{FIRST} on, got {', '.join(unknown)}")
    environ = environment()
    found = {version: python for version in versions if (python := interpreter(version, environ))}
    absent = [version for version in wanted if version not in found]
    if absent or not found:
        print(f"not installed: {', '.join(absent or versions)}; installed: {', '.join(found) or 'none'}")
        return 2
    newest = list(found)[-1]
    ended = {
        version: tested(version, found[version], environ, rest, clusters=version == newest)
        for version in wanted or found
    }
    for version, passed in ended.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if all(ended.values()) else 1


def environment() -> dict[str, str]:
    """The environment in which all versions that pyenv keeps are found, where there is a pyenv."""
    if shutil.which("pyenv") is None:
        return dict(os.environ)
    kept = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=True)
    return {**os.environ, "PYENV_VERSION": ":".join(kept.stdout.split())}


def interpreter(version: str, environ: dict[str, str]) -> str | None:
    """The path of an interpreter of a version, if one is installed and runs."""
    python = shutil.which(f"python{version}")
    if python is None:
        return None
    said = subprocess.run(
        [python, "-c", "import sys; print(sys.executable)"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or None


def tested(version: str, python: str, environ: dict[str, str], rest: list[str], *, clusters: bool) -> bool:
    """Installs what the tests need for one version, runs them, and tells whether they passed."""
    place = ROOT / f".venv-{version}"
    own = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(own), "install", "--quiet"]
    marked = [] if clusters else ["-m", "not processes"]
    steps = [
        [str(own), "-c", SAID],
        [str(own), "-m", "pytest", "-n", "2", *marked, *rest],
    ]
    if not own.exists():
        steps.insert(0, [python, "-m", "venv", "--without-pip", str(place)])
    steps.insert(-2, [*pip, "--disable-pip-version-check", "--upgrade", "numpy", "--editable", ".[dev]"])
    return all(subprocess.run(step, cwd=ROOT, env=environ, check=False).returncode == 0 for step in steps)


if __name__ == "__main__":
    sys.exit(main())
