// What probes have found, for the planner and for people, and what makes it old.
#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probes.h"

namespace onecopy::engine {
namespace {

using Kind = ProbeOutcome::Kind;

}  // namespace

plan::Estimates Probes::EstimatesFor(const std::string& peer) const {
  plan::Estimates estimates;
  for (auto at = entries_.lower_bound({peer, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.node != peer) break;
    const State state = StateOf(entry);
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
  path_rates_.AddTo(estimates, peer);
  return estimates;
}

std::vector<ProbeInfo> Probes::Describe(const std::string& node) const {
  std::vector<ProbeInfo> all;
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.node != node) break;
    if (!entry.outcome) continue;
    const ProbeOutcome& outcome = *entry.outcome;
    ProbeInfo info;
    info.peer = key.node;
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

uint64_t Probes::slow_transfers(const std::string& node) const {
  const auto found = slow_.find(node);
  return found == slow_.end() ? 0 : found->second;
}

void Probes::Expire(Entry& entry) {
  entry.expires = {};
  entry.failures = 0;
}

void Probes::LinkChanged(const std::string& link) {
  for (auto& [key, entry] : entries_) {
    if (key.wire.link != link) continue;
    Expire(entry);
    if (IsOwn(key)) entry.outcome.reset();
  }
  catalog_.ForgetNicMemories(link);
}

void Probes::PeerChanged(const std::string& node, const NodeCapability& before,
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

void Probes::PeerRestarted(const std::string& node) {
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    if (at->first.node != node) break;
    Expire(at->second);
    at->second.outcome.reset();
  }
}

}  // namespace onecopy::engine
