// Two real daemons on a kernel that has TLS for sockets: lanes are encrypted by it, without a copy
// more, and an end where the daemon does so itself understands what it says.
#include <cstdlib>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/node.h"

namespace kernel_tls_test {

using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = 20'000'003;

std::string ConfigFor(Authority& authority, const std::string& name, bool by_kernel) {
  const Authority::Files files = authority.Issue(name, "DNS:" + name);
  return "uid_domain = \"lab\"\n[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" +
         files.certificate + "\"\nkey = \"" + files.key +
         "\"\n[tcp]\nlanes = 2\nkernel_tls = " + (by_kernel ? "true" : "false") +
         "\n[peers.\"*\"]\nuid_domain = \"lab\"\n";
}

// From east to west, so that west reads: what the receipt says of encryption, and its copies.
std::pair<std::string, int> Move(bool east_by_kernel, bool west_by_kernel) {
  Authority authority;
  Node west("west", {.config = ConfigFor(authority, "west", west_by_kernel)});
  Node east("east",
            {.peers = {west.AsPeer()}, .config = ConfigFor(authority, "east", east_by_kernel)});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const std::string size = std::to_string(kBytes);
  const std::string payload = Payload(kBytes);
  east.Do({"buffer", "create", "a", "--size", size, "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", size, "--memory", "host"});
  east.Do({"cp", "-", "a"}, payload);
  const Json receipt = east.Do({"cp", "a", "west:b", "--checksum", "--path", "tcp-direct"});
  CHECK(Contents(west, "b") == payload);
  CHECK(receipt.at("steps").size() == receipt.at("copies"));
  for (const Json& step : receipt.at("steps")) CHECK(step.at("bytes") == kBytes);
  // Small ones and messages, too.
  onecopy::Client client = east.Connect();
  for (int i = 0; i < 20; ++i) {
    onecopy::TransferRequest small;
    small.source = {"west", "b", 1, 100};
    small.destination = {"", "a", 0, 100};
    const onecopy::TransferInfo done = Must(client.RunTransfer(small));
    REQUIRE_OK(onecopy::OutcomeOf(done));
  }
  return {receipt.at("encryption"), receipt.at("copies")};
}

bool EndsWith(const std::string& text, const std::string& end) { return text.ends_with(end); }

}  // namespace

TEST_CASE("the kernel encrypts lanes where it can, and receipts say at which end") {
  REQUIRE(std::system("modprobe tls") == 0);
  const auto [both, three] = Move(true, true);
  INFO(both);
  CHECK(EndsWith(both, ", by kernel"));
  CHECK(three == 3);
  const auto [source, four] = Move(true, false);
  INFO(source);
  CHECK(EndsWith(source, ", by kernel > daemon"));
  CHECK(four == 4);
  const auto [destination, also_four] = Move(false, true);
  INFO(destination);
  CHECK(EndsWith(destination, ", by daemon > kernel"));
  CHECK(also_four == 4);
  const auto [neither, five] = Move(false, false);
  CHECK(EndsWith(neither, ", by daemon"));
  CHECK(five == 5);
}

}  // namespace kernel_tls_test
