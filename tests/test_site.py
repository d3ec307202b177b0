"""The site is built without a warning, and docstrings become what Sphinx reads."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.python import run_python

FOLDER = Path(__file__).parents[1] / "docs/site"
ABSENT = [name for name in ("sphinx", "furo", "myst_parser") if find_spec(name) is None]


@pytest.fixture
def docstrings() -> ModuleType:
    spec = spec_from_file_location("docstrings", FOLDER / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "rst"),
    [
        ("Gives `x` times a_ and *args.", "Gives ``x`` times a\\_ and \\*args.\n"),
        ("Of `x`s.", "Of ``x``\\ s.\n"),
        ("Args:\n    x: What goes\n        in.\n    *y: More.", ":param x: What goes in.\n:param y: More.\n"),
        ("Attributes:\n    x: One.\n    y: Two.", ":Attributes:\n   - ``x``: One.\n   - ``y``: Two.\n"),
        ("Raises:\n    SpecError: when `x` is odd.", ":raises SpecError: when ``x`` is odd.\n"),
        ("Shapes:  x (n,) -> ()\nDtypes:  any", ":Shapes: x (n,) -> ()\n\n:Dtypes: any\n"),
        ("Note this:\n\n    a * b", "Note this:\n\n::\n\n        a * b\n"),
        ("So:\n>>> 1 + 1\n2", "So:\n\n>>> 1 + 1\n2\n"),
        ("* one\n  and more\n* two", "- one and more\n- two\n"),
    ],
)
def test_a_docstring_becomes_what_sphinx_reads(docstrings: ModuleType, text: str, rst: str) -> None:
    assert "\n".join(docstrings.converted(text.splitlines())) == rst


@pytest.mark.slow
@pytest.mark.skipif(
    bool(ABSENT), reason=f"{', '.join(ABSENT)} is not installed: pip install 'actorflow[site]'"
)
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    ran = run_python(FOLDER / "build.py", tmp_path / "site")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert {page.name for page in (tmp_path / "site/api").glob("*.html")} >= {
        "af.html",
        "af.nn.html",
        "sim.html",
    }
