#include "net/target.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace berth::net {
namespace {

using Pairs = std::vector<Header>;

TEST(Target, SplitsBeforeItDecodes) {
  const Target target = parse_target("/v1/devices/MIG-GPU-a%2F1%2F0?key=a%26b&x=1+2&flag").value();
  EXPECT_EQ(target.path, "/v1/devices/MIG-GPU-a/1/0");
  EXPECT_EQ(target.segments, (std::vector<std::string>{"v1", "devices", "MIG-GPU-a/1/0"}));
  EXPECT_EQ(target.query, (Pairs{{"key", "a&b"}, {"x", "1 2"}, {"flag", ""}}));
}

TEST(Target, APlusInAPathIsAPlus) { EXPECT_EQ(parse_target("/a+b").value().path, "/a+b"); }

TEST(Target, KeepsEmptySegmentsAndTheLastSlash) {
  EXPECT_EQ(parse_target("/").value().segments, std::vector<std::string>{""});
  EXPECT_EQ(parse_target("/a//b/").value().segments, (std::vector<std::string>{"a", "", "b", ""}));
}

TEST(Target, ReadsAnAbsoluteUrlAsItsPath) {
  EXPECT_EQ(parse_target("http://localhost/v1/leases?a=b").value().path, "/v1/leases");
  EXPECT_EQ(parse_target("http://localhost").value().path, "/");
}

TEST(Target, ReadsQueriesWithAndWithoutValues) {
  EXPECT_EQ(parse_target("/?").value().query, Pairs{});
  EXPECT_EQ(parse_target("/?&&a=&=b&c=d=e").value().query,
            (Pairs{{"a", ""}, {"", "b"}, {"c", "d=e"}}));
  EXPECT_EQ(parse_target("/?k=%C3%A4").value().query, (Pairs{{"k", "ä"}}));
}

TEST(Target, RefusesWhatDoesNotDecode) {
  for (const std::string_view text :
       {"", "v1", "*", "example.org:443", "/%", "/%4", "/%4g", "/%GG", "/a?b=%", "/%00", "/?%00=a",
        "/%ff", "/%c3", "/%ed%a0%80", "/%c0%af", "/%f4%90%80%80", "/a#b", "/?a=%e4"}) {
    const Result<Target> target = parse_target(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(target.error().code(), ErrorCode::invalid_argument);
  }
}

TEST(Target, WhatIsEncodedIsDecodedToTheSame) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const std::string text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    const Target target = parse_target("/" + percent_encoded(text) + "?" + percent_encoded(text) +
                                       "=" + percent_encoded(text))
                              .value();
    RC_ASSERT(target.segments == std::vector<std::string>{text});
    RC_ASSERT(target.query == (Pairs{{text, text}}));
  }));
}

TEST(Address, ReadsUrls) {
  const Address local = parse_url("unix:/run/berth/berth.sock").value();
  EXPECT_EQ(local.scheme, Address::Scheme::unix_socket);
  EXPECT_EQ(local.path, "/run/berth/berth.sock");
  const Address prefix = parse_url("http://prom:9090/prometheus/").value();
  EXPECT_EQ(prefix.scheme, Address::Scheme::http);
  EXPECT_EQ(prefix.host, "prom");
  EXPECT_EQ(prefix.port, 9090);
  EXPECT_EQ(prefix.path, "/prometheus");
  EXPECT_EQ(parse_url("https://gpu1").value().port, 443);
  EXPECT_EQ(parse_url("http://gpu1").value().port, 80);
  const Address six = parse_url("https://[::1]:8443").value();
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.authority(), "[::1]:8443");
}

TEST(Address, RefusesWhatIsNoUrl) {
  for (const std::string_view text :
       {"", "/run/berth.sock", "unix:berth.sock", "gpu1:8443", "ftp://gpu1", "https://",
        "https://:80", "https://a:b", "https://a:", "https://a:70000", "https://::1:8443",
        "https://[::1", "https://[::1]8443", "https://user@gpu1", "https://a b", "http://a/?x=1",
        "http://a/%zz"}) {
    const Result<Address> address = parse_url(text);
    EXPECT_FALSE(address.ok()) << text;
  }
}

TEST(Address, ReadsWhereToListen) {
  EXPECT_EQ(parse_listen("unix:/a").value().path, "/a");
  EXPECT_EQ(parse_listen("0.0.0.0:8443").value().port, 8443);
  EXPECT_EQ(parse_listen("[::1]:0").value().host, "::1");
  EXPECT_EQ(parse_listen(":8443").value().host, "");
  for (const std::string_view text : {"", "8443", "localhost", "https://a:1", "a:", "a:-1"}) {
    EXPECT_FALSE(parse_listen(text).ok()) << text;
  }
}

}  // namespace
}  // namespace berth::net
