// What the planner believes about speed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "daemon/plan/wire.h"
#include "transport/core/capability.h"

namespace onecopy::plan {

struct Estimate {
  double bytes_per_second = 0;  // of a long transfer
  double latency_seconds = 0;   // of an empty one
  bool measured = false;

  // Payload bytes per second of a transfer of that size, latency included.
  double RateFor(uint64_t bytes) const;
};

// What a probe saw of one pair of network devices.
struct PairResult {
  Viability viability;
  double bytes_per_second = 0;  // where viable
};

// What is known between two nodes, for one direction. Estimates of whole paths by path, link and
// the kinds of memory at both ends ("cuda", "host"); what probes found of the wires that paths use.
// What has not been measured comes from a table of defaults that only serves to rank the paths. A
// value: copied into each request.
class Estimates {
 public:
  void Measured(const std::string& path, const std::string& link, const std::string& from_kind,
                const std::string& to_kind, double bytes_per_second, double latency_seconds);

  Estimate Find(const std::string& path, const std::string& link, const std::string& from_kind,
                const std::string& to_kind) const;

  // A wire with all its lanes together: its speed, or why it carries nothing.
  void MeasuredWire(const Wire& wire, double bytes_per_second, double latency_seconds);
  void FailedWire(const Wire& wire, Viability why);
  // One pair of network devices, by the names that their nodes give them.
  void ProbedPair(const Wire& wire, const std::string& source_nic,
                  const std::string& destination_nic, PairResult result);

  // Null where nothing is known.
  const Estimate* FindWire(const Wire& wire) const;
  const Viability* FindFailure(const Wire& wire) const;
  const PairResult* FindPair(const Wire& wire, const std::string& source_nic,
                             const std::string& destination_nic) const;

 private:
  struct WireResult {
    Viability viability;
    Estimate estimate;  // counts where measured
    std::map<std::pair<std::string, std::string>, PairResult> pairs;
  };

  std::map<std::tuple<std::string, std::string, std::string, std::string>, Estimate> measured_;
  std::map<Wire, WireResult> wires_;
};

}  // namespace onecopy::plan
