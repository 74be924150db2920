#include "bench/tools/rdma_ports.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/os/machine/sysfs.h"

namespace onecopy::bench {
namespace {

namespace fs = std::filesystem;

// "0000:0000:0000:0000:0000:ffff:0a4d:0001" is 10.77.0.1; empty for any other GID.
std::string IPv4Of(const std::string& gid) {
  unsigned high = 0;
  unsigned low = 0;
  if (std::sscanf(gid.c_str(), "0000:0000:0000:0000:0000:ffff:%4x:%4x", &high, &low) != 2)
    return {};
  return std::to_string(high >> 8) + "." + std::to_string(high & 255) + "." +
         std::to_string(low >> 8) + "." + std::to_string(low & 255);
}

std::optional<RdmaPort> PortOf(const fs::path& device) {
  const fs::path port = device / "ports/1";
  if (sysfs::ReadLine((port / "state").string()).rfind("4:", 0) != 0)
    return std::nullopt;  // ACTIVE
  RdmaPort found;
  found.device = device.filename();
  std::error_code none;
  // Software devices hang on no bus.
  found.emulated = !fs::exists(device / "device", none);
  for (int index = 0; index < 256; ++index) {
    const std::string gid = sysfs::ReadLine((port / "gids" / std::to_string(index)).string());
    if (gid.empty()) break;
    found.address = IPv4Of(gid);
    found.gid_index = index;
    const std::string type =
        sysfs::ReadLine((port / "gid_attrs/types" / std::to_string(index)).string());
    if (!found.address.empty() && type == "RoCE v2") return found;
  }
  return std::nullopt;
}

}  // namespace

Result<RdmaPorts> FindRdmaPorts(const std::string& sys) {
  std::vector<fs::path> devices;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sys + "/class/infiniband", error)) {
    devices.push_back(entry.path());
  }
  std::sort(devices.begin(), devices.end());
  std::vector<RdmaPort> ports;
  for (const fs::path& device : devices) {
    if (std::optional<RdmaPort> port = PortOf(device)) ports.push_back(std::move(*port));
  }
  if (ports.empty()) {
    return Status(Code::kFailedPrecondition, reasons::kNoRdmaDevice,
                  devices.empty()
                      ? "this machine has no RDMA device"
                      : "none of " + std::to_string(devices.size()) +
                            " RDMA devices has an active RoCE port with an IPv4 address",
                  "tests/rdma/rates runs this in a guest with two software devices");
  }
  return RdmaPorts{ports.front(), ports.size() > 1 ? ports[1] : ports.front()};
}

}  // namespace onecopy::bench
