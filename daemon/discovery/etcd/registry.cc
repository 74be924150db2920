#include "daemon/discovery/etcd/registry.h"

#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

constexpr size_t kMaxKeyBytes = 1024;
constexpr size_t kMaxClaims = 16;
constexpr size_t kMaxKeysTold = 64;

}  // namespace

void Registry::Clear() {
  nodes_.clear();
  claims_.clear();
  refused_.clear();
  beyond_ = 0;
  has_holder_ = false;
  held_by_ = {};
}

bool Registry::HasRoom() const { return nodes_.size() + refused_.size() < kMaxKeys; }

bool Registry::MissesSome() const {
  return beyond_ > 0 && nodes_.size() + refused_.size() <= kMaxKeys / 2;
}

void Registry::Refuse(std::string key, const Status& why) {
  if (told_.size() < kMaxKeysTold && told_.insert(key).second) {
    log::Warning("an entry in etcd is ignored", {{"key", key}, {"why", why.message()}});
  }
  refused_.insert(std::move(key));
}

void Registry::Put(std::string_view key, std::string_view value) {
  Delete(key);
  const ParsedKey parsed = ParseKey(prefix_, key.substr(0, kMaxKeyBytes + 1));
  const bool own_name = parsed.name == own_.name;
  // What concerns this node's own name always counts.
  if (key.size() > kMaxKeyBytes || (!HasRoom() && !own_name)) {
    ++beyond_;
    return;
  }
  if (!parsed.instance.empty() && (!own_name || parsed.instance == own_.instance)) return;
  Result<Value> read = parsed.name.empty() ? Status(Code::kInvalidArgument, reasons::kBadName,
                                                    "the key does not end with a node's name")
                                           : ParseValue(value);
  if (read.ok() && read->name != parsed.name) {
    read = Status(Code::kInvalidArgument, reasons::kBadName,
                  "the value is for another node than the key");
  }
  if (!parsed.instance.empty()) {
    if (read.ok() && claims_.size() < kMaxClaims) claims_.emplace(key, *std::move(read));
    return;
  }
  if (own_name) {
    // What nobody can read is in nobody's way, unless it is a newer daemon's.
    has_holder_ = read.ok() || read.status().code() == Code::kUnimplemented;
    held_by_ = read.ok() ? *read : Value{};
  }
  if (!read.ok()) return Refuse(std::string(key), read.status());
  nodes_.emplace(key, *std::move(read));
}

void Registry::Delete(std::string_view key) {
  const std::string text(key);
  nodes_.erase(text);
  claims_.erase(text);
  refused_.erase(text);
  if (text == NodeKey(prefix_, own_.name)) {
    has_holder_ = false;
    held_by_ = {};
  }
}

Registry::Holder Registry::holder() const {
  if (!has_holder_) return Holder::kNone;
  if (held_by_.instance == own_.instance) return Holder::kThis;
  return held_by_.address == own_.address ? Holder::kEarlier : Holder::kOther;
}

std::vector<Value> Registry::claims() const {
  std::vector<Value> all;
  for (const auto& [key, claim] : claims_) all.push_back(claim);
  return all;
}

Snapshot Registry::Now() const {
  Snapshot snapshot;
  snapshot.refused = refused_.size() + beyond_;
  for (const auto& [key, value] : nodes_) {
    if (snapshot.entries.size() >= kMaxEntries) {
      ++snapshot.refused;
    } else if (value.name != own_.name) {
      snapshot.entries.push_back({value.name, value.address});
    }
  }
  return snapshot;
}

}  // namespace onecopy::discovery
