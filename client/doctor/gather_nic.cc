// RDMA devices, from sysfs and libibverbs.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "client/doctor/gather_parts.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/machine/sysfs.h"
#include "transport/shim/verbs.h"
#include "transport/topology/discover.h"

namespace onecopy::doctor {
namespace {

// Devices have thousands of slots for GIDs; those in use come first.
constexpr size_t kMaxGids = 256;

// "4: ACTIVE" is ACTIVE.
std::string WordOf(const std::string& state) {
  const size_t colon = state.find(": ");
  return colon == std::string::npos ? state : state.substr(colon + 2);
}

// "400 Gb/sec (4X NDR)" in bytes.
uint64_t RateOf(const std::string& rate) {
  return static_cast<uint64_t>(std::max(std::strtod(rate.c_str(), nullptr), 0.0) * 1e9 / 8);
}

bool IsSet(const std::string& gid) {
  return !gid.empty() && gid.find_first_not_of("0:") != std::string::npos;
}

Port ReadPort(const std::string& root, const std::string& folder, int number) {
  Port port;
  port.number = number;
  port.state = WordOf(sysfs::ReadLine(folder + "/state"));
  port.link_layer = sysfs::ReadLine(folder + "/link_layer");
  port.bytes_per_second = RateOf(sysfs::ReadLine(folder + "/rate"));
  for (const std::string& index : sysfs::List(folder + "/gids")) {
    Gid gid;
    gid.address = sysfs::ReadLine(folder + "/gids/" + index);
    if (!IsSet(gid.address)) continue;
    gid.type = sysfs::ReadLine(folder + "/gid_attrs/types/" + index);
    gid.netdev = sysfs::ReadLine(folder + "/gid_attrs/ndevs/" + index);
    if (port.netdev.empty()) port.netdev = gid.netdev;
    port.gids.push_back(std::move(gid));
    if (port.gids.size() == kMaxGids) break;
  }
  if (!port.netdev.empty()) {
    const std::string mtu = sysfs::ReadLine(root + "/sys/class/net/" + port.netdev + "/mtu");
    port.netdev_mtu = static_cast<uint32_t>(std::strtoul(mtu.c_str(), nullptr, 10));
  }
  return port;
}

uint32_t Bytes(ibv_mtu mtu) { return mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : 128U << mtu; }

void AskPorts(const shim::VerbsApi& api, ibv_device* device, Nic& nic) {
  ibv_context* context = api.OpenDevice(device);
  if (context == nullptr) return;
  for (Port& port : nic.ports) {
    ibv_port_attr attributes{};
    if (api.QueryPort(context, static_cast<uint8_t>(port.number), &attributes) != 0) continue;
    port.active_mtu = Bytes(attributes.active_mtu);
    port.max_mtu = Bytes(attributes.max_mtu);
  }
  api.CloseDevice(context);
}

}  // namespace

void GatherTopology(const std::string& root, Facts& facts) {
  facts.virtual_machine = VirtualMachineEvidence(root);
  if (Result<Topology> topology = DiscoverTopology(root); topology.ok()) {
    facts.topology = std::move(*topology);
  }
}

void GatherNics(const std::string& root, Facts& facts) {
  for (const sysfs::RdmaDevice& device : sysfs::RdmaDevices(root)) {
    Nic nic;
    nic.name = device.name;
    nic.address = device.emulated ? "" : device.address;
    nic.emulated = device.emulated;
    std::error_code unknown;  // and stays empty
    nic.driver = std::filesystem::read_symlink(
                     root + "/sys/class/infiniband/" + device.name + "/device/driver", unknown)
                     .filename();
    const std::string ports = root + "/sys/class/infiniband/" + device.name + "/ports";
    for (const std::string& number : sysfs::List(ports)) {
      nic.ports.push_back(
          ReadPort(root, ports + "/" + number, std::atoi(number.c_str())));  // NOLINT(cert-err34-c)
    }
    facts.nics.push_back(std::move(nic));
  }
  const std::string folder = root + "/dev/infiniband";
  for (const std::string& name : sysfs::List(folder)) {
    if (!name.starts_with("uverbs")) continue;
    DeviceFile file{"/dev/infiniband/" + name, {}};
    const os::UniqueFd fd(::open((folder + "/" + name).c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) file.error = os::ErrnoText(errno);
    facts.device_files.push_back(std::move(file));
  }
}

void AskVerbs(Facts& facts) {
  const auto api = shim::LoadVerbs();
  if (!api.ok()) {
    facts.verbs.reason = api.status().reason();
    facts.verbs.detail = api.status().message();
    facts.verbs.remedy = api.status().remedy();
    return;
  }
  facts.verbs.found = true;
  int count = 0;
  ibv_device** devices = (*api)->GetDeviceList(&count);
  if (devices == nullptr) return;
  for (int i = 0; i < count; ++i) {
    for (Nic& nic : facts.nics) {
      if (nic.name == (*api)->GetDeviceName(devices[i])) AskPorts(**api, devices[i], nic);
    }
  }
  (*api)->FreeDeviceList(devices);
}

}  // namespace onecopy::doctor
