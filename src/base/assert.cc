#include "base/assert.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace berth {

void assert_failed(const AssertSite& site, std::initializer_list<AssertValue> values) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s", site.file, site.line, site.condition);
  if (values.size() != 0) {
    std::fprintf(stderr, " [%s] =", site.names);
  }
  for (const AssertValue& value : values) {
    if (value.is_text()) {
      std::fprintf(stderr, " \"%.*s\"", static_cast<int>(value.text().size()), value.text().data());
    } else {
      std::fprintf(stderr, " %" PRId64, value.number());
    }
  }
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace berth
