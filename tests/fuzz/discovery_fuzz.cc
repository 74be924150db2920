// What is discovered: answers of DNS servers, and what is in etcd.
#include <algorithm>
#include <string>

#include "daemon/discovery/dns_answer.h"
#include "daemon/discovery/etcd/value.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace onecopy;
using namespace onecopy::discovery;

enum : uint8_t { kAddresses, kServices, kValue, kKey, kKinds };

constexpr char kName[] = "_a._tcp.b";
const std::string kPrefix = "/onecopy/nodes/";

void Answer(const std::string& bytes, DnsType type) {
  const auto answer = ParseDnsAnswer(
      {reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}, kName, type);
  if (!answer.ok()) {
    EXPECT(!answer.status().message().empty());
    return;
  }
  EXPECT(answer->services.size() <= kMaxRecords && answer->addresses.size() <= kMaxRecords);
  EXPECT(std::is_sorted(answer->services.begin(), answer->services.end()));
  for (const SrvRecord& service : answer->services) {
    EXPECT(service.port != 0 && !service.target.empty());
    EXPECT(answer->more.contains(service.target));
  }
}

void Text(const std::string& text) {
  const auto value = ParseValue(text);
  if (!value.ok()) return;
  const auto again = ParseValue(PrintValue(*value));
  // An address may have bytes that JSON writes in another way; it is checked where it is used.
  EXPECT(again.ok() && again->name == value->name && again->instance == value->instance);
}

void Key(const std::string& text) {
  const ParsedKey key = ParseKey(kPrefix, text);
  if (key.name.empty()) {
    EXPECT(key.instance.empty());
  } else if (key.instance.empty()) {
    EXPECT(NodeKey(kPrefix, key.name) == text);
  } else {
    EXPECT(ClaimKey(kPrefix, key.name, key.instance) == text);
  }
}

}  // namespace

std::vector<std::string> onecopy::fuzz::Seeds() {
  const std::string question("\0\7\x84\0\0\1\0\1\0\0\0\0\2_a\4_tcp\1b\0\0\x21\0\1", 27);
  const std::string service("\xc0\x0c\0\x21\0\1\0\0\0\x1e\0\x0c\0\0\0\0\x1e\x15\1w\1b\0", 22);
  std::string address = question;
  address[24] = 1;
  return {
      fuzz::For(kServices, question + service),
      fuzz::For(kAddresses, address + std::string("\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\x0a\0\0\1", 16)),
      fuzz::For(kValue, PrintValue({"east", "10.0.0.1:7701", "aa"})),
      fuzz::For(kKey, ClaimKey(kPrefix, "east", "aa"))};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const uint8_t kind = input.Byte() % kKinds;
  const std::string rest(input.Rest());
  if (kind == kAddresses) Answer(rest, DnsType::kA);
  if (kind == kServices) Answer(rest, DnsType::kSrv);
  if (kind == kValue) Text(rest);
  if (kind == kKey) Key(rest);
  return 0;
}
