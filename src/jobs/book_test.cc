// The book over a real service and engine; what a supervisor would say is said by the test.
#include "jobs/book.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/simulated.h"
#include "jobs/record.h"

namespace berth::jobs {
namespace {

using testing::ElementsAre;

class QuietWitness : public lease::Witness {
 public:
  Result<local::Proof> prove(const local::Confirmation& confirmation) override {
    local::Proof proof;
    proof.lease = confirmation.lease;
    proof.process = local::ProcessKey{.pid = confirmation.pid.value_or(1), .start_ticks = 1};
    return proof;
  }
  bool alive(const local::Proof&) override { return alive_; }
  std::vector<local::Attribution> attribute(std::span<const local::Proof>,
                                            std::span<const gpu::ProcessUse> uses) override {
    return std::vector<local::Attribution>(uses.size());
  }
  bool guarded(const local::Proof&) override { return guarded_; }

  bool alive_ = true;
  bool guarded_ = false;
};

const lease::Party kAlice{.name = "alice", .admin = false, .local = true, .uid = 1000, .gid = 1000};
const lease::Party kBob{.name = "bob", .admin = false, .local = true, .uid = 1001, .gid = 1001};

Plan plan(std::int64_t mib) {
  Plan plan;
  plan.command = {"true"};
  plan.directory = "/";
  plan.ask.owner = "alice";
  plan.ask.request = *core::Request::create(
      {.cpu = {},
       .ram = {},
       .nodes = {},
       .containers = {{.name = "main", .gpu = core::DeviceAsk::memory_mib(mib)}}});
  return plan;
}

local::JobStatus running(std::int64_t pid = 4711) {
  local::JobStatus status{.phase = local::JobPhase::running, .supervised = true, .state = {}};
  status.state.process.pid = pid;
  return status;
}

local::JobStatus ended(int code, std::string stopped_by = {}) {
  local::JobStatus status{.phase = local::JobPhase::ended, .supervised = false, .state = {}};
  status.state.end = local::JobEnd::exited;
  status.state.code = code;
  status.state.stopped_by = std::move(stopped_by);
  return status;
}

// A daemon without threads, files and programs.
class BookTest : public testing::Test {
 protected:
  BookTest() { open({}, {}); }

  void open(const std::vector<lease::Record>& leases, const std::vector<lease::Record>& jobs) {
    lease::ServiceConfig config;
    config.engine.policy = "spread";
    config.node = "n0";
    service_ = *lease::Service::create(config, witness_, now());
    source_ = *gpu::SimulatedSource::make(fleet());
    for (core::Node node : fleet()) {
      node.devices.clear();
      service_->set_node(node, now());
    }
    EXPECT_TRUE(service_->restore(leases, now()).ok());
    book_ = std::make_unique<Book>(*service_, BookOptions{});
    EXPECT_TRUE(book_->restore(jobs, now()).ok());
    service_->observe(source_->read(), now());
    commit();
  }

