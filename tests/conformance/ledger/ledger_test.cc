// A receipt's copies are what really happened: they equal what the ledger counted below everything
// that reports.
#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>

#include "tests/support/engine_cluster.h"
#include "tests/support/ledger.h"
#include "tests/support/memory.h"
#include "tests/support/temp_folder.h"
#include "transport/core/toolkit/file_copier.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/copy_bytes.h"
#include "transport/store/posix/posix_store.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = 24 << 20;

// Host memory whose copies take a detour through another buffer.
class DetourMemory final : public Memory {
 public:
  DetourMemory(std::unique_ptr<Memory> host, std::string node, bool reports)
      : host_(std::move(host)), node_(std::move(node)), reports_(reports) {}

  const std::string& kind() const override { return host_->kind(); }
  std::vector<MemoryCapability> Describe() const override { return host_->Describe(); }
  Result<std::string> FindDevice(const std::string& typed) const override {
    return host_->FindDevice(typed);
  }
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override {
    return host_->Allocate(device, bytes);
  }
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override {
    return host_->Import(request);
  }
  bool Copies(const Place& from, const Place& to) const override { return host_->Copies(from, to); }
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override {
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<CopyRoute> route, host_->Prepare(from, to));
    return std::unique_ptr<CopyRoute>(
        std::make_unique<Route>(std::move(route), from, node_, reports_));
  }
  Status CloseDevice(const std::string& device) override { return host_->CloseDevice(device); }

 private:
  class Route final : public CopyRoute {
   public:
    Route(std::unique_ptr<CopyRoute> route, RegionRef from, const std::string& node, bool reports)
        : route_(std::move(route)), from_(std::move(from)) {
      std::vector<Step> steps = *route_->steps();
      if (reports)
        steps.insert(steps.begin(), {.node = node, .from = "host", .to = "detour", .by = "cpu"});
      steps_ = std::make_shared<const std::vector<Step>>(std::move(steps));
    }

    void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override {
      std::vector<std::byte> detour(bytes);
      onecopy_copy_bytes(detour.data(), from_->address() + from_offset, bytes);
      route_->Copy(from_offset, to_offset, bytes, WithOwnSteps(std::move(done)));
    }
    void CopyMany(std::vector<StridedCopy> copies, Done done) override {
      for (const StridedCopy& copy : copies) {
        std::vector<std::byte> detour(copy.payload());
        onecopy_copy_strided(detour.data(), copy.bytes, from_->address() + copy.from,
                             copy.from_stride, copy.bytes, copy.count);
      }
      route_->CopyMany(std::move(copies), WithOwnSteps(std::move(done)));
    }
    const StepList& steps() const override { return steps_; }
    unsigned depth() const override { return route_->depth(); }
    uint64_t chunk_bytes() const override { return route_->chunk_bytes(); }
    Executor& executor() override { return route_->executor(); }

   private:
    Done WithOwnSteps(Done done) {
      return [this, done = std::move(done)](Status status, const StepList&) mutable {
        done(std::move(status), steps_);
      };
    }

    const std::unique_ptr<CopyRoute> route_;
    const RegionRef from_;
    StepList steps_;
  };

  const std::unique_ptr<Memory> host_;
  const std::string node_;
  const bool reports_;
};

struct Counted {
  size_t receipt = 0;
  double ledger = 0;
};

// What its client has done to the source before; where it did nothing, links do not read in place.
enum class Source { kWritten, kAllHoles };

// One transfer of that path, as its receipt and as the ledger tell it.
Counted CopiesOf(EngineCluster& cluster, const std::string& source, const std::string& destination,
                 const std::string& path, Source content = Source::kWritten) {
  const Principal alice = cluster["east"].Attach();
  auto a = cluster["east"].Register(alice, "a", kBytes);
  REQUIRE_OK(a);
  if (content == Source::kWritten) std::fill_n(a->data, kBytes, std::byte{7});
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "b", kBytes));
  const Principal bob = cluster["west"].Attach();
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "b", kBytes));
  TransferRequest request = Request(source, destination);
  request.policy.path_glob = path;
  const testing::Ledger before = testing::Ledger::Now();
  auto copied = cluster["east"].Copy(alice, request);
  const testing::Ledger moved = testing::Ledger::Now() - before;
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  for (const ExecutedStep& step : copied->receipt.steps) CHECK(step.bytes == kBytes);
  return {copied->receipt.steps.size(), moved.Copies(kBytes)};
}

bool Agree(const Counted& counted) {
  return std::abs(counted.ledger - static_cast<double>(counted.receipt)) < 0.01 * counted.ledger;
}

