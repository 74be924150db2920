// Checksums that devices compute, and checksums of both ends at the same time.
#include <atomic>
#include <future>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/sharing/gpu_rig.h"
#include "transport/digest/tree.h"

namespace device_sums_test {
namespace {

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

constexpr uint64_t kLeaves = 10;
constexpr uint64_t kRest = 3;
constexpr uint64_t kLong = kLeaves * digest::kLeafBytes + kRest;

// Two buffers of zeroes. The test decides which checksums the devices report.
struct Summing : GpuRig {
  std::atomic<uint64_t> asked{0};  // leaves, of both nodes

  Summing() {
    Create("east", alice, "long", "cuda:0", kLong);
    Create("west", bob, "far", "cuda:1", kLong);
  }
  using Sum = std::function<Status(uint64_t offset, std::span<Memory::LeafSum>)>;
  void OnSum(const std::string& node, const Sum& sum) {
    controls[node]->Set([&](FakeGpus::Hooks& hooks) {
      hooks.on_sum = [this, sum](uint64_t offset, std::span<Memory::LeafSum> sums) {
        asked += sums.size();
        return sum(offset, sums);
      };
    });
  }
  static Sum Saying(int byte) {
    return [byte](uint64_t, std::span<Memory::LeafSum> sums) {
      for (Memory::LeafSum& sum : sums) sum.fill(static_cast<std::byte>(byte));
      return OkStatus();
    };
  }
  static TransferRequest Checked(const std::string& from = "east:long",
                                 const std::string& to = "west:far") {
    TransferRequest request = Request(from, to);
    request.checksum = true;
    return request;
  }
};

// The checksum of a payload whose leaves have that reported checksum, with zeroes behind them.
std::string RootOf(int byte) {
  digest::TreeHasher hasher(kLong);
  digest::DigestBytes leaf;
  leaf.fill(static_cast<std::byte>(byte));
  for (uint64_t i = 0; i < kLeaves; ++i) hasher.AddLeaf(leaf);
  const char rest[kRest] = {};
  hasher.Add(rest, sizeof rest);
  return hasher.Take().root;
}

std::string RootOfZeroes() {
  return digest::TreeHexOf(std::vector<std::byte>(kLong).data(), kLong);
}

}  // namespace

TEST_CASE("devices sum whole leaves, and what is left goes through slots") {
  Summing rig;
  for (const char* node : {"east", "west"}) rig.OnSum(node, Summing::Saying(0x17));
  const TransferInfo done = rig.Copy(Summing::Checked());
  REQUIRE(done.state == TransferState::kSucceeded);
  CHECK(rig.asked == 2 * kLeaves);
  REQUIRE(done.receipt.checksum);
  CHECK(done.receipt.checksum->value == RootOf(0x17));
  CHECK(done.receipt.checksum->verified);
}

TEST_CASE("checksums from both devices are compared") {
  Summing rig;
  rig.OnSum("east", Summing::Saying(0x17));
  rig.OnSum("west", Summing::Saying(0x18));
  const TransferInfo done = rig.Copy(Summing::Checked());
  CHECK(done.error.reason() == reasons::kChecksumMismatch);
}

TEST_CASE("slots replace a device that cannot sum, but not one that fails") {
  Summing rig;
  rig.OnSum("east", [](uint64_t, std::span<Memory::LeafSum>) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory, "no room for a kernel");
  });
  const TransferInfo done = rig.Copy(Summing::Checked());
  REQUIRE(done.state == TransferState::kSucceeded);
  CHECK(done.receipt.checksum->value == RootOfZeroes());
  rig.OnSum("west", [](uint64_t, std::span<Memory::LeafSum>) {
    return Status(Code::kUnavailable, reasons::kGpuLost, "fell off the bus");
  });
  const TransferInfo failed = rig.Copy(Summing::Checked());
  CHECK(failed.state == TransferState::kFailed);
  CHECK(failed.error.reason() == reasons::kGpuLost);
  CHECK(failed.error.message().find("its checksum is unknown") != std::string::npos);
}

TEST_CASE("devices sum only whole leaves, and only from 8 MiB on") {
  Summing rig;
  for (const char* node : {"east", "west"}) rig.OnSum(node, Summing::Saying(0x17));
  const TransferInfo few = rig.Copy(Summing::Checked("east:long@0+8388607", "west:far@0"));
  REQUIRE(few.state == TransferState::kSucceeded);
  CHECK(rig.asked == 0);
  const TransferInfo eight = rig.Copy(Summing::Checked("east:long@5+8388608", "west:far@7"));
  REQUIRE(eight.state == TransferState::kSucceeded);
  CHECK(rig.asked == 16);
}

TEST_CASE("the destination computes its checksum while it waits for the source's") {
  Summing rig;
  std::promise<void> let;
  std::promise<void> sums;
  rig.OnSum("east", Summing::Saying(0x17));
  rig.OnSum("west",
            [&, go = let.get_future().share()](uint64_t, std::span<Memory::LeafSum> leaves) {
              sums.set_value();
              go.wait();
              return Summing::Saying(0x17)(0, leaves);
            });
  rig.cluster.HoldAnswers("Finish");
  const auto started = rig.cluster["west"].Start(rig.bob, Summing::Checked());
  REQUIRE_OK(started);
  sums.get_future().wait();  // the source's answer is held all the time
  SECTION("to its end") {
    let.set_value();
    rig.cluster.ReleaseCalls();
    const TransferInfo done = rig.cluster["west"].Wait(rig.bob, started->id);
    CHECK(done.state == TransferState::kSucceeded);
    CHECK(done.receipt.checksum->value == RootOf(0x17));
  }
  SECTION("that is cancelled") {
    REQUIRE_OK(rig.cluster["west"].Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.CancelTransfer(rig.bob, started->id, std::move(reply));
    }));
    rig.cluster.ReleaseCalls();
    // The transfer cannot end while its memory is being read.
    const auto now = rig.cluster["west"].Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.GetTransfer(rig.bob, started->id, std::move(reply));
    });
    REQUIRE_OK(now);
    CHECK_FALSE(IsFinal(now->state));
    let.set_value();
    CHECK(rig.cluster["west"].Wait(rig.bob, started->id).state == TransferState::kCancelled);
  }
}

}  // namespace device_sums_test
