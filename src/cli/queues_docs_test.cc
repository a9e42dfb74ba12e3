// docs/queues.md is held to what the program does: its example, its figures, its complaints, its
// tables of fields and of JSON.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_berth_test.h"
#include "config/amount.h"
#include "config/queue_file.h"
#include "core/queue/division.h"
#include "core/queue/queue_tree.h"

namespace berth::cli {
namespace {

using core::DimensionKind;
using testing::HasSubstr;
using Row = std::map<std::string, std::string>;

std::string docs() {
  std::ostringstream text;
  text << std::ifstream(std::string(BERTH_SOURCE_DIR) + "/docs/queues.md").rdbuf();
  return text.str();
}

// The fenced blocks of a language, in order.
std::vector<std::string> blocks(const std::string& language) {
  const std::string text = docs();
  const std::string fence = "```" + language + "\n";
  std::vector<std::string> found;
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1)) {
    const std::size_t begin = at + fence.size();
    found.push_back(text.substr(begin, text.find("```", begin) - begin));
  }
  return found;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(" `");
    cells.push_back(begin == std::string::npos
                        ? ""
                        : cell.substr(begin, cell.find_last_not_of(" `") - begin + 1));
  }
  return cells;
}

// Every table whose first column has this title.
std::vector<std::vector<Row>> tables(const std::string& first_title) {
  std::vector<std::vector<Row>> found;
  std::istringstream stream(docs());
  std::vector<std::string> titles;
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("|")) {
      titles.clear();
    } else if (titles.empty()) {
      titles = cells_of(line);
      if (titles.at(0) == first_title) found.emplace_back();
    } else if (titles.at(0) == first_title && !line.starts_with("| ---")) {
      const std::vector<std::string> cells = cells_of(line);
      for (std::size_t i = 0; i < cells.size() && i < titles.size(); ++i) {
        if (i == 0) found.back().emplace_back();
        found.back().back()[titles[i]] = cells[i];
      }
    }
  }
  return found;
}

std::int64_t milli(const std::string& text) {
  const auto amount = config::parse_amount(text, DimensionKind::devices);
  EXPECT_TRUE(amount.ok()) << text;
  return amount.ok() ? *amount : 0;
}

// Runs the words in a folder of its own, in which queues.yaml holds the text.
Answer run(const std::string& queues, const std::vector<std::string>& words) {
  const std::filesystem::path before = std::filesystem::current_path();
  const OwnFolder folder;
  folder.write("queues.yaml", queues);
  std::filesystem::current_path(folder.name());
  Answer answer = berth(words);
  std::filesystem::current_path(before);
  return answer;
}

TEST(QueueDocs, TheExampleGivesWhatIsShown) {
  const std::string shown = blocks("text").at(0);
  std::istringstream line(shown.substr(0, shown.find('\n')));
  std::vector<std::string> words;
  for (std::string word; line >> word;)
    words.push_back(word);
  ASSERT_GT(words.size(), 2U);
  const Answer outcome = run(blocks("yaml").at(0), {words.begin() + 2, words.end()});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out, shown.substr(shown.find('\n') + 1));
}

TEST(QueueDocs, TheSharesAreThoseOfTheDivision) {
  const auto shares_tables = tables("queue");
  ASSERT_EQ(shares_tables.size(), 3U);
  const std::int64_t capacities[] = {100'000, 100'000, 60'000};
  for (std::size_t t = 0; t < 3; ++t) {
    std::vector<core::Sibling> siblings;
    for (const Row& row : shares_tables[t]) {
      core::Sibling sibling;
      sibling.deserved = milli(row.at("deserved"));
      sibling.weight = milli(row.at("weight")) / 1000;
      sibling.priority = milli(row.at("priority")) / 1000;
      sibling.demand = milli(row.at("asks"));
      sibling.rank = static_cast<std::uint32_t>(siblings.size());
      if (const std::string& use = row.at("past use"); !use.empty()) {
        sibling.use = milli(use.substr(0, use.find(' '))) * 10;
        sibling.history_k = 1000;
      }
      siblings.push_back(sibling);
    }
    std::vector<core::DivisionShare> shares(siblings.size());
    core::Division().divide(capacities[t], siblings, shares);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT_EQ(shares[i].deserved, milli(shares_tables[t][i].at("kept"))) << t << " " << i;
      EXPECT_EQ(shares[i].fair, milli(shares_tables[t][i].at("share"))) << t << " " << i;
    }
  }
}

