// Copies of several owners, which take turns on a GPU's streams.
#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

constexpr uint64_t kShareBytes = uint64_t{8} << 20;
const Flow kBulk{.user = 1};
const Flow kModest{.user = 2};

// Copies from host memory to a GPU, by two routes.
struct SharesRig {
  Rig rig;
  RegionRef from = HostRegion(Bytes(kShareBytes));
  RegionRef to;
  std::unique_ptr<CopyRoute> bulk;
  std::unique_ptr<CopyRoute> modest;
  std::vector<std::string> order;  // of the GPU's thread
  std::promise<void> all;
  size_t left = 0;

  SharesRig() {
    rig.api->EventQuery = [](CUevent event) {
      const CUresult result = fake->EventQuery(event);
      return result == CUDA_SUCCESS ? event_result.load() : result;
    };
    to = rig.Allocate(0, kShareBytes);
    for (const auto& [route, flow] : {std::pair(&bulk, kBulk), std::pair(&modest, kModest)}) {
      auto made = rig.memory().Prepare(from, to);
      REQUIRE_OK(made);
      *route = std::move(*made);
      (*route)->SetFlow(flow);
    }
    REQUIRE_OK(CopyNow(*bulk, 0, 0, 0).status);
  }

  void Ask(CopyRoute& route, uint64_t bytes, const std::string& name) {
    ++left;
    auto done = [this, name](const Status& status, const StepList&) {
      order.push_back(status.ok() ? name : status.reason());
      if (--left == 0) all.set_value();
    };
    route.Copy(0, 0, bytes, std::move(done));
  }
  // From one task of the GPU's thread, so that none ends before all are asked for.
  void AskAll(UniqueFunction<void()> ask) {
    std::promise<void> asked;
    bulk->executor().Post([&] {
      ask();
      asked.set_value();
    });
    asked.get_future().wait();
    all.get_future().wait();
  }
};

TEST_CASE("of one owner all copies are given to the GPU at once") {
  SharesRig with;
  with.AskAll([&] {
    for (int i = 0; i < 12; ++i) with.Ask(*with.bulk, kShareBytes, "bulk");
  });
  CHECK(with.order == std::vector<std::string>(12, "bulk"));
}

TEST_CASE("a copy does not wait for all that another owner has asked for before") {
  SharesRig with;
  with.AskAll([&] {
    with.Ask(*with.modest, 4096, "modest");
    for (int i = 0; i < 12; ++i) with.Ask(*with.bulk, kShareBytes, "bulk");
    with.Ask(*with.modest, 4096, "modest");
    with.Ask(*with.modest, 4096, "modest");
  });
  REQUIRE(with.order.size() == 15);
  // Two are ahead, and one may have its turn before.
  CHECK(std::count(with.order.begin(), with.order.begin() + 6, "modest") == 3);
  CHECK(with.order.back() == "bulk");
}

TEST_CASE("many pieces wait for their turn as one copy does, and all arrive") {
  SharesRig with;
  WriteAll(with.rig.memory(), with.to, Bytes(kShareBytes));
  const Bytes content = Pattern(kShareBytes, 9);
  std::memcpy(with.from->address(), content.data(), content.size());
  with.AskAll([&] {
    with.Ask(*with.modest, 0, "modest");
    for (int i = 0; i < 4; ++i) with.Ask(*with.bulk, kShareBytes / 2, "bulk");
    ++with.left;
    std::vector<StridedCopy> pieces;
    for (uint64_t at = kShareBytes / 2; at < kShareBytes; at += 4096) {
      pieces.push_back({at, at, 4096, 0, 0, 1});
    }
    with.modest->CopyMany(std::move(pieces), [&](const Status& status, const StepList&) {
      with.order.push_back(status.ok() ? "pieces" : status.reason());
      if (--with.left == 0) with.all.set_value();
    });
  });
  CHECK(std::count(with.order.begin(), with.order.end(), "pieces") == 1);
  CHECK(std::count(with.order.begin(), with.order.end(), "bulk") == 4);
  CHECK(ReadAll(with.rig.memory(), with.to) == content);
}

TEST_CASE("copies that wait for their turn end when their route is cancelled and others arrive") {
  SharesRig with;
  with.AskAll([&] {
    with.Ask(*with.modest, 4096, "modest");
    for (int i = 0; i < 100; ++i) with.Ask(*with.bulk, kShareBytes, "bulk");
    with.Ask(*with.modest, 4096, "modest");
    with.bulk->Cancel();
  });
  CHECK(with.order.size() == 102);
  CHECK(std::count(with.order.begin(), with.order.end(), "modest") == 2);
  CHECK(std::count(with.order.begin(), with.order.end(), reasons::kCancelled) >= 1);
}

TEST_CASE("what waits for its turn when the GPU is lost fails and lets everything go") {
  SharesRig with;
  with.AskAll([&] {
    with.Ask(*with.modest, 4096, "modest");
    for (int i = 0; i < 12; ++i) with.Ask(*with.bulk, kShareBytes, "bulk");
    event_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  });
  event_result = CUDA_SUCCESS;
  CHECK(with.order == std::vector<std::string>(13, std::string(reasons::kGpuLost)));
}

}  // namespace
}  // namespace onecopy::cuda
