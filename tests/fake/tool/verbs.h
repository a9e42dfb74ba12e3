// The verbs of berth-fake-gpu, one function each. They print to standard output and return an error
// for the caller to print.
#pragma once

#include "base/result.h"
#include "fake/tool/words.h"

namespace berth::fake::tool {

struct Verb {
  VerbRule rule;
  Result<void> (*run)(const Words& words);
};

std::span<const Verb> all_verbs();

// The state file: --state, else BERTH_FAKE_STATE. Errors say how to make one.
Result<std::string> state_path(const Words& words);

Result<void> init(const Words& words);
Result<void> dump(const Words& words);
Result<void> fail(const Words& words);
Result<void> xid(const Words& words);
Result<void> lose(const Words& words);
Result<void> foreign(const Words& words);
Result<void> reload(const Words& words);
Result<void> mig(const Words& words);
Result<void> set(const Words& words);
Result<void> log(const Words& words);

}  // namespace berth::fake::tool
