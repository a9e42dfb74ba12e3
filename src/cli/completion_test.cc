// Runs the generated scripts in the shells themselves. The shells are packages that `make test`
// installs; a machine without one fails here rather than skipping what nobody would then notice.
#include "cli/completion.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/example_commands_test.h"

namespace berth::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

class Completion : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "berth-completion-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    for (const char* name : {"node-a.csv", "node b.csv"})
      std::ofstream(folder_ / name) << "x";
    std::filesystem::create_directory(folder_ / "out-dir");
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs `script` with `shell` in the test's folder; the lines it printed. Anything on standard
  // error is a failure.
  std::vector<std::string> lines_of(const std::string& shell, const std::string& script) const {
    std::ofstream(folder_ / "script") << script;
    const std::string command = "cd '" + folder_.string() +
                                "' && HOME=. XDG_CONFIG_HOME=. XDG_DATA_HOME=. " + shell +
                                " script 2>errors; status=$?; rm script; exit $status";
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      text.append(buffer.data(), count);
    }
    EXPECT_EQ(pclose(pipe), 0) << command;
    std::ostringstream errors;
    errors << std::ifstream(folder_ / "errors").rdbuf();
    EXPECT_EQ(errors.str(), "");
    std::filesystem::remove(folder_ / "errors");
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line);
    return lines;
  }

  // What bash offers for the last word.
  std::vector<std::string> bash(const std::string& words) const {
    return lines_of("bash --norc", completion_script("bash", kExampleCommands) +
                                       "COMP_WORDS=(berth " + words +
                                       ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_berth\n"
                                       "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "
                                       "\"${COMPREPLY[@]}\"\n");
  }

  std::vector<std::string> fish(const std::string& line) const {
    std::vector<std::string> words;
    for (const std::string& candidate :
         lines_of("fish --no-config", completion_script("fish", kExampleCommands) +
                                          "complete --do-complete '" + line + "'\n")) {
      words.push_back(candidate.substr(0, candidate.find('\t')));  // after the tab: description
    }
    return words;
  }

  std::filesystem::path folder_;
};

TEST_F(Completion, BashOffersVerbs) {
  EXPECT_THAT(bash("''"), UnorderedElementsAre("simulate", "show", "tree", "bush", "help", "--help",
                                               "--version"));
  EXPECT_THAT(bash("si"), ElementsAre("simulate"));
  EXPECT_THAT(bash("help sh"), ElementsAre("show"));
  EXPECT_THAT(bash("nonsense ''"), IsEmpty());
}

TEST_F(Completion, BashOffersOptionsOfTheVerbOnly) {
  EXPECT_THAT(bash("simulate --s"), UnorderedElementsAre("--seeds", "--scenario"));
  EXPECT_THAT(bash("show --"), ElementsAre("--help"));
}

TEST_F(Completion, BashOffersValues) {
  EXPECT_THAT(bash("simulate -o j"), ElementsAre("json"));
  EXPECT_THAT(bash("simulate --output ''"), ElementsAre("table", "json"));
  EXPECT_THAT(bash("simulate --output = js"), ElementsAre("json"));
  EXPECT_THAT(bash("simulate --output ="), ElementsAre("table", "json"));
  EXPECT_THAT(bash("simulate --seeds ''"), IsEmpty());
  EXPECT_THAT(bash("simulate --policy pack,f"), ElementsAre("pack,fgd"));
  EXPECT_THAT(bash("show red ''"), ElementsAre("red", "green"));
}

TEST_F(Completion, BashOffersFilesAndFolders) {
  EXPECT_THAT(bash("simulate --nodes node"), UnorderedElementsAre("node-a.csv", "node b.csv"));
  EXPECT_THAT(bash("simulate --workdir ''"), ElementsAre("out-dir"));
  EXPECT_THAT(bash("simulate --scenario x y node-"), ElementsAre("node-a.csv"));
  EXPECT_THAT(bash("simulate --nodes x node-"), IsEmpty());
}

