// Two real daemons with a network card each: what the tcp link sends from where it lies, the kernel
// really does not copy, and receipts count that.
#include <fcntl.h>
#include <sched.h>

#include <stdexcept>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/node.h"
#include "transport/os/base/unique_fd.h"

namespace zero_copy_test {

using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = uint64_t{40} << 20;
constexpr uint64_t kLittle = 5000;  // not worth to be sent so

// In the child that becomes a daemon: the namespace that has the second card.
void EnterFar() {
  const onecopy::os::UniqueFd far(::open("/run/netns/far", O_RDONLY | O_CLOEXEC));
  if (!far || ::setns(far.get(), CLONE_NEWNET) != 0) {
    throw std::runtime_error("the guest has no network namespace 'far'");
  }
}

// east here, west on the far side; `zero_copy` as [tcp] has it.
struct CardPair {
  explicit CardPair(const std::string& zero_copy)
      : west("west", Options("10.78.0.2:0", zero_copy, {}, EnterFar)),
        east("east", Options("10.78.0.1:0", zero_copy, {west.AsPeer()}, {})) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }
  static NodeOptions Options(const std::string& listen, const std::string& zero_copy,
                             std::vector<std::string> peers, std::function<void()> in_child) {
    NodeOptions options;
    options.config =
        "insecure = true\nuid_domain = \"guest\"\n[peers.\"*\"]\nuid_domain = "
        "\"guest\"\n[tcp]\nlanes = 2\nzero_copy = \"" +
        zero_copy + "\"\n";
    options.listen = listen;
    options.lanes = listen;
    options.peers = std::move(peers);
    options.in_child = std::move(in_child);
    return options;
  }

  Node west;
  Node east;
};

struct Done {
  size_t steps = 0;
  uint64_t kernel_copied = 0;  // by the source's kernel
};

Done Move(CardPair& pair, const std::string& path, uint64_t seed, uint64_t bytes_asked = kBytes) {
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const HostBuffer source = Filled(east, "a", bytes_asked, seed);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", bytes_asked));
  const auto done = Must(east.RunTransfer({.source = source.endpoint(),
                                           .destination = {"west", "b", {}, {}},
                                           .policy = {.path_glob = path},
                                           .checksum = true}));
  REQUIRE_OK(onecopy::OutcomeOf(done));
  CHECK(IsPayload(destination.data(), bytes_asked, seed, 0));
  CHECK(done.receipt.path == path);
  Done counted{done.receipt.steps.size(), 0};
  std::string at;  // where the step before ended
  for (const auto& [step, bytes] : done.receipt.steps) {
    INFO(step.node << ": " << step.from << " > " << step.to << " by " << step.by);
    const bool out = step.node == "east" && step.to == "kernel";
    if (out) counted.kernel_copied = bytes;
    CHECK((out || bytes == bytes_asked));
    CHECK_FALSE(step.loopback);
    CHECK((at.empty() || step.from == at));
    at = step.to;
  }
  return counted;
}

}  // namespace

TEST_CASE("what is sent from where it lies is a copy less, in the receipt as in the kernel") {
  CardPair pair("always");
  const Done direct = Move(pair, "tcp-direct", 1);
  CHECK(direct.steps == 2);
  CHECK(direct.kernel_copied == 0);
  const Done staged = Move(pair, "tcp-staged", 2);
  CHECK(staged.steps == 4);
  CHECK(staged.kernel_copied == 0);
  const Done rest = Move(pair, "tcp-direct", 3, kBytes + kLittle);
  CHECK(rest.steps == 3);
  CHECK(rest.kernel_copied == kLittle);
}

TEST_CASE("what is measured goes both ways for a while, and the receipt says how much was copied") {
  CardPair pair("measured");
  const Done direct = Move(pair, "tcp-direct", 3);
  CHECK(direct.steps == 3);
  CHECK(direct.kernel_copied > 0);
  CHECK(direct.kernel_copied < kBytes);
}

TEST_CASE("without it the kernel copies every byte") {
  CardPair pair("off");
  const Done direct = Move(pair, "tcp-direct", 4);
  CHECK(direct.steps == 3);
  CHECK(direct.kernel_copied == kBytes);
}

}  // namespace zero_copy_test
