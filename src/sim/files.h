// Files as the simulator needs them: whole inputs in, whole outputs out or nothing at all.
//
// OutputFile is opened BEFORE a long run, so that an unwritable path is known at once, and becomes
// visible only by commit(): it writes to a temporary file beside the target and renames it. Leaving
// the scope without commit (error, cancel) leaves nothing behind.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

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
  OutputFile(std::string path, std::string temporary, int descriptor)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

  Error failed(std::string_view what) const;

  std::string path_;
  std::string temporary_;  // empty once committed or moved from
  int descriptor_ = -1;
};

}  // namespace berth::sim
