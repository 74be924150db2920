// From DNS answers to nodes: one look at all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "daemon/discovery/dns.h"
#include "daemon/discovery/dns_answer.h"

namespace onecopy::discovery {

// Of one look, however long its single questions take: each target of an SRV record may need two
// questions of its own. Enough for 4,096 targets (kMaxEntries) at 14 ms each. From a slower server
// this node would learn of changes too late, and should say so.
inline constexpr std::chrono::seconds kLookLimit{120};

// One thread.
class DnsNodes {
 public:
  using Clock = std::chrono::steady_clock;
  using Ask = std::function<Result<DnsAnswer>(const std::string& name, DnsType type)>;
  // The names of the nodes at these addresses, in order.
  using Identify =
      std::function<std::vector<Result<std::string>>(const std::vector<os::HostPort>& where)>;
  // `now`: the clock that measures kLookLimit.
  DnsNodes(std::string name, uint16_t port, Ask ask, Identify identify,
           std::function<Clock::time_point()> now = Clock::now)
      : name_(std::move(name)),
        port_(port),
        ask_(std::move(ask)),
        identify_(std::move(identify)),
        now_(std::move(now)) {}

  struct Look {
    Snapshot snapshot;
    uint32_t ttl_seconds = 0;
    bool any_missing = false;  // a node is kept that this answer does not have
  };
  // Fails where the servers do, which changes nothing. Asks nothing more once kLookLimit has
  // passed: UNAVAILABLE (IO_ERROR). How long `ask` and `identify` take is theirs to bound.
  Result<Look> LookAgain();

 private:
  using Places = std::map<std::string, std::vector<std::string>>;  // addresses by node, sorted

  Result<Places> ByServices(Look* look);
  Result<Places> ByAddresses(Look* look);
  // The addresses of a service's target; from before where they cannot be asked now.
  Result<std::vector<std::string>> AddressesOf(const std::string& target, Look* look);
  Status CheckTime() const;  // of the look under way
  void Keep(const Places& places, Look* look);

  struct Known {
    std::string address;
    int missing = 0;  // good answers in a row that do not have it
  };

  const std::string name_;
  const uint16_t port_;
  const Ask ask_;
  const Identify identify_;
  const std::function<Clock::time_point()> now_;
  Clock::time_point look_end_{};                                  // of the look under way
  std::map<std::string, Known> known_;                            // by node
  std::map<std::string, std::vector<std::string>> targets_;       // addresses, by target
  std::map<std::string, std::vector<std::string>> next_targets_;  // of the look under way
  int failures_in_a_row_ = 0;
};

}  // namespace onecopy::discovery
