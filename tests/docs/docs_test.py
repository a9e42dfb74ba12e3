#!/usr/bin/env python3
"""Runs the examples of a page of docs: python3 tests/docs/docs_test.py docs/api.md

Every block ```console is carried out in one empty folder, from the top of the page down. A line `$ command` goes to
bash, `> ` lines continue it; the lines below are what it must print, where … stands for anything, and a line of … alone
for any lines. `export` holds for what follows. A command that ends in & runs until the page ends; a daemon among them is
waited for.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("BERTH_BIN_DIR", ROOT / "build" / "bin"))


def examples(text):
    """(command, expected lines) in the order of the page."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        found = []
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1][0].append(line[2:])
            else:
                found[-1][1].append(line)
        for command, expected in found:
            yield "\n".join(command), expected


def pattern(expected):
    parts = []
    for line in expected:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.split("…")) + r"[ ]*\n")
    return "".join(parts)


def wait_for_daemon(path):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_UNIX) as daemon:
                daemon.settimeout(5)
                daemon.connect(path)
                daemon.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if b" 200 " in daemon.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.05)


def end_what_is_left(folder):
    """A page's jobs outlive its daemons; each has the page's folder in its environment."""
    mark = f"XDG_RUNTIME_DIR={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            pass  # it has ended, or is another user's


def run_page(page):
    failures, count, background = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="berth-docs-") as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        environment |= {
            "PATH": f"{BIN}:{environment['PATH']}",
            "HOME": folder,
            "XDG_RUNTIME_DIR": folder,
            "BERTH_SOCKET": f"unix:{folder}/berth.sock",
            "DOCS": str(ROOT / "docs"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for command, expected in examples(page.read_text(encoding="utf-8")):
            count += 1
            if command.startswith("export "):
                words = subprocess.run(["bash", "-c", command + "; env -0"], cwd=folder, env=environment,
                                       stdout=subprocess.PIPE, text=True, check=True).stdout
                environment = dict(word.split("=", 1) for word in words.split("\0") if word)
                continue
            if command.endswith("&"):
                log = open(Path(folder) / f"background-{count}.log", "w", encoding="utf-8")
                words = ["bash", "-c", "exec " + command[:-1]]
                background.append(subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log))
                listens = re.search(r"--listen unix:(\S+)", command)
                wait_for_daemon(f"{folder}/{listens[1] if listens else 'berth.sock'}")
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            output = done.stdout.rstrip("\n") + "\n" if done.stdout.strip() else ""
            wanted = expected or (["…"] if done.returncode == 0 else ["(nothing, and status 0)"])
            if not re.fullmatch(pattern(wanted), output):
                failures += 1
                print(f"{page}: $ {command}\n--- expected\n" + "\n".join(wanted) + f"\n--- printed (status {done.returncode})\n{output}")
        for process in reversed(background):
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        end_what_is_left(folder)
        if failures:
            for log in sorted(Path(folder).glob("background-*.log")):
                print(f"--- {log.name}\n{log.read_text(encoding='utf-8')}")
    print(f"{page}: {count} examples, {failures} wrong")
    return failures == 0 and count > 0


if __name__ == "__main__":
    sys.exit(0 if all([run_page(Path(name)) for name in sys.argv[1:]]) else 1)
