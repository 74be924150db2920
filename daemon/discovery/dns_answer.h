// What a DNS server answered, read with distrust.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::discovery {

enum class DnsType { kA, kAaaa, kSrv };

struct SrvRecord {
  std::string target;  // lower case, without the last dot
  uint16_t port = 0;

  friend auto operator<=>(const SrvRecord&, const SrvRecord&) = default;
};

struct DnsAnswer {
  std::vector<SrvRecord> services;     // sorted, each once
  std::vector<std::string> addresses;  // likewise, as text; of the name that was asked
  // Addresses that came along, by name: only for targets of `services`.
  std::map<std::string, std::vector<std::string>> more;
  uint32_t ttl_seconds = 0;  // the least of what was taken
  uint64_t refused = 0;      // records that are of another name or make no sense
};

// Records that are looked at; an answer of 64 KiB has hardly more.
inline constexpr size_t kMaxRecords = 8192;

// Takes the records of `type` whose owner is `name`, or what `name` is an alias of, by the answer's
// own CNAME records. UNAVAILABLE (IO_ERROR) where the message is no answer at all: cut off, with
// names that point in circles.
Result<DnsAnswer> ParseDnsAnswer(std::span<const unsigned char> message, const std::string& name,
                                 DnsType type);

// "gpu-01" of "gpu-01.onecopy.example.com".
std::string FirstLabel(const std::string& name);

}  // namespace onecopy::discovery
