// The rates that the planner expects.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "daemon/plan/path_rate.h"
#include "daemon/plan/wire.h"
#include "onecopy/capability.h"

namespace onecopy::plan {

// Rates count as equal from this part of the better one on.
inline constexpr double kEqualRate = 0.9;

struct Estimate {
  double bytes_per_second = 0;  // of a long transfer
  double latency_seconds = 0;   // of an empty one
  bool measured = false;
  std::chrono::system_clock::time_point time = {};  // where measured: when, as far as that is known
  uint32_t transfers = 0;                           // and by how many; 0: by a probe

  // Payload bytes per second of a transfer of that size, latency included.
  double RateFor(uint64_t bytes) const;
};

// What a probe saw of one pair of network devices.
struct PairResult {
  Viability viability;
  double bytes_per_second = 0;  // where viable
};

// What is known between two nodes, for one direction: what transfers made by whole paths, and what
// probes found of the wires that paths use. What has not been measured comes from a table of
// defaults that only serves to rank the paths. A value: copied into each request.
class Estimates {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  // By the table: by path and the kinds of memory at both ends ("cuda", "host").
  static Estimate ByTable(const std::string& path, const std::string& from_kind,
                          const std::string& to_kind);

  void MeasuredPath(const PathKey& way, const PathRates& rates) { paths_[way] = rates; }
  // What transfers of about that size made or, where there were none, of the next smaller ones or
  // else of the next larger ones. Null where there were none at all.
  const PathRate* FindPath(const PathKey& way, uint64_t bytes) const;

  // A wire with all its lanes together: its speed, or why it carries nothing.
  void MeasuredWire(const Wire& wire, double bytes_per_second, double latency_seconds,
                    WallTime time = {});
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

  std::map<PathKey, PathRates> paths_;
  std::map<Wire, WireResult> wires_;
};

}  // namespace onecopy::plan
