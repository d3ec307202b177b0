from __future__ import annotations

from pathlib import Path

import pytest

import actorflow as af
from actorflow.datasets.catalogue import DATASETS, find_dataset
from actorflow.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_has_a_verb_a_line_on_the_page_and_remedies(name: str) -> None:
    dataset = find_dataset(name)

    assert dataset.name == name
    assert name in af.datasets.__all__
    assert f"| `{name}` |" in PAGE
    assert len(bytes.fromhex(dataset.sha256)) == 32
    assert dataset.remedies


def test_a_name_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match="one of austen, digits, fashion_mnist, got 'digit'\n.*did you mean digits?"
    ):
        find_dataset("digit")
    with pytest.raises(ConfigError, match="got 'x'$"):
        find_dataset("x")
