// Any bytes as a pod and as words: lines "key=value" are annotations, "NAME:key=value" limits of
// container NAME, which exists from then on; the same lines are then read as words.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "request/admission.h"
#include "request/pod.h"
#include "request/words.h"

namespace {

using namespace berth::request;

ContainerWords& container_of(PodWords& pod, std::string_view name) {
  for (ContainerWords& container : pod.containers) {
    if (container.name == name) return container;
  }
  ContainerWords& container = pod.containers.emplace_back();
  container.name = name;
  container.kind = static_cast<berth::core::ContainerKind>(name.size() % 3);
  return container;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  PodWords pod;
  container_of(pod, "main");
  std::vector<Word> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string key(line.substr(0, equals));
    const std::string value(line.substr(std::min(equals + 1, line.size())));
    const std::size_t colon = key.find(':');
    if (colon == std::string::npos) {
      pod.annotations[key] = value;
    } else {
      container_of(pod, key.substr(0, colon)).limits[key.substr(colon + 1)] = value;
    }
    words.push_back(Word::text(key, value, words.size()));
  }
  for (const PodOutcome& outcome : {read_pod(pod), admit_create(pod, {})}) {
    ASSERT(outcome.ok() == outcome.errors.empty());
    for (const Finding& finding : outcome.errors)
      ASSERT(!finding.text().empty());
  }
  const std::vector<Word> nested{
      Word::map("annotations", words),
      Word::list("containers",
                 {Word::map("", {Word::map("limits", words)}), Word::map("", words)})};
  for (const std::vector<Word>& form : {words, nested}) {
    const WordsOutcome outcome = read_words(form);
    ASSERT(outcome.ok() == outcome.errors.empty());
  }
  return 0;
}
