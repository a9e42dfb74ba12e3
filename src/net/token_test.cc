#include "net/token.h"

#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::net {
namespace {

std::string hex_of(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : sha256(text)) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

TEST(Token, HashesAsTheStandardSays) {  // FIPS 180-4, example "abc"
  EXPECT_EQ(hex_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Token, ANewOneIsKnownByItsLineAndUnlikeEveryOther) {
  const NewToken one = make_token("airflow", false).value();
  const NewToken two = make_token("ops", true).value();
  EXPECT_NE(one.secret, two.secret);
  EXPECT_EQ(one.secret.size(), 6U + 43U);  // 256 bits in base64 without padding
  EXPECT_FALSE(one.line.contains(one.secret));
  const TokenSet set = TokenSet::parse("# tokens\n\n" + one.line + two.line, "tokens").value();
  EXPECT_EQ(set.size(), 2U);
  ASSERT_NE(set.find(one.secret), nullptr);
  EXPECT_EQ(set.find(one.secret)->name, "airflow");
  EXPECT_FALSE(set.find(one.secret)->admin);
  EXPECT_FALSE(set.find(one.secret)->local);
  ASSERT_NE(set.find(two.secret), nullptr);
  EXPECT_TRUE(set.find(two.secret)->admin);
  EXPECT_EQ(set.find(""), nullptr);
  EXPECT_EQ(set.find(one.secret + "x"), nullptr);
  EXPECT_EQ(set.find(one.line), nullptr);
}

TEST(Token, ANameMayStandTwiceWhileItsTokenIsReplaced) {
  const NewToken before = make_token("airflow", false).value();
  const NewToken after = make_token("airflow", false).value();
  const TokenSet set = TokenSet::parse(before.line + after.line, "tokens").value();
  EXPECT_NE(set.find(before.secret), nullptr);
  EXPECT_NE(set.find(after.secret), nullptr);
}

TEST(Token, LinesThatAreWrongAreNamed) {
  const std::string hash = "sha256:" + std::string(64, 'a');
  struct Case {
    std::string text;
    std::string_view says;
  };
  const std::vector<Case> cases{
      {"air flow user " + hash, "tokens:1: the role of air is \"user\" or \"admin\", not \"flow\""},
      {"\na/b user " + hash, "tokens:2: a/b is no name of a token"},
      {"airflow root " + hash, "not \"root\""},
      {"airflow user", "ends in sha256:"},
      {"airflow user " + std::string(64, 'a'), "ends in sha256:"},
      {"airflow user sha256:" + std::string(63, 'a'), "ends in sha256:"},
      {"airflow user sha256:" + std::string(64, 'A'), "ends in sha256:"},
      {"airflow user berth_secret", "the token itself does not stand in this file"},
      {"airflow user " + hash + " more", "nothing else"},
      {"a user " + hash + "\nb user " + hash, "tokens:2: a and b have the same token"},
      {"a user " + hash + "\na admin sha256:" + std::string(64, 'b'), "admin on another"},
  };
  for (const auto& [text, says] : cases) {
    const Result<TokenSet> set = TokenSet::parse(text, "tokens");
    ASSERT_FALSE(set.ok()) << text;
    EXPECT_EQ(set.error().code(), ErrorCode::invalid_argument);
    EXPECT_TRUE(set.error().message().contains(says)) << set.error().message();
  }
}

TEST(Token, ANameThatCouldNotBeReadBackIsNotTaken) {
  for (const std::string_view name : {"", "a b", "a#b", "a\nb", "ä"}) {
    EXPECT_FALSE(make_token(name, false).ok()) << name;
  }
  EXPECT_FALSE(make_token(std::string(65, 'a'), false).ok());
  EXPECT_TRUE(make_token(std::string(64, 'a'), false).ok());
}

TEST(Token, AFileThatOthersMayWriteToIsRefused) {
  const TempFolder folder;
  const std::string file = folder.file("tokens");
  std::ofstream(file) << make_token("a", true).value().line;
  ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
  const Result<TokenSet> open = TokenSet::load(file);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code(), ErrorCode::conflict);
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  EXPECT_EQ(TokenSet::load(file).value().size(), 1U);
  EXPECT_EQ(TokenSet::load(folder.file("none")).error().code(), ErrorCode::not_found);
}

TEST(Token, ReadsItOutOfTheHeader) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer  abc"), "abc");
  EXPECT_EQ(bearer_token("Basic abc"), "");
  EXPECT_EQ(bearer_token("Bearer"), "");
  EXPECT_EQ(bearer_token("Bearer a b"), "");
  EXPECT_EQ(bearer_token(""), "");
}

TEST(Token, ASetTakesOverWhatHasNotChanged) {
  const NewToken stays = make_token("stays", false).value();
  const NewToken goes = make_token("goes", false).value();
  const NewToken rises = make_token("rises", false).value();
  const TokenSet old = TokenSet::parse(stays.line + goes.line + rises.line, "tokens").value();
  std::string promoted = rises.line;
  promoted.replace(promoted.find(" user "), 6, " admin ");
  TokenSet now = TokenSet::parse(promoted + stays.line, "tokens").value();
  now.take_over(old);
  EXPECT_EQ(now.find(stays.secret), old.find(stays.secret));
  EXPECT_TRUE(now.holds(*old.find(stays.secret)));
  EXPECT_FALSE(now.holds(*old.find(goes.secret)));
  EXPECT_FALSE(now.holds(*old.find(rises.secret))) << "another role is another caller";
}

}  // namespace
}  // namespace berth::net
