// Descriptors that a client passes and that the daemon must not trust.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"

namespace memfd_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Status;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;

constexpr uint64_t kBytes = 8192;
constexpr uint64_t kEndless = UINT64_MAX;

UniqueFd Opened(int fd) {
  if (fd < 0) throw std::system_error(errno, std::generic_category());
  return UniqueFd(fd);
}

UniqueFd Memfd(int seals, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd = Opened(::memfd_create("test", flags | MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), kBytes) == 0);
  if (seals != 0) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

// Its message names `names`, and it tells what to pass instead.
void CheckRefusal(const Status& status, const std::string& names,
                  Code code = Code::kInvalidArgument, const std::string& reason = "BAD_HANDLE") {
  CheckFailed(status, code, reason);
  INFO(status.ToString());
  CHECK(status.message().find(names) != std::string::npos);
  CHECK(status.remedy() != "");
}

// A node, a client of it, and what must be true of both in the end.
struct Registering {
  Node east{"east"};
  Kept kept{east};
  Client client = east.Connect();
  // Once the client has asked for something, and so is wholly connected.
  size_t descriptors = (Must(client.ListBuffers()), OpenDescriptors(east.process().pid()));

  Status Register(const UniqueFd& fd, uint64_t offset = 0, uint64_t bytes = kBytes) {
    return client.RegisterMemfd("m", fd.get(), offset, bytes).status();
  }
  void Check() {
    CHECK(Must(client.ListBuffers()).size() == 1);
    WaitUntil("refused descriptors are closed",
              [&] { return OpenDescriptors(east.process().pid()) <= descriptors; });
    kept.CheckUnchanged();
    CheckServes(east);
    // The same client may go on, too, with what is right.
    const UniqueFd right = Memfd(F_SEAL_SHRINK);
    REQUIRE_OK(Register(right));
    REQUIRE_OK(client.DeleteBuffer("m"));
  }
};

}  // namespace

TEST_CASE("memory files that cannot be written, or are too short, are refused") {
  Registering with;
  CheckRefusal(with.Register(Memfd(F_SEAL_SHRINK | F_SEAL_WRITE)), "sealed against writing");
  const UniqueFd writable = Memfd(F_SEAL_SHRINK);
  const UniqueFd readable =
      Opened(::open(("/proc/self/fd/" + std::to_string(writable.get())).c_str(), O_RDONLY));
  CheckRefusal(with.Register(readable), "reading and writing");
  const UniqueFd shrunk = Memfd(0);
  REQUIRE(::ftruncate(shrunk.get(), 10) == 0);
  CheckRefusal(with.Register(shrunk), "10 bytes", Code::kOutOfRange, "RANGE_OUT_OF_BUFFER");
  with.Check();
}

