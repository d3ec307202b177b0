from pathlib import Path

import pytest

from actorflow.launch.filesystems import in_memory

MOUNTS = """\
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /run rw,nosuid shared:2 - tmpfs tmpfs rw,size=800k
22 21 8:2 / /run/disk rw - xfs /dev/sdb rw
23 20 0:6 / /tmp\\040of\\040mine rw - tmpfs none rw
24 20 8:3 / /over rw - ext4 /dev/sdc rw
25 24 0:7 / /over rw - tmpfs tmpfs rw
not a mount
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/run/user/1000", True),
        ("/run/disk/logs", False),
        ("/running", False),
        ("/var/tmp", False),
        ("/tmp of mine/x", True),
        ("/over/x", True),  # the later mount at one place hides the earlier one
    ],
)
def test_the_nearest_mount_above_a_path_says_whether_it_is_in_memory(path, expected):
    assert in_memory(Path(path), MOUNTS) is expected


def test_a_system_that_says_nothing_has_no_folder_in_memory():
    assert not in_memory(Path("/run"), "")


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="only Linux says it")
def test_this_machine_is_asked():
    assert not in_memory(Path("/proc"))
