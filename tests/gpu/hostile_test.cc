// What a broken or hostile client may pass, on a real GPU: an error each time, and the GPU works
// on. A program of its own, since a driver that took one of these badly would take the rest with
// it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/exporter.h"
#include "tests/gpu/real_gpu.h"

namespace onecopy::testing::hostile_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Refused as BAD_HANDLE, with the driver's own words on standard output.
void CheckRefused(Memory& memory, const ImportRequest& request, const std::string& what) {
  const Status status = memory.Import(request).status();
  std::printf("%s: %s\n", what.c_str(), status.ToString().c_str());
  std::fflush(stdout);
  INFO(what << ": " << status.ToString());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kBadHandle);
  CHECK(memory.Describe().front().viability.viable);
}

void CheckWorks(Memory& memory) {
  auto region = memory.Allocate(memory.Describe().front().device, 100'000);
  REQUIRE_OK(region);
  const RegionRef mine(std::move(*region));
  WriteAll(memory, mine, Pattern(100'000, 3));
  CHECK(ReadAll(memory, mine) == Pattern(100'000, 3));
}

TEST_CASE("descriptors that are no GPU memory are refused, and the GPU works on") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  ImportRequest request;
  request.form = "cuda-vmm";
  request.device = memory->Describe().front().device;
  request.bytes = 1;
  request.allocation_bytes = 2 * kMiB;
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const os::UniqueFd left(ends[0]);
  const os::UniqueFd right(ends[1]);
  const os::UniqueFd memfd(::memfd_create("not-gpu-memory", MFD_CLOEXEC));
  const os::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const os::UniqueFd control(::open("/dev/nvidiactl", O_RDWR | O_CLOEXEC));
  const std::vector<std::pair<std::string, int>> descriptors = {
      {"a socket", left.get()},
      {"a memfd", memfd.get()},
      {"/dev/null", null.get()},
      {"a descriptor of /dev/nvidiactl without memory", control.get()},
      {"a number that is no descriptor", 1'000'000},
  };
  for (const auto& [what, fd] : descriptors) {
    request.fd = fd;
    CheckRefused(*memory, request, what);
  }
  CheckWorks(*memory);
}

TEST_CASE("an allocation with a wrong size is refused, and the GPU works on") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.kind = MemoryKind::kVmm;
  piece.allocation_bytes = 4 * kMiB;
  const Exported exported = exporter.Allocate(piece, Pattern(1000, 2));
  REQUIRE_OK(exported.status);
  for (const uint64_t bytes : {4 * kMiB + 1, 6 * kMiB, uint64_t{1} << 40, ~uint64_t{0}}) {
    ImportRequest request = exported.request;
    request.allocation_bytes = bytes;
    CheckRefused(*memory, request, "an allocation of 4 MiB as one of " + std::to_string(bytes));
  }
  CheckWorks(*memory);
  REQUIRE_OK(memory->Import(exported.request));
}

TEST_CASE("a handle of freed memory is refused, and the GPU works on") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.allocation_bytes = 64 * kMiB;
  const Exported exported = exporter.Allocate(piece, Pattern(1000, 2));
  REQUIRE_OK(exported.status);
  exporter.Free(exported.id);
  CheckRefused(*memory, exported.request, "a handle of freed memory");
  CheckWorks(*memory);
}

TEST_CASE("a handle of a process that is gone is refused, and the GPU works on") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.allocation_bytes = 64 * kMiB;
  const Exported exported = exporter.Allocate(piece, Pattern(1000, 2));
  REQUIRE_OK(exported.status);
  exporter.Kill();
  CheckRefused(*memory, exported.request, "a handle of a process that is gone");
  CheckWorks(*memory);
}

TEST_CASE("handles of no meaning are refused, and the GPU works on") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  ImportRequest request;
  request.form = "cuda-ipc";
  request.device = memory->Describe().front().device;
  request.bytes = 1;
  request.owner_pid = ::getpid();
  request.handle.assign(64, '\0');
  CheckRefused(*memory, request, "a handle of zeroes");
  request.handle.assign(64, '\xff');
  CheckRefused(*memory, request, "a handle of ones");
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const Bytes random = Pattern(64, seed);
    request.handle.assign(random.begin(), random.end());
    CheckRefused(*memory, request, "a random handle");
  }
  CheckWorks(*memory);
}

}  // namespace
}  // namespace onecopy::testing::hostile_test
