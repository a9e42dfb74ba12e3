// kube_stories FILE…: the documents of scenario files as JSON, one list per file, one file per
// line.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "kube/scenarios/story.h"

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    std::ifstream stream(words[i], std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    const auto stories =
        berth::kube::stories_of(text.str(), std::filesystem::path(words[i]).filename().string());
    if (!stream || !stories.ok()) {
      fmt::print(stderr, "{}: {}\n", words[i],
                 stream ? stories.error().message() : "it cannot be read");
      return 1;
    }
    fmt::print("{}\n", berth::json::dump(*stories));
  }
  return 0;
}
