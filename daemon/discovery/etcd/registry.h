// What is in etcd below the prefix, as far as it was told: entries of nodes, claims to this node's
// name, and what is neither.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "daemon/discovery/etcd/value.h"

namespace onecopy::discovery {

// Keys that are kept track of; more are counted until all is read again.
inline constexpr size_t kMaxKeys = 16'384;

// One thread. Takes whatever is written there: what is no entry is counted, and logged once.
class Registry {
 public:
  // `own`: what this node writes about itself.
  Registry(std::string prefix, Value own) : prefix_(std::move(prefix)), own_(std::move(own)) {}

  void Clear();
  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  // There are more keys, which were not read.
  void LeaveOutRest() { ++beyond_; }
  bool full() const { return !HasRoom(); }
  // Whether keys were left out, of which many would find room now.
  bool MissesSome() const;

  // What is at this node's key: nothing (or nothing that anybody could use), what this daemon
  // wrote, what an earlier run of it wrote (the address is equal, which two cannot listen on), or
  // another one's.
  enum class Holder { kNone, kThis, kEarlier, kOther };
  Holder holder() const;
  // With kEarlier and kOther; the address is empty where its value is of another version.
  const Value& held_by() const { return held_by_; }
  // The others that claim this node's name.
  std::vector<Value> claims() const;

  // Entries of all nodes, by name, without conflicts.
  Snapshot Now() const;

 private:
  void Refuse(std::string key, const Status& why);
  bool HasRoom() const;

  const std::string prefix_;
  const Value own_;
  std::map<std::string, Value> nodes_;   // by key
  std::map<std::string, Value> claims_;  // by key; of this node's name, and not its own
  std::set<std::string> refused_;        // keys
  uint64_t beyond_ = 0;                  // those that found no room
  bool has_holder_ = false;
  Value held_by_;
  std::set<std::string> told_;
};

}  // namespace onecopy::discovery
