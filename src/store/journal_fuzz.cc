// Files that no store wrote: one that opens nevertheless can be loaded, written and opened again,
// and what it says survives that. The first byte chooses where the file comes from:
//   0  the rest is the file
//   1  files of a real history, changed: four bytes a change: what (file, byte or length), place
//      (two bytes), value; what opens then must hold a prefix of the history
//   2  rows of any kind in a well-formed table; with the right sums if the second byte is odd
#include <SQLiteCpp/SQLiteCpp.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "store/files_test.h"
#include "store/format.h"
#include "store/model_test.h"
#include "store/row.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

using Bytes = std::span<const std::uint8_t>;

// A history, the states it passes, and the files in its middle.
struct Past {
  Past() {
    const History history = make_history(30, 11);
    states = states_of(history);
    const TemporaryDirectory directory;
    auto store = std::move(Store::open(brisk_options(directory.path()))).value();
    for (std::size_t i = 0; i < history.size(); ++i) {
      ASSERT(store->commit(history[i]).ok());
      if (i == 15) {
        ASSERT(store->tidy().ok());
      }
    }
    files = read_files(directory.path());
  }

  std::vector<std::vector<Record>> states;
  Files files;
};

const Past& past() {
  static const Past the_past;
  return the_past;
}

// Opens it, if it lets itself be opened, and returns what it held.
std::optional<std::vector<Record>> try_out(const TemporaryDirectory& directory) {
  std::vector<Record> held;
  {
    const Files before = read_files(directory.path());
    Result<std::unique_ptr<Store>> opened = Store::open(brisk_options(directory.path()));
    if (!opened.ok()) {
      ASSERT(!opened.error().message().empty());
      ASSERT(opened.error().code() != ErrorCode::conflict || read_files(directory.path()) == before,
             "refused, yet changed");
      return std::nullopt;
    }
    held = (*opened)->load().value();
    const std::vector<Record> more = {{"fuzz", "new", "x"}, {"fuzz", "gone", std::nullopt}};
    ASSERT((*opened)->commit(more).ok());
    ASSERT((*opened)->tidy().ok());
  }
  auto again = std::move(Store::open(brisk_options(directory.path()))).value();
  std::vector<Record> expected = held;
  std::erase_if(expected, [](const Record& record) { return record.kind == "fuzz"; });
  std::vector<Record> found = again->load().value();
  std::erase_if(found, [](const Record& record) { return record.kind == "fuzz"; });
  ASSERT(found == expected);
  return held;
}

void try_changes(Bytes changes) {
  Files files = past().files;
  for (; changes.size() >= 4; changes = changes.subspan(4)) {
    std::string& bytes = files[changes[0] % 2 == 0 ? "journal.db" : "journal.db-wal"];
    const std::size_t place = (std::size_t{changes[1]} << 8U | changes[2]) % (bytes.size() + 1);
    if (changes[0] >= 250) {
      bytes.resize(place);
    } else if (place < bytes.size()) {
      bytes[place] = static_cast<char>(changes[3]);
    }
  }
  const TemporaryDirectory directory;
  write_files(directory.path(), files);
  if (const auto held = try_out(directory)) {
    ASSERT(std::ranges::find(past().states, *held) != past().states.end(), "not a prefix");
  }
}

class Rows {
 public:
  Rows(SQLite::Database& db, Bytes bytes) : db_(db), bytes_(bytes) {}

  void insert_all(bool sums_right) {
    db_.exec(std::string(formats().back().schema));
    SQLite::Statement insert(db_, "INSERT OR REPLACE INTO journal VALUES(?,?,?,?,?,?,?)");
    std::uint64_t total = 0;
    for (bool first = true; !bytes_.empty(); first = false) {
      const std::string kind = first ? std::string(kFoundingKind) : text();
      const std::string id = text();
      const std::string body = text();
      Row row{.seq = number(), .place = number(), .kind = kind, .id = id};
      if (number() % 3 != 0) {
        row.body = body;
      }
      row.sum = sums_right ? sum_of(row) : static_cast<std::uint64_t>(number());
      total += row.sum;
      insert.bind(1, row.seq);
      insert.bind(2, row.place);
      insert.bind(3, kind);
      insert.bind(4, id);
      if (row.body) {
        insert.bind(5, body.data(), static_cast<int>(body.size()));
      } else {
        insert.bind(5);
      }
      insert.bind(6, static_cast<std::int64_t>(row.sum));
      insert.bind(7, static_cast<std::int64_t>(total));
      insert.exec();
      insert.reset();
    }
  }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  // Small ones, and now and then any at all.
  std::int64_t number() {
    const std::uint8_t first = next();
    if (first < 250) {
      return first;
    }
    std::uint64_t number = 0;
    for (int i = 0; i < 8; ++i) {
      number = number << 8U | next();
    }
    return static_cast<std::int64_t>(number);
  }

  std::string text() {
    std::string text;
    for (std::uint8_t size = next() % 32; size > 0; --size) {
      text += static_cast<char>(next());
    }
    return text;
  }

  SQLite::Database& db_;
  Bytes bytes_;
};

void try_rows(Bytes bytes) {
  const TemporaryDirectory directory;
  {
    SQLite::Database db(directory.file("journal.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA synchronous=OFF");
    db.exec("BEGIN");
    db.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
    db.exec(fmt::format("PRAGMA user_version={}", newest_format()));
    Rows(db, bytes.subspan(1)).insert_all(bytes.front() % 2 != 0);
    db.exec("COMMIT");
  }
  static_cast<void>(try_out(directory));
}

void try_file(Bytes bytes) {
  const TemporaryDirectory directory;
  write_files(directory.path(), {{"journal.db", std::string(bytes.begin(), bytes.end())}});
  static_cast<void>(try_out(directory));
}

}  // namespace
}  // namespace berth::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const berth::store::Bytes bytes(data, size);
  if (size < 2) {
    return 0;
  }
  switch (bytes.front() % 3) {
    case 0: berth::store::try_file(bytes.subspan(1)); break;
    case 1: berth::store::try_changes(bytes.subspan(1)); break;
    default: berth::store::try_rows(bytes.subspan(1)); break;
  }
  return 0;
}
