"""What `actorflow ops` tells of the ops, and the page that is written from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.cli import main, names
from actorflow.cli.display import optable
from actorflow.cli.ops import NEVER_ON_A_CARD, markdown
from actorflow.graph import opdef
from actorflow.values.arrays import NAMES
from tests.support.accepting import accepted

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optable, "find_accepted", accepted)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ops", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_it_lists_every_op_with_what_it_gives(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)

    assert {line.split()[0] for line in out.splitlines() if line} >= {row.op for row in optable.rows()}
    assert "The sum a + b, elementwise." in out


def test_the_table_has_a_row_for_every_op_and_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--table").splitlines()

    assert lines[0].split() == list(optable.HEADINGS)
    total = int(lines[-1].split()[0])
    assert total == len(lines) - 3 >= 200
    assert {row.op for row in optable.rows()} == {
        n for n, d in opdef.table().items() if d.constructor.__module__.startswith("actorflow.")
    }


def test_a_row_says_what_the_tables_know() -> None:
    by_name = {row.op: row for row in optable.rows()}

    assert by_name["add"].cells == ("add", "af.add(a, b)", "numbers", "yes", "numpy, CuPy", "pure")
    assert by_name["where"].dtypes.startswith("condition: bool; ")
    assert by_name["argmax"].gradient == "none"
    assert by_name["random_uniform"].devices == "numpy; CuPy: drawn on the host, copied"
    assert by_name["read_variable"].devices == "host"
    assert by_name["queue_enqueue"].call == "Queue.enqueue(components)"
    assert by_name["softmax_cross_entropy"].dtypes == "logits: floating; labels: integers"


def test_one_op_is_explained_by_its_docstring_and_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "concat")

    assert out.startswith("af.concat(values, axis)\n\nThe values one after the other along `axis`.\n")
    assert (
        "\ngradient  yes\ndevices   numpy, CuPy\neffect    pure\nmodule    actorflow.ops.array.slicing\n"
        in out
    )


def test_a_verb_that_is_made_of_ops_is_explained_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "median").endswith("\nmade of other ops\n")


def test_an_unknown_op_names_near_ones_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "summ"]) == 2

    assert capsys.readouterr().err.startswith("ProgramError: there is no op 'summ'; near it are sum")


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("af.nn.relu", "af.nn.relu(x)"),
        ("actorflow.nn.relu", "af.nn.relu(x)"),
        ("af.nn.relu(x)", "af.nn.relu(x)"),
        ("af.gather", "af.gather(params, indices, axis=0, batch_dims=0)"),
        ("gather", "af.gather(params, indices, axis=0, batch_dims=0)"),
        ("jvp", "af.autodiff.jvp(ys, xs, vs)"),
        ("af.autodiff.hessian_vector_product", "af.autodiff.hessian_vector_product(y, xs, vs)"),
        ("minimize", "af.minimize("),
        ("nn.Dense", "af.nn.Dense(inputs, outputs, *, bias=True"),
        ("Dense", "af.nn.Dense(inputs, outputs, *, bias=True"),
        ("clip_by_norm", "af.optim.clip_by_norm("),
        ("optim.adam", "af.optim.adam("),
        ("init.he", "af.init.he(shape, dtype='float32', seed=None)"),
        ("check_gradients", "af.testing.check_gradients(ys, xs, feeds=None"),
        ("Session", "af.Session("),
        ("errors.SpecError", "af.errors.SpecError("),
    ],
)
def test_everything_that_users_call_is_explained(
    capsys: pytest.CaptureFixture[str], name: str, first: str
) -> None:
    lines = printed(capsys, name).splitlines()

    assert lines[0].startswith(first)
    assert lines[1] == ""
    assert lines[2]


def test_all_that_is_documented_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for name in names.find_documented().keys() - opdef.table().keys():  # ops are rows of the table as well
        assert printed(capsys, name).startswith("af.")


def test_what_others_call_it_leads_to_what_it_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "permute"]) == 2

    assert capsys.readouterr().err == (
        "ProgramError: there is no op 'permute'; here it is af.transpose\n"
        "  try:   `actorflow ops transpose` explains it\n"
    )


@pytest.mark.parametrize("name", names.ELSEWHERE)
def test_names_of_others_are_not_ours_and_lead_to_ours(name: str) -> None:
    assert name not in opdef.table()
    assert names.lookup(name) is None
    assert names.lookup(names.ELSEWHERE[name]) is not None


def test_verbs_made_of_other_ops_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {line.split()[0] for line in printed(capsys).splitlines() if line}

    assert listed >= {
        "autodiff.jvp",
        "autodiff.hessian_vector_product",
        "minimize",
        "gradients",
        "math.median",
        "gather",
    }
    assert "gather" not in optable.find_composed()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (NAMES, "numbers, bool"),
        ((*NAMES, "bytes"), "any"),
        (("bool", "int8"), "bool, int8"),
        (("float16", "bfloat16", "float32", "float64", "complex64"), "floating, complex64"),
        ((), "none"),
    ],
)
def test_dtypes_are_told_in_few_words(names: tuple[str, ...], said: str) -> None:
    assert optable.words(names) == said


def test_the_page_of_ops_is_up_to_date() -> None:
    page = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")

    stale = page.splitlines() != list(markdown())
    assert not stale, "docs/ops.md is older than the tables of ops and kernels: renew it with `make docs`"


def test_what_no_card_has_seen_are_chapters_of_the_page() -> None:
    assert set(NEVER_ON_A_CARD) <= {group for group, _, _ in optable.groups()}
