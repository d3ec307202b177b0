import os
import threading

import pytest

from actorflow.errors import LaunchError
from actorflow.launch.logfile import BEGIN_BYTES, NEWEST_BYTES, files
from actorflow.launch.logpipes import LogPipes
from actorflow.launch.process_supervisor import Exited, ProcessSupervisor
from actorflow.launch.restarting import Restarts
from tests.launch.children import PYTHON, descriptors
from tests.support.busy import until
from tests.support.python import run_python


@pytest.fixture(name="pipes")
def _pipes():
    before = descriptors()
    pipes = LogPipes()
    yield pipes
    pipes.close()
    assert descriptors() == before


def printed(pipes: LogPipes, name: str, path, text: bytes) -> None:
    out = pipes.open(name, path)
    os.write(out, text)
    os.close(out)


def test_the_lives_of_a_process_have_one_log(pipes, tmp_path):
    for text in (b"one\n", b"two\n"):
        printed(pipes, "worker0", tmp_path / "worker0.log", text)
        pipes.drain("worker0")
    assert pipes.tail("worker0") == "one\ntwo"
    assert pipes.tail("worker1") == ""
    pipes.close()
    pipes.close()
    assert (tmp_path / "worker0.log").read_text() == "one\ntwo\n"


def test_what_is_printed_is_in_the_log_while_the_process_goes_on(pipes, tmp_path):
    out = pipes.open("a", tmp_path / "a.log")
    os.write(out, b"here\n")
    until((tmp_path / "a.log").read_text)
    assert pipes.tail("a") == "here"
    os.close(out)


def test_pipes_that_are_opened_while_others_are_read_are_read_too(pipes, tmp_path):
    outs = []
    for number in range(20):
        outs.append(pipes.open(f"p{number}", tmp_path / f"p{number}.log"))
        os.write(outs[-1], b"here\n")
    until(lambda: all(pipes.tail(f"p{number}") == "here" for number in range(20)))
    for out in outs:
        os.close(out)


def test_a_pipe_that_somebody_holds_open_keeps_nobody(pipes, tmp_path):
    out = pipes.open("a", tmp_path / "a.log")
    os.write(out, b"here\n")
    pipes.drain("a")
    pipes.close()
    assert (tmp_path / "a.log").read_text() == "here\n"
    os.close(out)


def test_threads_may_open_and_ask(pipes, tmp_path):
    def prints(number: int) -> None:
        for _ in range(20):
            printed(pipes, f"p{number}", tmp_path / f"p{number}.log", b"x\n")
            pipes.drain(f"p{number}")

    threads = [threading.Thread(target=prints, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / f"p{number}.log").read_text() for number in range(4)] == ["x\n" * 20] * 4


def test_a_log_that_cannot_be_made_is_told(pipes, tmp_path):
    with pytest.raises(LaunchError, match=r"what 'a' prints goes to a file, got .*: No such file"):
        pipes.open("a", tmp_path / "none" / "a.log")


FLOODS = [
    *PYTHON,
    "import os\nfor i in range(400): os.write(1, (f'{i:07d}' + 'x' * 65_528 + '\\n').encode())",
]


def test_a_process_that_prints_without_end_fills_no_disk(run, tmp_path):
    path = tmp_path / "worker0.log"

    async def main():
        async with ProcessSupervisor() as watch:
            watch.start("worker0", FLOODS, log=path)
            assert (await watch.end("worker0")).returncode == 0
            assert watch.tail("worker0", 1).endswith("x" * 100)

    run(main)
    begin, before, newest = files(path)
    sizes = [file.stat().st_size for file in (begin, before, newest)]
    assert sum(sizes) <= BEGIN_BYTES + 2 * NEWEST_BYTES + 200, sizes
    assert begin.read_bytes()[:7] == b"0000000"
    assert newest.read_bytes()[-65_536:][:7] == b"0000399"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is always full")
def test_a_full_disk_ends_no_process_and_its_last_lines_are_there(run, tmp_path):
    told = []

    async def main():
        def tell(event):
            if isinstance(event, Exited):
                told.append((event.returncode, watch.tail("worker0", 2)))

        async with ProcessSupervisor(tell) as watch:
            argv = [*PYTHON, "for i in range(9): print('line', i, flush=True)\nraise SystemExit(70)"]
            watch.start("worker0", argv, log=tmp_path / "full", restarts=Restarts(limit=1, first_s=0.0))
            await watch.end("worker0")

    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(LaunchError, match="what 'worker0' prints goes to a file"):  # as of a link, as ever
        run(main)
    (tmp_path / "full").unlink()
    os.mknod(tmp_path / "full", 0o600 | 0o020000, os.stat("/dev/full").st_rdev) if os.getuid() == 0 else None
    if not (tmp_path / "full").exists():
        pytest.skip("only root makes a file that is always full")
    run(main)
    assert told == [(70, "line 7\nline 8")] * 2


def test_a_file_that_must_not_grow_ends_no_process(tmp_path):
    """With the limit of the system on the size of files, which is a full disk for one process and its children."""
    program = f"""
import asyncio, resource, sys
from pathlib import Path
from actorflow.launch.process_supervisor import ProcessSupervisor
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
async def main():
    async with ProcessSupervisor() as watch:
        watch.start("a", {[*PYTHON, "for i in range(500): print('line', i, flush=True)"]!r}, log=Path(sys.argv[1]))
        print((await watch.end("a")).returncode, watch.tail("a", 1))
asyncio.run(main())
"""
    log = tmp_path / "a.log"
    ran = run_python("-c", program, log)
    assert (ran.stdout, ran.stderr) == ("0 line 499\n", "")
    assert log.stat().st_size <= 1000
    assert log.read_text().startswith("line 0\n")
