// Questions to DNS servers, by c-ares: it asks those of /etc/resolv.conf, again if there is no
// answer, and over TCP if the answer is too long for a packet. The C library's resolver has no
// limit for TCP.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "daemon/discovery/dns_answer.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::discovery {

// One thread. Blocks for ten seconds at most where no server answers.
class Resolver {
 public:
  // `server`: an address to ask instead of those of /etc/resolv.conf. `ended` is asked now and
  // then, and ends a question early.
  Resolver(std::optional<os::HostPort> server, std::function<bool()> ended)
      : server_(std::move(server)), ended_(std::move(ended)) {}

  // An answer without records where the server says that there are none. UNAVAILABLE (IO_ERROR)
  // where no server answers, or not as it should.
  Result<DnsAnswer> Ask(const std::string& name, DnsType type) const;

 private:
  const std::optional<os::HostPort> server_;
  const std::function<bool()> ended_;
};

}  // namespace onecopy::discovery