class Sixteen {
 public:
  explicit Sixteen(const core::QueueConfig& config) {
    EXPECT_TRUE(tree_.configure(config, {}).empty());
    tree_.set_capacity(core::kEveryClass, DimensionKind::devices, 16'000);
  }

  void start(const std::string& queue, std::int64_t count) {
    if (count > 0) tree_.add(id(queue), devices(count), core::BookingState::running, true);
  }

  // The most devices that one more workload of the queue may take.
  std::int64_t room(const std::string& queue) const {
    std::int64_t most = 0;
    for (std::int64_t count = 1; count <= 16; ++count) {
      if (!tree_.may_start(id(queue), devices(count), true, core::Counting::present).refused()) {
        most = count;
      }
    }
    return most;
  }

 private:
  core::QueueId id(const std::string& queue) const { return tree_.find(queue).value(); }

  static core::Charge devices(std::int64_t count) {
    core::ChargePart part;
    part.whole = count;
    return {.parts = {part}};
  }

  core::QueueTree tree_;
};

TEST(QueueDocs, WhatIsReservedIsCharged) {
  const auto config = config::read_queue_file(blocks("yaml").at(1), "docs", {});
  ASSERT_TRUE(config.ok()) << config.error().message();
  const auto rows = tables("A runs").at(0);
  ASSERT_EQ(rows.size(), 4U);
  for (const Row& row : rows) {
    Sixteen sixteen(*config);
    const std::int64_t a = milli(row.at("A runs")) / 1000;
    const std::int64_t b = milli(row.at("B runs")) / 1000;
    sixteen.start("A", a);
    sixteen.start("B", b);
    EXPECT_EQ(milli(row.at("A is charged")), std::max<std::int64_t>(a, 6) * 1000);
    EXPECT_EQ(milli(row.at("B is charged")), b * 1000);
    EXPECT_EQ(sixteen.room("A") * 1000, milli(row.at("free for A"))) << a << " " << b;
    EXPECT_EQ(sixteen.room("B") * 1000, milli(row.at("free for B"))) << a << " " << b;
  }
}

TEST(QueueDocs, WrongFilesAreAnsweredAsTheTableSays) {
  const auto rows = tables("in the file").at(0);
  ASSERT_EQ(rows.size(), 10U);
  int held = 0;
  for (const Row& row : rows) {
    const Answer outcome = run("queues: [" + row.at("in the file") + "]\n",
                               {"queues", "check", "queues.yaml", "--fleet", "2x80GiB:H100"});
    EXPECT_THAT(outcome.err, HasSubstr(row.at("says"))) << row.at("in the file");
    EXPECT_NE(outcome.code, ExitCode::done) << row.at("in the file");
    held += outcome.code == ExitCode::failed ? 1 : 0;
  }
  EXPECT_EQ(held, 3) << "circle, unknown parent, second root";
}

TEST(QueueDocs, TheComplaintsAreThoseOfTheProgram) {
  const Answer outcome =
      run(blocks("yaml").at(2), {"queues", "check", "queues.yaml", "--fleet", "8x80GiB:H100"});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, blocks("text").at(1));
}

TEST(QueueDocs, ListTheFieldsOfTheJson) {
  const Answer outcome = run(blocks("yaml").at(0), {"queues", "check", "queues.yaml", "--fleet",
                                                    "2x80GiB:H100", "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  const std::string text = docs();
  for (std::size_t at = outcome.out.find("\":"); at != std::string::npos;
       at = outcome.out.find("\":", at + 1)) {
    const std::size_t begin = outcome.out.rfind('"', at - 1) + 1;
    const std::string key = outcome.out.substr(begin, at - begin);
    EXPECT_TRUE(text.find(key) != std::string::npos) << key;
  }
}

TEST(QueueDocs, EndWithTheTablesOfTheFields) {
  const std::string text = docs();
  const std::size_t marker = text.find(config::kQueueReferenceMarker);
  ASSERT_NE(marker, std::string::npos);
  EXPECT_EQ(text.substr(marker),
            config::kQueueReferenceMarker + std::string("\n\n") + config::queue_reference_text())
      << "the tables changed: run\n  sed -i '/^<!-- From here on/,$d' docs/queues.md && "
         "build/bin/berth queues fields >> docs/queues.md";
}

TEST(QueuesCheck, TakesTheFleetOfTheFileAndSaysWhatIsMissing) {
  const std::string queues = "queues: [{name: a}]\n";
  EXPECT_EQ(run(queues + "fleet: 2x80GiB:H100\n", {"queues", "check", "queues.yaml"}).code,
            ExitCode::done);
  const Answer none = run(queues, {"queues", "check", "queues.yaml"});
  EXPECT_EQ(none.code, ExitCode::usage);
  EXPECT_THAT(none.err, HasSubstr("queues.yaml:1:1: the file has no section `fleet:`"));
  EXPECT_THAT(none.err, HasSubstr("because --fleet is not given"));
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(run(queues, {"queues", "check", "queues.yaml", "--fleet", "none"}).err,
              HasSubstr("neither SPEC"));
  EXPECT_EQ(run(queues, {"queues", "check", "no.yaml", "--fleet", "1x1GiB"}).code, ExitCode::usage);
  EXPECT_THAT(run(queues, {"queues", "check", "queues.yaml", "--fleet", "2x80GiB"}).out,
              HasSubstr("No queue names a dimension"));
}

TEST(QueuesImport, WritesTheFileOrNothing) {
  const std::string kai =
      "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\n"
      "spec: {displayName: A, resources: {gpu: {quota: 1, limit: 2, overQuotaWeight: 1}}}\n";
  const Answer shown = run(kai, {"queues", "import", "queues.yaml"});
  EXPECT_EQ(shown.code, ExitCode::done);
  EXPECT_EQ(shown.out,
            "# Written by berth queues import from queues.yaml\npriorityRule: kai\nqueues:\n"
            "  - name: a\n    dims:\n      \"*/devices\": {deserved: 1, limit: 2}\n");
  EXPECT_EQ(shown.err, "queues.yaml:4:21: Queue a: spec.displayName 'A': a queue has one name\n");
  const Answer written = run(kai, {"queues", "import", "queues.yaml", "-o", "out.yaml"});
  EXPECT_EQ(written.out, "");
  EXPECT_THAT(written.err, HasSubstr("1 queues written to out.yaml, 1 remarks"));
  EXPECT_EQ(run(kai, {"queues", "import", "queues.yaml", "-o", "no/out.yaml"}).code,
            ExitCode::failed);
  EXPECT_EQ(run("a: [\n", {"queues", "import", "queues.yaml"}).code, ExitCode::usage);
}

}  // namespace
}  // namespace berth::cli
