// A directory that ends with the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace berth::store {

class TemporaryDirectory {
 public:
  // In memory where the system has that: these tests count syncs, they do not wait for disks.
  TemporaryDirectory() {
    std::error_code error;
    const std::filesystem::path memory = "/dev/shm";
    const auto above = std::filesystem::is_directory(memory, error)
                           ? memory
                           : std::filesystem::temp_directory_path();
    path_ = (above / "berth-store-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) {
      std::abort();
    }
  }

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace berth::store
