// A ring whose kernel takes nothing for a while.
#include "transport/store/posix/ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/store/kernel_refusals.h"
#include "transport/os/base/unique_fd.h"

using namespace onecopy;
using namespace onecopy::posix;
using namespace onecopy::testing;

namespace {

constexpr unsigned kDepth = 4;

class RingRig {
 public:
  RingRig() : thread_(*os::LoopThread::Make("ring-test")) {
    thread_->RunSync([this] {
      auto made = Ring::Make(thread_->loop(), kDepth, std::make_shared<HeldMemory>());
      if (made.ok()) ring_ = std::move(*made);
    });
  }
  ~RingRig() {
    thread_->RunSync([this] { ring_ = nullptr; });
    thread_->StopAndJoin();
  }
  bool has_ring() const { return ring_ != nullptr; }

  // What a read of all of `into` comes to.
  std::future<int64_t> Read(int fd, std::span<std::byte> into) {
    auto result = std::make_shared<std::promise<int64_t>>();
    auto future = result->get_future();
    thread_->RunSync([&] {
      IoRequest request;
      request.fd = fd;
      request.at = into.data();
      request.bytes = into.size();
      request.ended = [result](int64_t bytes) { result->set_value(bytes); };
      ring_->Submit(std::move(request));
    });
    return future;
  }

 private:
  std::unique_ptr<os::LoopThread> thread_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace

TEST_CASE("what the kernel does not take ends as such, and nothing of it happens later") {
  RingRig rig;
  if (!rig.has_ring()) ONECOPY_SKIP("this process may have no io_uring");
  const int ring = RingFd();
  REQUIRE(ring >= 0);
  const os::UniqueFd zeroes(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const os::UniqueFd kept(::fcntl(ring, F_DUPFD_CLOEXEC, 0));
  REQUIRE(kept);
  // As long as another file stands in its place the kernel refuses all that is submitted.
  REQUIRE(::dup3(zeroes.get(), ring, O_CLOEXEC) == ring);
  const size_t refusals = GENERATE(1, 3, 10 * kDepth);
  CAPTURE(refusals);
  std::vector<std::byte> untouched(64, std::byte{7});
  for (size_t i = 0; i < refusals; ++i) {
    CHECK(rig.Read(zeroes.get(), untouched).get() == -EAGAIN);
  }
  REQUIRE(::dup3(kept.get(), ring, O_CLOEXEC) == ring);
  std::array<std::byte, 16> read{};
  read.fill(std::byte{7});
  CHECK(rig.Read(zeroes.get(), read).get() == 16);
  CHECK(read == std::array<std::byte, 16>{});
  CHECK(untouched == std::vector<std::byte>(64, std::byte{7}));
}
