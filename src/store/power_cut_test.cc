// What a power cut leaves, at every step of a history: writes that were synced are there, of the
// others any part may be.

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/files_test.h"
#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

struct Event {
  DiskDeed deed = DiskDeed::write;
  std::string file;
  std::string to;
  std::int64_t offset = 0;
  std::string bytes;
  std::size_t commits = 0;  // that had returned before
};

class Recorder : public FaultHook {
 public:
  DiskFault before(const DiskStep&) override { return {}; }

  void after(const DiskStep& step) override {
    events.push_back({step.deed, std::string(step.file), std::string(step.to), step.offset,
                      std::string(step.bytes), commits});
  }

  std::vector<Event> events;
  std::size_t commits = 0;
};

// A disk that may forget what was not synced.
class ModelDisk {
 public:
  explicit ModelDisk(const Files& files) : kept_(files) {
    for (const auto& [name, bytes] : files) {
      seen_[name].bytes = bytes;
    }
  }

  void apply(const Event& event) {
    switch (event.deed) {
      case DiskDeed::read: break;
      case DiskDeed::write:
      case DiskDeed::truncate: seen_[event.file].pending.push_back(event); break;
      case DiskDeed::sync: {
        Content& content = seen_[event.file];
        for (const Event& pending : content.pending) {
          change(content.bytes, pending);
        }
        content.pending.clear();
        kept_[event.file] = content.bytes;
        break;
      }
      case DiskDeed::rename:
        seen_[event.to] = std::move(seen_[event.file]);
        seen_.erase(event.file);
        break;
      case DiskDeed::remove: seen_.erase(event.file); break;
      case DiskDeed::sync_directory:
        for (auto kept = kept_.begin(); kept != kept_.end();) {
          kept = seen_.contains(kept->first) ? std::next(kept) : kept_.erase(kept);
        }
        for (const auto& [name, content] : seen_) {
          kept_[name] = content.bytes;
        }
        break;
    }
  }

  // What a killed process leaves: everything.
  Files after_kill() const {
    Files files;
    for (const auto& [name, content] : seen_) {
      std::string& bytes = files[name] = content.bytes;
      for (const Event& pending : content.pending) {
        change(bytes, pending);
      }
    }
    return files;
  }

  // What a power cut leaves if nothing was kept that need not be.
  Files after_cut() const { return kept_; }

  // … and if of every sector that was not synced chance decided.
  Files after_cut(std::mt19937& random) const {
    const bool names_kept = random() % 2 == 0;
    Files files = kept_;
    if (names_kept) {
      files.clear();
      for (const auto& [name, content] : seen_) {
        files[name] = content.bytes;
      }
    }
    for (auto& [name, bytes] : files) {
      const auto seen = seen_.find(name);
      if (seen == seen_.end()) {
        continue;
      }
      for (const Event& pending : seen->second.pending) {
        change_in_part(bytes, pending, random);
      }
    }
    return files;
  }

 private:
  struct Content {
    std::string bytes;           // as of the last sync
    std::vector<Event> pending;  // since
  };

  static void change(std::string& bytes, const Event& event) {
    const auto offset = static_cast<std::size_t>(event.offset);
    if (event.deed == DiskDeed::truncate) {
      bytes.resize(offset);
      return;
    }
    bytes.resize(std::max(bytes.size(), offset + event.bytes.size()));
    bytes.replace(offset, event.bytes.size(), event.bytes);
  }

  static void change_in_part(std::string& bytes, const Event& event, std::mt19937& random) {
    if (event.deed == DiskDeed::truncate) {
      if (random() % 2 == 0) {
        change(bytes, event);
      }
      return;
    }
    constexpr std::size_t kSector = 512;
    for (std::size_t at = 0; at < event.bytes.size();) {
      const std::size_t place = static_cast<std::size_t>(event.offset) + at;
      const std::size_t size = std::min(kSector - place % kSector, event.bytes.size() - at);
      if (random() % 2 == 0) {
        Event part = event;
        part.offset = static_cast<std::int64_t>(place);
        part.bytes = event.bytes.substr(at, size);
        change(bytes, part);
      }
      at += size;
    }
  }

  std::map<std::string, Content> seen_;  // what programs see
  Files kept_;                           // what is certainly there after a cut
};

class PowerCut : public testing::Test {
 protected:
  // Plays the history with closing and opening in between, so that those are cut, too.
  void play() {
    const TemporaryDirectory directory;
    std::unique_ptr<Store> store;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (i % 13 == 0) {
        store.reset();
        store = std::move(Store::open(brisk_options(directory.path(), &recorder_))).value();
      }
      ASSERT_TRUE(store->commit(history_[i]).ok());
      recorder_.commits = i + 1;
      if (i % 3 == 0) {
        ASSERT_TRUE(store->tidy().ok());
      }
    }
  }

  // Opens what is left; the commits that had returned must be there, and at most the one beyond.
  void expect_prefix(const Files& files, std::size_t commits, const std::string& where) {
    ++images_;
    const TemporaryDirectory directory;
    write_files(directory.path(), files);
    Result<std::unique_ptr<Store>> opened = Store::open(brisk_options(directory.path()));
    ASSERT_TRUE(opened.ok()) << where << ": " << opened.error().to_string();
    Result<std::vector<Record>> loaded = (*opened)->load();
    ASSERT_TRUE(loaded.ok()) << where << ": " << loaded.error().to_string();
    const std::size_t next = std::min(commits + 1, history_.size());
    ASSERT_TRUE(*loaded == states_[commits] || *loaded == states_[next])
        << where << ": neither what " << commits << " commits give nor " << next;
    ASSERT_TRUE((*opened)->commit(std::vector<Record>{{"job", "after", "x"}}).ok()) << where;
  }

  void cut_everywhere(int random_cuts) {
    ModelDisk disk({});
    for (std::size_t i = 0; i < recorder_.events.size() && !HasFatalFailure(); ++i) {
      const Event& event = recorder_.events[i];
      disk.apply(event);
      expect_prefix(disk.after_kill(), event.commits, fmt::format("killed after step {}", i));
      expect_prefix(disk.after_cut(), event.commits, fmt::format("cut after step {}", i));
      for (int cut = 0; cut < random_cuts && !HasFatalFailure(); ++cut) {
        std::mt19937 random(static_cast<std::uint32_t>(i * 100) + static_cast<std::uint32_t>(cut));
        expect_prefix(disk.after_cut(random), event.commits,
                      fmt::format("cut {} after step {}", cut, i));
      }
    }
  }

  History history_ = make_history(40, 1);
  std::vector<std::vector<Record>> states_ = states_of(history_);
  Recorder recorder_;
  std::size_t images_ = 0;
};

TEST_F(PowerCut, LeavesAPrefixWithEveryCommitThatReturnedWhereverItComes) {
  play();
  cut_everywhere(3);
  RecordProperty("steps", static_cast<int>(recorder_.events.size()));
  RecordProperty("images", static_cast<int>(images_));
  EXPECT_GT(images_, 1'000U);
}

}  // namespace
}  // namespace berth::store
