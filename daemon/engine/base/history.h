// What is remembered of each owner's past: nobody's fills the memory that is another's.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/owners.h"

namespace onecopy::engine {

// Engine thread. Owners count as who pays for them. Each has room of its own, and all owners that
// were met at one node have room together: where that is used up, who remembers most forgets first.
template <typename Id>
class History {
 public:
  explicit History(size_t each) : each_(each) {}

  // Files the newest, and returns what is to be forgotten for it, which may be itself.
  std::vector<Id> Add(const Owner& of, Id id) {
    const Owner owner = PayerOf(of);
    std::vector<Id> forgotten;
    if (each_ == 0) {
      forgotten.push_back(std::move(id));
      return forgotten;
    }
    Group& group = groups_[owner.node];
    std::deque<Id>& mine = group.of[owner];
    group.by_size.erase({mine.size(), owner});
    mine.push_back(std::move(id));
    group.by_size.insert({mine.size(), owner});
    ++group.all;
    if (mine.size() > each_) ForgetOldest(group, owner, &forgotten);
    if (group.all > each_ * kOwnersWorth) {
      ForgetOldest(group, Owner(group.by_size.rbegin()->second), &forgotten);
    }
    return forgotten;
  }

 private:
  // How many owners of one node have all the room that is theirs.
  static constexpr size_t kOwnersWorth = 16;

  struct Group {
    std::map<Owner, std::deque<Id>> of;
    std::set<std::pair<size_t, Owner>> by_size;
    size_t all = 0;
  };

  void ForgetOldest(Group& group, const Owner& owner, std::vector<Id>* forgotten) {
    const auto of = group.of.find(owner);
    group.by_size.erase({of->second.size(), owner});
    forgotten->push_back(std::move(of->second.front()));
    of->second.pop_front();
    --group.all;
    if (of->second.empty()) {
      group.of.erase(of);
    } else {
      group.by_size.insert({of->second.size(), owner});
    }
  }

  const size_t each_;
  std::map<std::string, Group> groups_;  // by node
};

}  // namespace onecopy::engine
