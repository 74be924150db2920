// What people type: sizes, durations, addresses, ends of copies; and what is written of anybody's
// text into a log.
#include <algorithm>

#include "client/cli/endpoint.h"
#include "daemon/log/escape.h"
#include "onecopy/size.h"
#include "tests/fuzz/fuzz.h"
#include "transport/core/base/duration.h"
#include "transport/os/sockets/host_port.h"

namespace {

using namespace onecopy;

enum : uint8_t { kSize, kDuration, kHostPort, kEndpoint, kLog, kKinds };

void CheckRefused(const Status& status) {
  EXPECT(status.code() == Code::kInvalidArgument || status.code() == Code::kOutOfRange);
  EXPECT(!status.reason().empty() && !status.message().empty());
}

void Size(const std::string& text) {
  const auto bytes = ParseBytes(text);
  if (!bytes.ok()) return CheckRefused(bytes.status());
  const auto plain = ParseBytes(std::to_string(*bytes));
  EXPECT(plain.ok() && *plain == *bytes);
}

void Duration(const std::string& text) {
  const auto duration = ParseDuration(text);
  if (!duration.ok()) return CheckRefused(duration.status());
  const auto again = ParseDuration(std::to_string(duration->count()) + "ms");
  EXPECT(duration->count() < 0 || (again.ok() && *again == *duration));
}

void Address(const std::string& text) {
  const auto address = os::ParseHostPort(text);
  if (!address.ok()) return CheckRefused(address.status());
  const auto again = os::ParseHostPort(address->ToString());
  EXPECT(again.ok() && *again == *address);
}

void End(const std::string& text) {
  const auto end = cli::ParseEndpoint(text);
  if (!end.ok()) return CheckRefused(end.status());
  EXPECT(end->typed == text);
  if (end->kind == cli::ParsedEndpoint::Kind::kBuffer) EXPECT(!end->name.empty());
}

void Log(const std::string& text) {
  for (const bool quotes : {false, true}) {
    const std::string escaped = log::Escape(text, 1024, quotes);
    EXPECT(std::none_of(escaped.begin(), escaped.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
    EXPECT(escaped.size() <= 1024 * 10 + 64);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onecopy::fuzz::Input input(data, size);
  const uint8_t kind = input.Byte() % kKinds;
  const std::string text(input.Rest());
  switch (kind) {
    case kSize:
      Size(text);
      break;
    case kDuration:
      Duration(text);
      break;
    case kHostPort:
      Address(text);
      break;
    case kEndpoint:
      End(text);
      break;
    default:
      Log(text);
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const char* text : {"4096", "64KiB", "1GiB", "18446744073709551615", "1.5MB"}) {
    seeds.push_back(For(kSize, text));
  }
  for (const char* text : {"30s", "200ms", "1h", "1m30s"}) seeds.push_back(For(kDuration, text));
  for (const char* text : {"127.0.0.1:7701", "[::1]:7701", "a.example:1"}) {
    seeds.push_back(For(kHostPort, text));
  }
  for (const char* text : {"west:weights", "west:weights@0+4096", "west:/data/file@1KiB", "./file",
                           ":a@64MiB", "-", "weights", "./odd@4096@0"}) {
    seeds.push_back(For(kEndpoint, text));
  }
  for (const char* text : {"plain", "x\n2026 error forged", "\x1b[31m", "Z\xc3\xbcrich",
                           "\xe2\x80\xae", "\xf0\x9f\x9a\x80"}) {
    seeds.push_back(For(kLog, text));
  }
  return seeds;
}
