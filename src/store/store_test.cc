#include "store/store.h"

#include <gtest/gtest.h>

#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

std::unique_ptr<Store> open_in(const TemporaryDirectory& directory) {
  Result<std::unique_ptr<Store>> opened = Store::open({.directory = directory.path()});
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

TEST(Store, GivesBackWhatWasCommittedInTheOrderOfItsFirstAppearance) {
  const TemporaryDirectory directory;
  {
    auto store = open_in(directory);
    ASSERT_NE(store, nullptr);
    const std::vector<Record> records = {
        {"lease", "b", "1"}, {"lease", "a", "2"}, {"job", "a", "3"}, {"lease", "b", "4"}};
    ASSERT_TRUE(store->commit(records).ok());
    const std::vector<Record> more = {{"job", "a", std::nullopt}, {"job", "z", ""}};
    ASSERT_TRUE(store->commit(more).ok());
  }
  auto store = open_in(directory);
  ASSERT_NE(store, nullptr);
  const std::vector<Record> expected = {{"lease", "b", "4"}, {"lease", "a", "2"}, {"job", "z", ""}};
  Result<std::vector<Record>> loaded = store->load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_EQ(*loaded, expected);
}

}  // namespace
}  // namespace berth::store
