#include "local/job_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace berth::local {

namespace {

struct Piece {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::string path;
};

std::string piece_name(std::int64_t begin) { return fmt::format("log.{:020}", begin); }

std::vector<Piece> pieces_of(const std::string& directory) {
  constexpr std::string_view kPrefix = "log.";
  std::vector<Piece> pieces;
  DIR* opened = opendir(directory.c_str());
  if (opened == nullptr) return pieces;
  while (const dirent* entry = readdir(opened)) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + 20) continue;
    Piece piece;
    const auto [rest, error] =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), piece.begin);
    if (error != std::errc{} || rest != name.data() + name.size()) continue;
    piece.path = fmt::format("{}/{}", directory, name);
    struct stat status = {};
    if (stat(piece.path.c_str(), &status) == 0) piece.size = status.st_size;
    pieces.push_back(std::move(piece));
  }
  closedir(opened);
  std::ranges::sort(pieces, {}, &Piece::begin);
  return pieces;
}

}  // namespace

LogWriter::LogWriter(LogPlan plan) : plan_(std::move(plan)) {
  if (const auto pieces = pieces_of(plan_.directory); !pieces.empty()) {
    begin_ = pieces.back().begin;
    end_ = begin_ + pieces.back().size;
  }
}

// The file that the next byte goes to.
bool LogWriter::open_file() {
  const bool full = file_.valid() && end_ - begin_ >= plan_.bytes_per_file;
  if (file_.valid() && !full) return true;
  const std::int64_t begin = full ? end_ : begin_;
  const std::string name = piece_name(begin);
  const std::string path = fmt::format("{}/{}", plan_.directory, name);
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!file.valid()) {
    errno_ = errno;
    return file_.valid();  // rather a file too long than output lost
  }
  file_ = std::move(file);
  begin_ = begin;
  const std::string link = plan_.directory + "/log";
  const std::string next = plan_.directory + "/log.next";
  unlink(next.c_str());
  // Only a convenience for people: a log without it is whole.
  if (symlink(name.c_str(), next.c_str()) == 0) (void)rename(next.c_str(), link.c_str());
  const auto pieces = pieces_of(plan_.directory);
  const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(1, plan_.files));
  for (std::size_t i = 0; i + most < pieces.size(); ++i)
    unlink(pieces[i].path.c_str());
  return true;
}

// Part of it may get through. 0 or an errno.
int LogWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      dropped_ += static_cast<std::int64_t>(bytes.size());
      return errno_ = errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    end_ += written;
  }
  return 0;
}

bool LogWriter::tell_dropped() {
  if (dropped_ == 0) return true;
  const std::string notice = fmt::format("\n[berth: {} bytes of output could not be kept: {}]\n",
                                         dropped_, errno_text(errno_));
  // Whole or not at all: a notice that a full disk cut off would hide how much is missing.
  const ssize_t written = ::write(file_.get(), notice.data(), notice.size());
  if (written == static_cast<ssize_t>(notice.size())) {
    end_ += written;
    dropped_ = 0;
    return true;
  }
  if (written > 0 && ftruncate(file_.get(), end_ - begin_) != 0) end_ += written;
  return false;
}

void LogWriter::write(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!open_file() || !tell_dropped()) {
    dropped_ += static_cast<std::int64_t>(bytes.size());
    return;
  }
  put(bytes);
}

void LogWriter::finish() {
  if (dropped_ > 0 && open_file()) tell_dropped();
}

LogPart read_log(const std::string& directory, std::int64_t offset, std::size_t most) {
  LogPart part;
  const auto pieces = pieces_of(directory);
  if (pieces.empty()) return part;
  part.end = pieces.back().begin + pieces.back().size;
  if (offset < 0) offset += part.end;
  part.offset = std::clamp(offset, pieces.front().begin, part.end);
  std::int64_t at = part.offset;
  for (const Piece& piece : pieces) {
    if (piece.begin + piece.size <= at || part.bytes.size() >= most) continue;
    const Descriptor file(open(piece.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) break;  // deleted just now: the reader asks again and is told where it is
    const auto wanted = static_cast<std::int64_t>(most - part.bytes.size());
    std::string bytes(static_cast<std::size_t>(std::min(wanted, piece.begin + piece.size - at)),
                      '\0');
    const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), at - piece.begin);
    if (got <= 0) break;
    part.bytes.append(bytes, 0, static_cast<std::size_t>(got));
    at += got;
  }
  return part;
}

}  // namespace berth::local
