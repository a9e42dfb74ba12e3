#include "config/daemon_file.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "yaml/tree.h"

namespace berth::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(DaemonFile, AnEmptyFileIsTheDefault) {
  for (const char* text : {"", "# nothing yet\n", "gpu:\n  # sampling: 5s\n"}) {
    const DaemonFile file = read_daemon_file(text, "b.yaml");
    EXPECT_THAT(file.complaints, testing::IsEmpty()) << text;
    EXPECT_EQ(file.config, DaemonConfig{});
  }
}

TEST(DaemonFile, ReadsWhatAnAdministratorWrites) {
  const DaemonFile file = read_daemon_file(
      "listen: [unix:/run/berth/berth.sock, \"0.0.0.0:7443\"]\n"
      "tokens_file: /etc/berth/tokens\n"
      "tls: {certificate: /etc/berth/tls.pem, key: /etc/berth/tls.key}\n"
      "queues_file: /etc/berth/queues.yaml\n"
      "gpu:\n  sampling: 500ms\n  margin: 1GiB\n"
      "leases: {ttl: 5min, forced: 0s}\n"
      "limits: {device_cap: 4}\n"
      "overuse: kill\n"
      "log: {level: warning}\n",
      "b.yaml");
  ASSERT_THAT(file.complaints, testing::IsEmpty());
  EXPECT_THAT(file.config.listen, ElementsAre("unix:/run/berth/berth.sock", "0.0.0.0:7443"));
  EXPECT_THAT(file.config.queues_files, ElementsAre("/etc/berth/queues.yaml"));
  EXPECT_EQ(file.config.gpu.sampling, Duration(500));
  EXPECT_EQ(file.config.gpu.margin, Memory::mib(1024));
  EXPECT_EQ(file.config.leases.ttl, Duration(300'000));
  EXPECT_EQ(file.config.leases.forced, Duration(0));
  EXPECT_EQ(file.config.leases.confirm, DaemonConfig{}.leases.confirm);
  EXPECT_EQ(file.config.limits.device_cap, 4);
  EXPECT_EQ(file.config.overuse, Overuse::kill);
  EXPECT_EQ(file.config.log.level, LogLevel::warning);
}

TEST(DaemonFile, TellsEverythingThatIsWrongInTheOrderOfTheLines) {
  const DaemonFile file = read_daemon_file(
      "lisen: unix:/x\n"
      "gpu: {sampling: 5, ledger_only: perhaps}\n"
      "leases:\n"
      "  tll: 2min\n"
      "overuse: kil\n"
      "policy: spraed\n",
      "b.yaml");
  EXPECT_THAT(
      file.complaints,
      ElementsAre(
          StartsWith(
              "b.yaml:1:1: lisen: 'lisen' is not a key of 'the file'; did you mean 'listen'?"),
          StartsWith("b.yaml:2:17: sampling '5': a duration is a whole number with ms"),
          StartsWith("b.yaml:2:33: ledger_only 'perhaps': not a word that is known here"),
          StartsWith("b.yaml:4:3: tll: 'tll' is not a key of 'leases'; did you mean 'ttl'?"),
          AllOf(StartsWith("b.yaml:5:10: overuse 'kil'"), HasSubstr("did you mean 'kill'?")),
          AllOf(StartsWith("b.yaml:6:9: policy 'spraed'"), HasSubstr("spread"))));
}

TEST(DaemonFile, WhatGoesTogetherIsHeldTogether) {
  const auto says = [](std::string_view text) { return read_daemon_file(text, "b.yaml").text(); };
  EXPECT_THAT(says("tls: {key: /k}\n"), StartsWith("b.yaml:1:12: tls.key: a key goes with"));
  EXPECT_THAT(says("tls: {certificate: /c}\n"), HasSubstr("set tls.key too"));
  EXPECT_THAT(says("listen: 0.0.0.0:7443\n"),
              AllOf(HasSubstr("set tokens_file"), HasSubstr("TCP needs TLS")));
  EXPECT_EQ(says("listen: 127.0.0.1:80\ntokens_file: /t\ntls: {plain_loopback: true}\n"), "");
  EXPECT_THAT(says("gpu: {sampling: 10s, max_sample_age: 5s}\n"),
              HasSubstr("at least gpu.sampling, 10s"));
  EXPECT_THAT(says("limits: {max_connections: 8, connections_per_user: 9}\n"),
              HasSubstr("at most limits.max_connections, 8"));
}

TEST(DaemonFile, RefusesWhatIsNoConfiguration) {
  const auto says = [](std::string_view text) { return read_daemon_file(text, "b.yaml").text(); };
  EXPECT_THAT(says("- a\n"), HasSubstr("b.yaml:1:1"));
  EXPECT_THAT(says("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(says("gpu: 4\n"), HasSubstr("the keys of 'gpu' are expected here"));
  EXPECT_THAT(says("listen: [\n"), StartsWith("b.yaml:"));
  EXPECT_THAT(says("gpu: {sampling: 1ms}\n"), HasSubstr("from 50ms to 1h is possible"));
}

TEST(DaemonFile, EveryExampleIsAcceptedAndChangesItsOwnKeyOnly) {
  std::set<std::string> paths;
  for (const Setting& setting : daemon_settings()) {
    EXPECT_TRUE(paths.insert(setting.path()).second) << setting.path();
    EXPECT_FALSE(setting.doc.summary.empty()) << setting.path();
    const std::string text(setting.doc.example);
    const auto document = yaml::parse(text, "example");
    ASSERT_TRUE(document.ok()) << setting.path();
    DaemonConfig config;
    const auto read = setting.read(Value(document->front(), setting.doc.name, "example"), config);
    ASSERT_TRUE(read.ok()) << setting.path() << ": " << read.error().message();
    // The example of a value that has a default may be the default.
    for (const Change& change : changes_between({}, config)) {
      EXPECT_EQ(change.path, setting.path());
    }
    EXPECT_TRUE(!setting.write(DaemonConfig{}).empty() || !setting.otherwise.empty())
        << setting.path() << ": what holds when it is not said?";
    EXPECT_FALSE(setting.write(config).empty()) << setting.path();
  }
}

TEST(DaemonFile, WhatIsWrittenReadsBackTheSame) {
  DaemonConfig config;
  for (const Setting& setting : daemon_settings()) {
    const auto document = yaml::parse(setting.doc.example, "example");
    ASSERT_TRUE(setting.read(Value(document->front(), setting.doc.name, "example"), config).ok());
  }
  config.node = "null";
  config.admins = {"a\"b\\c", "#x", "true", "-", "a: b"};
  for (const DaemonConfig& one : {config, DaemonConfig{}}) {
    const std::string text = daemon_file_text(one);
    const DaemonFile again = read_daemon_file(text, "again.yaml");
    EXPECT_EQ(again.text(), "") << text;
    EXPECT_EQ(again.config, one) << text;
  }
}

TEST(DaemonFile, ChangesSayWhatCountsAtOnce) {
  DaemonConfig before;
  DaemonConfig after;
  after.leases.ttl = Duration(300'000);
  after.listen = {"unix:/x"};
  const std::vector<Change> changes = changes_between(before, after);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].text(), "listen: (not set) -> [\"unix:/x\"] (needs a restart)");
  EXPECT_EQ(changes[1].text(), "leases.ttl: 2min -> 5min (from now on)");
  EXPECT_TRUE(changes_between(after, after).empty());
}

}  // namespace
}  // namespace berth::config
