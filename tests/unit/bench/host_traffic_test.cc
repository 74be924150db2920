// Host memory traffic, computed from receipts.
#include "bench/work/host_traffic.h"

#include "tests/support/catch.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kBytes = 1000;

ExecutedStep Copy(std::string from, std::string to, bool loopback = false) {
  return {{.node = "east",
           .from = std::move(from),
           .to = std::move(to),
           .by = "x",
           .loopback = loopback},
          kBytes};
}

double Traffic(std::vector<ExecutedStep> steps) {
  Receipt receipt;
  receipt.steps = std::move(steps);
  return HostTraffic(receipt, kBytes);
}

TEST_CASE("each end of a step in host memory is passed once") {
  CHECK(Traffic({Copy("host", "host")}) == 2);
  CHECK(Traffic({Copy("GPU-1", "GPU-2")}) == 0);
  CHECK(Traffic({Copy("GPU-1", "pinned"), Copy("pinned", "GPU-2")}) == 2);
}

TEST_CASE("a wire moves the kernel's memory only where it leaves the machine") {
  const ExecutedStep in = Copy("host", "kernel");
  const ExecutedStep out = Copy("kernel", "host");
  CHECK(Traffic({in, Copy("kernel", "kernel", true), out}) == 4);
  CHECK(Traffic({in, Copy("kernel", "kernel", false), out}) == 6);
  // A software RDMA device within one machine does copy.
  CHECK(Traffic({Copy("host", "host", true)}) == 2);
}

TEST_CASE("the page cache is host memory, and so is a file that the processor reads") {
  CHECK(Traffic({Copy("file", "host")}) == 1);
  CHECK(Traffic({Copy("file", "page-cache"), Copy("page-cache", "host")}) == 3);
  CHECK(Traffic({Copy("file", "pinned"), Copy("pinned", "GPU-1")}) == 2);
  ExecutedStep memory = Copy("file", "host");
  memory.step.by = "cpu";
  CHECK(Traffic({memory}) == 2);
}

TEST_CASE("a step that only a part of the payload took counts for as much") {
  ExecutedStep half = Copy("host", "host");
  half.bytes = kBytes / 2;
  CHECK(Traffic({half}) == 1);
  CHECK(HostTraffic({}, 0) == 0);
}

}  // namespace
}  // namespace onecopy::bench
