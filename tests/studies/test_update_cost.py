"""The study of what an update costs: what it reads of threads, and what it prints."""

from __future__ import annotations

from pathlib import Path

from studies.update_cost import Cost, table, used


def thread(proc: Path, pid: int, tid: int, name: str, ms: float) -> None:
    folder = proc / str(pid) / "task" / str(tid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "schedstat").write_text(f"{int(ms * 1e6)} 17 4\n")


def test_what_a_process_has_used_is_told_by_kind_of_thread(tmp_path: Path) -> None:
    thread(tmp_path, 7, 7, "python", 12.5)
    thread(tmp_path, 7, 8, "ZMQbg/IO/0", 2.0)
    thread(tmp_path, 7, 9, "python", 1.0)
    thread(tmp_path, 7, 10, "python", 3.0)

    assert used(7, tmp_path) == {"loop": 12.5, "network": 2.0, "kernels": 4.0}
    assert used(8, tmp_path) == {}


def test_the_table_has_a_row_for_each_process_and_leaves_out_what_is_nothing() -> None:
    found = Cost(3.5, {"chief": {"loop": 0.75, "kernels": 0.0}, "ps0": {"loop": 1.0, "network": 0.25}})

    assert table("scalar", found).splitlines() == [
        "scalar: 3.50 ms an update, 2.00 of processors",
        "  chief      0.75   loop 0.75",
        "  ps0        1.25   loop 1.00, network 0.25",
    ]
