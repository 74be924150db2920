// The verbs that the tests lend to the guest's devices: what they add, refuse and break.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tests/rdma/reader.h"
#include "tests/support/catch.h"
#include "tests/support/lent_verbs.h"
#include "transport/shim/verbs.h"

namespace onecopy::testing::lend_test {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int kReadable = IBV_ACCESS_REMOTE_READ;

LentVerbs& Lent() {
  static LentVerbs lent;
  return lent;
}

// With the control of Lent() from its first use on, which is before any other use.
const shim::VerbsApi& Verbs() {
  static const auto verbs = [] {
    Lent().ControlThisProcess();
    auto loaded = shim::LoadVerbs(LentVerbs::Library());
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
    return *loaded;
  }();
  return *verbs;
}

// 0, or why the dma-buf cannot be registered.
int ErrorOf(Port& port, const DmaBuf& buffer, int access, uint64_t offset = 0,
            uint64_t length = kPage, uint64_t iova = 0) {
  errno = 0;
  ibv_mr* const mr = Verbs().RegDmaBufMr(port.pd, offset, length, iova, buffer.fd(), access);
  if (mr == nullptr) return errno;
  CHECK(Verbs().DeregMr(mr) == 0);
  return 0;
}

TEST_CASE("a dma-buf that the test tells of is registered, and read at its offset and address") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  REQUIRE(Verbs().RegDmaBufMr != nullptr);
  Port reader(Verbs(), kGuestDevices[0]);
  Port owner(Verbs(), kGuestDevices[1]);
  REQUIRE(owner.qp != nullptr);
  REQUIRE(Connect(Verbs(), reader, owner) == 0);
  DmaBuf source(8 * kPage);
  DmaBuf destination(8 * kPage);
  for (size_t i = 0; i < source.bytes().size(); ++i)
    source.bytes()[i] = static_cast<std::byte>(i % 251);
  Lent().Tell(source);
  Lent().Tell(destination);

  const uint64_t offset = 2 * kPage + 24;
  const uint64_t length = 3 * kPage + 100;
  const uint64_t address = 0x7000'0000'0000 + 24;  // none of this process
  ibv_mr* const remote = Verbs().RegDmaBufMr(owner.pd, offset, length, address, source.fd(),
                                             kReadable | IBV_ACCESS_RELAXED_ORDERING);
  ibv_mr* const local = Verbs().RegDmaBufMr(reader.pd, 0, destination.bytes().size(), 0,
                                            destination.fd(), IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(remote != nullptr);
  REQUIRE(local != nullptr);
  REQUIRE(PostRead(reader, *local, 8, address, remote->rkey, static_cast<uint32_t>(length)) == 0);
  CHECK(WaitForCompletion(reader).status == IBV_WC_SUCCESS);
  CHECK(std::equal(source.bytes().begin() + offset, source.bytes().begin() + offset + length,
                   destination.bytes().begin() + 8));
  CHECK(destination.bytes()[7] == std::byte{0});
  CHECK(destination.bytes()[8 + length] == std::byte{0});
  CHECK(Verbs().DeregMr(remote) == 0);
  CHECK(Verbs().DeregMr(local) == 0);
}

TEST_CASE("a dma-buf of more than 64 MiB is registered as a whole") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Port port(Verbs(), kGuestDevices[0]);
  REQUIRE(port.pd != nullptr);
  DmaBuf buffer((64 << 20) + kPage);
  Lent().Tell(buffer);
  CHECK(ErrorOf(port, buffer, kReadable, 0, buffer.bytes().size()) == 0);
}

TEST_CASE("a withdrawn region's key is refused by the device") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Port reader(Verbs(), kGuestDevices[0]);
  Port owner(Verbs(), kGuestDevices[1]);
  REQUIRE(Connect(Verbs(), reader, owner) == 0);
  DmaBuf buffer(kPage);
  DmaBuf destination(kPage);
  Lent().Tell(buffer);
  Lent().Tell(destination);
  ibv_mr* const remote = Verbs().RegDmaBufMr(owner.pd, 0, kPage, 0, buffer.fd(), kReadable);
  ibv_mr* const local =
      Verbs().RegDmaBufMr(reader.pd, 0, kPage, 0, destination.fd(), IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(remote != nullptr);
  REQUIRE(local != nullptr);
  const uint32_t key = remote->rkey;
  REQUIRE(Verbs().DeregMr(remote) == 0);
  REQUIRE(PostRead(reader, *local, 0, 0, key, 64) == 0);
  CHECK(WaitForCompletion(reader).status == IBV_WC_REM_ACCESS_ERR);
  CHECK(Verbs().DeregMr(local) == 0);
}

