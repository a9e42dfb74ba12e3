// Random commits, sweeps, checkpoints, reopenings and kills against the plain model.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "store/files_test.h"
#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

enum class Deed : std::uint8_t { commit, tidy, reopen, kill };

struct Move {
  Deed deed = Deed::commit;
  std::vector<Record> records;
};

void showValue(const Move& move, std::ostream& out) {
  out << (move.deed == Deed::commit   ? "commit"
          : move.deed == Deed::tidy   ? "tidy"
          : move.deed == Deed::reopen ? "reopen"
                                      : "kill");
  for (const Record& record : move.records) {
    out << fmt::format(" {}/{}={}", record.kind, record.id,
                       record.body ? fmt::format("{} bytes", record.body->size()) : "erased");
  }
}

// Ids and bodies of any bytes, zeros among them.
rc::Gen<Record> records() {
  const auto text =
      rc::gen::scale(0.3, rc::gen::container<std::string>(rc::gen::arbitrary<char>()));
  const auto id = rc::gen::oneOf(
      rc::gen::elementOf(std::vector<std::string>{"a", "b", "c", "", std::string("\0x", 2)}), text);
  const auto body =
      rc::gen::oneOf(text, rc::gen::map(rc::gen::inRange<std::size_t>(0, 12'000),
                                        [](std::size_t size) { return std::string(size, 'y'); }));
  const auto kind = rc::gen::elementOf(std::vector<std::string>{"lease", "job"});
  return rc::gen::exec([=] {
    Record record{*kind, *id, std::nullopt};
    if (*rc::gen::inRange(0, 4) != 0) {
      record.body = *body;
    }
    return record;
  });
}

rc::Gen<Move> moves() {
  return rc::gen::weightedOneOf<Move>(
      {{12, rc::gen::map(
                rc::gen::container<std::vector<Record>>(records()),
                [](std::vector<Record> batch) { return Move{Deed::commit, std::move(batch)}; })},
       {3, rc::gen::just(Move{Deed::tidy, {}})},
       {1, rc::gen::just(Move{Deed::reopen, {}})},
       {1, rc::gen::just(Move{Deed::kill, {}})}});
}

struct Numbers {
  std::int64_t slack = 0;
  std::int64_t sweep = 0;
  std::int64_t pages = 0;
};

std::unique_ptr<Store> open_in(const std::string& directory, const Numbers& numbers) {
  Result<std::unique_ptr<Store>> opened = Store::open({.directory = directory,
                                                       .slack_rows = numbers.slack,
                                                       .sweep_rows = numbers.sweep,
                                                       .checkpoint_pages = numbers.pages});
  if (!opened.ok()) {
    RC_FAIL(opened.error().to_string());
  }
  return std::move(opened).value();
}

TEST(StoreProperty, HoldsWhatThePlainModelHoldsWhateverIsDoneInWhateverOrder) {
  EXPECT_TRUE(rc::check([] {
    const Numbers numbers{*rc::gen::inRange<std::int64_t>(0, 20),
                          *rc::gen::inRange<std::int64_t>(1, 8),
                          *rc::gen::inRange<std::int64_t>(1, 30)};
    const auto course = *rc::gen::scale(0.7, rc::gen::container<std::vector<Move>>(moves()));
    auto directory = std::make_unique<TemporaryDirectory>();
    auto store = open_in(directory->path(), numbers);
    Model model;
    for (const Move& move : course) {
      switch (move.deed) {
        case Deed::commit:
          RC_ASSERT(store->commit(move.records).ok());
          model.apply(move.records);
          break;
        case Deed::tidy: RC_ASSERT(store->tidy().ok()); break;
        case Deed::reopen:
          store.reset();
          store = open_in(directory->path(), numbers);
          break;
        case Deed::kill: {  // what a killed process leaves is what the files say now
          auto copy = std::make_unique<TemporaryDirectory>();
          write_files(copy->path(), read_files(directory->path()));
          store = open_in(copy->path(), numbers);
          directory = std::move(copy);
          break;
        }
      }
      if (move.deed != Deed::commit) {
        RC_ASSERT(store->load().value() == model.records());
      }
      const std::int64_t most =
          numbers.slack + numbers.sweep + 2 * static_cast<std::int64_t>(move.records.size());
      RC_ASSERT(store->figures().superseded_rows <= most + 200);
    }
    RC_ASSERT(store->load().value() == model.records());
  }));
}

}  // namespace
}  // namespace berth::store
