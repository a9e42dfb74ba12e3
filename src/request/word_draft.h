// What words have said so far, before it is checked as a whole. Private to src/request.
//
// The table (word_table.cc) reads one word into a draft; words.cc judges the draft and builds the
// request. Thread-safety: values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/request.h"
#include "request/words.h"

namespace berth::request {

struct ContainerDraft {
  std::string name = "main";
  core::ContainerKind kind = core::ContainerKind::app;
  std::optional<Milli> cpu;
  std::optional<Memory> ram;

  std::optional<Memory> memory;
  std::optional<Memory> memory_limit;
  std::optional<Nano> fraction;
  std::optional<Nano> fraction_limit;
  std::optional<int> whole;
  std::optional<int> shared;
  std::optional<std::string> mig;
  std::optional<int> count;
  core::DeviceAsk ask;  // mode, compute and constraints; no size

  std::vector<const Word*> limits;  // pod form: entries of `limits`
  const Word* limits_word = nullptr;
  std::map<std::string_view, const Word*> seen;  // by the table's name
};

struct TaskDraft {
  core::NodeConstraints nodes;
  std::vector<const Word*> annotations;  // entries of `annotations`
  const Word* annotations_word = nullptr;
  std::vector<ContainerDraft> containers;
};

// Where a word lands: the task, and the container whose word it is (`main` at the top).
struct DraftTarget {
  TaskDraft& task;
  ContainerDraft& container;
};

// Reads one word; empty = fine.
using WordReader = std::optional<Complaint> (*)(const Word& word, DraftTarget target);

// The reader of a word of the table. Requires: rule is one of word_rules().
WordReader reader_of(const WordRule& rule);

// "gpu_memory, gpu_fraction, …": the texts of a list, or of a text with commas. Errors: BadValue.
Parsed<std::vector<std::string>> texts_of(const Word& word);

// A requirement on a node's labels, as `kubectl get -l` writes it: "a=b", "a!=b", "a in (b, c)",
// "a notin (b)", "a", "!a", "a > 5", "a < 5". Errors: BadValue.
Parsed<core::LabelRule> parse_label_rule(std::string_view text);

// A toleration, as `kubectl taint` writes the taint: "key", "key=value", "key:Effect",
// "key=value:Effect"; "*" tolerates every taint. Errors: BadValue.
Parsed<core::Toleration> parse_toleration(std::string_view text);

}  // namespace berth::request
