// What the planner believes about speed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace onecopy::plan {

struct Estimate {
  double bytes_per_second = 0;  // of a long transfer
  double latency_seconds = 0;   // of an empty one
  bool measured = false;

  // Payload bytes per second of a transfer of that size, latency included.
  double RateFor(uint64_t bytes) const;
};

// Estimates by path, link and the kinds of memory at both ends ("cuda", "host"). What has not been
// measured comes from a table of defaults that only serves to rank the paths. A value: copied into
// each request.
class Estimates {
 public:
  void Measured(const std::string& path, const std::string& link, const std::string& from_kind,
                const std::string& to_kind, double bytes_per_second, double latency_seconds);

  Estimate Find(const std::string& path, const std::string& link, const std::string& from_kind,
                const std::string& to_kind) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Estimate> measured_;
};

}  // namespace onecopy::plan
