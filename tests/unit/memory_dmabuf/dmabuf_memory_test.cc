// What is refused, and what a dma-buf does that cannot be mapped or made coherent. Real dma-bufs
// are in tests/rdma (memory_dmabuf); here other descriptors stand for them.
#include "transport/memory/dmabuf/dmabuf_memory.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::dmabuf {
namespace {

using testing::CopyNow;
using testing::HostRegion;
using testing::Pattern;

constexpr uint64_t kBytes = 8192;

ImportRequest Request(int fd, uint64_t offset = 0, uint64_t bytes = kBytes) {
  ImportRequest request;
  request.form = "dmabuf";
  request.fd = fd;
  request.offset = offset;
  request.bytes = bytes;
  return request;
}

// Takes any descriptor for a dma-buf of kBytes.
DmaBufMemory Believing() {
  return {"test", 1, [](int) -> Result<uint64_t> { return kBytes; }};
}

Status Refusal(DmaBufMemory& memory, const ImportRequest& request) {
  return memory.Import(request).status();
}

TEST_CASE("what is no dma-buf is refused before it is read") {
  DmaBufMemory memory("test", 1);
  const auto memfd = os::SealedMemfd("test", kBytes);
  REQUIRE_OK(memfd);
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);  // nobody writes: reading would never end
  const os::UniqueFd reader(ends[0]);
  const os::UniqueFd writer(ends[1]);
  const os::UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  for (const int fd : {memfd->get(), reader.get(), event.get(), -1}) {
    INFO(fd);
    const Status status = Refusal(memory, Request(fd));
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == reasons::kBadHandle);
    CHECK_FALSE(status.remedy().empty());
  }
}

TEST_CASE("a piece that is not inside, a form of another memory and a read-only dma-buf") {
  DmaBufMemory memory = Believing();
  const auto memfd = os::SealedMemfd("test", kBytes);
  REQUIRE_OK(memfd);
  CHECK(Refusal(memory, Request(memfd->get(), 1)).reason() == reasons::kRangeOutOfBuffer);
  CHECK(Refusal(memory, Request(memfd->get(), ~uint64_t{0}, 2)).reason() ==
        reasons::kRangeOutOfBuffer);
  ImportRequest other = Request(memfd->get());
  other.form = "memfd";
  CHECK(Refusal(memory, other).reason() == reasons::kBadHandle);
  const std::string path = "/proc/self/fd/" + std::to_string(memfd->get());
  const os::UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(read_only);
  const Status refused = Refusal(memory, Request(read_only.get()));
  CHECK(refused.reason() == reasons::kBadHandle);
  CHECK_FALSE(refused.remedy().empty());
}

TEST_CASE("onecopy creates no dma-buf memory, and says who does") {
  DmaBufMemory memory("test", 1);
  const Status refused = memory.Allocate("", 4096).status();
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK(refused.reason() == reasons::kNotApplicable);
  CHECK(refused.remedy().find("RegisterDmaBuf") != std::string::npos);
}

TEST_CASE("what cannot be mapped is still exported to devices, and not copied, for that reason") {
  DmaBufMemory memory = Believing();
  const os::UniqueFd unmappable(::eventfd(0, EFD_CLOEXEC));
  auto imported = memory.Import(Request(unmappable.get(), 4099, 10));
  REQUIRE_OK(imported);
  const RegionRef region(std::move(*imported));
  CHECK(region->address() == nullptr);
  CHECK_FALSE(region->cpu_addressable());

  const auto exported = region->ExportDmaBuf();
  REQUIRE_OK(exported);
  const os::UniqueFd descriptor(exported->fd);
  CHECK(descriptor.get() != unmappable.get());
  CHECK(exported->offset == 4099);
  // One open file: what is written to one is read from the other.
  eventfd_t seen = 0;
  REQUIRE(::eventfd_write(descriptor.get(), 7) == 0);
  REQUIRE(::eventfd_read(unmappable.get(), &seen) == 0);
  CHECK(seen == 7);

  const Status refused = memory.Prepare(region, HostRegion(testing::Bytes(10))).status();
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK(refused.reason() == reasons::kNotApplicable);
  CHECK(refused.message().find("No such device") != std::string::npos);
}

TEST_CASE("a copy that cannot be made coherent fails, and says so") {
  DmaBufMemory memory = Believing();
  const auto memfd = os::SealedMemfd("test", kBytes);  // it can be mapped, but knows no such call
  REQUIRE_OK(memfd);
  auto imported = memory.Import(Request(memfd->get()));
  REQUIRE_OK(imported);
  const RegionRef region(std::move(*imported));
  auto route = memory.Prepare(HostRegion(Pattern(kBytes, 1)), region);
  REQUIRE_OK(route);
  const testing::Outcome outcome = CopyNow(**route, 0, 0, kBytes);
  CHECK(outcome.status.message().find("DMA_BUF_IOCTL_SYNC") != std::string::npos);
  CHECK(region->address()[0] == std::byte{0});
}

}  // namespace
}  // namespace onecopy::dmabuf