TEST_CASE("what real devices refuse for dma-bufs is refused") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Port port(Verbs(), kGuestDevices[0]);
  REQUIRE(port.pd != nullptr);
  DmaBuf buffer(4 * kPage);
  CHECK(ErrorOf(port, buffer, kReadable) == EOPNOTSUPP);  // the real answer
  Lent().Tell(buffer);
  CHECK(ErrorOf(port, buffer, kReadable) == 0);
  CHECK(ErrorOf(port, buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == 0);
  for (const int refused :
       {IBV_ACCESS_MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB,
        IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
    INFO(refused);
    CHECK(ErrorOf(port, buffer, kReadable | refused) == EINVAL);
  }
  CHECK(ErrorOf(port, buffer, kReadable, 0, kPage, 1) == EINVAL);
  CHECK(ErrorOf(port, buffer, kReadable, 3 * kPage, kPage + 1) == EINVAL);
  CHECK(ErrorOf(port, buffer, kReadable, ~uint64_t{0}, kPage, kPage - 1) == EINVAL);
  CHECK(Verbs().RegDmaBufMr(port.pd, 0, kPage, 0, buffer.memory_fd(), kReadable) == nullptr);
  Lent().Forget(buffer);
  CHECK(ErrorOf(port, buffer, kReadable) == EOPNOTSUPP);
}

TEST_CASE("queue pairs can be used up") {
  Port port(Verbs(), kGuestDevices[0]);
  REQUIRE(port.qp != nullptr);
  Lent().SetQueuePairsUsedUp(true);
  errno = 0;
  CHECK(port.MakeQueuePair() == nullptr);
  CHECK(errno == ENOMEM);
  Lent().SetQueuePairsUsedUp(false);
  ibv_qp* const another = port.MakeQueuePair();
  REQUIRE(another != nullptr);
  CHECK(Verbs().DestroyQp(another) == 0);
}

TEST_CASE("a removed device says so, fails every call, and can come back") {
  Port removed(Verbs(), kGuestDevices[1]);
  Port other(Verbs(), kGuestDevices[0]);
  REQUIRE(removed.qp != nullptr);
  REQUIRE(other.qp != nullptr);
  REQUIRE(Connect(Verbs(), removed, other) == 0);
  ibv_async_event event = {};
  errno = 0;
  CHECK(Verbs().GetAsyncEvent(removed.context, &event) != 0);
  CHECK(errno == EAGAIN);
  std::vector<char> memory(100);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  ibv_mr* const mr =
      Verbs().RegMr(removed.pd, memory.data(), memory.size(), address, IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(mr != nullptr);

  Lent().Remove("rxe1");
  pollfd readable = {removed.context->async_fd, POLLIN, 0};
  REQUIRE(::poll(&readable, 1, 60'000) == 1);
  REQUIRE(Verbs().GetAsyncEvent(removed.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
  Verbs().AckAsyncEvent(&event);
  CHECK(Verbs().GetAsyncEvent(removed.context, &event) != 0);  // once only

  CHECK(PostRead(removed, *mr, address, 0, 1, 1) == EIO);
  ibv_wc completion = {};
  CHECK(ibv_poll_cq(removed.cq, 1, &completion) == -EIO);
  errno = 0;
  CHECK(removed.MakeQueuePair() == nullptr);
  CHECK(errno == EIO);
  errno = 0;
  CHECK(Verbs().RegMr(removed.pd, memory.data(), memory.size(), address, 0) == nullptr);
  CHECK(errno == EIO);
  CHECK(Port(Verbs(), kGuestDevices[1]).context == nullptr);
  CHECK(ibv_poll_cq(other.cq, 1, &completion) == 0);  // the other device goes on

  Lent().PutBack("rxe1");
  CHECK(ibv_poll_cq(removed.cq, 1, &completion) == -EIO);
  CHECK(Port(Verbs(), kGuestDevices[1]).qp != nullptr);
  CHECK(Verbs().DeregMr(mr) == 0);  // what has been made can be given back
}

}  // namespace
}  // namespace onecopy::testing::lend_test
