from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actorflow.errors import HistoryError
from actorflow.sim import history
from actorflow.sim.history import History

Reader = Callable[[Path], History]


def read(tmp_path: Path, reader: Reader, text: str) -> History:
    path = tmp_path / "f"
    path.write_text(text)
    return reader(path)


def brief(found: History) -> list[tuple[object, ...]]:
    return [(o.client, o.op, *o.args, o.status.value, o.result, o.invoked, o.returned) for o in found]


JEPSEN = """\
INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 1   :invoke :cas    [1 2]
INFO  jepsen.util - 2   :invoke :write  4
INFO  jepsen.util - 1   :fail   :cas    [1 2]
INFO  jepsen.util - 2   :info   :write  :timed-out
INFO  jepsen.util - 1   :invoke :cas    [1 2]
INFO  jepsen.util - 1   :ok     :cas    [1 2]
INFO  jepsen.util - 1   :invoke :read   nil
INFO  jepsen.util - 1   :fail   :read   :timed-out
INFO  jepsen.util - 1   :invoke :cas    [0 0]
INFO  jepsen.util - 1   :info   :cas    :timed-out
INFO  jepsen.util - 4   :invoke :read   nil
"""


def test_a_jepsen_log_is_read_as_its_verdict_needs(tmp_path: Path) -> None:
    found = read(tmp_path, history.read_jepsen, JEPSEN)

    assert brief(found) == [
        (0, "read", "ok", None, 0, 1),
        (1, "cas", 1, 2, "ok", False, 2, 4),
        (2, "write", 4, "info", None, 3, None),
        (1, "cas", 1, 2, "ok", True, 5, 6),
        (1, "read", "fail", None, 7, 8),
        (1, "cas", 0, 0, "info", None, 9, None),
        (4, "read", "info", None, 10, None),
    ]
    assert found[2].reason == "timed-out"


def test_a_key_value_file_is_read(tmp_path: Path) -> None:
    text = """\
{:process 1, :type :invoke, :f :append, :key "k", :value "a \\"b\\""}
{:process 2, :type :invoke, :f :get, :key "k", :value nil}
{:process 1, :type :ok, :f :append, :key "k", :value "a \\"b\\""}
{:process 2, :type :ok, :f :get, :key "k", :value nil}
"""
    found = read(tmp_path, history.read_kv, text)

    assert brief(found) == [(1, "append", 'a "b"', "ok", None, 0, 2), (2, "get", "ok", "", 1, 3)]
    assert {operation.key for operation in found} == {"k"}


def test_a_knossos_history_is_read_and_a_failed_cas_did_not_happen(tmp_path: Path) -> None:
    text = """\
; a comment
({:process 1, :type :invoke, :f :cas, :value [1 2], :time 2000000000}
 {:process 1, :type :fail, :f :cas, :value [1 2], :error [:not-found "x"]}
 {:process :nemesis, :type :info, :f :start}
 {:process 2, :type :invoke, :f :txn, :value [[:read :x nil] [:write :y 3]]}
 {:process 2, :type :ok, :f :txn, :value [[:read :x 1] [:write :y 3]]}
 {:process 3, :type :invoke, :f :acquire}
 {:process 3, :type :info, :f :acquire, :error :timeout}
 {:process 2, :type :invoke, :f :read, :value 7}
 {:process 2, :type :ok, :f :read, :value 8})
"""
    found = read(tmp_path, history.read_knossos, text)

    before, after = (("read", "x", None), ("write", "y", 3)), (("read", "x", 1), ("write", "y", 3))
    assert brief(found) == [
        (1, "cas", 1, 2, "fail", None, 0, 1),
        (2, "txn", *before, "ok", after, 2, 3),
        (3, "acquire", "info", None, 4, None),
        (2, "read", "ok", 8, 5, 6),
    ]
    assert (found[0].invoked_s, found[2].reason) == (2.0, "timeout")


INVOKE = "{:process 1, :type :invoke, :f :get, :key 1, :value nil}"


