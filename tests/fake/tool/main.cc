// berth-fake-gpu: makes, shows and changes the state of the fake GPUs.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "fake/tool/verbs.h"

namespace {

using berth::fake::tool::all_verbs;
using berth::fake::tool::OptionRule;
using berth::fake::tool::Verb;
using berth::fake::tool::Words;

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::string help() {
  std::string text =
      "berth-fake-gpu: GPUs that are not there, for libcuda.so.1 and libnvidia-ml.so.1 of\n"
      "build/fake. State lies in the file that BERTH_FAKE_STATE names.\n\n";
  for (const Verb& verb : all_verbs()) {
    text += fmt::format("  berth-fake-gpu {}{}{}\n      {}\n", verb.rule.name,
                        verb.rule.operands.empty() ? "" : " ", verb.rule.operands, verb.rule.help);
    for (const OptionRule& option : verb.rule.options) {
      const std::string form = option.value.empty()
                                   ? std::string(option.name)
                                   : fmt::format("{} {}", option.name, option.value);
      text += fmt::format("        {:<24} {}\n", form, option.help);
    }
  }
  text +=
      "\nFor example:\n"
      "  export BERTH_FAKE_STATE=/tmp/gpus\n"
      "  berth-fake-gpu init 2x16GiB\n"
      "  LD_LIBRARY_PATH=build/fake nvidia-smi\n"
      "  berth-fake-gpu dump -o json\n";
  return text;
}

int complain(const std::string& text, int code) {
  (void)std::fputs(("berth-fake-gpu: " + text + "\n").c_str(), stderr);
  return code;
}

int unknown_verb(const std::string& word) {
  std::vector<std::string> known;
  for (const Verb& verb : all_verbs())
    known.emplace_back(verb.rule.name);
  return complain(fmt::format("unknown verb '{}'; did you mean {}? --help lists them",
                              berth::printable(word), berth::nearest(word, known)),
                  kUsage);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (words.empty()) return complain("a verb is expected; --help lists them", kUsage);
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") {
      (void)std::fputs(help().c_str(), stdout);
      return kDone;
    }
  }
  for (const Verb& verb : all_verbs()) {
    if (verb.rule.name != words[0]) continue;
    const auto parsed = Words::parse(verb.rule, std::span(words).subspan(1));
    if (!parsed.ok()) return complain(parsed.error().to_string(), kUsage);
    const auto result = verb.run(*parsed);
    if (result.ok()) return kDone;
    const bool usage = result.error().code() == berth::ErrorCode::invalid_argument;
    return complain(result.error().to_string(), usage ? kUsage : kFailed);
  }
  return unknown_verb(words[0]);
}
