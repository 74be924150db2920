// What UCX prints of a context, and what is made of it.
#include "transport/link/ucx/resources.h"

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using namespace onecopy::ucx;

namespace {

// Of UCX 1.13.1 in a guest with two Soft-RoCE devices.
constexpr char kPrinted[] =
    "#\n# UCP context\n#\n#     component 4  :  ib\n#\n#            md 4  :  component 4  rxe0 "
    "\n#\n"
    "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
    "#      resource 2  :  md 1  dev 2  flags -- tcp/lo\n"
    "#      resource 4  :  md 2  dev 4  flags -- sysv/memory\n"
    "#      resource 6  :  md 4  dev 5  flags -- rc_verbs/rxe0:1\n"
    "#      resource 7  :  md 4  dev 5  flags -- ud_verbs/rxe0:1\n"
    "#      resource 8  :  md 5  dev 6  flags -- rc_verbs/rxe1:1\n"
    "#      resource 9  :  md 6  dev 7  flags -- cuda_ipc/cuda\n"
    "#      resource 10 :  md 6  dev 8  flags -- novel/thing\n#\n";

bool None(const std::string&) { return false; }

}  // namespace

TEST_CASE("resources are read from what UCX prints") {
  const auto resources = ParseResources(kPrinted);
  REQUIRE(resources.size() == 8);
  CHECK(resources[3] == Resource{"rc_verbs", "rxe0:1"});
  CHECK(DeviceName(resources[3]) == "rxe0");
  CHECK(HaveRdma(resources));
  CHECK(ReachNetwork(resources));
  CHECK(ParseResources("").empty());
  CHECK(ParseResources("resource  dev /\n# resource 1 : dev x\nresource 1 dev").empty());
  // A transport that nobody knows is taken to reach the network.
  CHECK(ReachNetwork({{"novel", "thing"}}));
  CHECK_FALSE(ReachNetwork({{"self", "memory0"}, {"cma", "memory"}, {"cuda_ipc", "cuda"}}));
}

TEST_CASE("sockets and unknown transports are used only where they are named") {
  const auto resources = ParseResources(kPrinted);
  CHECK(DefaultTransports(resources, true) ==
        std::vector<std::string>{"self", "sysv", "rc_verbs", "ud_verbs", "cuda_ipc"});
  CHECK(DefaultTransports(resources, false) ==
        std::vector<std::string>{"self", "sysv", "cuda_ipc"});
}

TEST_CASE("[rdma] devices leaves RDMA devices out, nothing else") {
  const auto resources = ParseResources(kPrinted);
  CHECK(AllowedDevices(resources, [](const std::string&) { return true; }).empty());
  CHECK(AllowedDevices(resources, [](const std::string& name) { return name == "rxe1"; }) ==
        std::vector<std::string>{"lo", "rxe1:1", "thing"});
}

TEST_CASE("devices are described once each, with the memories that UCX does not rule out") {
  const auto resources = ParseResources(kPrinted);
  const auto nics = NicsOf(
      resources, {{}, false, "host-1", [](const std::string& name) { return name == "rxe0"; }});
  REQUIRE(nics.size() == 4);
  CHECK(nics[3].name == "tcp");
  CHECK(nics[0].name == "rxe0");
  CHECK(nics[0].emulated);
  CHECK_FALSE(nics[1].emulated);
  CHECK(nics[0].memories[0].viability.viable);
  CHECK_FALSE(nics[0].memories[1].viability.viable);
  CHECK(nics[2].name == "cuda_ipc");
  CHECK(nics[2].fabric == "host-1");
  CHECK(NicsOf(resources, {{}, true, "host-1", None})[2].memories[0].viability.viable);
  // Sockets are one device for all interfaces, which no path of RDMA uses.
  const auto sockets =
      NicsOf({{"tcp", "lo"}, {"tcp", "eth0"}, {"self", "memory0"}}, {{}, true, "host-1", None});
  REQUIRE(sockets.size() == 1);
  CHECK(sockets[0].name == "tcp");
  CHECK(sockets[0].memories.size() == 2);
  CHECK(NicsOf({{"self", "memory0"}}, {{}, true, "host-1", None}).empty());
  const auto unused = NicsOf({}, {resources, false, "host-1", None});
  REQUIRE(unused.size() == 2);
  CHECK(unused[0].viability.reason == "INSECURE");
}

TEST_CASE("a device without hardware behind it is software") {
  const testing::TempFolder folder;
  const std::filesystem::path devices = folder.path();
  std::filesystem::create_directories(devices / "rxe0");
  std::filesystem::create_directories(devices / "mlx5_0" / "device");
  CHECK(IsSoftwareDevice("rxe0", devices));
  CHECK_FALSE(IsSoftwareDevice("mlx5_0", devices));
  CHECK_FALSE(IsSoftwareDevice("absent", devices));
}
