#include "store/row.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "store/row_index.h"

namespace berth::store {
namespace {

TEST(Row, HasAnotherSumWithAnyBitChanged) {
  const Row row{.seq = 7, .place = 3, .kind = "lease", .id = "l-1", .body = "{\"a\": 1, \"b\": 2}"};
  std::set<std::uint64_t> sums = {sum_of(row)};
  std::size_t rows = 1;
  const auto see = [&](const Row& other) {
    ++rows;
    sums.insert(sum_of(other));
  };
  for (std::size_t bit = 0; bit < row.body->size() * 8; ++bit) {
    std::string body(*row.body);
    body[bit / 8] = static_cast<char>(body[bit / 8] ^ static_cast<char>(1U << (bit % 8)));
    Row other = row;
    other.body = body;
    see(other);
  }
  for (unsigned bit = 0; bit < 63; ++bit) {
    Row other = row;
    other.seq ^= std::int64_t{1} << bit;
    see(other);
    other = row;
    other.place ^= std::int64_t{1} << bit;
    see(other);
  }
  EXPECT_EQ(sums.size(), rows);
}

TEST(Row, TellsApartWhatOnlyLooksAlikeWhenJoined) {
  const Row one{.seq = 1, .place = 1, .kind = "ab", .id = "c", .body = ""};
  Row other = one;
  other.kind = "a";
  other.id = "bc";
  EXPECT_NE(sum_of(one), sum_of(other));
  EXPECT_NE(RowIndex::key_of("ab", "c"), RowIndex::key_of("a", "bc"));
  EXPECT_NE(RowIndex::key_of("a", "1 b"), RowIndex::key_of("a1 ", "b"));
  other = one;
  other.body = std::nullopt;
  EXPECT_NE(sum_of(one), sum_of(other));
  other.body = std::string_view("\0", 1);
  EXPECT_NE(sum_of(one), sum_of(other));
}

// The file outlives the program that wrote it: the sum is part of the format.
TEST(Row, HasTheSumThatFormatOneHasAlwaysHad) {
  const Row row{.seq = 2, .place = 1, .kind = "lease", .id = "l-1", .body = "text of some length"};
  EXPECT_EQ(sum_of(row), 5064860846195994472U);
}

TEST(RowIndex, NamesSupersededRowsInAnOrderThatNeverBringsBackTheDead) {
  RowIndex index;
  index.saw({.seq = 1, .place = 1, .kind = "k", .id = "a", .body = "1", .sum = 10});
  index.saw({.seq = 2, .place = 2, .kind = "k", .id = "b", .body = "1", .sum = 20});
  index.saw({.seq = 3, .place = 1, .kind = "k", .id = "a", .body = "2", .sum = 30});
  index.saw({.seq = 4, .place = 1, .kind = "k", .id = "a", .body = std::nullopt, .sum = 40});
  index.saw({.seq = 5, .place = 5, .kind = "k", .id = "a", .body = "3", .sum = 50});
  EXPECT_EQ(index.total(), 150U);
  EXPECT_EQ(index.live_rows(), 2);
  EXPECT_EQ(index.place_of(RowIndex::key_of("k", "a")), 5);
  EXPECT_EQ(index.place_of(RowIndex::key_of("k", "c")), 0);
  const std::vector<Superseded> rows = index.oldest(10);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].seq, 1);
  EXPECT_EQ(rows[1].seq, 3);
  EXPECT_EQ(rows[2].seq, 4);
  index.forget(std::span(rows).first(2));
  EXPECT_EQ(index.total(), 110U);
  EXPECT_EQ(index.superseded_rows(), 1);
}

}  // namespace
}  // namespace berth::store
