// A real dma-buf is looked at in tests/rdma (udmabuf) and tests/gpu.
#include "transport/os/memory/dma_buf.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::os {
namespace {

TEST_CASE("what is no dma-buf is not taken for one") {
  const auto memfd = SealedMemfd("test", 8192);
  REQUIRE_OK(memfd);
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd path(::open("/tmp", O_PATH | O_CLOEXEC));
  UniqueFd closed(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int number = closed.get();
  closed.Reset();
  for (const int fd : {memfd->get(), event.get(), null.get(), path.get(), number, -1}) {
    INFO(fd);
    const Status status = DmaBufBytes(fd).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == reasons::kBadHandle);
    CHECK_FALSE(status.remedy().empty());
  }
}

}  // namespace
}  // namespace onecopy::os
