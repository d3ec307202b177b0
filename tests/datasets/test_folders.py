from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.datasets.folders import DatasetFolders
from actorflow.errors import ConfigError


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({"ACTORFLOW_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c/datasets"),
        ({"ACTORFLOW_CACHE": "", "XDG_CACHE_HOME": "/x"}, "/x/actorflow/datasets"),
        ({"ACTORFLOW_CACHE": "~/c"}, "/home/jane/c/datasets"),
        ({"XDG_CACHE_HOME": "not/absolute"}, "/home/jane/.cache/actorflow/datasets"),
        ({}, "/home/jane/.cache/actorflow/datasets"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    environ: dict[str, str], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/jane")

    assert DatasetFolders.of(environ).kept == Path(kept)


def test_a_relative_folder_is_taken_from_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    places = DatasetFolders.of({"ACTORFLOW_CACHE": "c", "ACTORFLOW_DATA": "d"})

    assert places.kept == tmp_path / "c" / "datasets"
    assert places.given == tmp_path / "d"
    assert DatasetFolders.of({"ACTORFLOW_CACHE": "c", "ACTORFLOW_DATA": ""}).given is None


def test_without_a_home_the_user_is_asked_for_a_cache() -> None:
    with pytest.raises(ConfigError, match="ACTORFLOW_CACHE=DIR names a folder"):
        DatasetFolders.of({"ACTORFLOW_CACHE": "~nobody-of-this-name/c"})
