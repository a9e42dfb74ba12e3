// Files as the simulator needs them: whole inputs in, whole outputs out or nothing at all.
//
// OutputFile is opened BEFORE a long run, so that an unwritable path is known at once, and becomes
// visible only by commit(): until then it has no name, or on file systems that know no such files a
// temporary one beside the target. Leaving the scope without commit (error, cancel) leaves nothing
// behind, and neither does a process that is killed, where files can be nameless.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace berth::sim {

inline constexpr std::size_t kMaxInputBytes = std::size_t{1} << 30;

// Errors: invalid_argument naming the path and what is wrong with it (input that cannot be read is
// bad input).
Result<std::string> read_input_file(const std::string& path);

class OutputFile {
 public:
  // Errors: unavailable, naming the path and the reason.
  static Result<OutputFile> create(std::string path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }

  Result<void> write(std::string_view bytes);
  // Makes everything written durable and visible under the path, at once.
  Result<void> commit();

 private:
  enum class Form {
    special,   // a pipe or a device: written to as it stands
    nameless,  // gets a name with commit
    named,     // has a temporary name
  };

  OutputFile(std::string path, Form form, int descriptor)
      : path_(std::move(path)), form_(form), descriptor_(descriptor) {}

  Error failed(std::string_view what) const;
  bool name_it();

  std::string path_;
  Form form_;
  std::string temporary_;  // what is to be unlinked unless committed
  int descriptor_ = -1;
};

}  // namespace berth::sim
