"""Two network namespaces, and the link between them goes down and comes up again: real processes, real TCP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.kill.harming import PROGRAM, ROOT
from tests.kill.judging import judge_updates
from tests.kill.notes import read, updated
from tests.support.busy import HANG_S

SCRIPT = Path(__file__).with_name("namespaces.sh")
STEPS = 150


def _missing() -> str:
    """Why this machine cannot do it; nothing when it can."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    probe = "ip link add near type veth peer name far && unshare --net true"
    tried = subprocess.run(
        ["unshare", "-Urn", "sh", "-c", probe], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"no network namespaces for this user: {tried.stderr.strip()}"


MISSING = _missing()


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "it can")
@pytest.mark.parametrize("down_s", [0.5, 5.0], ids=["for a moment", "for longer than all limits"])
def test_a_link_that_goes_down_and_comes_up(down_s: float) -> None:
    with tempfile.TemporaryDirectory(prefix="af-ns-") as name:
        folder = Path(name)
        notes, keys = folder / "notes", folder / "keys"
        notes.mkdir()
        (notes / "slow").touch()
        subprocess.run([sys.executable, "-m", "actorflow", "keys", "new", str(keys)], cwd=ROOT, check=True)
        argv = ["unshare", "-Urn", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", str(SCRIPT)]
        argv += [sys.executable, str(PROGRAM), str(keys), name, str(down_s), str(STEPS)]
        environ = {**os.environ, "KILL_NOTES": str(notes)}
        ran = subprocess.run(
            argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in folder.glob("*.log"))
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}\n{logs}"
        lives = read(notes)
        told = [updated(data) for life in lives if life.name == "chief" for data in life.of("told")]
        assert len(told) == STEPS
        judge_updates(lives, told)
        alive = [u.alive for u in told]
        assert alive[-1] == 2, "the one beyond the link is back"
        assert (min(alive) == 1) is (down_s > 3.0), alive
