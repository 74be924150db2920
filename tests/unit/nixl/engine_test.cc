// The backend as NIXL's core calls it, with daemons in this process; no NIXL.
#include "client/nixl/engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/served_cluster.h"
#include "tests/support/temp_folder.h"
#include "transport/os/base/unique_fd.h"

using namespace onecopy;
using namespace onecopy::nixl;
using abi::Operation;
using abi::Outcome;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;

namespace {

// A sealed memory file, mapped.
class Shared {
 public:
  explicit Shared(size_t bytes) : bytes_(bytes), fd_(::memfd_create("nixl", MFD_ALLOW_SEALING)) {
    REQUIRE(fd_);
    REQUIRE(::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0);
    REQUIRE(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    REQUIRE(mapped != MAP_FAILED);
    data = static_cast<char*>(mapped);
  }
  ~Shared() { ::munmap(data, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(data); }

  char* data = nullptr;

 private:
  const size_t bytes_;
  os::UniqueFd fd_;
};

std::unique_ptr<Engine> MakeEngine(const std::string& agent, const std::string& run_dir) {
  const abi::Parameters parameters = {{"run_dir", run_dir}};
  auto engine = Engine::Create({.agent = agent, .type = "ONECOPY", .parameters = &parameters});
  REQUIRE_OK(engine);
  return std::move(*engine);
}

abi::RegisteredDescriptor Describe(uintptr_t address, size_t bytes, std::string blob = {}) {
  abi::RegisteredDescriptor descriptor;
  descriptor.address = address;
  descriptor.bytes = bytes;
  descriptor.device = 0;
  descriptor.blob = std::move(blob);
  return descriptor;
}

abi::TransferList List(uintptr_t address, size_t bytes, abi::Metadata* metadata) {
  abi::TransferDescriptor item;
  item.address = address;
  item.bytes = bytes;
  item.device = 0;
  item.metadata = metadata;
  abi::TransferList list;
  list.items = {item};
  return list;
}

// Agents "one" and "two" of a node, each with 64 KiB; one knows two.
struct EngineFixture {
  static constexpr size_t kBytes = 65536;

  TempFolder folder;
  ServedCluster daemon{folder.path().string()};
  Shared mine{kBytes};
  Shared theirs{kBytes};
  std::unique_ptr<Engine> one = MakeEngine("one", folder.path().string());
  std::unique_ptr<Engine> two = MakeEngine("two", folder.path().string());
  abi::Metadata* my_memory = Register(*one, mine);
  abi::Metadata* their_memory = Register(*two, theirs);
  abi::Metadata* seen = nullptr;  // their memory, as one knows it

  EngineFixture() {
    std::string info;
    REQUIRE(two->ConnectionInfo(info) == Outcome::kSuccess);
    REQUIRE(one->LoadConnectionInfo("two", info) == Outcome::kSuccess);
    std::string place;
    REQUIRE(two->PublicData(their_memory, place) == Outcome::kSuccess);
    REQUIRE(one->LoadRemote(Describe(theirs.address(), kBytes, place), abi::Segment::kDram, "two",
                            seen) == Outcome::kSuccess);
    REQUIRE(one->Connect("two") == Outcome::kSuccess);
  }
  ~EngineFixture() {
    CHECK(one->Unload(seen) == Outcome::kSuccess);
    CHECK(one->Deregister(my_memory) == Outcome::kSuccess);
    CHECK(two->Deregister(their_memory) == Outcome::kSuccess);
  }

  static abi::Metadata* Register(Engine& engine, const Shared& memory) {
    abi::Metadata* made = nullptr;
    REQUIRE(engine.Register(Describe(memory.address(), kBytes), abi::Segment::kDram, made) ==
            Outcome::kSuccess);
    return made;
  }

  Outcome Prepare(Operation operation, abi::Request*& request) const {
    return one->Prepare(operation, List(mine.address() + 4, 100, my_memory),
                        List(theirs.address() + 8, 100, seen), "two", request, nullptr);
  }
  Outcome Post(Operation operation, abi::Request*& request) const {
    return one->Post(operation, List(mine.address() + 4, 100, my_memory),
                     List(theirs.address() + 8, 100, seen), "two", request, nullptr);
  }
  Outcome Await(abi::Request* request) const {
    Outcome outcome = Outcome::kInProgress;
    while ((outcome = one->Check(request)) == Outcome::kInProgress) std::this_thread::yield();
    return outcome;
  }
};

}  // namespace

TEST_CASE("an agent writes and reads another's memory, as often as it posts") {
  EngineFixture f;
  std::memcpy(f.mine.data + 4, "written", 8);
  abi::Request* request = nullptr;
  REQUIRE(f.Prepare(Operation::kWrite, request) == Outcome::kSuccess);
  CHECK(f.one->Check(request) == Outcome::kNotPosted);
  REQUIRE(f.Post(Operation::kWrite, request) == Outcome::kInProgress);
  CHECK(f.Await(request) == Outcome::kSuccess);
  CHECK(std::string(f.theirs.data + 8) == "written");

  std::memcpy(f.mine.data + 4, "anew", 5);
  REQUIRE(f.Post(Operation::kWrite, request) == Outcome::kInProgress);
  CHECK(f.Await(request) == Outcome::kSuccess);
  CHECK(std::string(f.theirs.data + 8) == "anew");
  CHECK(f.one->Release(request) == Outcome::kSuccess);

  std::memcpy(f.theirs.data + 8, "there", 6);
  abi::Request* read = nullptr;
  REQUIRE(f.Prepare(Operation::kRead, read) == Outcome::kSuccess);
  REQUIRE(f.Post(Operation::kRead, read) == Outcome::kInProgress);
  CHECK(f.Await(read) == Outcome::kSuccess);
  CHECK(std::string(f.mine.data + 4) == "there");
  CHECK(f.one->Release(read) == Outcome::kSuccess);
}

TEST_CASE("slices of registered memory share its registration, which goes with the last") {
  EngineFixture f;
  const size_t before = f.daemon.buffers().size();
  abi::Metadata* slice = nullptr;
  REQUIRE(f.one->Register(Describe(f.mine.address() + 100, 50), abi::Segment::kDram, slice) ==
          Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before);
  CHECK(f.one->Deregister(slice) == Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before);

  Shared more(4096);
  abi::Metadata* other = nullptr;
  REQUIRE(f.one->Register(Describe(more.address(), 4096), abi::Segment::kDram, other) ==
          Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before + 1);
  CHECK(f.one->Deregister(other) == Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before);
}

TEST_CASE("memory that is not found is no reason to forget the agent") {
  EngineFixture f;
  abi::Request* request = nullptr;
  REQUIRE(f.Prepare(Operation::kWrite, request) == Outcome::kSuccess);
  REQUIRE(f.two->Deregister(f.their_memory) == Outcome::kSuccess);
  f.their_memory = EngineFixture::Register(*f.two, f.theirs);
  REQUIRE(f.Post(Operation::kWrite, request) == Outcome::kInProgress);
  CHECK(f.Await(request) == Outcome::kBackend);
  CHECK(f.one->Release(request) == Outcome::kSuccess);
}

// The core looks for the handle of a descriptor by its bytes, and so finds one of equal ones twice.
TEST_CASE("equal descriptors are given back in any way that the core has") {
  EngineFixture f;
  const size_t before = f.daemon.buffers().size();
  const Shared more(EngineFixture::kBytes);
  abi::Metadata* const first = EngineFixture::Register(*f.one, more);
  abi::Metadata* const second = EngineFixture::Register(*f.one, more);
  std::vector<abi::Metadata*> loaded(2);
  REQUIRE(f.one->LoadLocal(first, loaded[0]) == Outcome::kSuccess);
  REQUIRE(f.one->LoadLocal(second, loaded[1]) == Outcome::kSuccess);
  const bool one_twice = GENERATE(true, false);
  CHECK(f.one->Unload(loaded[0]) == Outcome::kSuccess);
  CHECK(f.one->Unload(loaded[one_twice ? 0 : 1]) == Outcome::kSuccess);
  CHECK(f.one->Deregister(one_twice ? second : first) == Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before + 1);
  CHECK(f.one->Deregister(second) == Outcome::kSuccess);
  CHECK(f.daemon.buffers().size() == before);
  // Once more than there is.
  CHECK(f.one->Deregister(second) == Outcome::kSuccess);
  CHECK(f.one->Unload(loaded[0]) == Outcome::kSuccess);
  CHECK(f.one->LoadLocal(first, loaded[0]) == Outcome::kNotFound);
}

TEST_CASE("what has no bytes is registered, and moved, like all else") {
  EngineFixture f;
  abi::Metadata* none = nullptr;
  REQUIRE(f.two->Register(Describe(f.theirs.address(), 0), abi::Segment::kDram, none) ==
          Outcome::kSuccess);
  std::string place;
  REQUIRE(f.two->PublicData(none, place) == Outcome::kSuccess);
  abi::Metadata* seen = nullptr;
  REQUIRE(f.one->LoadRemote(Describe(f.theirs.address(), 0, place), abi::Segment::kDram, "two",
                            seen) == Outcome::kSuccess);
  const bool empty = GENERATE(true, false);
  abi::TransferList here = List(f.mine.address(), 0, f.my_memory);
  abi::TransferList there = List(f.theirs.address(), 0, seen);
  if (empty) {
    here.items.clear();
    there.items.clear();
  }
  abi::Options options{"moved", true, ""};
  abi::Request* request = nullptr;
  REQUIRE(f.one->Prepare(Operation::kWrite, here, there, "two", request, &options) ==
          Outcome::kSuccess);
  REQUIRE(f.one->Post(Operation::kWrite, here, there, "two", request, &options) ==
          Outcome::kInProgress);
  CHECK(f.Await(request) == Outcome::kSuccess);
  abi::Notifications told;
  while (told.empty()) REQUIRE(f.two->TakeNotifications(told) == Outcome::kSuccess);
  CHECK(told == abi::Notifications{{"one", "moved"}});
  CHECK(f.one->Release(request) == Outcome::kSuccess);
  CHECK(f.one->Unload(seen) == Outcome::kSuccess);
  CHECK(f.two->Deregister(none) == Outcome::kSuccess);
}

TEST_CASE("an agent that has gone is told as gone, by transfers and notifications") {
  EngineFixture f;
  abi::Request* request = nullptr;
  REQUIRE(f.Prepare(Operation::kWrite, request) == Outcome::kSuccess);
  f.two.reset();
  REQUIRE(f.Post(Operation::kWrite, request) == Outcome::kInProgress);
  CHECK(f.Await(request) == Outcome::kRemoteDisconnected);
  CHECK(f.one->Notify("two", "hello") == Outcome::kRemoteDisconnected);
  CHECK(f.one->Release(request) == Outcome::kSuccess);
  f.two = MakeEngine("two", f.folder.path().string());
  f.their_memory = EngineFixture::Register(*f.two, f.theirs);
}

TEST_CASE("a notification that did not arrive is told by one of the next") {
  EngineFixture f;
  f.two.reset();
  CHECK(f.one->Notify("two", "left to be sent") == Outcome::kSuccess);
  Outcome told = Outcome::kSuccess;
  while ((told = f.one->Notify("two", "again")) == Outcome::kSuccess) std::this_thread::yield();
  CHECK(told == Outcome::kRemoteDisconnected);
  f.two = MakeEngine("two", f.folder.path().string());
  f.their_memory = EngineFixture::Register(*f.two, f.theirs);
}

TEST_CASE("only an agent that was met has gone, and not for as long as its daemon may be back") {
  const TempFolder folder;
  const ServedCluster daemon{folder.path().string()};
  auto client = Client::Connect({.run_dir = folder.path().string()});
  REQUIRE_OK(client);
  const std::string boot_id = client->GetNode("east")->boot_id;
  const AgentPlace gone{"east", "nixl-none", boot_id};
  const AgentPlace restarted{"east", "nixl-other", "another"};
  const Status failure(Code::kNotFound, reasons::kBufferNotFound, "no such buffer");
  Presence presence;
  CHECK(presence.Judge(*client, gone, failure).reason() == reasons::kBufferNotFound);
  presence.Met(gone);
  presence.Met(restarted);
  CHECK(presence.Judge(*client, gone, failure).reason() == reasons::kOwnerDied);
  CHECK(presence.Judge(*client, restarted, failure).reason() == reasons::kBufferNotFound);
  const Status other(Code::kDataLoss, reasons::kChecksumMismatch, "altered");
  CHECK(presence.Judge(*client, gone, other).reason() == reasons::kChecksumMismatch);
}

TEST_CASE("what a backend is asked wrongly has a status") {
  EngineFixture f;
  abi::Metadata* none = nullptr;
  CHECK(f.one->LoadConnectionInfo("three", "nonsense") == Outcome::kBadArgument);
  CHECK(f.one->LoadRemote(Describe(1, 1, "nonsense"), abi::Segment::kDram, "two", none) ==
        Outcome::kBadArgument);
  CHECK(f.one->LoadRemote(Describe(1, 1, "onecopy-memory-1 b 0"), abi::Segment::kDram, "three",
                          none) == Outcome::kNotFound);
  CHECK(none == nullptr);
  CHECK(f.one->Connect("three") == Outcome::kNotFound);
  CHECK(f.one->Notify("three", "hello") == Outcome::kNotFound);
  CHECK(f.one->Disconnect("two") == Outcome::kSuccess);
  CHECK(f.one->Connect("two") == Outcome::kNotFound);

  abi::Request* request = nullptr;
  CHECK(f.one->Prepare(Operation::kWrite, List(f.mine.address(), 10, f.my_memory),
                       List(f.theirs.address(), 11, f.seen), "two", request,
                       nullptr) == Outcome::kBadArgument);
  CHECK(request == nullptr);
  CHECK(f.one->Post(Operation::kWrite, List(f.mine.address(), 10, f.my_memory),
                    List(f.theirs.address(), 10, f.seen), "two", request,
                    nullptr) == Outcome::kBadArgument);
  CHECK(f.one->Check(nullptr) == Outcome::kNotPosted);
}

TEST_CASE("without a daemon there is no backend, and the reason says so") {
  const TempFolder folder;
  const abi::Parameters parameters = {{"run_dir", folder.path().string()}};
  const auto engine =
      Engine::Create({.agent = "one", .type = "ONECOPY", .parameters = &parameters});
  CHECK(engine.status().code() == Code::kUnavailable);
}