TEST_CASE("memory files that may shrink are taken, and called so") {
  Registering with;
  const auto form_of = [&](const UniqueFd& fd) {
    REQUIRE_OK(with.Register(fd));
    std::string form = Must(with.client.GetBuffer("", "m")).form;
    REQUIRE_OK(with.client.DeleteBuffer("m"));
    return form;
  };
  CHECK(form_of(Memfd(0)) == "shm");
  CHECK(form_of(Memfd(F_SEAL_GROW)) == "shm");
  CHECK(form_of(Memfd(0, 0)) == "shm");  // as torch makes it: nobody can seal it any more
  CHECK(form_of(Memfd(F_SEAL_SHRINK)) == "memfd");
  // POSIX shared memory.
  const std::string name = "/onecopy-test-" + std::to_string(::getpid());
  const UniqueFd posix = Opened(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  ::shm_unlink(name.c_str());
  REQUIRE(::ftruncate(posix.get(), kBytes) == 0);
  CHECK(form_of(posix) == "shm");
  with.Check();
}

TEST_CASE("what is sealed can be shrunk by nobody") {
  Registering with;
  const UniqueFd fd = Memfd(F_SEAL_SHRINK);
  REQUIRE_OK(with.Register(fd));
  CHECK(::ftruncate(fd.get(), 0) == -1);
  CHECK(errno == EPERM);
  REQUIRE(::ftruncate(fd.get(), 2 * kBytes) == 0);  // growing harms nobody
  CHECK(Must(with.client.GetBuffer("", "m")).bytes == kBytes);
  REQUIRE_OK(with.client.SumBuffer({"", "m", {}, {}}));
  REQUIRE_OK(with.client.DeleteBuffer("m"));
  with.Check();
}

TEST_CASE("descriptors that are no memory files are refused") {
  Registering with;
  int pair[2];
  REQUIRE(::pipe2(pair, O_CLOEXEC) == 0);
  const UniqueFd pipe_read = Opened(pair[0]);
  const UniqueFd pipe_write = Opened(pair[1]);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd socket = Opened(pair[0]);
  const UniqueFd other_socket = Opened(pair[1]);
  TempFolder folder;
  WriteFile(folder / "file", std::string(kBytes, 'f'));
  CheckRefusal(with.Register(pipe_read), "not a memory file");
  CheckRefusal(with.Register(pipe_write), "not a memory file");
  CheckRefusal(with.Register(socket), "not a memory file");
  CheckRefusal(with.Register(Opened(::eventfd(0, EFD_CLOEXEC))), "not a memory file");
  CheckRefusal(with.Register(Opened(::open("/dev/zero", O_RDWR))), "not a memory file");
  CheckRefusal(with.Register(Opened(::open(folder.path().c_str(), O_RDONLY))), "not a memory file");
  CheckRefusal(with.Register(Opened(::open(folder.path().c_str(), O_PATH))), "descriptor");
  // One of a file system in memory would be one.
  const bool in_memory =
      ::fcntl(Opened(::open((folder / "file").c_str(), O_RDONLY)).get(), F_GET_SEALS) >= 0;
  for (const int mode : {O_RDONLY, in_memory ? O_RDONLY : O_RDWR}) {
    CheckFailed(with.Register(Opened(::open((folder / "file").c_str(), mode))),
                Code::kInvalidArgument, "BAD_HANDLE");
  }
  CheckFailed(with.client.RegisterMemfd("m", -1, 0, kBytes).status(), Code::kInvalidArgument,
              "BAD_HANDLE");
  CheckFailed(with.client.RegisterMemfd("m", 987'654, 0, kBytes).status(), Code::kInvalidArgument,
              "BAD_HANDLE");
  CHECK(ReadFile(folder / "file") == std::string(kBytes, 'f'));
  with.Check();
}

TEST_CASE("ranges that do not lie inside the memory file are refused") {
  Registering with;
  const UniqueFd fd = Memfd(F_SEAL_SHRINK);
  const auto outside = [&](uint64_t offset, uint64_t bytes) {
    INFO("@" << offset << "+" << bytes);
    CheckRefusal(with.Register(fd, offset, bytes), "8192 bytes", Code::kOutOfRange,
                 "RANGE_OUT_OF_BUFFER");
  };
  outside(0, kBytes + 1);
  outside(1, kBytes);
  outside(kBytes, 1);
  outside(kBytes + 1, 1);
  outside(0, kEndless);
  outside(1, kEndless);
  outside(kEndless, 1);
  outside(kEndless, kEndless);
  outside(uint64_t{1} << 63, 1);
  outside(0, uint64_t{1} << 63);
  CheckFailed(with.Register(fd, 0, 0), Code::kInvalidArgument, "BAD_SIZE");
  CheckFailed(with.Register(fd, kBytes, 0), Code::kInvalidArgument, "BAD_SIZE");
  // Any other place of it is right, aligned or not.
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{4097, 1}, {1, 8191}}) {
    REQUIRE_OK(with.Register(fd, offset, bytes));
    REQUIRE_OK(with.client.DeleteBuffer("m"));
  }
  with.Check();
}
}  // namespace memfd_test
