#!/usr/bin/env python3
"""Turns a list of entry points into what the fake libraries are built from.

    generate.py cuda|nvml SYMBOLS OUTPUT_FOLDER

SYMBOLS are cuda/symbols.txt or nvml/symbols.txt. Written are
  stubs.cc      a weak definition of each symbol that refuses politely; what the fake implements overrides it
  list.cc       the names by number
  table.cc      for cuda, what stands behind cuGetProcAddress; for nvml empty
  LINE.map      a linker version script per driver line with the symbols that it exports; all.map has every one
"""

import sys
from pathlib import Path

# Driver lines that get a library of their own, and the newest CUDA version whose entry points they export.
CUDA_LINES = {"495": 11050, "535": 12020, "570": 12080, "580": 13000, "615": 13040, "future": 99999, "all": 13999}


def rows(path):
    return [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]


def write(path, lines):
    text = "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def version_script(symbols):
    exported = ["  global:", *(f"    {symbol};" for symbol in symbols)] if symbols else []
    return ["{", *exported, "  local: *;", "};"]


def stubs(kind, symbols):
    yield "// Generated from symbols.txt: what is not implemented elsewhere refuses and is counted."
    yield f'#include "fake/{kind}/refuse.h"'
    yield ""
    yield 'extern "C" {'
    for number, symbol in enumerate(symbols):
        yield f'__attribute__((weak, visibility("default"))) int {symbol}() {{'
        yield f"  return berth::fake::{kind}::refuse({number});"
        yield "}"
    yield "}"


def name_list(kind, table):
    yield "// Generated from symbols.txt: names by number."
    yield f'#include "fake/{kind}/names.h"'
    yield ""
    yield f"namespace berth::fake::{kind} {{"
    yield "const char* const kNames[] = {"
    yield from (f'    "{row[0]}",' for row in table)
    yield "};"
    yield f"const int kNameCount = {len(table)};"
    yield f"}}  // namespace berth::fake::{kind}"


def obtainable(kind, table):
    yield "// Generated from symbols.txt: what cuGetProcAddress can answer."
    yield f'#include "fake/{kind}/names.h"'
    if kind != "cuda":
        return
    yield 'extern "C" {'
    yield from (f"int {row[0]}();" for row in table)
    yield "}"
    yield f"namespace berth::fake::{kind} {{"
    streams = {"-": 0, "ptsz": 1, "ptds": 1}
    rows_ = [(row[1], streams[row[3]], int(row[2]), row[0], n) for n, row in enumerate(table) if row[1] != "-"]
    yield "const Obtainable kObtainable[] = {"
    for base, stream, version, symbol, number in sorted(rows_):
        yield f'    {{"{base}", {stream}, {version}, {number}, reinterpret_cast<void*>(&{symbol})}},'
    yield "};"
    yield f"const int kObtainableCount = {len(rows_)};"
    yield f"}}  // namespace berth::fake::{kind}"


def exported(kind, table, line):
    """The names that the library of a driver line exports."""
    if kind == "nvml" and line in ("all", "future"):
        return [row[0] for row in table]
    if kind == "cuda":
        newest = CUDA_LINES[line]
        return [row[0] for row in table if int(row[2]) <= newest]
    return [row[0] for row in table if int(row[1]) <= max(int(line), 535)]  # 535 stands for "or before"


def main(arguments):
    kind, source, folder = arguments[0], Path(arguments[1]), Path(arguments[2])
    table = rows(source)
    symbols = [row[0] for row in table]
    assert len(symbols) == len(set(symbols)), "a symbol stands twice in the list"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "stubs.cc", stubs(kind, symbols))
    write(folder / "list.cc", name_list(kind, table))
    write(folder / "table.cc", obtainable(kind, table))
    for line in CUDA_LINES:
        write(folder / f"{line}.map", version_script(exported(kind, table, line)))


if __name__ == "__main__":
    main(sys.argv[1:])
