// The guest is what the other programs of this suite rely on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/rdma/reader.h"
#include "tests/support/catch.h"
#include "tests/support/guest.h"
#include "transport/os/base/unique_fd.h"
#include "transport/shim/verbs.h"

namespace onecopy::testing::guest_test {
namespace {

// A datagram socket at a device's address.
os::UniqueFd Datagrams(const GuestDevice& device, sockaddr_in* address) {
  os::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  *address = {};
  address->sin_family = AF_INET;
  ::inet_pton(AF_INET, device.address, &address->sin_addr);
  socklen_t length = sizeof *address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(address), length) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(address), &length) == 0);
  return fd;
}

// The next event of the device that is about its port being up or down; -1 after a minute without.
int WaitForEvent(const shim::VerbsApi& verbs, const Port& port) {
  pollfd readable = {port.context->async_fd, POLLIN, 0};
  while (::poll(&readable, 1, 60'000) == 1) {
    ibv_async_event event = {};
    if (verbs.GetAsyncEvent(port.context, &event) != 0) continue;
    verbs.AckAsyncEvent(&event);
    if (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE)
      return event.event_type;
  }
  return -1;
}

TEST_CASE("two devices are active, with the RoCE v2 GIDs of their addresses") {
  const auto verbs = shim::LoadVerbs();
  REQUIRE_OK(verbs);
  for (const GuestDevice& device : kGuestDevices) {
    INFO(device.name);
    const Port port(**verbs, device);
    REQUIRE(port.context != nullptr);
    ibv_port_attr attributes = {};
    REQUIRE((*verbs)->QueryPort(port.context, 1, &attributes) == 0);
    CHECK(attributes.state == IBV_PORT_ACTIVE);
    CHECK(attributes.link_layer == IBV_LINK_LAYER_ETHERNET);
    ibv_gid gid = {};
    CHECK(port.GidIndex(&gid) >= 0);
  }
}

TEST_CASE("a read goes through both devices, as their counters show") {
  const auto verbs = shim::LoadVerbs();
  REQUIRE_OK(verbs);
  Port reader(**verbs, kGuestDevices[0]);
  Port owner(**verbs, kGuestDevices[1]);
  REQUIRE(reader.qp != nullptr);
  REQUIRE(owner.qp != nullptr);
  REQUIRE(Connect(**verbs, reader, owner) == 0);
  std::vector<char> source(100'000, 'x');
  std::vector<char> destination(source.size());
  ibv_mr* const local =
      (*verbs)->RegMr(reader.pd, destination.data(), destination.size(),
                      reinterpret_cast<uint64_t>(destination.data()), IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* const remote =
      (*verbs)->RegMr(owner.pd, source.data(), source.size(),
                      reinterpret_cast<uint64_t>(source.data()), IBV_ACCESS_REMOTE_READ);
  REQUIRE(local != nullptr);
  REQUIRE(remote != nullptr);
  const auto sent_before = RdmaCounters("rxe1").at("sent_pkts");
  const auto received_before = RdmaCounters("rxe0").at("rcvd_pkts");
  REQUIRE(PostRead(reader, *local, reinterpret_cast<uint64_t>(destination.data()),
                   reinterpret_cast<uint64_t>(source.data()), remote->rkey,
                   static_cast<uint32_t>(source.size())) == 0);
  CHECK(WaitForCompletion(reader).status == IBV_WC_SUCCESS);
  CHECK(destination == source);
  const uint64_t packets = source.size() / 4096;
  CHECK(RdmaCounters("rxe1").at("sent_pkts") >= sent_before + packets);
  CHECK(RdmaCounters("rxe0").at("rcvd_pkts") >= received_before + packets);

  const auto exceeded_before = RdmaCounters("rxe0").at("retry_exceeded_err");
  {
    const PacketLoss loss(kGuestDevices[1].interface);
    REQUIRE(PostRead(reader, *local, reinterpret_cast<uint64_t>(destination.data()),
                     reinterpret_cast<uint64_t>(source.data()), remote->rkey, 1) == 0);
    CHECK(WaitForCompletion(reader).status == IBV_WC_RETRY_EXC_ERR);
  }
  CHECK(RdmaCounters("rxe0").at("retry_exceeded_err") == exceeded_before + 1);
  CHECK((*verbs)->DeregMr(local) == 0);
  CHECK((*verbs)->DeregMr(remote) == 0);
}

// A datagram from the first device's address to the second one's, sent while packets get lost, and
// another one sent afterwards: returns the one that arrives first. On one wire they keep their
// order.
char FirstToArrive() {
  sockaddr_in sender_address = {};
  sockaddr_in receiver_address = {};
  const os::UniqueFd sender = Datagrams(kGuestDevices[0], &sender_address);
  const os::UniqueFd receiver = Datagrams(kGuestDevices[1], &receiver_address);
  auto send = [&](char what) {
    return ::sendto(sender.get(), &what, 1, 0, reinterpret_cast<sockaddr*>(&receiver_address),
                    sizeof receiver_address);
  };
  auto receive = [&] {
    char what = 0;
    REQUIRE(::recv(receiver.get(), &what, 1, 0) == 1);
    return what;
  };
  REQUIRE(send('W') == 1);
  REQUIRE(receive() ==
          'W');  // the neighbour's address is known: what is sent now does not wait for it
  {
    const PacketLoss loss(kGuestDevices[0].interface);
    REQUIRE(send('L') == 1);
  }
  REQUIRE(send('A') == 1);
  return receive();
}

TEST_CASE("packets are lost while a test says so, and not afterwards") {
  CHECK(FirstToArrive() == 'A');
}

TEST_CASE("a link that goes down takes the ports along and brings them back") {
  const auto verbs = shim::LoadVerbs();
  REQUIRE_OK(verbs);
  Port port(**verbs, kGuestDevices[0]);
  Port other(**verbs, kGuestDevices[1]);
  REQUIRE(port.qp != nullptr);
  REQUIRE(other.qp != nullptr);
  {
    const LinkDown down(kGuestDevices[0]);
    CHECK(WaitForEvent(**verbs, port) == IBV_EVENT_PORT_ERR);
    CHECK(WaitForEvent(**verbs, other) == IBV_EVENT_PORT_ERR);
  }
  CHECK(WaitForEvent(**verbs, port) == IBV_EVENT_PORT_ACTIVE);
  CHECK(WaitForEvent(**verbs, other) == IBV_EVENT_PORT_ACTIVE);
  CHECK(FirstToArrive() == 'A');  // sockets go over the wire again
}

TEST_CASE("memory can be locked without limit") {
  rlimit limit = {};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  CHECK(limit.rlim_max == RLIM_INFINITY);
}

TEST_CASE("the programs to compare with are here") {
  for (const std::string program : {"ib_read_bw", "ucx_perftest", "ibv_devinfo", "rdma"}) {
    INFO(program);
    CHECK(::access(("/usr/bin/" + program).c_str(), X_OK) == 0);
  }
}

}  // namespace
}  // namespace onecopy::testing::guest_test
