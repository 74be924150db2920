// Memory of buffers that clients use in place: who may, and how it ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/map_of.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBytes = 100'000;

// Alice owns what she makes on east; bob is another user there.
struct MapRig {
  explicit MapRig(const std::function<void(NodePlan&)>& change = {})
      : cluster({"east", "west"},
                [change](const std::string&, NodePlan& plan) {
                  if (change) change(plan);
                }),
        east(cluster["east"]),
        alice(east.Attach(1000)),
        bob(east.Attach(2000)) {}

  void Create(const std::string& name = "a") { REQUIRE_OK(east.CreateBuffer(alice, name, kBytes)); }
  GrantInfo Grant(const std::string& range, bool read, bool write,
                  std::optional<std::chrono::milliseconds> lifetime = {}) {
    const auto grant = east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(alice, {ParseEnd(range), "2000", read, write, lifetime}, std::move(reply));
    });
    REQUIRE_OK(grant);
    return *grant;
  }
  Status TakeBack(const GrantInfo& grant) {
    return AskForStatus([&](ClientApi& api, StatusReply reply) {
      api.DeleteGrant(alice, grant.id, std::move(reply));
    });
  }
  Status Delete(const std::string& name, bool force) {
    return AskForStatus([&](ClientApi& api, StatusReply reply) {
      api.DeleteBuffer(alice, "", name, force, std::move(reply));
    });
  }
  template <typename F>
  Status AskForStatus(F call) {
    return east
        .Ask<bool>([&](ClientApi& api, auto reply) {
          call(api, StatusReply([reply = std::move(reply)](const Status& status) mutable {
                 if (status.ok()) return reply(true);
                 reply(status);
               }));
        })
        .status();
  }
  void CheckRefused(const Principal& who, const std::string& buffer, Code code,
                    std::string_view reason, const std::string& words = {},
                    const std::string& node = {}) {
    const Status status = AskToMap(east, who, buffer, node).status();
    INFO(status.ToString());
    CHECK(status.code() == code);
    CHECK(status.reason() == reason);
    CHECK(status.ToString().find(words) != std::string::npos);
  }

  EngineCluster cluster;
  EngineNode& east;
  Principal alice;
  Principal bob;
};

}  // namespace

TEST_CASE("what one client writes into a mapped buffer another one and the daemon see") {
  MapRig rig;
  rig.Create();
  rig.Grant("a", true, true);
  const MapOf of_alice(rig.east, rig.alice, "a");
  const MapOf of_bob(rig.east, rig.bob, "a");
  CHECK(of_bob.given().memory.form == "memfd");
  CHECK(of_bob.given().buffer.bytes == kBytes);
  CHECK(of_bob.given().buffer.owner == "1000@east");
  CHECK(of_bob.data()[kBytes - 1] == std::byte{0});
  std::memset(of_alice.data(), 0x5a, kBytes);
  CHECK(of_bob.data()[kBytes - 1] == std::byte{0x5a});
  of_bob.data()[0] = std::byte{1};
  auto copy = rig.east.Register(rig.alice, "copy", kBytes);
  REQUIRE_OK(copy);
  REQUIRE_OK(rig.east.Copy(rig.alice, Request("east:a", "east:copy")));
  CHECK(std::memcmp(copy->data, of_alice.data(), kBytes) == 0);
  CHECK(copy->data[0] == std::byte{1});
  // Another process's memory likewise.
  const MapOf of_copy(rig.east, rig.alice, "copy");
  of_copy.data()[7] = std::byte{7};
  CHECK(copy->data[7] == std::byte{7});
  CHECK_FALSE(of_bob.told());
}

TEST_CASE("mapping takes the right to read and to write the whole buffer") {
  MapRig rig;
  rig.Create();
  rig.CheckRefused(rig.bob, "a", Code::kNotFound, reasons::kBufferNotFound);
  rig.CheckRefused(rig.bob, "b", Code::kNotFound, reasons::kBufferNotFound);
  const GrantInfo read = rig.Grant("a", true, false);
  rig.CheckRefused(rig.bob, "a", Code::kPermissionDenied, reasons::kNotOwner,
                   "the right to read and to write the whole buffer");
  rig.Grant("a@0+99999", true, true);
  rig.CheckRefused(rig.bob, "a", Code::kPermissionDenied, reasons::kNotOwner);
  rig.Grant("a", false, true);
  const MapOf mapped(rig.east, rig.bob, "a");  // two grants are as good as one
  REQUIRE_OK(rig.TakeBack(read));
  CHECK(mapped.AwaitRevocation().reason() == reasons::kNotOwner);
  rig.CheckRefused(rig.bob, "a", Code::kPermissionDenied, reasons::kNotOwner);
}

TEST_CASE("only a buffer of this node is mapped, by one who is attached") {
  MapRig rig;
  rig.Create();
  rig.CheckRefused(rig.alice, "a", Code::kFailedPrecondition, reasons::kOtherNode, "west", "west");
  REQUIRE_OK(AskToMap(rig.east, rig.alice, "a", "east"));
  rig.east.Detach(rig.bob);
  rig.CheckRefused(rig.bob, "a", Code::kUnauthenticated, reasons::kNoSession);
}