TEST_F(Completion, BashOffersTheSecondWordOfAVerb) {
  EXPECT_THAT(bash("tree ''"), UnorderedElementsAre("cut", "grow", "--help"));
  EXPECT_THAT(bash("tree c"), ElementsAre("cut"));
  EXPECT_THAT(bash("tree cut --"), UnorderedElementsAre("--depth", "--help"));
  EXPECT_THAT(bash("tree cut -o f"), ElementsAre("flat"));
  EXPECT_THAT(bash("tree cut node-"), ElementsAre("node-a.csv"));
  EXPECT_THAT(bash("tree grow --"), ElementsAre("--help"));
}

TEST_F(Completion, BashOffersBothForAVerbThatIsAlsoTheFirstOfOthers) {
  EXPECT_THAT(bash("bush ''"), UnorderedElementsAre("trim", "--tall", "--help"));
  EXPECT_THAT(bash("bush --tall --"), UnorderedElementsAre("--tall", "--help"));
  EXPECT_THAT(bash("bush trim --"), UnorderedElementsAre("--depth", "--help"));
}

TEST_F(Completion, BashRegistersTheFunctionForTheProgram) {
  EXPECT_THAT(
      lines_of("bash --norc", completion_script("bash", all_commands()) + "complete -p berth\n"),
      ElementsAre("complete -F _berth berth"));
}

TEST_F(Completion, FishOffersVerbsOptionsAndValues) {
  EXPECT_THAT(fish("berth s"), UnorderedElementsAre("simulate", "show"));
  EXPECT_THAT(fish("berth simulate --s"), UnorderedElementsAre("--seeds", "--scenario"));
  EXPECT_THAT(fish("berth simulate --output "), UnorderedElementsAre("table", "json"));
  EXPECT_THAT(fish("berth simulate --policy pack,f"), Contains("pack,fgd"));
  EXPECT_THAT(fish("berth show "), UnorderedElementsAre("red", "green"));
  EXPECT_THAT(fish("berth show "), Not(Contains("node-a.csv")));
  EXPECT_THAT(fish("berth simulate --nodes node"), IsSupersetOf({"node-a.csv"}));
  EXPECT_THAT(fish("berth tree "), UnorderedElementsAre("cut", "grow"));
  EXPECT_THAT(fish("berth tree cut --depth "), UnorderedElementsAre("deep", "flat"));
  EXPECT_THAT(fish("berth tree cut --d"), ElementsAre("--depth"));
  EXPECT_THAT(fish("berth bush "), ElementsAre("trim"));
  EXPECT_THAT(fish("berth bush --t"), ElementsAre("--tall"));
  EXPECT_THAT(fish("berth bush trim --t"), IsEmpty());
}

// zsh completes only in an interactive shell, so one runs in a pseudo terminal. Each line is typed
// with a tab at its end; then ^A and `show ` turn it into a command that prints what the tab has
// made of it.
TEST_F(Completion, ZshCompletesVerbsOptionsAndValues) {
  std::ofstream(folder_ / "_berth") << completion_script("zsh", kExampleCommands);
  std::ofstream(folder_ / ".zshrc") << R"(PS1='$ '
show() { print -r -- "<$*>"; }
autoload -Uz compinit && compinit -u -D
source ./_berth
print "<re""ady>"
)";
  EXPECT_THAT(
      lines_of("zsh -f", R"(zmodload zsh/zpty
zpty terminal env TERM=dumb ZDOTDIR=. zsh -o no_global_rcs -i
zpty -r -m terminal answer '*<ready>*'
for line in 'berth sim' 'berth simulate --see' 'berth simulate --output j' \
    'berth simulate --policy pack,f' 'berth simulate --nodes node-' 'berth show gr' \
    'berth tree gr' 'berth bush --ta' 'berth bush tr' 'berth tree cut --depth f'; do
  zpty -w terminal "$line"$'\t\x01show '
  zpty -r -m terminal answer '*<*>*'
  print -r -- "${${answer##*<}%%>*}"
done
zpty -d terminal
)"),
      ElementsAre("berth simulate", "berth simulate --seeds", "berth simulate --output json",
                  "berth simulate --policy pack,fgd", "berth simulate --nodes node-a.csv",
                  "berth show green", "berth tree grow", "berth bush --tall", "berth bush trim",
                  "berth tree cut --depth flat"));
}

}  // namespace
}  // namespace berth::cli
