"""What the benchmark comparison calls worse."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "bench-compare"


class BenchCompare(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def compare(self, run, baseline):
        for name, rows in (("run", run), ("baseline", baseline)):
            (self.folder / name).write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
        done = subprocess.run(
            [TOOL, self.folder / "run", self.folder / "baseline"], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def test_accepts_five_percent_and_refuses_more(self):
        baseline = [{"name": "place", "instructions": 1000}]
        self.assertEqual(self.compare([{"name": "place", "instructions": 1050}], baseline)[0], 0)
        code, text = self.compare([{"name": "place", "instructions": 1051}], baseline)
        self.assertEqual(code, 1)
        self.assertIn("place: 1000 -> 1051 instructions, +5.1 %", text)

    def test_compares_each_figure_of_a_row(self):
        code, text = self.compare(
            [{"name": "pack", "instructions": {"a": 10, "b": 30}}],
            [{"name": "pack", "instructions": {"a": 10, "b": 20}}],
        )
        self.assertEqual(code, 1)
        self.assertIn("pack b", text)
        self.assertNotIn("pack a", text)

    def test_refuses_a_missed_goal(self):
        row = {"name": "rss", "value": 300, "unit": "MiB", "goal": 200, "met": False}
        code, text = self.compare([row], [])
        self.assertEqual(code, 1)
        self.assertIn("rss: 300 MiB misses its goal 200", text)

    def test_names_rows_that_only_one_side_has(self):
        code, text = self.compare([{"name": "new", "instructions": 1}], [{"name": "old", "instructions": 1}])
        self.assertEqual(code, 0)
        self.assertIn("new: 1 instructions, not in the baseline", text)
        self.assertIn("old: in the baseline, not measured now", text)

    def test_does_not_pass_on_files_it_cannot_read(self):
        self.assertEqual(self.compare("", [])[0], 2)
        self.assertEqual(self.compare([{"name": "a"}, {"name": "a"}], [])[0], 2)


if __name__ == "__main__":
    unittest.main()
