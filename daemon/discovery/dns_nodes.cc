#include "daemon/discovery/dns_nodes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/base/name.h"

namespace onecopy::discovery {
namespace {

constexpr int kMaxMissing = 2;
constexpr size_t kMaxAddressesOfOne = 64;
// A target that cannot be resolved is one node's trouble; several in a row are the server's.
constexpr int kMaxFailuresInARow = 3;

void NoteLess(uint32_t ttl, uint32_t* least) { *least = std::min(*least, ttl); }

}  // namespace

Result<DnsNodes::Look> DnsNodes::LookAgain() {
  Look look;
  failures_in_a_row_ = 0;
  look_end_ = now_() + kLookLimit;
  ONECOPY_ASSIGN_OR_RETURN(const Places places,
                           name_.starts_with('_') ? ByServices(&look) : ByAddresses(&look));
  Keep(places, &look);
  return look;
}

Result<DnsNodes::Places> DnsNodes::ByServices(Look* look) {
  ONECOPY_ASSIGN_OR_RETURN(const DnsAnswer answer, ask_(name_, DnsType::kSrv));
  look->ttl_seconds = answer.ttl_seconds;
  look->snapshot.refused = answer.refused;
  Places places;
  next_targets_.clear();
  for (const SrvRecord& service : answer.services) {
    const std::string node = FirstLabel(service.target);
    if (!IsName(node) || (!places.contains(node) && places.size() >= kMaxEntries)) {
      ++look->snapshot.refused;
      continue;
    }
    std::vector<std::string> addresses = answer.more.at(service.target);
    if (addresses.empty()) {
      ONECOPY_ASSIGN_OR_RETURN(addresses, AddressesOf(service.target, look));
    }
    next_targets_[service.target] = addresses;
    if (addresses.empty()) ++look->snapshot.refused;
    for (const std::string& address : addresses) {
      std::vector<std::string>& of_node = places[node];
      if (of_node.size() >= kMaxAddressesOfOne) {
        ++look->snapshot.refused;
        break;
      }
      of_node.push_back(os::HostPort{address, service.port}.ToString());
    }
  }
  targets_ = std::move(next_targets_);
  return places;
}

Result<std::vector<std::string>> DnsNodes::AddressesOf(const std::string& target, Look* look) {
  std::vector<std::string> addresses;
  for (const DnsType type : {DnsType::kA, DnsType::kAaaa}) {
    if (!addresses.empty()) break;
    ONECOPY_RETURN_IF_ERROR(CheckTime());
    const Result<DnsAnswer> answer = ask_(target, type);
    if (!answer.ok()) {
      if (++failures_in_a_row_ >= kMaxFailuresInARow) return answer.status();
      const auto before = targets_.find(target);
      return before == targets_.end() ? std::vector<std::string>() : before->second;
    }
    failures_in_a_row_ = 0;
    addresses = answer->addresses;
    if (!addresses.empty()) NoteLess(answer->ttl_seconds, &look->ttl_seconds);
  }
  return addresses;
}

Status DnsNodes::CheckTime() const {
  if (now_() < look_end_) return OkStatus();
  return {Code::kUnavailable, reasons::kIo,
          "DNS, " + name_ + ": looking up the addresses of all SRV targets has taken longer than " +
              std::to_string(kLookLimit.count()) + " s",
          "use a DNS server that answers faster, or one that sends the addresses of targets along"};
}

Result<DnsNodes::Places> DnsNodes::ByAddresses(Look* look) {
  std::vector<os::HostPort> where;
  bool any = false;
  for (const DnsType type : {DnsType::kA, DnsType::kAaaa}) {
    ONECOPY_ASSIGN_OR_RETURN(const DnsAnswer answer, ask_(name_, type));
    look->snapshot.refused += answer.refused;
    if (answer.addresses.empty()) continue;
    look->ttl_seconds = std::exchange(any, true) ? std::min(look->ttl_seconds, answer.ttl_seconds)
                                                 : answer.ttl_seconds;
    for (const std::string& address : answer.addresses) {
      if (where.size() < kMaxEntries) {
        where.push_back({address, port_});
      } else {
        ++look->snapshot.refused;
      }
    }
  }
  Places places;
  const std::vector<Result<std::string>> names = identify_(where);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string address = where[i].ToString();
    if (names[i].ok()) {
      places[*names[i]].push_back(address);
      continue;
    }
    // One that does not answer now may be a node that was there before.
    ++look->snapshot.refused;
    for (const auto& [node, known] : known_) {
      if (known.address == address && names[i].status().reason() != reasons::kCertRejected) {
        places[node].push_back(address);
      }
    }
  }
  return places;
}

void DnsNodes::Keep(const Places& places, Look* look) {
  const bool services = name_.starts_with('_');
  for (const auto& [node, addresses] : places) {
    if (addresses.empty()) continue;
    Known& known = known_[node];
    known.missing = 0;
    const bool stays =
        std::find(addresses.begin(), addresses.end(), known.address) != addresses.end();
    if (!stays) known.address = addresses.front();
    // A node may have several addresses; several ports are several daemons.
    for (const std::string& address : addresses) {
      const auto port = [](const std::string& text) { return text.substr(text.rfind(':')); };
      if (!services || port(address) == port(known.address)) continue;
      look->snapshot.conflicts.push_back({node, known.address, address, "dns"});
    }
  }
  for (auto known = known_.begin(); known != known_.end();) {
    const auto found = places.find(known->first);
    const bool missing = found == places.end() || found->second.empty();
    if (missing && ++known->second.missing >= kMaxMissing) {
      known = known_.erase(known);
      continue;
    }
    look->any_missing = look->any_missing || missing;
    if (look->snapshot.entries.size() < kMaxEntries) {
      look->snapshot.entries.push_back({known->first, known->second.address});
    }
    ++known;
  }
}

}  // namespace onecopy::discovery
