// More than 4 GiB, so that no offset or length is kept in 32 bits anywhere on the way.
#include <cstring>
#include <fstream>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace four_gib_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kBytes = 4 * kGiB + 12'345;
constexpr uint64_t kShift = 3;  // where the bytes begin in the destination

// MemAvailable of /proc/meminfo.
uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes && std::getline(file, unit)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("more than 4 GiB of sparse memory arrive whole between two nodes") {
  // The destination ends up in memory; the source's holes stay holes.
  if (AvailableBytes() < 10 * kGiB) {
    ONECOPY_SKIP("needs 10 GiB of free memory, and " + std::to_string(AvailableBytes() / kGiB) +
                 " GiB are there");
  }
  Pair pair;
  Client east = pair.east.Connect();
  const HostBuffer source =
      Must(east.CreateHostBuffer("a", kBytes, onecopy::HostPages::kWhenTouched));
  const std::string mark = Payload(8192);
  const uint64_t marked[] = {0, kGiB - 4096, 2 * kGiB - 4095, 4 * kGiB - 4096, kBytes - 8192};
  for (const uint64_t place : marked) std::memcpy(source.data() + place, mark.data(), mark.size());
  pair.west.Do(
      {"buffer", "create", "b", "--size", std::to_string(kBytes + kShift), "--memory", "host"});
  const Json receipt = pair.east.Do({"cp", "a", "west:b@" + std::to_string(kShift), "--checksum"});
  // Sockets would give memory to what has none.
  CheckReceipt(receipt, {.path = "tcp-bounce",
                         .bytes = kBytes,
                         .checksum = true,
                         .before = {{"tcp-direct", "HAS_HOLES"}}});
  for (const uint64_t place : marked) {
    INFO("at " << place);
    const std::string range =
        "b@" + std::to_string(place + kShift - 3) + "+" + std::to_string(mark.size() + 3);

    CHECK(Contents(pair.west, range) == std::string(3, '\0') + mark);
  }
  CHECK(Contents(pair.west, "b@" + std::to_string(3 * kGiB) + "+4096") == std::string(4096, '\0'));
  // A range that lies beyond 4 GiB at both ends.
  CheckReceipt(pair.east.Do({"cp", "a@4294967296+4096", "west:b@4294967297", "--path", "tcp-staged",
                             "--checksum"}),
               {"tcp-staged", 4096, true});
  CHECK(Contents(pair.west, "b@4294967297+4096") == mark.substr(4096));
}
}  // namespace four_gib_test
