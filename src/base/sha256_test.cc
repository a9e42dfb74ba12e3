#include "base/sha256.h"

#include <string>

#include <gtest/gtest.h>

namespace berth {
namespace {

// The examples of FIPS 180-4 and NIST's short messages.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsEveryLengthAroundABlock) {
  // echo -n aaa… | sha256sum
  EXPECT_EQ(sha256_hex(std::string(55, 'a'), 16), "9f4390f8d30c2dd9");
  EXPECT_EQ(sha256_hex(std::string(56, 'a'), 16), "b35439a4ac6f0948");
  EXPECT_EQ(sha256_hex(std::string(64, 'a'), 16), "ffe054fe7ae0cb6d");
}

TEST(Sha256, GivesAsManyDigitsAsAsked) { EXPECT_EQ(sha256_hex("abc", 8), "ba7816bf"); }

}  // namespace
}  // namespace berth
