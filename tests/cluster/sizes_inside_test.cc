// Bytes of every size and place arrive inside one node.
#include <algorithm>
#include <cstring>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace sizes_inside_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

constexpr uint64_t kSlot = uint64_t{1} << 20;
constexpr uint64_t kLarge = (uint64_t{64} << 20) + 3;
constexpr std::byte kUntouched{0xa7};

}  // namespace

TEST_CASE("inside a node every size arrives by one copy, or by two where a bounce is asked for") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer source = Filled(client, "a", kLarge + 16, 1);
  const HostBuffer destination = Must(client.CreateHostBuffer("b", kLarge + 32));
  for (const char* path : {"local", "peer-bounce"}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{4097},
                                 kSlot - 1, kSlot, kSlot + 1, kLarge}) {
      INFO(path << ", " << bytes << " bytes");
      std::memset(destination.data(), static_cast<int>(kUntouched), destination.bytes());
      const auto done = Must(RunNegotiated(client, {.source = source.endpoint(3, bytes),
                                                    .destination = destination.endpoint(5, bytes),
                                                    .policy = {.path_glob = path},
                                                    .checksum = true}));
      REQUIRE_OK(onecopy::OutcomeOf(done));
      CheckReceipt(done, {path, bytes, true});
      CHECK(IsPayload(destination.data() + 5, bytes, 1, 3));
      CHECK(std::count(destination.data(), destination.data() + 5, kUntouched) == 5);
      const std::byte* end = destination.data() + 5 + bytes;
      const auto beyond = static_cast<std::ptrdiff_t>(destination.bytes() - 5 - bytes);
      CHECK(std::count(end, end + beyond, kUntouched) == beyond);
    }
  }
}

TEST_CASE("inside a node the shortest way is taken, and no bytes are a transfer, too") {
  Node east("east");
  east.Do({"buffer", "create", "a", "--size", "10000", "--memory", "host"});
  east.Do({"buffer", "create", "b", "--size", "10000", "--memory", "host"});
  const std::string payload = Payload(10'000);
  east.Do({"cp", "-", "a"}, payload);
  CheckReceipt(east.Do({"cp", "a", "b", "--checksum"}), {"local", 10'000, true});
  CHECK(Contents(east, "b") == payload);
  CheckReceipt(east.Do({"cp", "a@7+0", "east:b@10000"}), {"local", 0, false});
  CheckReceipt(east.Do({"cp", "a@10000+0", ":b", "--path", "peer-bounce", "--checksum"}),
               {"peer-bounce", 0, true});
  CheckReceipt(east.Do({"cp", ":a@1+2", "b@9998", "--path", "*-bounce"}),
               {"peer-bounce", 2, false});
  CHECK(Contents(east, "b") == payload.substr(0, 9998) + payload.substr(1, 2));
}
}  // namespace sizes_inside_test
