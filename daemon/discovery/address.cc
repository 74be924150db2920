#include "daemon/discovery/address.h"

#include <algorithm>

#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

constexpr size_t kMaxHost = 253;

Status BadAddress(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadEndpoint, why};
}

}  // namespace

Status CheckAddress(const std::string& address, const AddressRules& rules) {
  const Result<os::HostPort> where = os::ParseHostPort(address);
  if (!where.ok()) return BadAddress("the address is not HOST:PORT");
  const bool plain = std::all_of(where->host.begin(), where->host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  });
  if (where->host.empty() || where->host.size() > kMaxHost || !plain || where->port == 0) {
    return BadAddress("the address cannot be connected to");
  }
  if (where->host == "0.0.0.0" || where->host == "::" || where->host == "0") {
    return BadAddress("on each machine, " + where->host + " is that machine itself");
  }
  const bool loopback = os::IsLoopback(where->host);
  if (loopback && !os::IsLoopback(rules.own.host)) {
    return BadAddress("on each machine, " + where->host + " is that machine itself");
  }
  if (!loopback && !rules.beyond_machine) {
    return {Code::kPermissionDenied, reasons::kInsecure,
            "the address is another machine's, and calls would be plain text",
            "set [tls], or insecure = true if you trust the network"};
  }
  return OkStatus();
}

bool IsOwnAddress(const std::string& address, const AddressRules& rules,
                  const std::vector<std::string>& machine) {
  const Result<os::HostPort> where = os::ParseHostPort(address);
  if (!where.ok() || where->port != rules.own.port) return false;
  return where->host == rules.own.host ||
         std::find(machine.begin(), machine.end(), where->host) != machine.end();
}

}  // namespace onecopy::discovery
