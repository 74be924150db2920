// What a user gets of a GPU beside one who asks for far more.
#include "tests/cluster/neighbours.h"
#include "tests/cluster/users.h"
#include "tests/gpu/real_gpu.h"

namespace onecopy::testing::shares_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// By how much the median of 1 MiB grows. The waits of all 64 before it would make it 15 and more.
void CheckShared(const std::string& from, const std::string& to,
                 Neighbour::By bulk_by = Neighbour::By::kAny) {
  const char* const by = bulk_by == Neighbour::By::kCall ? " (by calls)" : "";
  INFO(from << " to " << to << by);
  Node node("east");
  OpenTo(node);
  CreateWritten(kOther, node, "from", 128 * kMiB, from);
  CreateWritten(kOther, node, "to", 128 * kMiB, to);
  CreateWritten(kOwner, node, "mine", kMiB, from);
  CreateWritten(kOwner, node, "there", kMiB, to);
  Neighbour modest(kOwner, node, "mine", "there", kMiB, 1);
  modest.Begin();
  const auto alone = modest.Times(500);
  Neighbour bulk(kOther, node, "from", "to", 32 * kMiB, 64, bulk_by);
  bulk.Begin();
  const uint64_t before = bulk.Count();
  const auto beside = modest.Times(500);
  WARN(from << " to " << to << by << ": alone p50 " << alone.first << " us, p99 " << alone.second
            << " us; beside p50 " << beside.first << " us, p99 " << beside.second << " us; "
            << (bulk.Count() - before) / kMiB / 500 << " MiB of the other's for each");
  CHECK(beside.first < 8 * alone.first);
}

}  // namespace

TEST_CASE("1 MiB inside a GPU does not wait for 64 transfers of 32 MiB of another user") {
  ONECOPY_NEEDS_GPUS(1);
  REQUIRE_ROOT();
  CheckShared("cuda:0", "cuda:0");
}

TEST_CASE("1 MiB to and from a GPU does not wait for 64 transfers of 32 MiB of another user") {
  ONECOPY_NEEDS_GPUS(1);
  REQUIRE_ROOT();
  CheckShared("host", "cuda:0");
  CheckShared("cuda:0", "host");
}

TEST_CASE("1 MiB to and from a GPU does not wait for what another user moves by calls") {
  ONECOPY_NEEDS_GPUS(1);
  REQUIRE_ROOT();
  CheckShared("host", "cuda:0", Neighbour::By::kCall);
  CheckShared("cuda:0", "host", Neighbour::By::kCall);
}

TEST_CASE("1 MiB between GPUs does not wait for 64 transfers of 32 MiB of another user") {
  ONECOPY_NEEDS_GPUS(2);
  REQUIRE_ROOT();
  CheckShared("cuda:0", "cuda:1");
  CheckShared("cuda:0", "cuda:1", Neighbour::By::kCall);
}

}  // namespace onecopy::testing::shares_test