auto Detour(bool reports) {
  return [reports](const std::string& name, NodePlan& plan) {
    plan.options.slot_bytes = 1 << 20;
    plan.memories[0] = std::make_unique<DetourMemory>(std::move(plan.memories[0]), name, reports);
  };
}

}  // namespace

TEST_CASE("the receipt's copies are the ledger's, on every path") {
  const std::string zero_copy =
      GENERATE("off", "measured", "always");  // over loopback the kernel copies all the same
  CAPTURE(zero_copy);
  EngineCluster cluster({"east", "west"}, [&](const std::string& name, NodePlan& plan) {
    plan.options.slot_bytes = 1 << 20;
    plan.links[0] = MakeTcpLink(name, zero_copy);
  });
  const auto [destination, path, copies] = GENERATE(table<std::string, std::string, size_t>({
      {"east:b", "local", 1},
      {"east:b", "peer-bounce", 2},
      {"west:b", "tcp-direct", 3},
      {"west:b", "tcp-bounce", 4},
      {"west:b", "tcp-staged", 5},
  }));
  CAPTURE(path);
  const Counted counted = CopiesOf(cluster, "east:a", destination, path);
  CAPTURE(counted.receipt, counted.ledger);
  CHECK(counted.receipt == copies);
  CHECK(Agree(counted));
}

TEST_CASE("what was never written is copied as often as the receipt says, too") {
  EngineCluster cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
    plan.options.slot_bytes = 1 << 20;
  });
  const auto [destination, path, copies] = GENERATE(table<std::string, std::string, size_t>({
      {"east:b", "local", 1},
      {"east:b", "peer-bounce", 2},
      {"west:b", "tcp-bounce", 4},
      {"west:b", "tcp-staged", 5},
  }));
  CAPTURE(path);
  const Counted counted = CopiesOf(cluster, "east:a", destination, path, Source::kAllHoles);
  CAPTURE(counted.receipt, counted.ledger);
  CHECK(counted.receipt == copies);
  CHECK(Agree(counted));
}

TEST_CASE("an extra copy that a backend makes is a step in the receipt, and in the ledger") {
  EngineCluster cluster({"east", "west"}, Detour(true));
  const auto [destination, path, copies] = GENERATE(table<std::string, std::string, size_t>({
      {"east:b", "local", 2},
      {"east:b", "peer-bounce", 4},
      {"west:b", "tcp-direct", 3},  // no memory copies there
      {"west:b", "tcp-staged", 7},
  }));
  CAPTURE(path);
  const Counted counted = CopiesOf(cluster, "east:a", destination, path);
  CAPTURE(counted.receipt, counted.ledger);
  CHECK(counted.receipt == copies);
  CHECK(Agree(counted));
}

TEST_CASE("a copy that nobody reports is noticed: the ledger disagrees") {
  EngineCluster cluster({"east", "west"}, Detour(false));
  const Counted counted = CopiesOf(cluster, "east:a", "west:b", "tcp-staged");
  CAPTURE(counted.receipt, counted.ledger);
  CHECK(counted.receipt == 5);
  CHECK_FALSE(Agree(counted));
}

TEST_CASE("what processors copy of a file is what its steps say") {
  const TempFolder folder;
  std::ofstream(folder / "in", std::ios::binary) << std::string(kBytes, 'f');
  const auto fd =
      std::make_shared<os::UniqueFd>(::open((folder / "in").c_str(), O_RDONLY | O_CLOEXEC));
  // By threads, whose calls the ledger sees; what the kernel does by itself it does not.
  posix::PosixStore store({.io = posix::PosixStore::Io::kThreads});
  OpenFileRequest request;
  request.fd = fd->get();
  request.keeps = fd;
  request.name = "in";
  std::promise<Result<std::shared_ptr<StoreFile>>> opened;
  store.Open(std::move(request), [&](auto file) { opened.set_value(std::move(file)); });
  auto file = opened.get_future().get();
  REQUIRE_OK(file);
  const RegionRef from = RegionOf(std::move(*file));
  const RegionRef to = HostRegion(kBytes);
  FileCopier copier("east");
  auto route = copier.Prepare(from, to);
  REQUIRE_OK(route);
  const testing::Ledger before = testing::Ledger::Now();
  std::promise<StepList> ended;
  (*route)->Copy(0, 0, kBytes, [&](const Status& status, const StepList& steps) {
    CHECK(status.ok());
    ended.set_value(steps);
  });
  const StepList steps = ended.get_future().get();
  const auto by_cpu = std::count_if(steps->begin(), steps->end(),
                                    [](const Step& step) { return step.by == "cpu"; });
  CHECK((testing::Ledger::Now() - before).Copies(kBytes) == static_cast<double>(by_cpu));
  CHECK(to->address()[kBytes - 1] == std::byte{'f'});
}
