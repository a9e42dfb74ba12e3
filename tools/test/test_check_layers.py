"""The layer check fails on every kind of breach, and names it. A small tree stands in for the project."""

import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "check-layers"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)
        self.write("src/base/result.h", "// Results.\n#pragma once\n\n#include <string>\n")

    def tearDown(self):
        self._folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self):
        done = subprocess.run([TOOL, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def assert_passes(self):
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def assert_breach(self, *parts):
        code, text = self.check()
        self.assertEqual(code, 1, text)
        lines = [line for line in text.splitlines() if all(part in line for part in parts)]
        self.assertEqual(len(lines), 1, text)

    def test_accepts_arrows_that_go_down(self):
        self.write("src/core/ledger/ledger.h", '#pragma once\n#include "base/result.h"\n#include <vector>\n')
        self.write("src/core/engine/engine.cc", '#include "core/ledger/ledger.h"\n#include <fmt/format.h>\n')
        self.write("src/scenario/runner.cc", '#include "core/ledger/ledger.h"\n')
        self.write("apps/berth/main.cc", '#include <unistd.h>\n#include "core/ledger/ledger.h"\n')
        self.assert_passes()

    def test_refuses_an_arrow_that_goes_up(self):
        self.write("src/sim/sim.h", "#pragma once\n")
        self.write("src/core/engine/engine.cc", '\n#include "sim/sim.h"\n')
        self.assert_breach("src/core/engine/engine.cc:2:", "core/engine may not include sim")

    def test_refuses_an_arrow_between_rooms_of_core(self):
        self.write("src/core/ledger/ledger.h", "#pragma once\n")
        self.write("src/core/model/device.h", '#pragma once\n#include "core/ledger/ledger.h"\n')
        self.assert_breach("src/core/model/device.h:2:", "core/model may not include core/ledger")

    def test_lets_only_tests_ask_the_oracle(self):
        self.write("src/oracle/packer.h", "#pragma once\n")
        self.write("src/core/placement/pack_test.cc", '#include "oracle/packer.h"\n')
        self.assert_passes()
        self.write("src/core/placement/pack.cc", '#include "oracle/packer.h"\n')
        self.assert_breach("src/core/placement/pack.cc:1:", "may not include oracle")

    def test_refuses_a_folder_that_has_no_rule(self):
        self.write("src/attic/box.cc", "int box();\n")
        self.assert_breach("src/attic/box.cc:1:", "ARROWS")

    def test_refuses_an_include_that_is_not_relative_to_src(self):
        self.write("src/base/error.cc", '#include "result.h"\n')
        self.assert_breach("src/base/error.cc:1:", "relative to src/")

    def test_keeps_libraries_in_their_folder(self):
        cases = {
            "yaml-cpp/yaml.h": "src/scenario/parse.cc",
            "CLI/App.hpp": "src/cli/help.cc",
            "coin/Cbc_C_Interface.h": "src/sim/bound.cc",
            "nlohmann/json.hpp": "src/sim/report.h",
            "fmt/format.h": "src/base/error.h",
            "gtest/gtest.h": "src/base/error.cc",
        }
        for header, file in cases.items():
            with self.subTest(header):
                once = "#pragma once\n" if file.endswith(".h") else "\n"
                self.write(file, f"{once}#include <{header}>\n")
                self.assert_breach(f"{file}:2:", header, "may be included by")
                (self.root / file).unlink()
        self.write("src/yaml/tree.cc", "#include <yaml-cpp/yaml.h>\n")
        self.assert_passes()

    def test_refuses_a_library_nobody_decided_on(self):
        self.write("src/base/error.cc", "#include <absl/strings/str_split.h>\n")
        self.assert_breach("src/base/error.cc:1:", "docs/decisions")

    def test_keeps_core_pure(self):
        for header in ["thread", "chrono", "iostream", "fstream", "filesystem", "unistd.h", "sys/stat.h"]:
            with self.subTest(header):
                self.write("src/core/engine/pass.cc", f"#include <{header}>\n")
                self.assert_breach("src/core/engine/pass.cc:1:", "core is pure", header)
        for word in ['getenv("HOME")', "std::chrono::steady_clock::now()", "std::cerr << 1", "std::random_device{}()"]:
            with self.subTest(word):
                self.write("src/core/engine/pass.cc", f"\nvoid pass() {{ {word}; }}\n")
                self.assert_breach("src/core/engine/pass.cc:2:", "core is pure")

    def test_keeps_floating_point_out_of_the_books(self):
        self.write("src/core/ledger/ledger.cc", "\ndouble fill();\n")
        self.assert_breach("src/core/ledger/ledger.cc:2:", "no double")
        self.write("src/core/ledger/ledger.cc", '// a double promise\nconst char* kText = "float";\n')
        self.assert_passes()

    def test_does_not_take_comments_and_strings_for_code(self):
        self.write(
            "src/core/engine/pass.cc",
            '// #include "sim/sim.h"\n/*\n#include <thread>\n*/\nconst char* kText = R"x(\n#include <chrono>\n)x";\n'
            "constexpr int kMany = 1'000'000;  // steady_clock\n",
        )
        self.assert_passes()

    def test_refuses_marks_of_unfinished_work(self):
        self.write("src/base/error.cc", "// TODO: later\n")
        self.assert_breach("src/base/error.cc:1:", "TODO")

    def test_refuses_wide_lines_and_long_files(self):
        self.write("src/base/error.cc", f"// {'x' * 98}\n")
        self.assert_breach("src/base/error.cc:1:", "101 columns")
        self.write("src/base/error.cc", "\n" * 601)
        self.assert_breach("src/base/error.cc:601:", "601 lines")
        self.write("src/base/error.cc", "\n" * 501)
        code, text = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("src/base/error.cc:501: warning:", text)

    def test_wants_pragma_once_and_snake_case(self):
        self.write("src/base/error.h", "// Errors.\nint error();\n#pragma once\n")
        self.assert_breach("src/base/error.h:1:", "#pragma once")
        (self.root / "src/base/error.h").unlink()
        self.write("src/base/BadName.cc", "\n")
        self.assert_breach("src/base/BadName.cc:1:", "snake_case")

    def test_wants_examples_for_a_fuzzer(self):
        self.write("src/base/text_fuzz.cc", "\n")
        self.assert_breach("src/base/text_fuzz.cc:1:", "fuzz/corpus/text_fuzz")
        self.write("fuzz/corpus/text_fuzz/one", "x")
        self.assert_passes()

    def test_does_not_pass_on_an_empty_tree(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([TOOL, empty], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
