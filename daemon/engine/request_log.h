// Requests that clients may repeat without doing a thing twice.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/owners.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {

// Remembers what the latest requests with an id asked for, and what they made (an `Id`). A request
// that failed is forgotten, so that it can be tried again. Engine thread.
template <typename Id>
class RequestLog {
 public:
  // What a request with an id should do.
  enum class Action { kProceed, kRepeat, kWait };
  struct Seen {
    Action action = Action::kProceed;
    std::optional<Id> made;  // kRepeat: what the first one made
  };

  // kProceed: new, and to be concluded by Made or Failed. kWait: the first one is under way;
  // `when_known` runs once it is concluded, with what it made or with its failure. INVALID_ARGUMENT
  // (REQUEST_ID_REUSED) for an id that came with another content. An empty id always proceeds.
  Result<Seen> Begin(const Owner& who, const std::string& request_id, const std::string& content,
                     Reply<Id> when_known) {
    if (request_id.empty()) return Seen{};
    const Key key{who, request_id};
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      Forget();
      entries_[key].content = content;
      order_.push_back(key);
      return Seen{};
    }
    Entry& entry = found->second;
    if (entry.content != content) {
      return Status(Code::kInvalidArgument, reasons::kRequestIdReused,
                    "request id \"" + request_id + "\" was used before for another request",
                    "give each request an id of its own");
    }
    if (entry.made) return Seen{Action::kRepeat, entry.made};
    entry.waiting.push_back(std::move(when_known));
    return Seen{Action::kWait, std::nullopt};
  }

  void Conclude(const Owner& who, const std::string& request_id, const Result<Id>& outcome) {
    const auto found = entries_.find(Key{who, request_id});
    if (found == entries_.end() || found->second.made) return;
    std::vector<Reply<Id>> waiting;
    waiting.swap(found->second.waiting);
    if (outcome.ok()) {
      found->second.made = *outcome;
    } else {
      entries_.erase(found);
    }
    for (Reply<Id>& reply : waiting) reply(outcome);
  }

 private:
  static constexpr size_t kMost = 4096;
  using Key = std::pair<Owner, std::string>;
  struct Entry {
    std::string content;
    std::optional<Id> made;
    std::vector<Reply<Id>> waiting;
  };

  // The oldest go first; one that is still under way stays until it is concluded.
  void Forget() {
    while (order_.size() >= kMost) {
      const auto oldest = entries_.find(order_.front());
      if (oldest != entries_.end() && !oldest->second.made) return;
      if (oldest != entries_.end()) entries_.erase(oldest);
      order_.pop_front();
    }
  }

  std::map<Key, Entry> entries_;
  std::deque<Key> order_;
};

}  // namespace onecopy::engine