  static std::vector<core::Node> fleet() {
    core::Node node;
    node.name = "n0";
    node.cpu = Milli{8000};
    node.ram = Memory::mib(65'536);
    node.pod_slots = 1000;
    for (const char* uuid :
         {"GPU-00000000-0000-4000-8000-000000000000", "GPU-00000000-0000-4000-8000-000000000001"}) {
      core::Device device;
      device.uuid = uuid;
      device.total = Memory::mib(16'384);
      node.devices.push_back(device);
    }
    return {node};
  }

  lease::Now now() const { return {.time = Time(time_), .wall = time_}; }

  // One round of the daemon's loop; `works`: the journal can be written.
  void commit(bool works = true) {
    do {
      lease::Batch batch = service_->take_batch();
      book_->add_to(batch);
      if (!works) {
        service_->undo(now());
        book_->undone();
        return;
      }
      for (lease::Record& record : batch.records) {
        auto& journal = record.kind == "job" ? job_journal_ : lease_journal_;
        std::erase_if(journal, [&](const lease::Record& old) {
          return old.kind == record.kind && old.id == record.id;
        });
        if (record.body.has_value()) {
          journal.push_back(record);
        }
      }
      service_->settle(now());
      book_->settled(batch, now());
    } while (service_->dirty() || book_->dirty());
  }

  std::string submit(const Plan& plan) {
    const auto made = book_->submit(kAlice, plan, now());
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    std::string id = made ? made->front()->id : "";
    commit();
    return id;
  }

  void report(const std::string& id, const local::JobStatus& status) {
    book_->report(id, book_->find(id)->tries, status, now());
    commit();
  }

  State state(const std::string& id) const { return book_->find(id)->state; }

  // "start j-0001", …
  std::vector<std::string> deeds() {
    std::vector<std::string> words;
    for (const Deed& deed : book_->take_deeds()) {
      const char* kinds[] = {"start", "adopt", "finish", "forget"};
      words.push_back(std::string(kinds[static_cast<int>(deed.kind)]) + " " + deed.job +
                      (deed.reason.empty() ? "" : " " + deed.reason));
    }
    return words;
  }

  QuietWitness witness_;
  std::unique_ptr<lease::Service> service_;
  std::unique_ptr<gpu::SimulatedSource> source_;
  std::unique_ptr<Book> book_;
  std::vector<lease::Record> lease_journal_;
  std::vector<lease::Record> job_journal_;
  std::int64_t time_ = 1000;
};

TEST_F(BookTest, AJobGetsALeaseStartsRunsAndGivesItBack) {
  const std::string id = submit(plan(4096));
  EXPECT_EQ(state(id), State::starting);
  EXPECT_THAT(deeds(), ElementsAre("start " + id));
  report(id, running());
  EXPECT_EQ(state(id), State::running);
  EXPECT_EQ(service_->find(book_->find(id)->lease)->state, lease::State::active);
  witness_.alive_ = false;
  report(id, ended(3));
  EXPECT_EQ(state(id), State::failed);
  EXPECT_EQ(book_->find(id)->exit_code, 3);
  EXPECT_EQ(service_->find(book_->find(id)->lease)->state, lease::State::released);
}

TEST_F(BookTest, AJobWithoutAGpuStartsAtOnce) {
  Plan cpu = plan(4096);
  cpu.ask.request = *core::Request::create(
      {.cpu = {}, .ram = {}, .nodes = {}, .containers = {{.name = "main", .gpu = {}}}});
  const std::string id = submit(cpu);
  EXPECT_EQ(state(id), State::starting);
  EXPECT_THAT(deeds(), ElementsAre("start " + id));
  report(id, running());
  EXPECT_EQ(state(id), State::running);
  report(id, ended(0));
  EXPECT_EQ(state(id), State::succeeded);
  EXPECT_EQ(service_->find(book_->find(id)->lease)->state, lease::State::released);
}

TEST_F(BookTest, AGuardThatIsLoadedAMomentAfterTheStartIsSeenStill) {
  const std::string id = submit(plan(4096));
  report(id, running());
  const std::string lease = book_->find(id)->lease;
  EXPECT_EQ(service_->find(lease)->isolation, core::Isolation::advisory);
  witness_.guarded_ = true;
  service_->observe(source_->read(), now());
  commit();
  EXPECT_EQ(service_->find(lease)->isolation, core::Isolation::library);
}

TEST_F(BookTest, NoProgramIsStartedBeforeTheDiskKnowsThatItWillBe) {
  const auto made = book_->submit(kAlice, plan(4096), now());
  ASSERT_TRUE(made.has_value());
  EXPECT_THAT(deeds(), ElementsAre());
  commit();
  EXPECT_THAT(deeds(), ElementsAre("start j-0001"));
}

TEST_F(BookTest, WhatCouldNotBeWrittenWasNeverSubmitted) {
  ASSERT_TRUE(book_->submit(kAlice, plan(4096), now()).has_value());
  commit(false);
  EXPECT_EQ(book_->find("j-0001"), nullptr);
  EXPECT_THAT(service_->leases(), testing::IsEmpty());
  commit();
  EXPECT_THAT(deeds(), ElementsAre());
  EXPECT_TRUE(service_->check().ok());
}

TEST_F(BookTest, AHeldJobWhoseLeaseCouldNotBeWrittenGetsOneLater) {
  const std::string first = submit(plan(4096));
  Plan second = plan(4096);
  second.after = {first};
  const std::string id = submit(second);
  static_cast<void>(deeds());
  report(first, running());
  witness_.alive_ = false;
  book_->report(first, 1, ended(0), now());
  commit(false);
  EXPECT_EQ(state(id), State::held);
  time_ += 1000;
  commit();
  EXPECT_EQ(state(first), State::succeeded);
  EXPECT_EQ(state(id), State::starting);
}

TEST_F(BookTest, ARestartAsksWhatBecameOfProgramsAndKeepsWhatWaits) {
  const std::string runs = submit(plan(12'000));
  const std::string also = submit(plan(12'000));
  const std::string waits = submit(plan(12'000));
  report(runs, running());
  report(also, running(4712));
  EXPECT_EQ(state(waits), State::waiting);
  const std::string lease = book_->find(waits)->lease;
  static_cast<void>(deeds());
  open(std::vector(lease_journal_), std::vector(job_journal_));
  EXPECT_THAT(deeds(), ElementsAre("adopt " + runs, "adopt " + also));
  EXPECT_EQ(state(waits), State::waiting);
  EXPECT_EQ(book_->find(waits)->lease, lease);
  witness_.alive_ = false;
  report(runs, ended(0));
  EXPECT_EQ(state(runs), State::succeeded);
  EXPECT_EQ(state(waits), State::starting);
}

TEST_F(BookTest, OneThatWasToBeStartedAndWasNotIsStartedAfterTheRestart) {
  const std::string id = submit(plan(4096));
  open(std::vector(lease_journal_), std::vector(job_journal_));
  EXPECT_THAT(deeds(), ElementsAre("adopt " + id));
  report(id, {.phase = local::JobPhase::absent, .supervised = false, .state = {}});
  EXPECT_THAT(deeds(), ElementsAre("start " + id));
}

TEST_F(BookTest, WhatHadToLeaveIsQueuedAgainWithItsAge) {
  const std::string id = submit(plan(4096));
  report(id, running());
  const Time queued = service_->find(book_->find(id)->lease)->queued_at;
  static_cast<void>(deeds());
  time_ += 60'000;
  gpu::Report report_of_one = source_->read();
  const std::string gone = service_->find(book_->find(id)->lease)->devices.front().uuid;
  std::erase_if(report_of_one.devices,
                [&](const gpu::DeviceReport& seen) { return seen.device.uuid == gone; });
  service_->observe(report_of_one, now());
  commit();
  ASSERT_EQ(service_->find(book_->find(id)->lease)->state, lease::State::lost);
  witness_.alive_ = false;
  report(id, ended(0, "lease-lost"));
  EXPECT_EQ(book_->find(id)->tries, 2);
  EXPECT_EQ(state(id), State::starting);
  EXPECT_EQ(service_->find(book_->find(id)->lease)->queued_at, queued);
  EXPECT_THAT(deeds(), ElementsAre("start " + id));
}

TEST_F(BookTest, AReportOfAnEarlierAttemptIsNoNews) {
  const std::string id = submit(plan(4096));
  report(id, running());
  book_->report(id, 0, ended(9), now());
  EXPECT_EQ(state(id), State::running);
}

TEST_F(BookTest, OthersMayNeitherSeeNorEndIt) {
  const std::string id = submit(plan(4096));
  EXPECT_EQ(book_->read(kBob, id).error().code, "forbidden");
  EXPECT_EQ(book_->cancel(kBob, id, now()).error().code, "forbidden");
  EXPECT_THAT(book_->list(kBob, true), testing::IsEmpty());
}

TEST_F(BookTest, RecordsComeBackAsTheyWere) {
  Plan made = plan(4096);
  made.name = "n";
  made.environment = {"A=b", "C=ü"};
  made.array = Range{.first = 2, .last = 3, .at_once = 1};
  submit(made);
  for (const Job* job : book_->list(kAlice, true)) {
    const Result<Job> again = read_job(job_record(*job));
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(job_record(*again), job_record(*job));
  }
  EXPECT_FALSE(read_job("{}").ok());
  EXPECT_FALSE(read_job(R"({"v":1,"id":"j-1","number":1,"state":"odd"})").ok());
}

}  // namespace
}  // namespace berth::jobs
