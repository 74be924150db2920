// Remembers requests, so that a repeated one is not carried out twice.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/history.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/request_memory.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

// Remembers what each owner's latest requests with an id asked for, and what they made (an `Id`),
// and for longer that they were carried out. A request that failed is forgotten, so that it can be
// tried again. Engine thread.
template <typename Id>
class RequestLog {
 public:
  // `kind` tells the ids of one kind of request from another's.
  RequestLog(RequestMemory& memory, std::string kind)
      : memory_(memory), kind_(std::move(kind)), latest_(memory.ledger(), kLatest) {}

  // What a request with an id should do.
  enum class Action { kProceed, kRepeat, kWait };
  struct Seen {
    Action action = Action::kProceed;
    std::optional<Id> made;  // kRepeat: what the first one made
  };

  // kProceed: new, and to be concluded. kWait: the first one is under way; `when_known` runs once
  // it is concluded, with what it made or with its failure. INVALID_ARGUMENT (REQUEST_ID_REUSED)
  // for an id that came with another content; ALREADY_EXISTS (REQUEST_FORGOTTEN) for one that was
  // carried out, of which no more is known; RESOURCE_EXHAUSTED (QUOTA) where no more can be
  // remembered. An empty id always proceeds.
  Result<Seen> Begin(const Owner& who, bool administrator, const std::string& request_id,
                     const std::string& content, Reply<Id> when_known) {
    if (request_id.empty()) return Seen{};
    const Key key{who, request_id};
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (memory_.Knows(who, memory_.Digest(kind_, request_id))) return Forgotten(request_id);
      ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge room, memory_.Take(who, administrator));
      Entry& entry = entries_[key];
      entry.content = memory_.ContentOf(content);
      entry.room = std::move(room);
      return Seen{};
    }
    Entry& entry = found->second;
    if (entry.content != memory_.ContentOf(content)) {
      return Status(Code::kInvalidArgument, reasons::kRequestIdReused,
                    "request id \"" + request_id + "\" was used before for another request",
                    "give each request its own id");
    }
    if (entry.made) return Seen{Action::kRepeat, entry.made};
    entry.waiting.push_back(std::move(when_known));
    return Seen{Action::kWait, std::nullopt};
  }

  void Conclude(const Owner& who, const std::string& request_id, const Result<Id>& outcome) {
    const Key key{who, request_id};
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.made) return;
    std::vector<Reply<Id>> waiting;
    waiting.swap(found->second.waiting);
    if (outcome.ok()) {
      found->second.made = *outcome;
      memory_.Remember(who, memory_.Digest(kind_, request_id), std::move(found->second.room));
      for (const Key& oldest : latest_.Add(who, key, kBytes).forgotten) entries_.erase(oldest);
    } else {
      entries_.erase(found);
    }
    for (Reply<Id>& reply : waiting) reply(outcome);
  }

  // A previous process carried the request out.
  void Remember(const Owner& who, const std::string& request_id, const std::string& content,
                const Id& made) {
    if (request_id.empty()) return;
    const auto seen = Begin(who, true, request_id, content, [](const auto&) {});
    if (seen.ok()) Conclude(who, request_id, made);
  }

  // The request was carried out, and must not be again.
  static Status Forgotten(const std::string& request_id) {
    return {Code::kAlreadyExists, reasons::kRequestForgotten,
            "request \"" + request_id + "\" was carried out, and its result is no longer known",
            "check whether its change was made; if not, repeat it under another id"};
  }

 private:
  static constexpr size_t kLatest = 4096;  // of one owner
  static constexpr uint64_t kBytes = 512;  // of one, in all tables together
  using Key = std::pair<Owner, std::string>;
  struct Entry {
    RequestMemory::Content content;
    std::optional<Id> made;
    std::vector<Reply<Id>> waiting;
    Ledger::Charge room;  // while it is under way
  };

  RequestMemory& memory_;
  const std::string kind_;
  std::map<Key, Entry> entries_;
  History<Key> latest_;
};

}  // namespace onecopy::engine
