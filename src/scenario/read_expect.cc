// The `expect:` section: what must be true of workloads, devices, nodes and the step itself.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "scenario/figure_keys.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

using StateWord = std::pair<std::string_view, WantedState>;
constexpr std::array<StateWord, 5> kStates = {{{"granted", WantedState::granted},
                                               {"promised", WantedState::promised},
                                               {"waiting", WantedState::waiting},
                                               {"never", WantedState::never},
                                               {"ended", WantedState::ended}}};

Result<std::string> read_cause(const Value& value) {
  TRY(std::string name, value.word());
  if (core::cause_from_name(name)) return name;
  std::vector<std::string_view> known;
  for (std::size_t i = 1; i < core::kCauseCount; ++i) {  // 0 is no cause and has no name
    known.push_back(core::cause_name(static_cast<core::Cause>(i)));
  }
  return value.error(fmt::format("not a cause of a verdict; {}", suggestion(name, known)));
}

Result<std::vector<std::string>> read_texts(const Value& value) {
  TRY(std::vector<Value> items, value.items());
  std::vector<std::string> texts;
  for (const Value& item : items) {
    TRY(std::string text, item.word());
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::vector<std::string>> read_plain_names(const Value& value) {
  if (value.node().is_list() && value.node().items.empty()) return std::vector<std::string>{};
  TRY(std::vector<Named> names, value.names());
  std::vector<std::string> texts;
  for (Named& name : names)
    texts.push_back(std::move(name.text));
  return texts;
}

Result<void> read_state(const Value& value, ExpectWorkload& expect) {
  TRY(expect.state, value.choice(std::span<const StateWord>(kStates)));
  return success();
}

Result<void> read_eta(const Value& value, ExpectWorkload& expect) {
  if (value.node().text == "unknown") {
    expect.eta.emplace();
    return success();
  }
  TRY(const Duration at, value.duration());
  expect.eta.emplace(Time{at.count()});
  return success();
}

Result<void> read_node_counts(const Value& value, ExpectWorkload& expect) {
  TRY(auto entries, value.entries());
  expect.nodes.emplace();
  for (const auto& [name, count] : entries) {
    if (!core::cause_from_name(name.text)) {
      return count.error("the key is not a cause of a verdict, as in {InsufficientMemory: 2}");
    }
    TRY((*expect.nodes)[name.text], count.number(0, 1'000'000'000));
  }
  return success();
}

#define BERTH_WORKLOAD_KEY(name, type, summary, example, read_value)     \
  Key<ExpectWorkload> {                                                  \
    {#name, type, summary, example},                                     \
        [](const Value& value, ExpectWorkload& expect) -> Result<void> { \
          TRY(expect.name, read_value);                                  \
          return success();                                              \
        }                                                                \
  }

constexpr std::array kWorkloadKeys = {
    Key<ExpectWorkload>{{"state", "name",
                         "`granted`; `promised`: room that is being freed is kept for "
                         "it; `waiting`; `never`: no release can help; `ended`: no longer known",
                         "granted"},
                        read_state},
    BERTH_WORKLOAD_KEY(on, "list of device",
                       "the devices of its grant or promise, container by "
                       "container in grant order",
                       "[n0/g0, n0/g1]", read_plain_names(value)),
    BERTH_WORKLOAD_KEY(node, "name", "the node of its grant or promise", "n0", value.word()),
    BERTH_WORKLOAD_KEY(request, "memory", "what each device of the grant gives it", "20389MiB",
                       value.memory()),
    BERTH_WORKLOAD_KEY(limit, "memory", "its burst limit on each device", "40779MiB",
                       value.memory()),
    BERTH_WORKLOAD_KEY(cause, "name", "the verdict's cause, or why it ended", "InsufficientMemory",
                       read_cause(value)),
    BERTH_WORKLOAD_KEY(stage, "name", "the first stage that failed", "device", value.word()),
    BERTH_WORKLOAD_KEY(reason, "name", "the reason a pod shows", "Unschedulable", value.word()),
    BERTH_WORKLOAD_KEY(need, "memory", "what the verdict says is needed on one device", "40GiB",
                       value.memory()),
    BERTH_WORKLOAD_KEY(largest_free, "memory", "the largest free block it names", "30GiB",
                       value.memory()),
    BERTH_WORKLOAD_KEY(largest_free_on, "device", "and where that is", "n3/g0", value.word()),
    BERTH_WORKLOAD_KEY(free_total, "memory", "free memory on all devices it looked at", "180GiB",
                       value.memory()),
    BERTH_WORKLOAD_KEY(fragmentation, "number",
                       "1000 less thousandths of the free memory that are in "
                       "the largest block",
                       "834", value.number(0, 1000)),
    Key<ExpectWorkload>{{"nodes", "map of number", "how many nodes said no, by cause; all of them",
                         "{InsufficientMemory: 20, UntoleratedTaint: 4}"},
                        read_node_counts},
    BERTH_WORKLOAD_KEY(position, "number", "its place in the order of waiting, from 0", "0",
                       value.number(0, 1'000'000'000)),
    BERTH_WORKLOAD_KEY(priority, "number", "its priority with what waiting added", "104",
                       value.number(-1'000'000'000'000, 1'000'000'000'000)),
    Key<ExpectWorkload>{{"eta", "duration",
                         "the time of the scenario at which it will start, from "
                         "declared ends; or `unknown`",
                         "80s"},
                        read_eta},
    Key<ExpectWorkload>{{"since", "duration", "the time since which it waits or runs", "10s"},
                        [](const Value& value, ExpectWorkload& expect) -> Result<void> {
                          TRY(const Duration since, value.duration());
                          expect.since = Time{since.count()};
                          return success();
                        }},
    BERTH_WORKLOAD_KEY(summary, "text", "the verdict's sentence, whole; devices as `g1`",
                       "\"needs 50 MiB on one GPU; largest free is 40 MiB (n0/g1)\"", value.word()),
    BERTH_WORKLOAD_KEY(says, "list of text",
                       "parts of the verdict's message: sentence and counts of "
                       "nodes",
                       "\"largest free is 40 MiB\"", read_texts(value)),
    BERTH_WORKLOAD_KEY(
        would_help, "list of text",
        "changes that it names, each alone sufficient: `free "
        "SIZE on DEVICE`, `free N devices on NODE`, `evict NAME`, `wait for NAME until TIME`, "
        "`ask for SIZE`, `add a node`",
        "free 10MiB on n0/g1", read_texts(value)),
    Key<ExpectWorkload>{
        {"gang", "map", "the members of a gang: 'expect gang'", "{min: 4, exist: 4, placeable: 3}"},
        read_gang_counts},
    Key<ExpectWorkload>{{"quota", "map of map",
                         "queues from its own up to the root, by name, then by dimension: 'expect "
                         "quota'; others may stand there too",
                         "{team-a: {\"*/devices\": {used: 1.5, need: 1, short: 0.5}}}"},
                        read_quota_rows},
    Key<ExpectWorkload>{{"topology", "map", "the nearest domain: 'expect topology'",
                         "{level: rack, best: r2, fits: 3, need: 4}"},
                        read_topology_fit},
    Key<ExpectWorkload>{{"preemption", "map", "what could have left: 'expect preemption'",
                         "{considered: 5, priority: 3}"},
                        read_preemption},
    BERTH_WORKLOAD_KEY(annotations, "map of text",
                       "of pods: annotations that its binding wrote; checked where pods are played",
                       "{berth.dev/main.memory-request-mib: \"4096\"}", read_words_by_name(value)),
    Key<ExpectWorkload>{{"env", "map of map",
                         "of pods: by container, variables that it starts with; checked where pods "
                         "are played with admission",
                         "{main: {NVIDIA_VISIBLE_DEVICES: GPU-1a2b}}"},
                        [](const Value& value, ExpectWorkload& expect) -> Result<void> {
                          TRY(auto entries, value.entries());
                          for (const auto& [container, variables] : entries) {
                            TRY(expect.env[container.text], read_words_by_name(variables));
                          }
                          return success();
                        }},
    BERTH_WORKLOAD_KEY(search_complete, "true or false",
                       "whether everything was tried; `false`: the budget of the search ended",
                       "true", value.truth()),
};
#undef BERTH_WORKLOAD_KEY

// "granted on n0/g1, n0/g2" or "waiting InsufficientMemory": the short form.
Result<void> read_short(const Value& value, ExpectWorkload& expect) {
  TRY(const std::string text, value.word());
  const std::size_t blank = text.find(' ');
  yaml::Node state_node;
  state_node.kind = yaml::NodeKind::scalar;
  state_node.text = text.substr(0, blank);
  state_node.line = value.place().line;
  state_node.column = value.place().column;
  TRY_VOID(read_state(value.inner(state_node, value.field()), expect));
  if (blank == std::string::npos) return success();
  std::string rest = text.substr(blank + 1);
  if (rest.starts_with("on ")) {
    expect.on.emplace();
    for (std::size_t at = 3; at <= rest.size();) {
      const std::size_t comma = std::min(rest.find(", ", at), rest.size());
      expect.on->push_back(rest.substr(at, comma - at));
      at = comma + 2;
    }
    return success();
  }
  yaml::Node cause_node = state_node;
  cause_node.text = rest;
  TRY(expect.cause, read_cause(value.inner(cause_node, value.field())));
  return success();
}

Result<void> read_workloads(const Value& value, Expect& expect) {
  TRY(auto entries, value.entries());
  for (const auto& [name, wanted] : entries) {
    ExpectWorkload workload;
    if (wanted.node().is_scalar()) {
      TRY_VOID(read_short(wanted, workload));
    } else {
      TRY_VOID(read_section(expect_workload_section(), wanted, workload));
    }
    auto names = expand_names(name.text);
    if (!names.ok()) return wanted.error(names.error().message());
    for (std::string& uid : *names) {
      workload.uid = {std::move(uid), name.place};
      expect.workloads.push_back(workload);
    }
  }
  return success();
}

Result<void> read_device_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(device_figures(), value, expect);
}

Result<void> read_node_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(node_figures(), value, expect);
}

template <const Section<ExpectFigures>& (*kSection)()>
Result<std::vector<ExpectFigures>> read_pages(const Value& value) {
  TRY(auto entries, value.entries());
  std::vector<ExpectFigures> pages;
  for (const auto& [name, figures] : entries) {
    ExpectFigures page{.subject = name, .figures = {}};
    TRY_VOID(read_section(kSection(), figures, page));
    pages.push_back(std::move(page));
  }
  return pages;
}

constexpr std::array kExpectKeys = {
    Key<Expect>{{"workloads", "map of workload",
                 "by name (`job-1..3` for several): the keys of "
                 "'expect workload', or in short `granted on n0/g1`, `waiting InsufficientMemory`",
                 "{train: granted on n0/g1}"},
                read_workloads},
    Key<Expect>{{"devices", "map of device figures", "what the ledger says of devices",
                 "{n0/g1: {headroom: 50MiB, use: shared}}"},
                [](const Value& value, Expect& expect) -> Result<void> {
                  TRY(expect.devices, read_pages<expect_device_section>(value));
                  return success();
                }},
    Key<Expect>{{"nodes", "map of node figures", "what the ledger says of nodes",
                 "{n0: {cpu_free: 60000}}"},
                [](const Value& value, Expect& expect) -> Result<void> {
                  TRY(expect.nodes, read_pages<expect_node_section>(value));
                  return success();
                }},
    Key<Expect>{
        {"queues", "map of map", "the quota tree: by queue, then by dimension, 'queue figures'",
         "{team-a: {\"*/devices\": {alloc: 2, share: 3}}}"},
        read_queue_pages},
    Key<Expect>{{"domains", "list of expect domains", "whether workloads stand together",
                 "{level: rack, of: job/worker-0..3, count: 1}"},
                read_domains},
    Key<Expect>{{"evictions", "map of eviction",
                 "all that were told to leave in this step so far, in any order, by name: the keys "
                 "of 'expect eviction', or in short `fairShare for claim`; `none`",
                 "{train-1: fairShare for claim}"},
                read_evictions},
    Key<Expect>{{"order", "list of name", "all that wait, in the order in which they are tried",
                 "[large, small]"},
                [](const Value& value, Expect& expect) -> Result<void> {
                  TRY(auto names, read_plain_names(value));
                  expect.order.emplace(value.place(), std::move(names));
                  return success();
                }},
    Key<Expect>{{"decisions", "list of text",
                 "all decisions of this step so far, in order: `granted "
                 "NAME`, `promised NAME`, `retracted NAME`, `lost NAME`, `evicted NAME`, `moved "
                 "NAME`, `ended NAME`",
                 "[granted train]"},
                [](const Value& value, Expect& expect) -> Result<void> {
                  TRY(auto texts, read_texts(value));
                  expect.decisions.emplace(value.place(), std::move(texts));
                  return success();
                }},
    Key<Expect>{
        {"notices", "list of text",
         "all notices of this step so far, in order: `overuse`, "
         "`foreign-changed`, `promise-at-risk`, `clock-skew` or `refused-event`, then the task or "
         "device it is about",
         "[overuse train]"},
        [](const Value& value, Expect& expect) -> Result<void> {
          TRY(auto texts, read_texts(value));
          expect.notices.emplace(value.place(), std::move(texts));
          return success();
        }},
    Key<Expect>{
        {"actions", "number", "how many answers of any kind the step has caused so far", "0"},
        [](const Value& value, Expect& expect) -> Result<void> {
          TRY(const std::int64_t count, value.number(0, 1'000'000'000));
          expect.actions.emplace(value.place(), count);
          return success();
        }},
};

constexpr Section<ExpectWorkload> kExpectWorkload{
    "expect workload", "What must be true of one task. Keys that are left out may be anything.",
    kWorkloadKeys};
constexpr Section<Expect> kExpect{
    "expect",
    "What must be true at this point of the step. Keys that are left out may be anything.",
    kExpectKeys};

}  // namespace

const Section<Expect>& expect_section() { return kExpect; }

const Section<ExpectWorkload>& expect_workload_section() { return kExpectWorkload; }

const Section<ExpectFigures>& expect_device_section() {
  static const std::vector<Key<ExpectFigures>> keys =
      figure_keys(device_figures(), read_device_figure);
  static const Section<ExpectFigures> section{"device figures", "The ledger's page of one device.",
                                              keys};
  return section;
}

const Section<ExpectFigures>& expect_node_section() {
  static const std::vector<Key<ExpectFigures>> keys = figure_keys(node_figures(), read_node_figure);
  static const Section<ExpectFigures> section{"node figures", "The ledger's page of one node.",
                                              keys};
  return section;
}

Result<void> read_expect(const Value& value, Step& step) {
  Expect expect{.place = value.place()};
  TRY_VOID(read_section(expect_section(), value, expect));
  step.deeds.emplace_back(std::move(expect));
  return success();
}

}  // namespace berth::scenario
