#include "sim/document.h"

#include <gtest/gtest.h>

namespace berth::sim {
namespace {

Document example() {
  Document points = Document::object();
  points.add("90", Document::fixed(90, 3)).add("95", Document::fixed(std::optional<double>(), 3));
  Document run = Document::object();
  run.add("policy", "pack").add("seed", 42).add("allocation", points);
  Document nested = Document::object();
  nested.add("deep", Document::array().push(Document::object().add("list", Document::array())));
  run.add("more", nested);
  Document all = Document::object();
  all.add("version", "v1").add("runs", Document::array().push(run).push(run)).add("done", true);
  return all;
}

TEST(Document, IsWrittenAsJsonInTheOrderOfItsKeys) {
  EXPECT_EQ(example().json(), R"({
  "version": "v1",
  "runs": [
    {
      "policy": "pack",
      "seed": 42,
      "allocation": {"90": 90.000, "95": null},
      "more": {
        "deep": [
          {
            "list": []
          }
        ]
      }
    },
    {
      "policy": "pack",
      "seed": 42,
      "allocation": {"90": 90.000, "95": null},
      "more": {
        "deep": [
          {
            "list": []
          }
        ]
      }
    }
  ],
  "done": true
}
)");
}

TEST(Document, IsWrittenAsYamlWithTheSameValues) {
  EXPECT_EQ(example().yaml(), R"(version: "v1"
runs:
  - policy: "pack"
    seed: 42
    allocation: {"90": 90.000, "95": null}
    more:
      deep:
        - list: []
  - policy: "pack"
    seed: 42
    allocation: {"90": 90.000, "95": null}
    more:
      deep:
        - list: []
done: true
)");
}

TEST(Document, EscapesTexts) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01\x7F ä"), "\"a\\\"b\\\\c\\n\\u0001\\u007f ä\"");
}

TEST(Document, NeverWritesANegativeZero) {
  EXPECT_EQ(Document::fixed(-0.0001, 3).json(), "0.000\n");
  EXPECT_EQ(Document::fixed(-0.001, 3).json(), "-0.001\n");
}

}  // namespace
}  // namespace berth::sim
