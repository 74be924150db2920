#include "transport/os/sockets/newcomers.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace onecopy::os {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

}  // namespace

Newcomers::Id Newcomers::Enter(const std::string& who, Task put_out) {
  const Id id = next_++;
  entries_.emplace(id, Entry{who, std::move(put_out)});
  by_who_[who].insert(id);
  return id;
}

void Newcomers::Leave(Id id) {
  const auto node = entries_.extract(id);
  if (node.empty()) return;
  const auto of_one = by_who_.find(node.mapped().who);
  of_one->second.erase(id);
  if (of_one->second.empty()) by_who_.erase(of_one);
}

size_t Newcomers::of(const std::string& who) const {
  const auto found = by_who_.find(who);
  return found == by_who_.end() ? 0 : found->second.size();
}

bool Newcomers::PutOut(const std::string& who) {
  const auto found = by_who_.find(who);
  if (found == by_who_.end()) return false;
  PutOutOldest(found->second);
  return true;
}

bool Newcomers::PutOut() {
  if (by_who_.empty()) return false;
  const auto most = std::max_element(
      by_who_.begin(), by_who_.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  PutOutOldest(most->second);
  return true;
}

void Newcomers::PutOutOldest(const std::set<Id>& of_one) {
  const Id id = *of_one.begin();
  Task put_out = std::move(entries_.at(id).put_out);
  Leave(id);
  put_out();
}

std::string Counted(const std::string& address) {
  in6_addr whole{};
  if (::inet_pton(AF_INET6, address.c_str(), &whole) != 1) return address;
  if (IN6_IS_ADDR_V4MAPPED(&whole) || IN6_IS_ADDR_LOOPBACK(&whole)) return address;
  std::memset(whole.s6_addr + kNetworkBytes, 0, sizeof whole.s6_addr - kNetworkBytes);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &whole, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

}  // namespace onecopy::os
