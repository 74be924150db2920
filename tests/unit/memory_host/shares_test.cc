// Copies that wait for their turn.
#include <future>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/support/catch.h"
#include "transport/memory/host/host_memory.h"

namespace onecopy::host {
namespace {

using testing::HostRegion;

constexpr uint64_t kBytes = 4096;

// One thread for copies, which has something else to do until it is let go.
struct BusyHost {
  HostMemory memory{"test", 1};
  RegionRef from = HostRegion(testing::Bytes(kBytes));
  RegionRef to = HostRegion(testing::Bytes(kBytes));
  std::unique_ptr<CopyRoute> bulk = *memory.Prepare(from, to);
  std::unique_ptr<CopyRoute> modest = *memory.Prepare(from, to);
  std::promise<void> go;
  std::vector<std::string> order;  // of the thread
  std::promise<void> all;
  size_t left = 0;

  BusyHost() {
    bulk->SetFlow({.user = 1});
    modest->SetFlow({.user = 2});
    bulk->executor().Post([released = go.get_future().share()] { released.wait(); });
  }
  void Ask(CopyRoute& route, uint64_t bytes, const std::string& name) {
    ++left;
    route.Copy(0, 0, bytes, [this, name](const Status& status, const StepList&) {
      order.push_back(status.ok() ? name : status.reason());
      if (--left == 0) all.set_value();
    });
  }
  void Go() {
    go.set_value();
    all.get_future().wait();
  }
};

TEST_CASE("a copy does not wait for all that another owner has asked for before it") {
  BusyHost with;
  for (int i = 0; i < 100; ++i) with.Ask(*with.bulk, kBytes, "bulk");
  with.Ask(*with.modest, kBytes, "modest");
  with.Go();
  REQUIRE(with.order.size() == 101);
  // A turn is 64 KiB.
  CHECK(std::count(with.order.begin(), with.order.begin() + 17, "modest") == 1);
  CHECK(with.order.back() == "bulk");
}

TEST_CASE("copies of a cancelled route end, and copy nothing") {
  BusyHost with;
  std::fill_n(with.from->address(), kBytes, std::byte{1});
  std::fill_n(with.to->address(), kBytes, std::byte{0});
  for (int i = 0; i < 10; ++i) with.Ask(*with.bulk, kBytes, "bulk");
  with.Ask(*with.modest, 1, "modest");
  with.bulk->Cancel();
  with.Go();
  CHECK(std::count(with.order.begin(), with.order.end(), reasons::kCancelled) == 10);
  CHECK(std::count(with.order.begin(), with.order.end(), "modest") == 1);
  CHECK(with.to->address()[0] == std::byte{1});
  CHECK(with.to->address()[1] == std::byte{0});
}

}  // namespace
}  // namespace onecopy::host
