#include "daemon/discovery/resolver.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

constexpr int kSecondsPerAttempt = 1;
constexpr int kAttempts = 2;
constexpr size_t kMaxMessage = 65'536;

// The resolver's state, with the file as it is now.
class Resolving {
 public:
  Resolving() : good_(::res_ninit(&state_) == 0) {}
  ~Resolving() {
    if (good_) ::res_nclose(&state_);
  }
  Resolving(const Resolving&) = delete;
  Resolving& operator=(const Resolving&) = delete;

  bool good() const { return good_; }
  struct __res_state& state() {
    return state_;
  }

 private:
  struct __res_state state_ {};
  const bool good_;
};

std::string Why(int error) {
  return error == TRY_AGAIN ? "no server answers, or it fails" : "the server refuses the question";
}

}  // namespace

Result<DnsAnswer> Resolver::Ask(const std::string& name, DnsType type) const {
  const auto failed = [&name](const std::string& why) {
    return Status(Code::kUnavailable, reasons::kIo, "DNS, " + name + ": " + why,
                  "check dns_name and dns_server, or /etc/resolv.conf");
  };
  Resolving resolving;
  if (!resolving.good()) return failed("/etc/resolv.conf cannot be read");
  struct __res_state& state = resolving.state();
  state.retrans = kSecondsPerAttempt;
  state.retry = kAttempts;
  if (server_) {
    sockaddr_in& address = state.nsaddr_list[0];
    address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port);
    if (::inet_pton(AF_INET, server_->host.c_str(), &address.sin_addr) != 1) {
      return failed("dns_server is not an IPv4 address");
    }
    state.nscount = 1;
  }
  const int what = type == DnsType::kA ? ns_t_a : type == DnsType::kAaaa ? ns_t_aaaa : ns_t_srv;
  std::vector<unsigned char> answer(kMaxMessage);
  const int got = ::res_nquery(&state, name.c_str(), ns_c_in, what, answer.data(),
                               static_cast<int>(answer.size()));
  if (got < 0) {
    const int error = state.res_h_errno;
    if (error == HOST_NOT_FOUND || error == NO_DATA) return DnsAnswer();
    return failed(Why(error));
  }
  answer.resize(std::min<size_t>(static_cast<size_t>(got), answer.size()));
  Result<DnsAnswer> parsed = ParseDnsAnswer(answer, name, type);
  if (!parsed.ok()) return failed(parsed.status().message());
  return parsed;
}

}  // namespace onecopy::discovery
