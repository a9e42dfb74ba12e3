#include "cli/parser.h"

#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/commands.h"
#include "cli/example_commands_test.h"

namespace berth::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Parsed parse_words(const std::vector<std::string>& words) { return parse(kExampleCommands, words); }

Arguments arguments_of(const std::vector<std::string>& words) {
  const Parsed parsed = parse_words(words);
  const auto* invocation = std::get_if<Invocation>(&parsed);
  if (invocation == nullptr) {
    const auto* problem = std::get_if<UsageProblem>(&parsed);
    ADD_FAILURE() << (problem == nullptr ? "help" : problem->message);
    return {kExampleOptions, {}, {}};
  }
  return invocation->arguments;
}

std::string problem_of(const std::vector<std::string>& words) {
  const Parsed parsed = parse_words(words);
  const auto* problem = std::get_if<UsageProblem>(&parsed);
  return problem == nullptr ? "no problem" : problem->message;
}

TEST(Parser, TakesValuesInEverySpelling) {
  EXPECT_EQ(arguments_of({"simulate", "--nodes", "a.csv"}).value("--nodes"), "a.csv");
  EXPECT_EQ(arguments_of({"simulate", "--nodes=a.csv"}).value("--nodes"), "a.csv");
  EXPECT_EQ(arguments_of({"simulate", "-o", "json"}).value("--output"), "json");
  EXPECT_EQ(arguments_of({"simulate", "-ojson"}).value("--output"), "json");
}

// What `berth run` makes of its words: the program's, or the problem.
std::string program_of(const std::vector<std::string>& words) {
  const Parsed parsed = parse(all_commands(), words);
  if (const auto* problem = std::get_if<UsageProblem>(&parsed)) return problem->message;
  if (std::holds_alternative<HelpWanted>(parsed)) return "help";
  std::string text;
  for (const std::string& word : std::get<Invocation>(parsed).arguments.operands())
    text += "[" + word + "]";
  return text;
}

TEST(Parser, LeavesTheWordsOfAProgramAsTheyAre) {
  EXPECT_EQ(program_of({"run", "--gpus", "2", "--", "ls", "--help", "-o", "--gpus=3", "--"}),
            "[ls][--help][-o][--gpus=3][--]");
  EXPECT_EQ(program_of({"run", "--gpus=2", "--no-guard", "ls", "-l", "--", "x"}),
            "[ls][-l][--][x]");
  EXPECT_EQ(program_of({"run", "--gpus", "2", "ls", "--no-guard"}), "[ls][--no-guard]");
  EXPECT_EQ(program_of({"run", "--", "", "-x"}), "[][-x]");
  EXPECT_EQ(program_of({"run", "--gpus", "2", "--"}), "COMMAND is missing");
  EXPECT_EQ(program_of({"run", "--gpus", "2"}), "COMMAND is missing");
  EXPECT_EQ(program_of({"run", "--gpus"}), "--gpus needs a N");
  EXPECT_EQ(program_of({"run", "--gpuz", "2", "--", "ls"}),
            "unknown option '--gpuz'; did you mean '--gpus'?");
  EXPECT_EQ(program_of({"run", "--help", "--", "ls"}), "help");
}

TEST(Parser, AnswersAbsentOptionsWithTheirFallbackOrNothing) {
  const Arguments arguments = arguments_of({"simulate"});
  EXPECT_EQ(arguments.value("--seeds"), "42");
  EXPECT_EQ(arguments.value("--nodes"), std::nullopt);
  EXPECT_FALSE(arguments.has("--check"));
  EXPECT_THAT(arguments.values("--scenario"), IsEmpty());
}