TEST_CASE("another user is not given memory whose file holds more, or can be taken away") {
  MapRig rig;
  const auto registered = [&](const std::string& name, int fd, uint64_t offset, uint64_t bytes) {
    return rig.east.Ask<BufferInfo>([&](ClientApi& api, auto reply) {
      auto handle =
          rig.east.engine().sessions().Deposit(rig.alice.session, os::UniqueFd::DuplicateOf(fd));
      if (!handle.ok()) return reply(handle.status());
      RegisterBufferRequest request;
      request.name = name;
      request.bytes = bytes;
      request.offset = offset;
      request.kind = "host";
      request.form = "memfd";
      request.fd_handle = *handle;
      api.RegisterBuffer(rig.alice, request, std::move(reply));
    });
  };
  auto sealed = os::SealedMemfd("test", 3 * kBytes);
  REQUIRE_OK(sealed);
  const os::UniqueFd loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), kBytes) == 0);
  REQUIRE_OK(registered("piece", sealed->get(), 4099, kBytes));
  REQUIRE_OK(registered("loose", loose.get(), 0, kBytes));
  REQUIRE_OK(registered("whole", sealed->get(), 0, 3 * kBytes));
  for (const std::string name : {"piece", "loose", "whole"}) rig.Grant(name, true, true);
  rig.CheckRefused(rig.bob, "piece", Code::kFailedPrecondition, reasons::kNotShareable,
                   "a piece of a memory file");
  rig.CheckRefused(rig.bob, "loose", Code::kFailedPrecondition, reasons::kNotShareable,
                   "F_SEAL_SHRINK");
  REQUIRE_OK(AskToMap(rig.east, rig.bob, "whole"));
  // Its owner knows what there is beside it.
  auto piece = AskToMap(rig.east, rig.alice, "piece");
  REQUIRE_OK(piece);
  CHECK(piece->memory.offset == 4099);
  REQUIRE_OK(AskToMap(rig.east, rig.alice, "loose"));
}

