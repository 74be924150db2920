#include "daemon/engine/probing/probe_table.h"

#include <algorithm>
#include <utility>

namespace onecopy::engine {
namespace {

using Kind = ProbeOutcome::Kind;

constexpr size_t kMaxEntries = 8192;

void Expire(ProbeTable::Entry& entry) {
  entry.expires = {};
  entry.failures = 0;
}

}  // namespace

ProbeTable::State ProbeTable::Entry::state() const {
  if (!outcome) return State::kAbsent;
  if (os::Clock::now() < expires) return State::kFresh;
  return outcome->kind == Kind::kMeasured ? State::kStale : State::kAbsent;
}

ProbeTable::Entry* ProbeTable::Ensure(const Key& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  if (entries_.size() >= kMaxEntries) {
    std::erase_if(entries_, [](const auto& e) {
      return !e.second.queued && !e.second.running && e.second.state() != State::kFresh;
    });
    if (entries_.size() >= kMaxEntries) return nullptr;
  }
  return &entries_[key];
}

const ProbeTable::Entry* ProbeTable::Find(const Key& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

plan::Estimates ProbeTable::EstimatesFor(const std::string& node) const {
  plan::Estimates estimates;
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.node != node) break;
    const State state = entry.state();
    if (state == State::kAbsent || entry.outcome->kind == Kind::kUnknown) continue;
    const ProbeOutcome& outcome = *entry.outcome;
    const auto no = [](const Status& why) {
      return Viability::No(why.reason(), why.message(), why.remedy());
    };
    if (outcome.kind == Kind::kMeasured) {
      estimates.MeasuredWire(key.wire, outcome.bytes_per_second, outcome.latency_seconds,
                             entry.time);
    } else {
      estimates.FailedWire(key.wire, no(outcome.why));
    }
    for (const auto& pair : outcome.pairs) {
      if (!pair.failure.ok() && state != State::kFresh) continue;  // it may work again
      estimates.ProbedPair(key.wire, pair.source_nic, pair.destination_nic,
                           {pair.failure.ok() ? Viability() : no(pair.failure),
                            pair.failure.ok() ? pair.bytes_per_second : 0});
    }
  }
  return estimates;
}

std::vector<ProbeInfo> ProbeTable::Describe(const std::string& node) const {
  std::vector<ProbeInfo> all;
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.node != node) break;
    if (!entry.outcome) continue;
    const ProbeOutcome& outcome = *entry.outcome;
    ProbeInfo info;
    info.node = key.node;
    info.link = key.wire.link;
    info.source_memory = key.wire.source.kind;
    info.source_device = key.wire.source.device;
    info.destination_memory = key.wire.destination.kind;
    info.destination_device = key.wire.destination.device;
    info.time = entry.time;
    info.expire_time = entry.expire_time;
    const auto add = [&](const Status& why, double rate, double latency) {
      info.viability =
          why.ok() ? Viability() : Viability::No(why.reason(), why.message(), why.remedy());
      info.bytes_per_second = why.ok() ? rate : 0;
      info.latency_seconds = why.ok() ? latency : 0;
      all.push_back(info);
    };
    add(outcome.why, outcome.bytes_per_second, outcome.latency_seconds);
    for (const auto& pair : outcome.pairs) {
      info.source_nic = pair.source_nic;
      info.destination_nic = pair.destination_nic;
      add(pair.failure, pair.bytes_per_second, pair.latency_seconds);
    }
  }
  return all;
}

void ProbeTable::LinkChanged(const std::string& link, const std::string& self) {
  for (auto& [key, entry] : entries_) {
    if (key.wire.link != link) continue;
    Expire(entry);
    if (key.node == self) entry.outcome.reset();
  }
}

void ProbeTable::PeerChanged(const std::string& node, const NodeCapability& before,
                             const NodeCapability& now) {
  // What a link says of its memories changes with every probe there.
  const auto unlike = [&](const std::string& name) {
    const LinkCapability* old = before.FindLink(name);
    const LinkCapability* fresh = now.FindLink(name);
    if (old == nullptr || fresh == nullptr) return old != fresh;
    return !std::equal(old->nics.begin(), old->nics.end(), fresh->nics.begin(), fresh->nics.end(),
                       [](const NicCapability& a, const NicCapability& b) {
                         return a.name == b.name && a.address == b.address &&
                                a.viability == b.viability;
                       });
  };
  std::map<std::string, bool> changed;
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    if (at->first.node != node) break;
    const std::string& link = at->first.wire.link;
    const auto known = changed.try_emplace(link, false);
    if (known.second) known.first->second = unlike(link);
    if (known.first->second) Expire(at->second);
  }
}

void ProbeTable::PeerRestarted(const std::string& node) {
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    if (at->first.node != node) break;
    Expire(at->second);
    at->second.outcome.reset();
  }
}

}  // namespace onecopy::engine
