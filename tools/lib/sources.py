"""What the checks share: which files there are, their code without comments and strings, and what they include."""

import hashlib
import os
import re
import subprocess
from pathlib import Path

CODE = (".h", ".cc")
CODE_ROOTS = ("src", "apps", "tests", "bench", "fuzz")

_TOKEN = re.compile(
    r"""
      //[^\n]*                                         # comment to the end of the line
    | /\*.*?\*/                                        # comment in stars
    | R"(?P<tag>[^(\s\\]{0,16})\(.*?\)(?P=tag)"        # raw string
    | "(?:\\.|[^"\\\n])*"                              # string
    | (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'             # character (not the ' inside 1'000)
    """,
    re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<name><[^>\n]+>|"[^"\n]+")', re.MULTILINE)


def files(root, suffixes=CODE, roots=CODE_ROOTS):
    """Paths relative to `root` below `roots`, sorted: what git tracks or would track, else what lies there."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *roots],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [
            str(path.relative_to(root)) for top in roots for path in (root / top).rglob("*") if path.is_file()
        ]
    return sorted({name for name in names if name.endswith(suffixes) and (root / name).is_file()})


def blanked(text):
    """`text` with comments and literals replaced by blanks; lines and columns stay where they were."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def includes(text):
    """(line, name with its brackets or quotes) of every #include that is not in a comment."""
    bare = blanked(text)
    for match in _INCLUDE.finditer(text):
        if "#" in bare[match.start() : match.start("name")]:
            yield text.count("\n", 0, match.start("name")) + 1, match.group("name")


class Closures:
    """Fingerprints of a file and of every project header that it includes, directly or not."""

    def __init__(self, root):
        self._root = root
        self._direct = {}

    def _own_includes(self, name):
        if name not in self._direct:
            text = (self._root / name).read_text(encoding="utf-8")
            found = []
            for _, include in includes(text):
                candidate = os.path.join("src", include[1:-1])
                if include.startswith('"') and (self._root / candidate).is_file():
                    found.append(candidate)
            self._direct[name] = found
        return self._direct[name]

    def members(self, name):
        seen, todo = set(), [name]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo.extend(self._own_includes(current))
        return sorted(seen)

    def fingerprint(self, name, *context):
        digest = hashlib.sha256("\0".join(context).encode())
        for member in self.members(name):
            digest.update(b"\0" + member.encode() + b"\0" + (self._root / member).read_bytes())
        return digest.hexdigest()


class Passed:
    """Remembers below build/ what has passed a check, so that the same content is not looked at twice."""

    def __init__(self, root, check):
        self._folder = Path(root) / "build" / "checked" / check

    def has(self, fingerprint):
        return (self._folder / fingerprint).exists()

    def add(self, fingerprint):
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / fingerprint).touch()
