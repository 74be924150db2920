// Descriptors that a ring's kernel knows: for as long as their file is open, and no longer.
#include "transport/store/posix/registered_files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/store/kernel_refusals.h"
#include "transport/os/base/unique_fd.h"
#include "transport/store/posix/drive_places.h"
#include "transport/store/posix/posix_file.h"

namespace onecopy::posix {
namespace {

using namespace onecopy::testing;

constexpr uint64_t kFileBytes = uint64_t{1} << 20;

struct BareRing {
  explicit BareRing(unsigned most) {
    if (::io_uring_queue_init(4, &ring, 0) == 0)
      files = std::make_unique<RegisteredFiles>(ring, most);
  }
  ~BareRing() {
    if (files != nullptr) ::io_uring_queue_exit(&ring);
  }
  io_uring ring{};
  std::unique_ptr<RegisteredFiles> files;
};

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    reader = os::UniqueFd(ends[0]);
    writer = os::UniqueFd(ends[1]);
  }
  // Whether nobody can write any more.
  bool over() const {
    pollfd one{reader.get(), POLLIN, 0};
    return ::poll(&one, 1, 0) == 1 && (one.revents & POLLHUP) != 0;
  }
  os::UniqueFd reader;
  os::UniqueFd writer;
};

// Takes the file's lock that nobody gets while it is open for writing.
bool OpenForWriting(const std::string& path) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  if (::fcntl(fd.get(), F_SETLEASE, F_RDLCK) == 0) return false;
  REQUIRE(errno == EAGAIN);
  return true;
}

TEST_CASE("a removed descriptor's file goes when it is closed, and its place is free again") {
  BareRing ring(2);
  if (ring.files == nullptr) ONECOPY_SKIP("this process may have no io_uring");
  Pipe first;
  const Pipe second;
  const int place = ring.files->Add(first.writer.get());
  if (place < 0) ONECOPY_SKIP("this kernel lets go of registered files later, or has none");
  const int other = ring.files->Add(second.writer.get());
  CHECK(other >= 0);
  CHECK(other != place);
  CHECK(ring.files->Add(second.reader.get()) == RegisteredFiles::kNone);  // full
  CHECK(ring.files->Add(-1) == RegisteredFiles::kNone);
  first.writer = os::UniqueFd();
  CHECK_FALSE(first.over());  // the ring has it
  ring.files->Remove(place);
  CHECK(first.over());
  ring.files->Remove(RegisteredFiles::kNone);
  CHECK(ring.files->Add(second.reader.get()) == place);
}

TEST_CASE("what is no descriptor is not registered, and takes no place") {
  BareRing ring(1);
  if (ring.files == nullptr) ONECOPY_SKIP("this process may have no io_uring");
  const Pipe pipe;
  CHECK(ring.files->Add(9999) == RegisteredFiles::kNone);
  const int place = ring.files->Add(pipe.reader.get());
  if (place < 0) ONECOPY_SKIP("this kernel lets go of registered files later, or has none");
  CHECK(place == 0);
}

TEST_CASE("a kernel that has no table for files is asked once") {
  std::array<int, 2> places = {7, 7};
  bool refused = false;
  bool has_ring = false;
  const Pipe pipe;
  std::thread([&] {
    BareRing ring(1);
    has_ring = ring.files != nullptr;
    refused = RefuseRegister(IORING_REGISTER_FILES2);
    if (!has_ring) return;
    for (int& place : places) place = ring.files->Add(pipe.reader.get());
  }).join();
  if (!has_ring) ONECOPY_SKIP("this process may have no io_uring");
  REQUIRE(refused);
  CHECK(places == std::array<int, 2>{RegisteredFiles::kNone, RegisteredFiles::kNone});
}

TEST_CASE("a file is registered while it is open, and is not open afterwards") {
  const testing::TempFolder folder;
  const std::string path = folder / "file";
  struct Kept {
    os::UniqueFd fd;
    std::promise<void> gone;
    ~Kept() {
      fd = os::UniqueFd();
      gone.set_value();
    }
  };
  auto kept = std::make_shared<Kept>();
  kept->fd = os::UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  REQUIRE(kept->fd);
  auto gone = kept->gone.get_future();
  OpenFileRequest request;
  request.fd = kept->fd.get();
  request.keeps = kept;
  request.name = path;
  request.use = FileUse::kWrite;
  request.bytes = kFileBytes;
  kept = nullptr;
  auto mounts = std::make_shared<Mounts>();
  auto reads = std::make_shared<CachedReads>(true);
  DrivePlaces drives{Topology{}};
  auto facts = InspectDescriptor(request, *mounts, drives, *reads);
  REQUIRE_OK(facts);
  auto lane = Lane::Make(0, 0, true, std::make_shared<HeldMemory>());
  REQUIRE_OK(lane);
  // Files are made where what they submit runs.
  auto made = std::make_shared<std::promise<std::shared_ptr<PosixFile>>>();
  (*lane)->loop().Post([&] {
    made->set_value(std::make_shared<PosixFile>(std::move(request), std::move(*facts), Cut(),
                                                PosixFile::Known{mounts, reads}, *lane));
  });
  std::shared_ptr<PosixFile> file = made->get_future().get();
  const RegionRef region = HostRegion(kFileBytes);
  Fill({region, 0, kFileBytes}, 1);
  std::promise<Status> written;
  file->Write(0, {region, 0, kFileBytes},
              [&](Status status, FilePass) { written.set_value(std::move(status)); });
  REQUIRE_OK(written.get_future().get());
  (*lane)->Settle();
  const std::string how = file->how();
  CHECK(OpenForWriting(path));
  file = nullptr;
  gone.get();
  CHECK_FALSE(OpenForWriting(path));
  if (how.find("registered file") == std::string::npos) {
    ONECOPY_SKIP("nothing was registered here: " + how);
  }
}

}  // namespace
}  // namespace onecopy::posix
