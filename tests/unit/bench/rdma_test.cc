// What the works over RDMA devices read: other programs' output, and sysfs.
#include <filesystem>
#include <fstream>

#include "bench/tools/perftest.h"
#include "bench/tools/rdma_ports.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace onecopy::bench {
namespace {

struct Sys {
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void AddDevice(const std::string& name, const std::string& state, const std::string& address) {
    const std::string port = "class/infiniband/" + name + "/ports/1/";
    Write(port + "state", state);
    Write(port + "gids/0", "fe80:0000:0000:0000:0c42:a1ff:fe11:2233");
    Write(port + "gid_attrs/types/0", "RoCE v2");
    for (const int index : {1, 2}) {
      Write(port + "gids/" + std::to_string(index), "0000:0000:0000:0000:0000:ffff:" + address);
      Write(port + "gid_attrs/types/" + std::to_string(index),
            index == 1 ? "IB/RoCE v1" : "RoCE v2");
    }
  }
  Result<RdmaPorts> Find() { return FindRdmaPorts(folder.path().string()); }

  testing::TempFolder folder;
};

TEST_CASE("the rate is the mean in the line that has one") {
  CHECK(ReadBwRate(" 65536      256              31.49              13.50  \t\t   0.000219") ==
        13.5 * 1048576);
  CHECK(ReadBwRate(" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate") ==
        0);
  CHECK(ReadBwRate(" Mtu             : 4096[B]") == 0);
  CHECK(ReadBwRate("") == 0);
  CHECK(UcxPerftestRate(" 200,25.000,3897.215,3897.215,16.50,16.25,257,257") == 16.25 * 1048576);
  CHECK(UcxPerftestRate("iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,"
                        "avg_mr,overall_mr") == 0);
}

TEST_CASE("two active ports are the two ends, by name, with the RoCE v2 entry of an IPv4 address") {
  Sys sys;
  sys.AddDevice("rxe1", "4: ACTIVE", "0a4d:0002");
  sys.AddDevice("rxe0", "4: ACTIVE", "0a4d:0001");
  sys.AddDevice("mlx5_0", "1: DOWN", "0a4d:0003");
  const auto ports = sys.Find();
  REQUIRE_OK(ports);
  CHECK(ports->east.device == "rxe0");
  CHECK(ports->east.address == "10.77.0.1");
  CHECK(ports->east.gid_index == 2);
  CHECK(ports->west.device == "rxe1");
  CHECK(ports->west.address == "10.77.0.2");
}

TEST_CASE("one port is both ends; none is a reason") {
  Sys sys;
  CHECK(sys.Find().status().reason() == reasons::kNoRdmaDevice);
  sys.AddDevice("rxe0", "1: DOWN", "0a4d:0001");
  CHECK(sys.Find().status().reason() == reasons::kNoRdmaDevice);
  sys.AddDevice("rxe1", "4: ACTIVE", "0a4d:0002");
  const auto ports = sys.Find();
  REQUIRE_OK(ports);
  CHECK(ports->east.device == "rxe1");
  CHECK(ports->west.device == "rxe1");
}

}  // namespace
}  // namespace onecopy::bench
