"""`berth run --container`: what podman and docker are started with, and podman for real."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from harness import RunTest, soon

RECORDER = """#!/bin/sh
# Stands in for docker and podman: says how it was called.
{ for word in "$@"; do printf '%s\\n' "$word"; done; } > "$RECORD"
exit 7
"""


class Containers(RunTest):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name in ("docker", "podman"):
            (self.bin / name).write_text(RECORDER)
            (self.bin / name).chmod(0o755)
        self.record = self.folder / "record"
        self.environment |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "RECORD": str(self.record)}

    def recorded(self):
        return self.record.read_text().splitlines()

    def test_docker_gets_the_granted_device_and_the_guard(self):
        done = self.run_berth("--gpu-memory", "4Gi", "--container", "--", "docker", "run", "--rm", "-it", "--gpus", "all",
                              "-e", "NVIDIA_VISIBLE_DEVICES=all", "-eCUDA_VISIBLE_DEVICES=1", "-e", "MINE=1",
                              "image:1", "train", "--gpus", "all")
        self.assertEqual(done.returncode, 7, done.stderr)
        words = self.recorded()
        (uuid,) = [d["uuid"] for d in self.daemon.call("GET", "/v1/devices").json["devices"] if d["index"] == 0]
        self.assertEqual(words[:3], ["run", "--gpus", f"device={uuid}"])
        self.assertEqual(words[-4:], ["image:1", "train", "--gpus", "all"])
        variables = [words[i + 1] for i, word in enumerate(words) if word == "-e"]
        self.assertIn(f"NVIDIA_VISIBLE_DEVICES={uuid}", variables)
        self.assertIn("CUDA_VISIBLE_DEVICES=0", variables)
        self.assertIn(f"BERTH_LEASE_ID={self.lease()['id']}", variables)
        self.assertIn("MINE=1", variables)
        self.assertNotIn("NVIDIA_VISIBLE_DEVICES=all", variables)
        self.assertNotIn("CUDA_VISIBLE_DEVICES=1", variables)
        self.assertIn("--cidfile", words)
        if "no guard library" not in (self.folder / "log").read_text() and os.geteuid() == 0:
            self.assertIn("LD_PRELOAD=/run/berth/libberth_guard.so", variables)
            mounts = [words[i + 1] for i, word in enumerate(words) if word == "-v"]
            self.assertEqual([mount.split(":")[1] for mount in mounts],
                             ["/run/berth/libberth_guard.so", "/run/berth/grant", "/run/berth/grant/account"])
        for left_out in ("--gpus all", "-e NVIDIA_VISIBLE_DEVICES=all", "-e CUDA_VISIBLE_DEVICES=1"):
            self.assertIn(f"berth run: {left_out} was left out: the container gets what its lease grants\n", done.stderr)

    def test_options_that_would_widen_what_is_granted_are_refused(self):
        for text, *options in (
            ("--privileged would give the container every GPU", "--privileged"),
            ("--detach would end the lease while the container runs", "-d"),
            ("--device /dev/nvidia0 would give the container a GPU that was not granted", "--device", "/dev/nvidia0"),
            ("-v /dev:/dev would show the container the devices", "-v", "/dev:/dev"),
            ("could give the container other GPUs", "--device-cgroup-rule=c 195:* rmw"),
            ("takes the cgroup from the container", "--cgroups=disabled"),
        ):
            done = self.run_berth("--gpus", "1", "--container", "--", "podman", "run", *options, "image")
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(text, done.stderr)
            self.assertFalse(self.record.exists())
        self.assertEqual(self.leases(), [], "refused before anything was reserved")

    def test_an_engine_without_the_option_gets_a_warning(self):
        done = self.run_berth("--gpus", "1", "--", "docker", "run", "image")
        self.assertEqual(done.returncode, 7)
        self.assertIn("Add --container before the --", done.stderr)
        self.assertEqual(self.recorded(), ["run", "image"])
        self.assertNotIn("--container", self.run_berth("--gpus", "1", "--", "docker", "ps").stderr)

    def test_a_real_container_is_known_by_its_cgroup(self):
        podman = shutil.which("podman", path=os.environ["PATH"])
        if podman is None or os.geteuid() != 0:
            self.skipTest("podman is not installed, or not for us")
        root = self.folder / "root"
        self.make_root(root)
        options = ["--rm", "--network", "none", "--ulimit", "nofile=512:512", "--ulimit", "nproc=512:512"]
        image = ["--rootfs", str(root), "/bin/sh", "-c"]
        for runtime in ([], ["--runtime", "runc"]):
            engine = [podman, *runtime]
            trial = subprocess.run([*engine, "run", *options, *image, "exit 3"], capture_output=True, text=True)
            if trial.returncode == 3:
                break
        else:
            self.skipTest(f"podman cannot run containers here: {trial.stderr}")
        script = "echo $CUDA_VISIBLE_DEVICES $BERTH_MEMORY_MIB; ls /run/berth; read x; exit 4"
        process = self.start("--gpu-memory", "4Gi", "--container", "--", *engine, "run", "-i", *options, *image, script,
                             stdin=subprocess.PIPE)
        self.assertEqual(self.read_line(process.stdout), "0 4096\n")
        lease = self.lease()["id"]
        devices = self.daemon.call("GET", "/v1/devices").json["devices"]
        inside = soon(lambda: [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and
                               f"libpod-" in self.text(p / "cgroup") and "conmon" not in self.text(p / "cgroup")
                               and f"BERTH_LEASE_ID={lease}" in self.text(p / "environ")])
        self.assertTrue(inside)
        (uuid,) = [d["uuid"] for d in devices if lease in d["leases"]]
        self.daemon.call("PATCH", f"/v1/simulated/devices/{uuid}",
                         {"used_mib": 3000, "processes": [{"pid": inside[0], "used_mib": 3000}]})
        self.assertTrue(soon(lambda: self.daemon.call("GET", f"/v1/leases/{lease}").json["use_bytes"] == 3000 << 20),
                        "its memory is the lease's")
        self.daemon.call("PATCH", f"/v1/simulated/devices/{uuid}", {"used_mib": 0, "processes": []})
        process.stdin.write("go\n")
        process.stdin.flush()
        self.assertEqual(process.wait(30), 4, process.stderr.read())
        self.assertTrue(soon(lambda: self.lease()["state"] == "released"))

    @staticmethod
    def text(path):
        try:
            return path.read_bytes().decode(errors="replace")
        except OSError:
            return ""

    @staticmethod
    def make_root(root):
        for name in ("proc", "sys", "dev", "tmp", "run", "etc", "bin"):
            (root / name).mkdir(parents=True)
        for program in ("/bin/sh", "/bin/ls"):
            shutil.copy(os.path.realpath(program), root / "bin" / Path(program).name)
            for library in re.findall(r"(/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout):
                target = root / library.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)


if __name__ == "__main__":
    unittest.main()
