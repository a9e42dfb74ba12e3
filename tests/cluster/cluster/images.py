"""The images of the test nodes: busybox, from Debian's static one, which is the pause of the sandboxes too."""

import sys
from pathlib import Path

from .programs import ROOT

sys.path.insert(0, str(ROOT / "tools" / "lib"))

import oci  # noqa: E402

BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
APPLETS = ("sh", "cat", "echo", "env", "grep", "id", "kill", "ls", "mkdir", "mount", "nc", "printenv", "rm", "sleep", "sort",
           "sync", "tail", "test", "touch", "true", "false", "umount", "wget")


def _busybox():
    layer = oci.Layer()
    layer.copy("/bin/busybox", "/bin/busybox", 0o755)
    for applet in APPLETS:
        layer.link(f"/bin/{applet}", "busybox")
    for folder in ("/proc", "/sys", "/dev", "/etc", "/run"):
        layer.folder(folder)
    layer.folder("/tmp", 0o1777)
    return layer


def make(folder):
    """The archives, made when they are not there. The busybox image sets NVIDIA_VISIBLE_DEVICES, as NVIDIA's CUDA images do."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    busybox, pause = folder / "busybox.tar", folder / "pause.tar"
    if not pause.exists():
        oci.write(busybox, BUSYBOX, _busybox(), ["/bin/sh", "-c"], ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"])
        oci.write(pause, PAUSE, _busybox(), ["/bin/busybox", "sleep", "2147483647"], ["PATH=/bin"])
    return [busybox, pause]
