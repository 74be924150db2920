// The memory of a process as the daemon has it, with a client that does what a test wants.
#include "transport/memory/process/process_memory.h"

#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "transport/orders/client_end.h"

namespace onecopy::process {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kSlabBytes = uint64_t{2} << 20;
constexpr milliseconds kLong{600'000};

// What orders the two threads' use of memory goes through two mappings of one file, which to the
// thread sanitizer are two memories: so it is told.
std::atomic<uint64_t> handed_over{0};
void HandOver() { handed_over.fetch_add(1); }

// A client's end: its slab, and one region of its memory, whose number is 5.
class TestClient {
 public:
  explicit TestClient(const std::shared_ptr<ClientSlab>& slab) {
    auto given = slab->OpenEnds();
    REQUIRE_OK(given);
    const os::UniqueFd memory(given->slab);
    const os::UniqueFd orders(given->orders);
    auto mapped = os::MapShared(memory.get(), slab->region()->bytes());
    REQUIRE_OK(mapped);
    slab_ = std::move(*mapped);
    auto end = orders::ClientEnd::Open(orders, os::UniqueFd(given->socket));
    REQUIRE_OK(end);
    end_ = std::move(*end);
  }
  ~TestClient() { StopServing(); }

  orders::ClientEnd& end() { return *end_; }
  std::vector<char>& memory() { return memory_; }
  void Hang() { end_.reset(); }  // closes the socket

  orders::Order Next() {
    for (;;) {
      if (const auto order = end_->Take()) return *order;
      end_->Sleep(stop_, std::chrono::hours(1));
    }
  }
  orders::Outcome Copy(const orders::Order& order) {
    if (end_->IsVoid(order)) return orders::Outcome::kVoid;
    if (order.region != 5) return orders::Outcome::kUnknownRegion;
    HandOver();
    for (uint64_t i = 0; i < order.count; ++i) {
      char* const own = memory_.data() + order.offset + i * order.region_stride;
      char* const slab = reinterpret_cast<char*>(slab_.data()) + order.slab + i * order.slab_stride;
      const bool out = order.way == orders::Way::kOutOfSlab;
      std::memcpy(out ? own : slab, out ? slab : own, order.bytes);
    }
    HandOver();
    return orders::Outcome::kCopied;
  }
  void Serve() {
    thread_ = std::thread([this] {
      while (!stop_ && !end_->ended()) {
        const auto order = end_->Take();
        if (order) {
          end_->Answer(*order, Copy(*order));
        } else {
          end_->Sleep(stop_, std::chrono::hours(1));
        }
      }
    });
  }
  void StopServing() {
    stop_ = true;
    if (end_ != nullptr) end_->WakeAll();
    if (thread_.joinable()) thread_.join();
    stop_ = false;
  }

 private:
  os::Mapping slab_;
  std::unique_ptr<orders::ClientEnd> end_;
  std::vector<char> memory_ = std::vector<char>(kSlabBytes, 'm');
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Rig {
  explicit Rig(milliseconds patience = kLong) : memory("east", kSlabBytes, patience) {
    slab = Open();
    client = std::make_unique<TestClient>(slab);
    region = Import(slab);
  }
  std::shared_ptr<ClientSlab> Open() {
    auto opened =
        memory.OpenSlab([](std::unique_ptr<Region> one) { return RegionRef(std::move(one)); });
    REQUIRE_OK(opened);
    return *opened;
  }
  RegionRef Import(const std::shared_ptr<ClientSlab>& of, bool read_only = false,
                   uint64_t number = 5) {
    ImportRequest request;
    request.form = "process";
    request.bytes = kSlabBytes;
    request.slab = of;
    request.region = number;
    request.read_only = read_only;
    auto imported = memory.Import(request);
    REQUIRE_OK(imported);
    return std::move(*imported);
  }
  std::unique_ptr<CopyRoute> Route(const RegionRef& from, const RegionRef& to) {
    auto route = memory.Prepare(from, to);
    REQUIRE_OK(route);
    return std::move(*route);
  }
  std::byte* data() const { return slab->region()->address(); }

  ProcessMemory memory;
  std::shared_ptr<ClientSlab> slab;
  std::unique_ptr<TestClient> client;
  RegionRef region;
};

// A copy that is under way, and how it ended.
struct Copying {
  testing::Event ended;
  Status status;

  CopyRoute::Done Done() {
    HandOver();
    return [this](Status copied, const StepList&) {
      status = std::move(copied);
      ended.Set();
    };
  }
  Status Await() {
    ended.Wait();
    HandOver();
    return status;
  }
};

Status CopyNow(CopyRoute& route, uint64_t from, uint64_t to, uint64_t bytes) {
  Copying copying;
  route.Copy(from, to, bytes, copying.Done());
  return copying.Await();
}

TEST_CASE("a client that keeps the descriptor of its slab keeps no memory by it") {
  testing::Event released;
  ProcessMemory memory("east", kSlabBytes, kLong);
  auto slab = memory.OpenSlab([&](std::unique_ptr<Region> one) {
    return RegionRef(one.release(), [&](Region* last) {
      delete last;
      released.Set();
    });
  });
  REQUIRE_OK(slab);
  auto given = (*slab)->OpenEnds();
  REQUIRE_OK(given);
  const os::UniqueFd kept(given->slab);
  const os::UniqueFd orders(given->orders);
  const os::UniqueFd socket(given->socket);
  struct stat facts {};
  REQUIRE(::fstat(kept.get(), &facts) == 0);
  CHECK(static_cast<uint64_t>(facts.st_blocks) * 512 >= kSlabBytes);
  (*slab)->End({Code::kAborted, reasons::kOwnerDied, "the client has gone"});
  slab->reset();
  released.Wait();
  REQUIRE(::fstat(kept.get(), &facts) == 0);
  CHECK(facts.st_blocks == 0);
}

TEST_CASE("bytes go between the process and its slab, and nowhere else") {
  Rig rig;
  rig.client->Serve();
  const auto in = rig.Route(rig.region, rig.slab->region());
  const auto out = rig.Route(rig.slab->region(), rig.region);
  REQUIRE(in->steps()->size() == 1);
  CHECK(in->steps()->front() ==
        Step{.node = "east", .from = "process", .to = "slab", .by = "client"});
  CHECK(out->steps()->front() ==
        Step{.node = "east", .from = "slab", .to = "process", .by = "client"});
  std::memcpy(rig.client->memory().data() + 100, "hello", 5);
  REQUIRE_OK(CopyNow(*in, 100, 4096, 5));
  CHECK(std::memcmp(rig.data() + 4096, "hello", 5) == 0);
  CHECK(static_cast<char>(rig.data()[4101]) == '\0');
  REQUIRE_OK(CopyNow(*out, 4097, 7, 3));
  CHECK(std::memcmp(rig.client->memory().data() + 6, "mellm", 5) == 0);
  REQUIRE_OK(CopyNow(*in, 0, 0, 0));
  for (const auto& [from, to, bytes] : {std::tuple<uint64_t, uint64_t, uint64_t>{0, 1, kSlabBytes},
                                        {kSlabBytes, 0, 1},
                                        {UINT64_MAX, 0, 2},
                                        {0, UINT64_MAX, 2}}) {
    CHECK(CopyNow(*in, from, to, bytes).code() == Code::kInternal);
  }
}

TEST_CASE("many strided pieces are one copy, however many orders fit") {
  Rig rig;
  rig.client->Serve();
  const auto in = rig.Route(rig.region, rig.slab->region());
  std::vector<StridedCopy> copies;
  for (uint64_t i = 0; i < 3 * orders::kOrders; ++i) {
    std::memset(rig.client->memory().data() + i * 64, static_cast<int>(i % 100), 64);
    copies.push_back(
        {.from = i * 64, .to = i * 8, .bytes = 2, .from_stride = 16, .to_stride = 2, .count = 4});
  }
  Copying copying;
  in->CopyMany(copies, copying.Done());
  REQUIRE_OK(copying.Await());
  for (uint64_t i = 0; i < 3 * orders::kOrders; ++i) {
    for (int byte = 0; byte < 8; ++byte) {
      REQUIRE(static_cast<uint64_t>(rig.data()[i * 8 + static_cast<uint64_t>(byte)]) == i % 100);
    }
  }
}

TEST_CASE("only its own slab is copied from and to, and only what may be written is") {
  Rig rig;
  const auto other = rig.Open();
  const Status foreign = rig.memory.Prepare(rig.region, other->region()).status();
  CHECK(foreign.code() == Code::kFailedPrecondition);
  CHECK(foreign.reason() == reasons::kNotApplicable);
  const RegionRef constant = rig.Import(rig.slab, true);
  REQUIRE_OK(rig.memory.Prepare(constant, rig.slab->region()));
  CHECK(rig.memory.Prepare(rig.slab->region(), constant).status().code() ==
        Code::kPermissionDenied);
  ImportRequest request;
  request.form = "process-gpu";
  request.bytes = 1;
  request.slab = rig.slab;
  auto gpu = rig.memory.Import(request);
  REQUIRE_OK(gpu);
  const RegionRef on_gpu = std::move(*gpu);
  CHECK(rig.Route(on_gpu, rig.slab->region())->steps()->front() ==
        Step{.node = "east", .from = "process-gpu", .to = "slab", .by = "client"});
  request.slab = nullptr;
  request.form = "process";
  CHECK(rig.memory.Import(request).status().reason() == reasons::kNotApplicable);
  request.form = "memfd";
  CHECK(rig.memory.Import(request).status().reason() == reasons::kBadHandle);
  CHECK(rig.memory.Allocate({}, 1).status().code() == Code::kFailedPrecondition);
}

TEST_CASE("memory that the client does not know fails its copies, and is of no use any more") {
  Rig rig;
  rig.client->Serve();
  const RegionRef gone = rig.Import(rig.slab, false, 6);
  const auto in = rig.Route(gone, rig.slab->region());
  for (int i = 0; i < 2; ++i) {
    const Status failed = CopyNow(*in, 0, 0, 10);
    CHECK(failed.code() == Code::kAborted);
    CHECK(failed.reason() == reasons::kMemoryFault);
  }
  REQUIRE_OK(CopyNow(*rig.Route(rig.region, rig.slab->region()), 0, 0, 10));
}

TEST_CASE("when the client has gone, what is under way fails, and so does what comes") {
  for (const bool hangs_up : {false, true}) {
    Rig rig;
    const auto in = rig.Route(rig.region, rig.slab->region());
    Copying copying;
    in->Copy(0, 0, 10, copying.Done());
    rig.client->Next();
    if (hangs_up) {
      rig.client->Hang();
    } else {
      rig.slab->End({Code::kAborted, reasons::kOwnerDied, "gone"});
    }
    CHECK(copying.Await().reason() == reasons::kOwnerDied);
    CHECK(CopyNow(*in, 0, 0, 10).reason() == reasons::kOwnerDied);
  }
}

TEST_CASE("what a stopped client had begun keeps its later copies away until it is answered") {
  Rig rig(milliseconds(1000));
  const auto in = rig.Route(rig.region, rig.slab->region());
  Copying begun;
  Copying waiting;
  in->Copy(0, 0, 10, begun.Done());
  const orders::Order order = rig.client->Next();
  in->Copy(0, 100, 10, waiting.Done());
  CHECK(begun.Await().reason() == reasons::kStalled);
  CHECK(waiting.Await().reason() == reasons::kStalled);
  // It might still write there.
  CHECK(CopyNow(*in, 0, 200, 10).reason() == reasons::kStalled);
  rig.client->end().Answer(order, rig.client->Copy(order));
  const orders::Order other = rig.client->Next();
  CHECK(rig.client->end().IsVoid(other));
  rig.client->end().Answer(other, rig.client->Copy(other));
  CHECK(static_cast<char>(rig.data()[100]) == '\0');  // it was not begun any more
  // Once the daemon has read the answers. What is refused meanwhile is not ordered.
  rig.client->Serve();
  Status copied;
  do {
    copied = CopyNow(*in, 0, 200, 10);
  } while (copied.reason() == reasons::kStalled);
  REQUIRE_OK(copied);
  CHECK(static_cast<char>(rig.data()[200]) == 'm');
  CHECK_FALSE(rig.region->CheckIntact().code() == Code::kAborted);
}

}  // namespace
}  // namespace onecopy::process
