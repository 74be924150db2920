#include "daemon/discovery/dns_answer.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <set>

#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

constexpr int kMaxAliases = 16;
constexpr size_t kSrvFixedBytes = 6;  // priority, weight and port

std::string Plain(std::string name) {
  if (name.ends_with('.')) name.pop_back();
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

// The name that begins at `at` in the message; empty where there is none.
std::string NameAt(ns_msg& message, const unsigned char* at) {
  std::array<char, NS_MAXDNAME> text{};
  if (ns_name_uncompress(ns_msg_base(message), ns_msg_end(message), at, text.data(), text.size()) <
      0) {
    return {};
  }
  return Plain(text.data());
}

// Empty where the record's data is no address.
std::string AddressIn(const ns_rr& record) {
  const int family = ns_rr_type(record) == ns_t_a ? AF_INET : AF_INET6;
  const size_t bytes = family == AF_INET ? 4 : 16;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (ns_rr_rdlen(record) != bytes ||
      ::inet_ntop(family, ns_rr_rdata(record), text.data(), text.size()) == nullptr) {
    return {};
  }
  return text.data();
}

class Reader {
 public:
  Reader(ns_msg& message, DnsType type) : message_(message) {
    wanted_ = type == DnsType::kA ? ns_t_a : type == DnsType::kAaaa ? ns_t_aaaa : ns_t_srv;
  }

  Result<DnsAnswer> Read(const std::string& name) {
    ONECOPY_RETURN_IF_ERROR(ReadSection(ns_s_an, [this](const ns_rr& record) { Sort(record); }));
    FollowAliases(Plain(name));
    for (const auto& [owner, record] : records_) Take(owner, record);
    for (const SrvRecord& service : services_) answer_.more.try_emplace(service.target);
    // What came along is a help, no answer: without it the rest still counts.
    static_cast<void>(ReadSection(ns_s_ar, [this](const ns_rr& record) { TakeMore(record); }));
    answer_.services.assign(services_.begin(), services_.end());
    answer_.addresses.assign(addresses_.begin(), addresses_.end());
    return std::move(answer_);
  }

 private:
  template <typename Use>
  Status ReadSection(ns_sect section, Use use) {
    const int count = std::min<int>(ns_msg_count(message_, section), kMaxRecords);
    for (int i = 0; i < count; ++i) {
      ns_rr record{};
      if (ns_parserr(&message_, section, i, &record) != 0) {
        return {Code::kUnavailable, reasons::kIo, "the DNS answer is malformed"};
      }
      if (ns_rr_class(record) == ns_c_in) use(record);
    }
    return OkStatus();
  }

  void Sort(const ns_rr& record) {
    const std::string owner = Plain(ns_rr_name(record));
    if (ns_rr_type(record) == ns_t_cname) {
      const std::string target = NameAt(message_, ns_rr_rdata(record));
      if (!target.empty()) aliases_.emplace(owner, target);
      NoteTtl(record);
    } else if (ns_rr_type(record) == wanted_) {
      records_.emplace_back(owner, record);
    }
  }

  void FollowAliases(std::string name) {
    for (int i = 0; i < kMaxAliases && names_.insert(name).second; ++i) {
      const auto alias = aliases_.find(name);
      if (alias == aliases_.end()) return;
      name = alias->second;
    }
  }

  void Take(const std::string& owner, const ns_rr& record) {
    bool taken = names_.contains(owner);
    if (taken && wanted_ == ns_t_srv) {
      taken = TakeService(record);
    } else if (taken) {
      const std::string address = AddressIn(record);
      taken = !address.empty();
      if (taken) addresses_.insert(address);
    }
    if (taken) {
      NoteTtl(record);
    } else {
      ++answer_.refused;
    }
  }

  bool TakeService(const ns_rr& record) {
    if (ns_rr_rdlen(record) <= kSrvFixedBytes) return false;
    const unsigned char* const data = ns_rr_rdata(record);
    SrvRecord service;
    service.port = static_cast<uint16_t>(ns_get16(data + 4));
    service.target = NameAt(message_, data + kSrvFixedBytes);
    // A target "." says that there is no such service.
    if (service.target.empty() || service.port == 0) return false;
    services_.insert(std::move(service));
    return true;
  }

  void TakeMore(const ns_rr& record) {
    if (ns_rr_type(record) != ns_t_a && ns_rr_type(record) != ns_t_aaaa) return;
    const auto target = answer_.more.find(Plain(ns_rr_name(record)));
    const std::string address = AddressIn(record);
    if (target == answer_.more.end() || address.empty()) return;
    NoteTtl(record);
    if (std::find(target->second.begin(), target->second.end(), address) == target->second.end()) {
      target->second.push_back(address);
    }
  }

  void NoteTtl(const ns_rr& record) {
    const uint32_t ttl = ns_rr_ttl(record);
    answer_.ttl_seconds = std::exchange(has_ttl_, true) ? std::min(answer_.ttl_seconds, ttl) : ttl;
  }

  ns_msg& message_;
  ns_type wanted_ = ns_t_srv;
  std::map<std::string, std::string> aliases_;
  std::set<std::string> names_;  // whose records count
  std::vector<std::pair<std::string, ns_rr>> records_;
  std::set<SrvRecord> services_;
  std::set<std::string> addresses_;
  DnsAnswer answer_;
  bool has_ttl_ = false;
};

}  // namespace

Result<DnsAnswer> ParseDnsAnswer(std::span<const unsigned char> message, const std::string& name,
                                 DnsType type) {
  ns_msg parsed{};
  if (message.size() > NS_MAXMSG ||
      ns_initparse(message.data(), static_cast<int>(message.size()), &parsed) != 0) {
    return Status(Code::kUnavailable, reasons::kIo, "the DNS answer is malformed");
  }
  return Reader(parsed, type).Read(name);
}

std::string FirstLabel(const std::string& name) { return name.substr(0, name.find('.')); }

}  // namespace onecopy::discovery