@pytest.mark.parametrize(
    ("reader", "text", "what"),
    [
        (history.read_jepsen, "INFO  jepsen.util - 0 :invoke :jump 3", "line 1, column 1: expected `INFO jepsen"),
        (history.read_jepsen, "\nINFO  jepsen.util - x :ok :read 3", "line 2, column 1: expected `INFO jepsen"),
        (history.read_jepsen, "INFO  jepsen.util - 0 :ok :read 3", "line 1, column 1: process 0 ends 'read', but nothing"),
        (history.read_jepsen, "INFO  jepsen.util - 0 :invoke :cas 3", "cas needs a vector of the old and the new"),
        (history.read_jepsen, "INFO  jepsen.util - 0 :invoke :cas [3", "line 1, column 36: '[' is not closed"),
        (history.read_kv, INVOKE + "\n" + INVOKE, "line 2, column 1: client 1 invokes 'get' while its get"),
        (history.read_kv, INVOKE.replace("get", "jump"), "expected get, put or append, got 'jump'"),
        (history.read_kv, "\n {:process 1}", "line 2, column 2: an event is a map with :process :type"),
        (history.read_kv, INVOKE.replace("invoke", "begin"), ":type is :invoke, :ok, :fail or :info, got 'begin'"),
        (history.read_kv, INVOKE.replace("process 1", "process 1.5"), ":process is a number, or a keyword"),
        (history.read_kv, INVOKE.replace("nil", "{}"), "a history keeps no maps and sets as values, got {}"),
        (history.read_knossos, "{}", "line 1, column 1: a list or vector was expected"),
        (history.read_knossos, "[{:process 1\n :type ]", "line 2, column 8: a value was expected, got ']'"),
        (history.read_knossos, "[\n 5]", "line 2, column 2: an event is a map with :process :type :f, got 5"),
        (history.read_knossos, "[{:process 1 :type :invoke :f :txn :value 3}]", "txn needs a vector of reads and writes"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_line_and_column(
    tmp_path: Path, reader: Reader, text: str, what: str
) -> None:
    with pytest.raises(HistoryError) as raised:
        read(tmp_path, reader, text)
    assert str(tmp_path / "f") in str(raised.value)
    assert what in str(raised.value)


def test_an_end_of_another_operation_is_refused(tmp_path: Path) -> None:
    text = INVOKE + INVOKE.replace("invoke", "ok").replace("get", "put")

    with pytest.raises(HistoryError, match="process 1 ends 'put', but 'get' is open"):
        read(tmp_path, history.read_kv, text)


@pytest.mark.parametrize("reader", [history.read_jepsen, history.read_kv, history.read_knossos])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, reader: Reader) -> None:
    with pytest.raises(HistoryError, match="cannot read the history"):
        reader(tmp_path / "nothing")


KV = '{:process 0, :type :invoke, :f :get, :key "x", :value nil}\n'
KNOSSOS = "[{:process 0, :type :invoke, :f :read, :value nil}]"
OURS = '{"client": 0, "op": "read", "invoked": 0, "returned": 1}\n'


@pytest.mark.parametrize("reader", [history.read_jepsen, history.read_kv, history.read_knossos, History.read])
def test_a_file_without_an_operation_is_no_history(tmp_path: Path, reader: Reader) -> None:
    (tmp_path / "README.md").write_text("# Words\n\nand no operation.\n")
    (tmp_path / "empty").write_text("")

    for name in ("README.md", "empty"):
        with pytest.raises(HistoryError, match=name):
            reader(tmp_path / name)


@pytest.mark.parametrize(
    ("reader", "text", "looks"),
    [
        (history.read_jepsen, "words", r"f: no operation in it; read_jepsen looks for lines `INFO jepsen"),
        (history.read_kv, "", r"f: no operation in it; read_kv looks for maps {:process :type :f :key"),
        (history.read_knossos, "[]", r"f: no operation in it; read_knossos looks for one vector of maps"),
        (History.read, "\n", r"f: no operation in it; History\.read looks for one JSON object a line"),
    ],
)
def test_a_reader_says_what_it_looks_for(tmp_path: Path, reader: Reader, text: str, looks: str) -> None:
    with pytest.raises(HistoryError, match=looks):
        read(tmp_path, reader, text)


@pytest.mark.parametrize(
    ("text", "fits"),
    [(JEPSEN, "read_jepsen"), (KV, "read_kv"), (KNOSSOS, "read_knossos"), (OURS, r"History\.read")],
)
def test_a_reader_names_the_one_that_fits(tmp_path: Path, text: str, fits: str) -> None:
    for reader in (history.read_jepsen, history.read_kv, history.read_knossos):
        if reader.__name__ != fits:
            with pytest.raises(HistoryError, match=rf"try: +{fits} reads this file"):
                read(tmp_path, reader, text)
