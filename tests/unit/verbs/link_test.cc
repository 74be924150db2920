// The link where it cannot work, and what its settings select.
#include <cerrno>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/verbs/device.h"
#include "transport/link/verbs/factory.h"
#include "transport/os/machine/machine.h"

using namespace onecopy;

namespace {

Result<std::unique_ptr<Link>> Make(const std::string& library) {
  Backend<Link> verbs = verbs::Describe();
  BackendContext context{"here", Settings(verbs.settings), library, {}};
  context.rdma = Settings(RdmaSettings());
  return verbs.create(context);
}

}  // namespace

TEST_CASE("a library that is not there makes the link not viable, with the reason") {
  const auto link = Make("/no/such/libibverbs.so.1");
  REQUIRE_OK(link);
  const LinkCapability verbs = (*link)->Describe();
  CHECK_FALSE(verbs.viability.viable);
  CHECK(verbs.viability.reason == reasons::kLinkMissing);
  CHECK(verbs.viability.detail.find("/no/such/libibverbs.so.1") != std::string::npos);
  CHECK_FALSE(verbs.viability.remedy.empty());
  bool refused = false;
  (*link)->Dial("there", [&](auto dialing) { refused = !dialing.ok(); });
  CHECK(refused);
  (*link)->Shutdown();
}

TEST_CASE("a machine without RDMA devices says so") {
  if (!os::RdmaDevices().empty()) {
    ONECOPY_SKIP("this machine has RDMA devices");
  }
  const auto link = Make({});
  REQUIRE_OK(link);
  CHECK((*link)->Describe().viability.reason == reasons::kNoRdmaDevice);
  (*link)->Shutdown();
}

TEST_CASE("the list of devices names those that may be used") {
  CHECK(AllowsDevice({}, "mlx5_0"));
  CHECK(AllowsDevice({"mlx5_0"}, "mlx5_0"));
  CHECK_FALSE(AllowsDevice({"mlx5_0"}, "mlx5_1"));
  CHECK(AllowsDevice({"mlx5_*"}, "mlx5_11"));
  CHECK(AllowsDevice({"mlx5_?"}, "mlx5_1"));
  CHECK_FALSE(AllowsDevice({"mlx5_?"}, "mlx5_11"));
  CHECK_FALSE(AllowsDevice({"!mlx5_bond_0"}, "mlx5_bond_0"));
  CHECK(AllowsDevice({"!mlx5_bond_0"}, "mlx5_0"));
  CHECK_FALSE(AllowsDevice({"mlx5_*", "!mlx5_3"}, "mlx5_3"));
}

TEST_CASE("a device that has gone is told from one that has run out of queues") {
  for (const int error : {EIO, ENODEV, ENXIO}) {
    const Status gone = verbs::QueueRefused("mlx5_0", "queue pair", error);
    CHECK(gone.code() == Code::kUnavailable);
    CHECK(gone.reason() == reasons::kLinkDown);
    CHECK(gone.message().find("mlx5_0 cannot provide a queue pair") != std::string::npos);
  }
  for (const int error : {ENOMEM, EAGAIN, EINVAL}) {
    const Status used_up = verbs::QueueRefused("mlx5_0", "completion queue", error);
    CHECK(used_up.code() == Code::kResourceExhausted);
    CHECK(used_up.reason() == reasons::kKeysExhausted);
    CHECK_FALSE(used_up.remedy().empty());
  }
}
