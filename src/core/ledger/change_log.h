// ChangeLog: which nodes changed, and when: what lets a reader refresh only what is stale.
//
// A ring of node ids in order of change. A reader remembers the sequence up to which it has read;
// an entry is stale (skip it) when its node changed again later. A reader that fell behind the ring
// compares last_change() of every node instead.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/model/ids.h"

namespace berth::core {

class ChangeLog {
 public:
  std::uint64_t end() const { return end_; }
  // The earliest entry that is still here.
  std::uint64_t begin() const {
    return std::max(kept_from_, end_ > ring_.size() ? end_ - ring_.size() : 0);
  }

  NodeId at(std::uint64_t sequence) const { return ring_[sequence & (ring_.size() - 1)]; }
  // Sequence number of the node's last change; 0 = never.
  std::uint64_t last_change(NodeId node) const { return last_[node.index()]; }
  bool is_latest(std::uint64_t sequence) const {
    return last_[at(sequence).index()] == sequence + 1;
  }
  bool changed_since(NodeId node, std::uint64_t sequence) const {
    return last_[node.index()] > sequence;
  }

  void add_node() {
    last_.push_back(0);
    if (ring_.size() < 2 * last_.size()) {
      grow();
    }
  }
  void mark(NodeId node) {
    ring_[end_ & (ring_.size() - 1)] = node;
    last_[node.index()] = ++end_;
  }

 private:
  // Entries are found by their sequence modulo the size, so growing moves them. What the smaller
  // ring had lost stays lost.
  void grow() {
    kept_from_ = begin();
    std::size_t size = 1024;
    while (size < 4 * last_.size()) {
      size *= 2;
    }
    std::vector<NodeId> bigger(size);
    for (std::uint64_t sequence = begin(); sequence < end_; ++sequence) {
      bigger[sequence & (size - 1)] = at(sequence);
    }
    ring_ = std::move(bigger);
  }

  std::vector<NodeId> ring_ = std::vector<NodeId>(1024);
  std::vector<std::uint64_t> last_;  // by NodeId
  std::uint64_t end_ = 0;
  std::uint64_t kept_from_ = 0;
};

}  // namespace berth::core
