#include "tests/support/dns_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "transport/os/sockets/host_port.h"

namespace onecopy::testing {
namespace {

constexpr size_t kHeader = 12;
constexpr size_t kPacket = 512;

void Append16(DnsBytes* bytes, size_t value) {
  bytes->push_back(static_cast<unsigned char>(value >> 8));
  bytes->push_back(static_cast<unsigned char>(value & 0xff));
}

void Append(DnsBytes* bytes, const DnsBytes& more) {
  bytes->insert(bytes->end(), more.begin(), more.end());
}

void Append(DnsBytes* bytes, const DnsRecord& record) {
  Append(bytes, DnsName(record.owner));
  Append16(bytes, record.type);
  Append16(bytes, 1);  // IN
  Append16(bytes, record.ttl >> 16);
  Append16(bytes, record.ttl & 0xffff);
  Append16(bytes, record.data.size());
  Append(bytes, record.data);
}

// Where the question's name ends; the message's end where it does not.
size_t EndOfName(const DnsBytes& query) {
  size_t at = kHeader;
  while (at < query.size() && query[at] != 0) at += query[at] + size_t{1};
  return std::min(at + 1, query.size());
}

std::string NameOf(const DnsBytes& query) {
  std::string name;
  for (size_t at = kHeader; at < query.size() && query[at] != 0; at += query[at] + size_t{1}) {
    if (!name.empty()) name += '.';
    for (size_t i = 1; i <= query[at] && at + i < query.size(); ++i) {
      name += static_cast<char>(query[at + i]);
    }
  }
  return name;
}

uint16_t TypeOf(const DnsBytes& query) {
  const size_t at = EndOfName(query);
  return at + 2 > query.size() ? uint16_t{0}
                               : static_cast<uint16_t>(query[at] << 8 | query[at + 1]);
}

}  // namespace

DnsBytes DnsName(const std::string& name) {
  DnsBytes bytes;
  for (size_t from = 0; from < name.size();) {
    const size_t point = std::min(name.find('.', from), name.size());
    bytes.push_back(static_cast<unsigned char>(point - from));
    bytes.insert(bytes.end(), name.begin() + static_cast<std::ptrdiff_t>(from),
                 name.begin() + static_cast<std::ptrdiff_t>(point));
    from = point + 1;
  }
  bytes.push_back(0);
  return bytes;
}

DnsRecord ARecord(const std::string& owner, const std::string& address, uint32_t ttl) {
  DnsRecord record{owner, kDnsA, ttl, DnsBytes(4)};
  if (::inet_pton(AF_INET, address.c_str(), record.data.data()) != 1) {
    throw std::runtime_error(address + " is no address");
  }
  return record;
}

DnsRecord SrvRecordOf(const std::string& owner, const std::string& target, uint16_t port,
                      uint32_t ttl) {
  DnsRecord record{owner, kDnsSrv, ttl, {0, 0, 0, 0}};
  Append16(&record.data, port);
  Append(&record.data, DnsName(target));
  return record;
}

DnsBytes DnsQuery(const std::string& name, uint16_t type) {
  DnsBytes query = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  Append(&query, DnsName(name));
  Append16(&query, type);
  Append16(&query, 1);
  return query;
}

DnsBytes DnsMessage(const DnsBytes& query, const std::vector<DnsRecord>& answers,
                    const std::vector<DnsRecord>& additional) {
  const size_t question_end = std::min(EndOfName(query) + 4, query.size());
  DnsBytes message(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(question_end));
  message[2] = 0x84;  // an answer, with authority
  message[3] = answers.empty() ? 3 : 0;
  message[6] = static_cast<unsigned char>(answers.size() >> 8);
  message[7] = static_cast<unsigned char>(answers.size() & 0xff);
  message[8] = message[9] = 0;
  message[10] = static_cast<unsigned char>(additional.size() >> 8);
  message[11] = static_cast<unsigned char>(additional.size() & 0xff);
  for (const DnsRecord& record : answers) Append(&message, record);
  for (const DnsRecord& record : additional) Append(&message, record);
  return message;
}

DnsServer::DnsServer() : stop_(::eventfd(0, EFD_CLOEXEC)) {
  // The port of the one must be free for the other, too.
  for (int attempt = 0; attempt < 20 && !udp_; ++attempt) {
    auto tcp = os::ListenTcp({"127.0.0.1", 0}, 16);
    if (!tcp.ok()) throw std::runtime_error(tcp.status().ToString());
    const os::HostPort where = *os::LocalAddress(tcp->get());
    os::UniqueFd udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(where.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(udp.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      continue;
    }
    udp_ = std::move(udp);
    tcp_ = *std::move(tcp);
    address_ = where.ToString();
  }
  if (!udp_) throw std::runtime_error("no port for a DNS server");
  thread_ = std::thread([this] { Run(); });
}

DnsServer::~DnsServer() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void DnsServer::Set(const std::string& name, uint16_t type, std::vector<DnsRecord> answers,
                    std::vector<DnsRecord> additional) {
  const MutexLock lock(mutex_);
  records_[{name, type}] = {std::move(answers), std::move(additional)};
}

void DnsServer::Lie(std::function<DnsBytes(const DnsBytes&)> lie) {
  const MutexLock lock(mutex_);
  lie_ = std::move(lie);
}

void DnsServer::Silence(bool silent) {
  const MutexLock lock(mutex_);
  silent_ = silent;
}

void DnsServer::HoldStreams(bool hold) {
  const MutexLock lock(mutex_);
  holds_ = hold;
  held_.clear();
}

uint64_t DnsServer::held() const {
  const MutexLock lock(mutex_);
  return held_.size();
}

uint64_t DnsServer::queries() const {
  const MutexLock lock(mutex_);
  return queries_;
}

uint64_t DnsServer::tcp_queries() const {
  const MutexLock lock(mutex_);
  return tcp_queries_;
}

DnsBytes DnsServer::Answer(const DnsBytes& query) {
  const MutexLock lock(mutex_);
  ++queries_;
  if (silent_ || query.size() < kHeader) return {};
  if (lie_) return lie_(query);
  const auto found = records_.find({NameOf(query), TypeOf(query)});
  if (found == records_.end()) return DnsMessage(query, {});
  return DnsMessage(query, found->second.first, found->second.second);
}

void DnsServer::AnswerPacket() {
  DnsBytes query(65'536);
  sockaddr_in from{};
  socklen_t bytes = sizeof from;
  const ssize_t got = ::recvfrom(udp_.get(), query.data(), query.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &bytes);
  if (got <= 0) return;
  query.resize(static_cast<size_t>(got));
  DnsBytes answer = Answer(query);
  if (answer.empty()) return;
  if (answer.size() > kPacket) {
    answer = DnsMessage(query, {});
    answer[2] |= 2;  // cut off: ask over TCP
    answer[3] = 0;
  }
  ::sendto(udp_.get(), answer.data(), answer.size(), 0, reinterpret_cast<const sockaddr*>(&from),
           bytes);
}

void DnsServer::AnswerStream() {
  os::UniqueFd peer(::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer) return;
  {
    const MutexLock lock(mutex_);
    if (holds_) {
      held_.push_back(std::move(peer));
      return;
    }
  }
  std::array<unsigned char, 2> length{};
  if (::recv(peer.get(), length.data(), 2, MSG_WAITALL) != 2) return;
  DnsBytes query(static_cast<size_t>(length[0] << 8 | length[1]));
  if (::recv(peer.get(), query.data(), query.size(), MSG_WAITALL) !=
      static_cast<ssize_t>(query.size())) {
    return;
  }
  const DnsBytes answer = Answer(query);
  {
    const MutexLock lock(mutex_);
    ++tcp_queries_;
  }
  if (answer.empty() || answer.size() > 65'535) return;
  DnsBytes framed;
  Append16(&framed, answer.size());
  Append(&framed, answer);
  size_t sent = 0;
  while (sent < framed.size()) {
    const ssize_t now =
        ::send(peer.get(), framed.data() + sent, framed.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return;
    sent += static_cast<size_t>(now);
  }
}

void DnsServer::Run() {
  while (true) {
    std::array<pollfd, 3> waits = {
        {{udp_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[2].revents != 0) return;
    if (waits[0].revents != 0) AnswerPacket();
    if (waits[1].revents != 0) AnswerStream();
  }
}

}  // namespace onecopy::testing
