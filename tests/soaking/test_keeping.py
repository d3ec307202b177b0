from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.soaking import keeping

MODULE = '''"""Laws."""

from __future__ import annotations

from hypothesis import HealthCheck, given
from hypothesis import strategies as st


class TestAll:
    @staticmethod
    @given(
        st.integers(),
    )
    def test_x(n): ...


@given(st.integers())
def test_x(n): ...
'''


@pytest.mark.parametrize(
    ("law", "above"), [("test_x", "@given(st.integers())"), ("TestAll.test_x", "    @given(\n")]
)
def test_an_example_is_written_above_given_and_imported(tmp_path: Path, law: str, above: str) -> None:
    source = tmp_path / "laws.py"
    source.write_text(MODULE)
    indent = above[: -len(above.lstrip())]

    keeping.keep(source, law, "@example(\n    n=1,\n)")

    written = f"{indent}@example(\n{indent}    n=1,\n{indent})\n{above}"
    wanted = MODULE.replace(above, written).replace("HealthCheck, given", "HealthCheck, example, given")
    assert source.read_text() == wanted


@pytest.mark.parametrize(
    "head",
    [
        "import hypothesis\nfrom hypothesis import strategies as st\n",
        "from hypothesis import (  # all we need\n    given,\n    strategies as st,\n)\n",
        '"""Says."""\nimport hypothesis as hypothesis, hypothesis.strategies as st\n',
    ],
)
def test_example_is_imported_however_the_module_imports_hypothesis(tmp_path: Path, head: str) -> None:
    source = tmp_path / "laws.py"
    given_name = "given" if "given," in head else "hypothesis.given"
    source.write_text(f"{head}\n@{given_name}(st.integers(5, 9))\ndef test_x(n):\n    assert n != 1\n")

    keeping.keep(source, "test_x", "@example(n=1)")

    with pytest.raises(AssertionError):
        settings(phases=[Phase.explicit])(runpy.run_path(str(source))["test_x"])()


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "laws.py"
    source.write_text(MODULE + "\n\ndef test_plain(): ...\n")
    keeping.keep(source, "test_x", "@example(n=1)")
    before = source.read_text()

    for law, why in [
        ("test_x", "has it already"),
        ("test_y", "defines no"),
        ("TestAll", "class"),
        ("test_plain", "no @given"),
    ]:
        with pytest.raises(keeping.NotKept, match=why):
            keeping.keep(source, law, "@example( n = 1 )")

    assert source.read_text() == before
