// The backend as NIXL's core calls it, with daemons in this process; no NIXL.
#include "client/nixl/engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/served_cluster.h"
#include "tests/support/temp_folder.h"
#include "transport/os/unique_fd.h"

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

TEST_CASE("what a backend is asked wrongly has a status") {
  EngineFixture f;
  abi::Metadata* none = nullptr;
  CHECK(f.one->Register(Describe(f.mine.address(), 0), abi::Segment::kDram, none) ==
        Outcome::kBadArgument);
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