TEST_CASE("a view that is a part of memory is mapped by its owner alone, with the rest behind it") {
  MapRig rig;
  rig.Create();
  const auto name = [&](const std::string& view, const std::string& range) {
    const auto made = rig.east.Ask<std::vector<BufferInfo>>([&](ClientApi& api, auto reply) {
      api.CreateViews(rig.alice, {{.name = view, .range = ParseEnd(range)}}, std::move(reply));
    });
    REQUIRE_OK(made);
    return made->front();
  };
  const BufferInfo part = name("part", "a@4097+8");
  name("all", "a");
  const MapOf of_part(rig.east, rig.alice, "part");
  CHECK(of_part.given().buffer.id == part.id);
  CHECK(of_part.given().buffer.offset_bytes == 4097);
  CHECK(of_part.given().memory.offset == 0);  // what is given is the memory
  rig.Grant("part", true, true);
  rig.CheckRefused(rig.bob, "part", Code::kFailedPrecondition, reasons::kNotShareable,
                   "a view of a larger buffer");
  rig.Grant("all", true, true);
  const MapOf of_all(rig.east, rig.bob, "all");
  std::memset(of_all.data() + 4097, 0x42, 8);
  CHECK(of_part.data()[4097] == std::byte{0x42});
  // What ends the memory ends both.
  REQUIRE_OK(rig.Delete("a", true));
  CHECK(of_part.AwaitRevocation().reason() == reasons::kBufferNotFound);
  CHECK(of_all.AwaitRevocation().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a client is told that its right has ended, unless another one gives as much") {
  MapRig rig;
  rig.Create();
  const GrantInfo first = rig.Grant("a", true, true);
  const GrantInfo second = rig.Grant("a", true, true);
  MapOf mapped(rig.east, rig.bob, "a");
  REQUIRE_OK(rig.TakeBack(first));
  CHECK_FALSE(mapped.told());
  std::thread owner([&] { CHECK(rig.TakeBack(second).ok()); });  // waits for bob
  const Status why = mapped.AwaitRevocation();
  CHECK(why.code() == Code::kPermissionDenied);
  CHECK(why.reason() == reasons::kNotOwner);
  mapped.LetGo();
  owner.join();
  rig.CheckRefused(rig.bob, "a", Code::kNotFound, reasons::kBufferNotFound);
}

TEST_CASE("a client is told that its right has expired") {
  MapRig rig;
  rig.Create();
  rig.Grant("a", true, true, 200ms);
  const MapOf mapped(rig.east, rig.bob, "a");
  CHECK(mapped.AwaitRevocation().reason() == reasons::kGrantExpired);
}

TEST_CASE("a buffer that is mapped is removed by force alone, and its clients are told") {
  MapRig rig;
  rig.Create();
  rig.Grant("a", true, true);
  MapOf mapped(rig.east, rig.bob, "a");
  const Status in_use = rig.Delete("a", false);
  CHECK(in_use.reason() == reasons::kBufferInUse);
  CHECK(in_use.message().find("2000@east") != std::string::npos);
  CHECK_FALSE(mapped.told());
  std::thread remover([&] { CHECK(rig.Delete("a", true).ok()); });
  const Status why = mapped.AwaitRevocation();
  CHECK(why.code() == Code::kNotFound);
  CHECK(why.reason() == reasons::kBufferNotFound);
  mapped.LetGo();
  remover.join();

  rig.Create("b");
  MapOf again(rig.east, rig.alice, "b");
  again.LetGo();
  // The engine hears of it in its own time.
  while (rig.Delete("b", false).reason() == reasons::kBufferInUse) std::this_thread::yield();
  rig.CheckRefused(rig.alice, "b", Code::kNotFound, reasons::kBufferNotFound);
}

TEST_CASE("who does not let go keeps nobody waiting for ever, and sees zeroes afterwards") {
  MapRig rig;
  rig.Create();
  MapOf mapped(rig.east, rig.alice, "a");
  std::memset(mapped.data(), 0x5a, kBytes);
  REQUIRE_OK(rig.Delete("a", true));
  CHECK(mapped.told());
  // The worker gives the memory back in its own time. That the mapping can still be touched is part
  // of the promise.
  while (mapped.data()[kBytes - 1] != std::byte{0}) std::this_thread::yield();
  CHECK(mapped.data()[0] == std::byte{0});
  mapped.data()[0] = std::byte{1};
}

TEST_CASE("a client is told that the owner of the memory, or its own session, has gone") {
  MapRig rig;
  auto theirs = rig.east.Register(rig.alice, "a", kBytes);
  REQUIRE_OK(theirs);
  rig.Grant("a", true, true);
  SECTION("the owner") {
    const MapOf mapped(rig.east, rig.bob, "a");
    rig.east.Detach(rig.alice);
    const Status why = mapped.AwaitRevocation();
    CHECK(why.code() == Code::kAborted);
    CHECK(why.reason() == reasons::kOwnerDied);
  }
  SECTION("its own session") {
    const MapOf mapped(rig.east, rig.bob, "a");
    rig.east.Detach(rig.bob);
    CHECK(mapped.AwaitRevocation().reason() == reasons::kNoSession);
  }
}

TEST_CASE("a node that shuts down tells its clients, lets nobody map, and is gone at its end") {
  MapRig rig;
  rig.Create();
  const MapOf mapped(rig.east, rig.alice, "a");
  SECTION("draining") {
    std::promise<void> drained;
    rig.east.engine().Drain([&] { drained.set_value(); });
    drained.get_future().wait();
    CHECK(mapped.AwaitRevocation().reason() == reasons::kDraining);
    rig.CheckRefused(rig.alice, "a", Code::kUnavailable, reasons::kDraining);
  }
  SECTION("stopping") {
    rig.cluster.Remove("east");
    CHECK(mapped.AwaitRevocation().reason() == reasons::kDraining);
    CHECK(mapped.AwaitRevocation().reason() == "GONE");
  }
}

TEST_CASE("nothing can be sent to the daemon over a mapping's socket") {
  MapRig rig;
  rig.Create();
  const MapOf mapped(rig.east, rig.alice, "a");
  CHECK(os::SendPacket(mapped.lease(), "x").code() == Code::kUnavailable);
  CHECK(os::SendPacket(mapped.lease(), "x", mapped.lease()).code() == Code::kUnavailable);
  // To end what it may send tells the daemon nothing; the mapping goes on.
  REQUIRE(::shutdown(mapped.lease(), SHUT_WR) == 0);
  CHECK(rig.Delete("a", false).reason() == reasons::kBufferInUse);
}

TEST_CASE("mappings count against their user's quota until the client has let go") {
  MapRig rig([](NodePlan& plan) { plan.options.limits.mappings = {2, 10}; });
  rig.Create();
  rig.Grant("a", true, true);
  MapOf first(rig.east, rig.alice, "a");
  const MapOf second(rig.east, rig.alice, "a");
  rig.CheckRefused(rig.alice, "a", Code::kResourceExhausted, reasons::kQuota, "mappings_per_user");
  REQUIRE_OK(AskToMap(rig.east, rig.bob, "a"));
  first.LetGo();
  while (!AskToMap(rig.east, rig.alice, "a").ok()) std::this_thread::yield();
  // What was taken back and is kept all the same counts, too.
  std::vector<MappingGiven> kept;
  while (kept.size() < 2) {  // until it is known that he has let go of the one before
    if (auto given = AskToMap(rig.east, rig.bob, "a"); given.ok())
      kept.push_back(std::move(*given));
  }
  REQUIRE_OK(rig.Delete("a", true));
  rig.Create("b");
  rig.Grant("b", true, true);
  rig.CheckRefused(rig.bob, "b", Code::kResourceExhausted, reasons::kQuota);
}
