#include "daemon/engine/peering/admission.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/names.h"
#include "onecopy/reasons.h"
#include "transport/core/base/glob.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxMet = 4096;  // of this machine, and of others

bool IsOnLoopback(const PeerOptions& peer) {
  const auto addresses = os::ParseHostPorts(peer.address);
  return addresses.ok() && std::all_of(addresses->begin(), addresses->end(),
                                       [](const auto& one) { return os::IsLoopback(one.host); });
}

Status Refused(std::string message, std::string remedy) {
  return {Code::kPermissionDenied, reasons::kAccessDenied, std::move(message), std::move(remedy)};
}

// Discovery says where nodes are, and nothing of what they may do.
std::vector<PeerOptions> WithRights(std::vector<PeerOptions> peers) {
  std::erase_if(peers, [](const PeerOptions& peer) { return peer.discovered; });
  return peers;
}

}  // namespace

Admission::Admission(const Options& options)
    : node_(options.node),
      own_domain_(options.uid_domain),
      loopback_only_(options.loopback_only),
      names_proven_(options.names_proven),
      peers_(WithRights(options.peers)) {}

void Admission::Configure(std::vector<PeerOptions> peers) {
  peers_ = WithRights(std::move(peers));
  std::erase_if(met_, [this](const auto& met) {
    return !met.second.local && ByPattern(met.first) == nullptr;
  });
}

void Admission::Forget(const std::string& node) {
  const auto met = met_.find(node);
  if (met != met_.end() && !met->second.local) met_.erase(met);
}

void Admission::Meet(const std::string& node, bool local) {
  size_t alike = 0;
  auto oldest = met_.end();
  if (met_.size() >= kMaxMet) {
    for (auto each = met_.begin(); each != met_.end(); ++each) {
      if (each->second.local != local) continue;
      ++alike;
      if (oldest == met_.end() || each->second.call < oldest->second.call) oldest = each;
    }
  }
  if (alike >= kMaxMet) met_.erase(oldest);
  met_.emplace(node, Met{local, ++calls_});
}

bool Admission::Expects(const std::string& node) const {
  return ByName(node) != nullptr || ByPattern(node) != nullptr || met_.contains(node);
}

const PeerOptions* Admission::ByName(const std::string& node) const {
  for (const PeerOptions& peer : peers_) {
    if (peer.name == node) return &peer;
  }
  return nullptr;
}

const PeerOptions* Admission::ByPattern(const std::string& node) const {
  const PeerOptions* best = nullptr;
  for (const PeerOptions& peer : peers_) {
    const bool longer = best == nullptr || peer.name.size() > best->name.size();
    if (longer && peer.name != node && MatchesGlob(peer.name, node)) best = &peer;
  }
  return best;
}

Status Admission::Admit(const std::string& node, bool local) {
  if (const PeerOptions* entry = ByName(node)) {
    if (names_proven_ || local || !IsOnLoopback(*entry)) return OkStatus();
    return Refused("node " + node + " is configured on the machine of node " + node_ +
                       ", and this call comes from another machine",
                   "set peers." + node + ".address to that node's address, or use [tls]");
  }
  const auto met = met_.find(node);
  if (met == met_.end()) {
    if (ByPattern(node) == nullptr && !local) {
      return Refused(
          "node " + node_ + " refuses calls from node " + node + ", which is not one of its peers",
          "name it there under [peers], by name or by a pattern such as [peers.\"gpu-*\"]");
    }
    Meet(node, local);
    return OkStatus();
  }
  if (met->second.local && !local) {
    return Refused("node " + node + " is one of the machine of node " + node_ +
                       ", and this call comes from another machine",
                   "give every node its own name");
  }
  met->second.call = ++calls_;
  return OkStatus();
}

bool Admission::IsLocal(const std::string& node) const {
  if (const PeerOptions* entry = ByName(node)) return IsOnLoopback(*entry);
  const auto met = met_.find(node);
  return met != met_.end() && met->second.local;
}

std::string Admission::OwnDomain() const {
  if (!own_domain_.empty() || !loopback_only_) return own_domain_;
  // Daemons that talk over loopback only see the same users. One that cannot say which machine this
  // is, is in no domain.
  const std::string host = os::HostIdentity();
  return host.empty() ? std::string() : "loopback " + host;
}

std::optional<uint64_t> Admission::CreateBytes(const std::string& node) const {
  for (const PeerOptions* entry : {ByName(node), ByPattern(node)}) {
    if (entry != nullptr && entry->create_bytes) return entry->create_bytes;
  }
  return std::nullopt;
}

std::string Admission::DomainOf(const std::string& node, const std::string& says) const {
  for (const PeerOptions* entry : {ByName(node), ByPattern(node)}) {
    if (entry != nullptr && entry->uid_domain) return *entry->uid_domain;
  }
  const std::string own = OwnDomain();
  return IsLocal(node) && says == own ? own : std::string();
}

}  // namespace onecopy::engine
