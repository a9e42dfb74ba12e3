// The files of a store's directory as bytes, to be copied, bent and compared.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace berth::store {

using Files = std::map<std::string, std::string>;

// All but the lock, which says who looked last.
inline Files read_files(const std::string& directory) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name != "journal.lock") {
      std::ifstream file(entry.path(), std::ios::binary);
      files[name].assign(std::istreambuf_iterator<char>(file), {});
    }
  }
  return files;
}

inline void write_files(const std::string& directory, const Files& files) {
  for (const auto& [name, bytes] : files) {
    std::ofstream(directory + "/" + name, std::ios::binary) << bytes;
  }
}

}  // namespace berth::store
