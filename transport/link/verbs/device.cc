#include "transport/link/verbs/device.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"

namespace onecopy::verbs {
namespace {

constexpr uint16_t kPartition = 0x7fff;
constexpr uint16_t kFullMember = 0x8000;

uint32_t MtuBytes(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

// Bytes per second of a port: lanes by speed, as the two enumerations of the standard count them.
uint64_t PortBytesPerSecond(const ibv_port_attr& attributes) {
  const uint64_t lanes = attributes.active_width == 16  ? 2
                         : attributes.active_width == 1 ? 1
                         : attributes.active_width == 2 ? 4
                         : attributes.active_width == 4 ? 8
                         : attributes.active_width == 8 ? 12
                                                        : 0;
  double gigabits = 0;  // of payload, on one lane
  switch (attributes.active_speed) {
    case 1:
      gigabits = 2;
      break;
    case 2:
      gigabits = 4;
      break;
    case 4:
    case 8:
      gigabits = 8;
      break;
    case 16:
      gigabits = 14;
      break;
    case 32:
      gigabits = 25;
      break;
    case 64:
      gigabits = 50;
      break;
    case 128:
      gigabits = 100;
      break;
    default:
      break;
  }
  return lanes * static_cast<uint64_t>(gigabits * 1e9 / 8);
}

// A device that is no device of a bus is made by software.
bool IsEmulated(const std::string& name) {
  std::error_code error;
  const std::filesystem::path device = "/sys/class/infiniband/" + name;
  if (std::filesystem::exists(device / "parent", error)) return true;  // Soft-RoCE says whose it is
  return !std::filesystem::exists(device / "device" / "vendor", error);
}

}  // namespace

std::string Port::Fabric() const {
  if (ethernet) return "roce";
  std::string prefix = "ib:";
  static constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < 8; ++i) {
    prefix += kDigits[gid.gid[i] >> 4];
    prefix += kDigits[gid.gid[i] & 15];
  }
  return prefix;
}

bool Port::Has(const Port& then) const {
  return lid == then.lid && std::find(gids.begin(), gids.end(), then.gid) != gids.end();
}

Result<std::shared_ptr<Device>> Device::Open(std::shared_ptr<const shim::VerbsApi> api,
                                             ibv_device* device, const Options& options) {
  std::shared_ptr<Device> opened(new Device(std::move(api), options));
  opened->name_ = opened->api_->GetDeviceName(device);
  const std::string remedy =
      "give the daemon's user read and write access to /dev/infiniband/uverbs*";
  opened->context_ = opened->api_->OpenDevice(device);
  if (opened->context_ == nullptr) {
    return os::ErrnoStatus(errno, "opening the RDMA device " + opened->name_, remedy);
  }
  if (const int error = opened->api_->QueryDevice(opened->context_, &opened->attributes_)) {
    return os::ErrnoStatus(error, "asking the RDMA device " + opened->name_);
  }
  opened->domain_ = opened->api_->AllocPd(opened->context_);
  if (opened->domain_ == nullptr) {
    return os::ErrnoStatus(errno, "a protection domain of " + opened->name_);
  }
  const int flags = ::fcntl(opened->context_->async_fd, F_GETFL);
  ::fcntl(opened->context_->async_fd, F_SETFL, flags | O_NONBLOCK);
  opened->emulated_ = IsEmulated(opened->name_);
  opened->port_count_ = opened->attributes_.phys_port_cnt;
  opened->Refresh();
  return opened;
}

Device::~Device() {
  if (domain_ != nullptr) api_->DeallocPd(domain_);
  if (context_ != nullptr) api_->CloseDevice(context_);
}

bool Device::has_windows() const {
  return (attributes_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 &&
         attributes_.max_mw > 0;
}

bool Device::Refresh() {
  std::vector<Port> now;
  for (size_t i = 0; i < port_count_; ++i) now.push_back(Look(static_cast<uint8_t>(i + 1)));
  const MutexLock lock(mutex_);
  bool changed = now.size() != ports_.size();
  for (size_t i = 0; !changed && i < now.size(); ++i) {
    changed = now[i].viability != ports_[i].viability || now[i].gid.gid != ports_[i].gid.gid ||
              now[i].lid != ports_[i].lid || now[i].gids != ports_[i].gids ||
              now[i].pkey_index != ports_[i].pkey_index ||
              now[i].mtu_bytes != ports_[i].mtu_bytes || now[i].needs_grh != ports_[i].needs_grh ||
              now[i].bytes_per_second != ports_[i].bytes_per_second;
  }
  ports_ = std::move(now);
  return changed;
}

std::vector<Port> Device::ports() const {
  const MutexLock lock(mutex_);
  return ports_;
}

Port Device::port(size_t index) const {
  const MutexLock lock(mutex_);
  return ports_.at(index);
}

void Device::ReadEvents() {
  const MutexLock one(reading_);
  bool more = false;
  ibv_async_event event{};
  while (api_->GetAsyncEvent(context_, &event) == 0) {
    {
      const MutexLock lock(events_mutex_);
      if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        last_receives_.insert(event.element.qp);
      } else {
        const bool of_port =
            event.event_type >= IBV_EVENT_PORT_ACTIVE && event.event_type <= IBV_EVENT_SM_CHANGE;
        const bool told = of_port || event.event_type == IBV_EVENT_CLIENT_REREGISTER ||
                          event.event_type == IBV_EVENT_GID_CHANGE;
        events_.push_back(
            {event.event_type, told ? static_cast<uint8_t>(event.element.port_num) : uint8_t{0}});
        more = true;
      }
    }
    // A queue pair is not destroyed before what it raised is acknowledged, so what is kept of it
    // is kept by now.
    api_->AckAsyncEvent(&event);
  }
  if (!more) return;
  const MutexLock lock(events_mutex_);
  if (wake_) wake_();
}

std::vector<Device::Event> Device::TakeEvents() {
  const MutexLock lock(events_mutex_);
  return std::exchange(events_, {});
}

void Device::OnEvents(std::function<void()> wake) {
  const MutexLock lock(events_mutex_);
  wake_ = std::move(wake);
}

bool Device::SaidLastReceive(const ibv_qp* queue_pair) {
  ReadEvents();
  const MutexLock lock(events_mutex_);
  return last_receives_.contains(queue_pair);
}

void Device::ForgetQueuePair(const ibv_qp* queue_pair) {
  const MutexLock lock(events_mutex_);
  last_receives_.erase(queue_pair);
}

Port Device::Look(uint8_t number) const {
  Port port;
  port.number = number;
  port.name = port_count_ > 1 ? name_ + ":" + std::to_string(number) : name_;
  if (lost_) {
    port.viability = Viability::No(reasons::kLinkDown, "the device " + name_ + " was lost",
                                   "check the kernel log, and restart the daemon");
    return port;
  }
  ibv_port_attr attributes{};
  if (const int error = api_->QueryPort(context_, number, &attributes)) {
    port.viability = Viability::No(reasons::kDriverFailed,
                                   "asking for port " + port.name + ": " + os::ErrnoText(error));
    return port;
  }
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  port.needs_grh = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.mtu_bytes = MtuBytes(attributes.active_mtu);
  if (options_.path_mtu_bytes != 0) {
    port.mtu_bytes = std::min(port.mtu_bytes, options_.path_mtu_bytes);
  }
  port.bytes_per_second = PortBytesPerSecond(attributes);
  if (attributes.state != IBV_PORT_ACTIVE) {
    port.viability = Viability::No(
        reasons::kLinkDown,
        "port " + port.name + " is " + api_->PortStateText(attributes.state) + ", not active",
        "connect it, and check the switch's port: rdma link show");
    return port;
  }
  port.viability = FindGid(number, attributes, &port);
  if (port.viability.viable) port.viability = FindPkey(number, attributes, &port);
  return port;
}

Viability Device::FindGid(uint8_t number, const ibv_port_attr& attributes, Port* port) const {
  std::vector<GidEntry> table;
  for (int index = 0; index < attributes.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (api_->QueryGidEx(context_, number, static_cast<uint32_t>(index), &entry, 0, sizeof entry) !=
        0) {
      continue;  // an empty place in the table
    }
    GidEntry known;
    known.index = index;
    std::copy_n(entry.gid.raw, known.gid.size(), known.gid.begin());
    known.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoceV2
                 : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1
                                                          : GidType::kInfiniBand;
    table.push_back(known);
  }
  if (options_.gid_index >= 0) {
    std::erase_if(table, [&](const GidEntry& entry) { return entry.index != options_.gid_index; });
    if (table.empty()) {
      return Viability::No(reasons::kNoRdmaDevice,
                           "port " + port->name + " has no entry " +
                               std::to_string(options_.gid_index) + " in its GID table",
                           "correct [rdma] gid_index; show_gids lists the entries");
    }
    port->gid = table.front();
    port->gids = std::move(table);
    return {};
  }
  const std::optional<GidEntry> chosen = ChooseGid(table, port->ethernet);
  if (!chosen) {
    return Viability::No(reasons::kNoRdmaDevice, "port " + port->name + " has no RoCE v2 GID",
                         "give its network interface an IP address, and set it up");
  }
  port->gid = *chosen;
  port->gids = std::move(table);
  return {};
}

Viability Device::FindPkey(uint8_t number, const ibv_port_attr& attributes, Port* port) const {
  // A port may be in a partition twice: two limited members do not reach each other, a full one
  // reaches all.
  std::optional<uint16_t> limited;
  for (int index = 0; index < attributes.pkey_tbl_len; ++index) {
    __be16 entry = 0;
    if (api_->QueryPkey(context_, number, index, &entry) != 0) continue;
    const uint16_t key = ntohs(entry);
    if ((key & kPartition) != (options_.pkey & kPartition) || key == 0) continue;
    if ((key & kFullMember) != 0) {
      port->pkey_index = static_cast<uint16_t>(index);
      return {};
    }
    if (!limited) limited = static_cast<uint16_t>(index);
  }
  if (limited) {
    port->pkey_index = *limited;
    return {};
  }
  return Viability::No(reasons::kNoRdmaDevice,
                       "port " + port->name + " is not in the partition that [rdma] pkey names",
                       "correct [rdma] pkey, or the fabric's partitions");
}

DeviceList OpenDevices(const Options& options) {
  DeviceList list;
  const std::vector<std::string> known = os::RdmaDevices();
  if (known.empty() && options.library.empty()) {
    list.viability = Viability::No(
        reasons::kNoRdmaDevice,
        "node " + options.node + " has no RDMA device: /sys/class/infiniband is empty",
        "install a NIC that supports InfiniBand or RoCE v2, with its driver");
    return list;
  }
  const auto api = shim::LoadVerbs(options.library);
  if (!api.ok()) {
    list.viability =
        Viability::No(api.status().reason(), api.status().message(), api.status().remedy());
    return list;
  }
  int count = 0;
  ibv_device** devices = (*api)->GetDeviceList(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string name = (*api)->GetDeviceName(devices[i]);
    if (!AllowsDevice(options.devices, name)) {
      list.refused.emplace_back(
          name, Viability::No(reasons::kNotRequested, "[rdma] devices leaves " + name + " out"));
      continue;
    }
    if (devices[i]->transport_type != IBV_TRANSPORT_IB) {
      list.refused.emplace_back(
          name, Viability::No(
                    reasons::kNotApplicable,
                    name + " is neither InfiniBand nor RoCE (iWARP, or a vendor's own protocol)",
                    "use a device that supports InfiniBand or RoCE v2"));
      continue;
    }
    auto device = Device::Open(*api, devices[i], options);
    const bool reads = device.ok() && (*device)->attributes().max_qp_rd_atom > 0 &&
                       (*device)->attributes().max_qp_init_rd_atom > 0;
    if (device.ok() && !reads) {
      list.refused.emplace_back(
          name, Viability::No(reasons::kNotApplicable, name + " does not support RDMA READ",
                              "use another device, or the link ucx"));
    } else if (device.ok()) {
      list.devices.push_back(std::move(*device));
    } else {
      list.refused.emplace_back(name,
                                Viability::No(reasons::kDriverFailed, device.status().message(),
                                              device.status().remedy()));
    }
  }
  if (devices != nullptr) (*api)->FreeDeviceList(devices);
  if (!list.devices.empty()) return list;
  std::string why = "no RDMA device of node " + options.node + " can be used";
  std::string remedy = "see onecopy doctor";
  for (const auto& [name, viability] : list.refused) {
    why += "; " + viability.detail;
    if (!viability.remedy.empty()) remedy = viability.remedy;
  }
  if (list.refused.empty()) {
    why += ": the kernel has some, but libibverbs finds none";
    remedy = "install the device's libibverbs provider (ibverbs-providers)";
  }
  list.viability = Viability::No(reasons::kNoRdmaDevice, why, remedy);
  return list;
}

Status QueueRefused(const std::string& device, const std::string& what, int error) {
  const std::string text = device + " cannot provide a " + what + ": " + os::ErrnoText(error);
  if (error == EIO || error == ENODEV || error == ENXIO) {
    return {Code::kUnavailable, reasons::kLinkDown, text,
            "check that the device still exists: onecopy doctor"};
  }
  return {Code::kResourceExhausted, reasons::kKeysExhausted, text,
          "end programs that use many, or lower [verbs] queue_pairs"};
}

}  // namespace onecopy::verbs
