// Questions to DNS servers, by the C library's resolver: it asks those of /etc/resolv.conf, again
// if there is no answer, and over TCP if the answer is too long for a packet.
#pragma once

#include <optional>
#include <string>

#include "daemon/discovery/dns_answer.h"
#include "transport/os/host_port.h"

namespace onecopy::discovery {

// One thread. Blocks for a few seconds at most where no server answers.
class Resolver {
 public:
  // `server`: an IPv4 address to ask instead of those of /etc/resolv.conf.
  explicit Resolver(std::optional<os::HostPort> server) : server_(std::move(server)) {}

  // An answer without records where the server says that there are none. UNAVAILABLE (IO_ERROR)
  // where no server answers, or not as it should.
  Result<DnsAnswer> Ask(const std::string& name, DnsType type) const;

 private:
  const std::optional<os::HostPort> server_;
};

}  // namespace onecopy::discovery
