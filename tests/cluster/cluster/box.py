"""Namespaces of a cluster's own: network, mounts, processes, cgroups. What happens inside leaves nothing outside.

    python3 -B box.py --id ID --folder DIR -- COMMAND…       runs COMMAND as the first process of the box
    python3 -B box.py --id ID --folder DIR --sweep           removes the empty cgroups that a box has left

Inside: a loopback interface, and a veth pair with 10.99.0.1 and a default route that leads nowhere (the API server and the
kubelet want one); the cgroup hierarchies below a cgroup of the box's own, which is their root there. The machine's mounts, interfaces and firewall
stay as they are.
Needs root and cgroup hierarchies of version 1, as the test machines have them.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ADDRESS = "10.99.0.1"
GATEWAY = "10.99.0.254"
SERVICE = "10.0.0.1"  # of the service `kubernetes`: KUBERNETES_SERVICE_HOST of every pod


def run(*command):
    subprocess.run(command, check=True)


def hierarchies():
    """Pairs of mount option and own cgroup, for every hierarchy of version 1: ("memory", "/user"), …"""
    found = []
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers:
            found.append((controllers, path))
    return found


def option(controllers):
    return f"none,{controllers}" if controllers.startswith("name=") else controllers


def folder_of(controllers):
    return controllers.removeprefix("name=")


def name_of(identity):
    return f"berth-cluster-{identity}"


def mount_hierarchies(at):
    at.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(at))
    for controllers, _ in hierarchies():
        folder = at / folder_of(controllers)
        folder.mkdir()
        run("mount", "-t", "cgroup", "-o", option(controllers), "cgroup", str(folder))
        for single in controllers.split(",") if "," in controllers else ():
            (at / single).symlink_to(folder_of(controllers))


def own_cgroups(at, identity):
    for controllers, path in hierarchies():
        yield at / folder_of(controllers) / path.lstrip("/") / name_of(identity)


def join_cgroups(at, identity):
    for cgroup in own_cgroups(at, identity):
        cgroup.mkdir(exist_ok=True)
        if (cgroup / "cpuset.cpus").exists():
            for file in ("cpuset.cpus", "cpuset.mems"):
                (cgroup / file).write_text((cgroup.parent / file).read_text())
            (cgroup / "cgroup.clone_children").write_text("1")
        if (cgroup / "memory.use_hierarchy").exists() and (cgroup / "memory.use_hierarchy").read_text().strip() == "0":
            (cgroup / "memory.use_hierarchy").write_text("1")
        (cgroup / "cgroup.procs").write_text("0")


def sweep(at, identity):
    """Removes the cgroups from the leaves up; the last processes may take a moment to be gone."""
    for cgroup in own_cgroups(at, identity):
        deadline = time.monotonic() + 10
        while cgroup.exists():
            for folder, _, _ in os.walk(cgroup, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass
            if cgroup.exists() and time.monotonic() > deadline:
                print(f"box: {cgroup} does not go away", file=sys.stderr)
                return 1
            if cgroup.exists():
                time.sleep(0.05)
    return 0


def outer(arguments):
    """In a mount namespace of its own: into the box's cgroups, or away with them."""
    at = Path(arguments.folder) / "cgroup"
    mount_hierarchies(at)
    if arguments.sweep:
        return sweep(at, arguments.id)
    join_cgroups(at, arguments.id)
    again = [sys.executable, "-B", __file__, "--id", arguments.id, "--folder", arguments.folder, "--stage", "inner"]
    os.execvp("unshare", ["unshare", "--cgroup", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *again, "--",
                          *arguments.command])
    raise AssertionError("unreachable")


def inner(arguments):
    """As process 1 of the box."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{SERVICE}/32", "dev", "lo")
    run("ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
    for interface in ("d0", "d1"):
        run("ip", "link", "set", interface, "up")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "d0")
    run("ip", "route", "add", "default", "via", GATEWAY)
    run("umount", "-R", str(Path(arguments.folder) / "cgroup"))
    mount_hierarchies(Path("/sys/fs/cgroup"))
    os.execvp(arguments.command[0], arguments.command)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--id", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--stage", choices=["outer", "inner"])
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    if arguments.stage == "inner":
        inner(arguments)
    if arguments.stage == "outer":
        return outer(arguments)
    again = [sys.executable, "-B", __file__, "--stage", "outer", *sys.argv[1:]]
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])
    raise AssertionError("unreachable")


if __name__ == "__main__":
    sys.exit(main())