TEST(Parser, TakesSeveralWordsForARepeatingOption) {
  const Arguments arguments =
      arguments_of({"simulate", "--scenario", "a", "b", "--check", "--scenario=c"});
  EXPECT_THAT(arguments.values("--scenario"), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(arguments.has("--check"));
}

TEST(Parser, CollectsOperands) {
  EXPECT_THAT(arguments_of({"show", "red", "green"}).operands(), ElementsAre("red", "green"));
}

TEST(Parser, NamesTheNearestVerb) {
  EXPECT_EQ(problem_of({"simualte"}), "unknown verb 'simualte'; did you mean 'simulate'?");
  EXPECT_THAT(problem_of({"help", "shwo"}), HasSubstr("'show'"));
  EXPECT_THAT(problem_of({}), HasSubstr("known are simulate, show"));
}

TEST(Parser, NamesTheNearestOptionAlsoWhenAValueFollows) {
  EXPECT_EQ(problem_of({"simulate", "--seds", "1-2"}),
            "unknown option '--seds'; did you mean '--seeds'?");
  EXPECT_EQ(problem_of({"simulate", "--polcy=pack"}),
            "unknown option '--polcy'; did you mean '--policy'?");
  EXPECT_THAT(problem_of({"--verison"}), HasSubstr("did you mean '--version'?"));
}

TEST(Parser, NamesTheNearestChoice) {
  EXPECT_EQ(problem_of({"simulate", "-o", "jsn"}),
            "--output cannot be 'jsn'; did you mean 'json'? Known are table, json.");
  EXPECT_THAT(problem_of({"show", "gren"}), HasSubstr("did you mean 'green'?"));
}

TEST(Parser, SaysWhatIsMissingOrTooMuch) {
  EXPECT_EQ(problem_of({"simulate", "--nodes"}), "--nodes needs a FILE");
  EXPECT_EQ(problem_of({"simulate", "--check=3"}), "--check takes no value");
  EXPECT_EQ(problem_of({"simulate", "--seeds=1", "--seeds=2"}),
            "--seeds was given 2 times; it takes one A-B");
  EXPECT_THAT(problem_of({"simulate", "stray"}), HasSubstr("unexpected 'stray'"));
  EXPECT_EQ(problem_of({"show"}), "COLOUR is missing; known are red, green");
}

TEST(Parser, GivesHelpWhereverItIsAskedFor) {
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"--help"})).command, nullptr);
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"-h"})).command, nullptr);
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"help"})).command, nullptr);
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"help", "show"})).command, &kExampleShow);
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"show", "--help"})).command, &kExampleShow);
  EXPECT_EQ(std::get<HelpWanted>(parse_words({"show", "red", "-h"})).command, &kExampleShow);
}

// Whatever is typed is answered: no exception, no crash.
RC_GTEST_PROP(Parser, AnswersAnyWords, (std::vector<std::string> words)) {
  const auto verb = *rc::gen::element<std::string>("simulate", "show", "help", "");
  if (!verb.empty()) words.insert(words.begin(), verb);
  const Parsed parsed = parse_words(words);
  if (const auto* problem = std::get_if<UsageProblem>(&parsed))
    RC_ASSERT(!problem->message.empty());
}

// The tables are written by hand; these are the rules that the code above relies on.
TEST(Commands, AreWellFormed) {
  for (const Command* command : all_commands()) {
    SCOPED_TRACE(command->name);
    EXPECT_FALSE(command->summary.empty());
    EXPECT_FALSE(command->summary.ends_with('.'));
    EXPECT_FALSE(command->examples.empty());
    EXPECT_NE(command->run, nullptr);
    for (const Option& option : command->options) {
      SCOPED_TRACE(option.name);
      EXPECT_TRUE(option.name.starts_with("--"));
      EXPECT_FALSE(option.help.empty());
      EXPECT_EQ(option.kind == ValueKind::none, option.value.empty());
      if (option.kind == ValueKind::choice) {
        ASSERT_NE(option.choices, nullptr);
        EXPECT_THAT(option.choices(), testing::Contains(option.fallback));
      }
    }
  }
}

}  // namespace
}  // namespace berth::cli
