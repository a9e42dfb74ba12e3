#include "cli/program.h"

#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/example_commands_test.h"
#include "cli/run_berth_test.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Program, RunsAVerbAndReturnsItsCode) {
  const Answer simulate = run_words(kExampleCommands, {"simulate", "--seeds=7"});
  EXPECT_EQ(simulate.code, ExitCode::done);
  EXPECT_EQ(simulate.out, "7\n");
  EXPECT_THAT(simulate.err, IsEmpty());
  EXPECT_EQ(run_words(kExampleCommands, {"show", "red"}).code, ExitCode::failed);
}

TEST(Program, ReportsWrongUsageOnStandardErrorOnly) {
  const Answer outcome = run_words(kExampleCommands, {"simulate", "--sedes=7"});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(outcome.err,
            "berth: unknown option '--sedes'; did you mean '--seeds'?\n"
            "Try: berth simulate --help\n");
}

TEST(Program, HelpListsEveryVerbOptionAndExample) {
  const Answer program = run_words(kExampleCommands, {"--help"});
  EXPECT_EQ(program.code, ExitCode::done);
  EXPECT_THAT(program.out, HasSubstr("  simulate   run a trace, the planner's way\n"));
  EXPECT_THAT(program.out, HasSubstr("berth simulate --nodes n.csv"));

  const std::string verb = run_words(kExampleCommands, {"simulate", "--help"}).out;
  for (const Option& option : kExampleOptions)
    EXPECT_THAT(verb, HasSubstr(std::string(option.name)));
  EXPECT_THAT(verb, HasSubstr("  -o, --output FORMAT     table or json (default: table)\n"));
  EXPECT_THAT(run_words(kExampleCommands, {"help", "show"}).out,
              HasSubstr("Usage: berth show COLOUR...\n"));
}

TEST(Program, RunsAndExplainsVerbsOfTwoWords) {
  EXPECT_EQ(run_words(kExampleCommands, {"tree", "cut", "oak"}).out, "cut oak\n");
  EXPECT_THAT(run_words(kExampleCommands, {"tree", "cut", "--help"}).out,
              HasSubstr("Usage: berth tree cut [OPTIONS] FILE\n"));
  for (const auto& words : {std::vector<std::string>{"tree", "--help"}, {"help", "tree"}}) {
    const Answer help = run_words(kExampleCommands, words);
    EXPECT_EQ(help.code, ExitCode::done);
    EXPECT_THAT(help.out, HasSubstr("  tree cut   cut a tree\n  tree grow  grow a tree\n"));
  }
  EXPECT_EQ(run_words(kExampleCommands, {"tree"}).err,
            "berth: tree needs one more word; known are cut, grow\nTry: berth tree --help\n");
  EXPECT_EQ(run_words(kExampleCommands, {"tree", "grwo"}).err,
            "berth: unknown verb 'tree grwo'; did you mean 'grow'? Known are cut, grow\n"
            "Try: berth tree --help\n");
  EXPECT_EQ(run_words(kExampleCommands, {"tree", "cut", "--dpeth"}).err,
            "berth: unknown option '--dpeth'; did you mean '--depth'?\n"
            "Try: berth tree cut --help\n");
}

TEST(Program, AVerbMayAlsoBeTheFirstWordOfOthers) {
  EXPECT_EQ(run_words(kExampleCommands, {"bush"}).out, "bushes\n");
  EXPECT_EQ(run_words(kExampleCommands, {"bush", "trim"}).code, ExitCode::done);
  EXPECT_EQ(run_words(kExampleCommands, {"bush", "trimm"}).err,
            "berth: unknown verb 'bush trimm'; did you mean 'trim'? Known are trim\n"
            "Try: berth bush --help\n");
}

TEST(Program, VersionSpeaksTextJsonAndYaml) {
  EXPECT_THAT(berth({"version"}).out, testing::StartsWith("berth "));
  EXPECT_EQ(berth({"--version"}).out, berth({"version"}).out);
  EXPECT_THAT(berth({"version", "-o", "json"}).out, HasSubstr(R"({"version":")"));
  EXPECT_THAT(berth({"version", "-o", "yaml"}).out, HasSubstr("\nrevision: \""));
}

class FullDisk : public std::streambuf {
 protected:
  int_type overflow(int_type) override { return traits_type::eof(); }
};

TEST(Program, FailsWhenItsOutputCannotBeWritten) {
  FullDisk disk;
  std::ostream out(&disk);
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const std::vector<std::string> words{"simulate"};
  EXPECT_EQ(run_program(kExampleCommands, words, console), ExitCode::failed);
  EXPECT_THAT(err.str(), HasSubstr("could not be written"));
}

}  // namespace
TEST(Program, AsAPluginOfKubectlReadingVerbsAskTheCluster) {
  const CommandTable table = all_commands();
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_for("/usr/bin/kubectl-berth", {"ps", "-o", "json"}, table),
            (Words{"ps", "--kube", "-o", "json"}));
  EXPECT_EQ(words_for("kubectl-berth", {"version"}, table), (Words{"version"}));
  EXPECT_EQ(words_for("kubectl-berth", {}, table), Words());
  EXPECT_EQ(words_for("berth", {"ps"}, table), (Words{"ps"}));
}

}  // namespace berth::cli
