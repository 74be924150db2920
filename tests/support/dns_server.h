// A DNS server for a test, over UDP and TCP at one port of loopback. It says what the test wants,
// lies included.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

using DnsBytes = std::vector<unsigned char>;

inline constexpr uint16_t kDnsA = 1;
inline constexpr uint16_t kDnsCname = 5;
inline constexpr uint16_t kDnsSrv = 33;

// A name as a message has it, without compression: "a.b" is 1 'a' 1 'b' 0.
DnsBytes DnsName(const std::string& name);

struct DnsRecord {
  std::string owner;
  uint16_t type = kDnsA;
  uint32_t ttl = 1;
  DnsBytes data;
};
DnsRecord ARecord(const std::string& owner, const std::string& address, uint32_t ttl = 1);
DnsRecord SrvRecordOf(const std::string& owner, const std::string& target, uint16_t port,
                      uint32_t ttl = 1);

// The question of `query` answered with these records.
DnsBytes DnsMessage(const DnsBytes& query, const std::vector<DnsRecord>& answers,
                    const std::vector<DnsRecord>& additional = {});
// A query as a client sends it.
DnsBytes DnsQuery(const std::string& name, uint16_t type);

// Any thread.
class DnsServer {
 public:
  DnsServer();
  ~DnsServer();

  std::string address() const { return address_; }  // HOST:PORT

  // A name without records does not exist.
  void Set(const std::string& name, uint16_t type, std::vector<DnsRecord> answers,
           std::vector<DnsRecord> additional = {});
  // Gives the message for a query of any name, instead; null: as set.
  void Lie(std::function<DnsBytes(const DnsBytes& query)> lie);
  // Does not answer while it is silent.
  void Silence(bool silent);
  // Takes connections and never reads from them while it holds.
  void HoldStreams(bool hold);
  uint64_t held() const;
  uint64_t queries() const;
  uint64_t tcp_queries() const;

 private:
  void Run();
  void AnswerPacket();
  void AnswerStream();
  DnsBytes Answer(const DnsBytes& query);

  os::UniqueFd udp_;
  os::UniqueFd tcp_;
  os::UniqueFd stop_;
  std::string address_;
  mutable Mutex mutex_;
  using Records = std::pair<std::vector<DnsRecord>, std::vector<DnsRecord>>;
  std::map<std::pair<std::string, uint16_t>, Records> records_ ONECOPY_GUARDED_BY(mutex_);
  std::function<DnsBytes(const DnsBytes&)> lie_ ONECOPY_GUARDED_BY(mutex_);
  bool silent_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool holds_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::vector<os::UniqueFd> held_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t queries_ ONECOPY_GUARDED_BY(mutex_) = 0;
  uint64_t tcp_queries_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace onecopy::testing
