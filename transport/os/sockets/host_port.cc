#include "transport/os/sockets/host_port.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

struct AddrInfoDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddrInfo = std::unique_ptr<addrinfo, AddrInfoDeleter>;

Result<AddrInfo> LookUp(const HostPort& where, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(where.port);
  const char* host = where.host.empty() ? nullptr : where.host.c_str();
  if (const int error = ::getaddrinfo(host, port.c_str(), &hints, &list); error != 0) {
    return Status(Code::kNotFound, reasons::kBadEndpoint,
                  "host \"" + where.host + "\": " + ::gai_strerror(error));
  }
  return AddrInfo(list);
}

HostPort FromSockaddr(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return {text, ntohs(in.sin_port)};
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
  ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  std::string host = text;
  if (host.starts_with("::ffff:")) host.erase(0, 7);
  return {host, ntohs(in.sin6_port)};
}

Result<UniqueFd> Listen(const HostPort& where, int backlog, bool anywhere) {
  ONECOPY_ASSIGN_OR_RETURN(const AddrInfo list, LookUp(where, AI_PASSIVE));
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (anywhere) {
    const bool v6 = list->ai_family == AF_INET6;
    ::setsockopt(fd.get(), v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_FREEBIND : IP_FREEBIND, &on,
                 sizeof on);
  }
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), backlog) != 0) {
    const int error = errno;
    const std::string remedy =
        error == EADDRINUSE      ? "another program has this port: stop it or choose another"
        : error == EACCES        ? "choose a port above 1023"
        : error == EADDRNOTAVAIL ? "choose an address of this machine: see ip address"
                                 : "";
    return ErrnoStatus(error, "listening on " + where.ToString(), remedy);
  }
  return fd;
}

}  // namespace

std::string HostPort::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<HostPort> ParseHostPort(std::string_view text) {
  const Status bad(Code::kInvalidArgument, reasons::kBadArgument,
                   "\"" + std::string(text) + "\" is not an address",
                   "write HOST:PORT, such as 10.0.0.1:7701 or [::1]:7701");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;  // an IPv6 address needs brackets
  }
  const auto in_hosts = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr(".:-_%", c) != nullptr;
  };
  if (!std::all_of(host.begin(), host.end(), in_hosts)) return bad;
  HostPort parsed{std::string(host), 0};
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
  if (host.empty() || error != std::errc() || stop != port.data() + port.size()) return bad;
  return parsed;
}

Result<std::vector<HostPort>> ParseHostPorts(std::string_view text) {
  std::vector<HostPort> all;
  for (;;) {
    const size_t end = text.find(',');
    ONECOPY_ASSIGN_OR_RETURN(HostPort one, ParseHostPort(text.substr(0, end)));
    if (std::find(all.begin(), all.end(), one) != all.end()) {
      return Status(Code::kInvalidArgument, reasons::kBadArgument,
                    one.ToString() + " is given twice", "name each address once");
    }
    all.push_back(std::move(one));
    if (end == std::string_view::npos) return all;
    text.remove_prefix(std::min(text.find_first_not_of(' ', end + 1), text.size()));
  }
}

std::string ToString(const std::vector<HostPort>& addresses) {
  std::string text;
  for (const HostPort& one : addresses) text += (text.empty() ? "" : ",") + one.ToString();
  return text;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "::1" || host == "localhost";
}

Result<UniqueFd> ListenTcp(const HostPort& where, int backlog) {
  return Listen(where, backlog, false);
}

Result<UniqueFd> ListenTcpAnywhere(const HostPort& where, int backlog) {
  return Listen(where, backlog, true);
}

Result<UniqueFd> ConnectTcp(const HostPort& where) { return ConnectTcp(where, nullptr); }

Result<UniqueFd> ConnectTcp(const HostPort& where, const std::function<void(int fd)>& bound) {
  ONECOPY_ASSIGN_OR_RETURN(const AddrInfo list, LookUp(where, AI_NUMERICHOST));
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  if (bound) {
    sockaddr_storage any{};  // of the family, with no address and no port: the kernel chooses both
    any.ss_family = list->ai_addr->sa_family;
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), list->ai_addrlen) != 0) {
      return ErrnoStatus(errno, "taking a port to connect to " + where.ToString());
    }
    bound(fd.get());
  }
  if (::connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, "connecting to " + where.ToString());
  }
  return fd;
}

Status ConnectError(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? OkStatus() : ErrnoStatus(error, "connecting");
}

Result<HostPort> LocalAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "getsockname");
  }
  return FromSockaddr(address);
}

Result<HostPort> PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "getpeername");
  }
  return FromSockaddr(address);
}

std::string InterfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    const size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::copy_n(reinterpret_cast<const std::byte*>(entry->ifa_addr), size,
                reinterpret_cast<std::byte*>(&storage));
    if (FromSockaddr(storage).host == address) return entry->ifa_name;
  }
  return {};
}

}  // namespace onecopy::os
