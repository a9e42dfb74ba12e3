#include "core/placement/member_counts.h"

#include <algorithm>

#include "base/assert.h"

namespace berth::core {

void MemberCounts::add(DomainId home, std::int64_t members) {
  if (sums_.size() < domains_->slots()) {
    sums_.resize(domains_->slots());
  }
  for (DomainId id = home; !id.is_none(); id = domains_->parent(id)) {
    sums_[id.index()] += members;
  }
}

void MemberCounts::set(NodeId node, const NodeRoom& room) {
  if (leaves_.size() <= node.index()) {
    leaves_.resize(node.index() + 1);
  }
  Leaf& leaf = leaves_[node.index()];
  add(leaf.home, -leaf.room.members);
  leaf.home = domains_->home(node);
  leaf.room = leaf.home.is_none() ? NodeRoom{} : room;
  ASSERT(leaf.room.members >= 0 && leaf.room.with_leader >= kNoRoom, leaf.room.members,
         leaf.room.with_leader);
  add(leaf.home, leaf.room.members);
}

NodeRoom MemberCounts::at(NodeId node) const {
  return node.index() < leaves_.size() ? leaves_[node.index()].room : NodeRoom{};
}

std::int64_t MemberCounts::members(DomainId domain) const {
  return domain.index() < sums_.size() ? sums_[domain.index()] : 0;
}

void MemberCounts::verify() const {
  std::vector<std::int64_t> sums(domains_->slots());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    ASSERT(leaves_[i].home == domains_->home(NodeId(i)), i);
    for (DomainId id = leaves_[i].home; !id.is_none(); id = domains_->parent(id)) {
      sums[id.index()] += leaves_[i].room.members;
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    ASSERT(sums[i] == members(DomainId(i)), i, sums[i], members(DomainId(i)));
  }
}

}  // namespace berth::core
