#include "transport/os/sockets/packet.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;

namespace {

struct PacketPair {
  PacketPair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    a = os::UniqueFd(ends[0]);
    b = os::UniqueFd(ends[1]);
  }
  os::UniqueFd a;
  os::UniqueFd b;
};

os::Packet Receive(const os::UniqueFd& fd, size_t most_bytes = 100) {
  auto packet = os::ReceivePacket(fd.get(), most_bytes);
  REQUIRE_OK(packet);
  REQUIRE(packet->has_value());
  return std::move(**packet);
}

}  // namespace

TEST_CASE("packets keep their borders and their descriptors") {
  const PacketPair pair;
  const auto nothing = os::ReceivePacket(pair.b.get(), 100);
  REQUIRE_OK(nothing);
  CHECK_FALSE(nothing->has_value());
  const os::UniqueFd fd(::open("/dev/null", O_RDONLY));
  REQUIRE_OK(os::SendPacket(pair.a.get(), "one"));
  REQUIRE_OK(os::SendPacket(pair.a.get(), "two", fd.get()));
  const os::Packet one = Receive(pair.b);
  CHECK(one.bytes == "one");
  CHECK(one.fds.empty());
  const os::Packet two = Receive(pair.b);
  CHECK(two.bytes == "two");
  REQUIRE(two.fds.size() == 1);
  CHECK((::fcntl(two.fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a packet carries as many descriptors as the kernel takes, in their order, and no more") {
  const PacketPair pair;
  std::vector<os::UniqueFd> kept;
  std::vector<int> fds;
  for (size_t i = 0; i < os::kMaxPassedFds; ++i) {
    kept.emplace_back(::memfd_create(std::to_string(i).c_str(), MFD_CLOEXEC));
    REQUIRE(::ftruncate(kept.back().get(), static_cast<off_t>(i)) == 0);
    fds.push_back(kept.back().get());
  }
  REQUIRE_OK(os::SendPacket(pair.a.get(), "many", fds));
  const os::Packet many = Receive(pair.b);
  REQUIRE(many.fds.size() == os::kMaxPassedFds);
  for (size_t i = 0; i < many.fds.size(); ++i) {
    CHECK(::lseek(many.fds[i].get(), 0, SEEK_END) == static_cast<off_t>(i));
  }
  fds.push_back(fds.front());
  CHECK(os::SendPacket(pair.a.get(), "more", fds).code() == Code::kInvalidArgument);
}

TEST_CASE("a packet longer than its room says so") {
  const PacketPair pair;
  REQUIRE_OK(os::SendPacket(pair.a.get(), "12345"));
  const os::Packet cut = Receive(pair.b, 4);
  CHECK(cut.bytes_cut);
  CHECK(cut.bytes == "1234");
}

TEST_CASE("the end is told, and sending to it is UNAVAILABLE rather than a signal") {
  PacketPair pair;
  pair.a.Reset();
  CHECK(Receive(pair.b).end);
  CHECK(os::SendPacket(pair.b.get(), "x").code() == Code::kUnavailable);
}

TEST_CASE("sending to somebody who does not read fails instead of blocking") {
  const PacketPair pair;
  Status status;
  while (status.ok()) status = os::SendPacket(pair.a.get(), std::string(1000, 'x'));
  CHECK(status.code() == Code::kResourceExhausted);
}
