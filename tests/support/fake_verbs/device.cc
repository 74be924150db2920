// Devices, their ports and events, and a test's hold on them.
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/fake_verbs/state.h"

namespace onecopy::fake_verbs {

State& TheState() {
  static auto* const state = new State;
  return *state;
}

FakeDevice& DeviceOf(ibv_context* context) {
  return *reinterpret_cast<FakeContext*>(context)->device;
}

void Raise(ibv_context* context, const ibv_async_event& event) {
  reinterpret_cast<FakeContext*>(context)->events.push_back(event);
  ::eventfd_write(context->async_fd, 1);
}

namespace {

class TheControl final : public Control {
 public:
  void Reset() override {
    const std::lock_guard lock(state_.mutex);
    state_.devices.clear();
    state_.layouts.clear();
    state_.registrations.clear();
    state_.queue_pairs.clear();
    state_.lost_receives = 0;
  }
  void Plant(const PlantedDevice& device) override {
    const std::lock_guard lock(state_.mutex);
    auto planted = std::make_unique<FakeDevice>();
    planted->planted = device;
    planted->device.node_type = IBV_NODE_CA;
    planted->device.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(planted->device.name, sizeof planted->device.name, "%s", device.name.c_str());
    state_.devices.push_back(std::move(planted));
  }
  void Change(const std::string& device, size_t port, const PlantedPort& now,
              ibv_event_type event) override {
    const std::lock_guard lock(state_.mutex);
    FakeDevice* const found = Find(device);
    found->planted.ports.at(port) = now;
    for (FakeContext* context : state_.contexts) {
      if (context->device != found) continue;
      ibv_async_event told{};
      told.event_type = event;
      told.element.port_num = static_cast<int>(port + 1);
      Raise(&context->context, told);
    }
  }
  void LiesAt(uint64_t address_or_inode, std::vector<Segment> segments) override {
    const std::lock_guard lock(state_.mutex);
    state_.layouts[address_or_inode] = std::move(segments);
  }
  void Swallow(const std::string& device) override {
    const std::lock_guard lock(state_.mutex);
    Find(device)->swallows = true;
  }
  std::vector<Registration> Registrations() const override {
    const std::lock_guard lock(state_.mutex);
    return state_.registrations;
  }
  std::vector<QueuePair> QueuePairs() const override {
    const std::lock_guard lock(state_.mutex);
    return state_.queue_pairs;
  }
  uint64_t LostReceives() const override {
    const std::lock_guard lock(state_.mutex);
    return state_.lost_receives;
  }

 private:
  FakeDevice* Find(const std::string& name) {
    for (const auto& device : state_.devices) {
      if (device->planted.name == name) return device.get();
    }
    return nullptr;
  }

  State& state_ = TheState();
};

}  // namespace
}  // namespace onecopy::fake_verbs

using namespace onecopy::fake_verbs;

extern "C" {

Control* onecopy_fake_verbs() {
  static auto* const control = new TheControl;
  return control;
}

ibv_device** ibv_get_device_list(int* count) {
  const std::lock_guard lock(TheState().mutex);
  const auto& devices = TheState().devices;
  auto** const list = new ibv_device*[devices.size() + 1]();
  for (size_t i = 0; i < devices.size(); ++i) list[i] = &devices[i]->device;
  *count = static_cast<int>(devices.size());
  return list;
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  const std::lock_guard lock(TheState().mutex);
  auto* const context = new FakeContext;
  context->device = reinterpret_cast<FakeDevice*>(device);
  context->context.device = device;
  context->context.async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  context->context.ops.alloc_mw = AllocateWindow;
  context->context.ops.dealloc_mw = FreeWindow;
  context->context.ops.post_send = PostSend;
  context->context.ops.post_srq_recv = PostReceive;
  context->context.ops.poll_cq = Poll;
  context->context.ops.req_notify_cq = RequestNotification;
  TheState().contexts.insert(context);
  return &context->context;
}

int ibv_close_device(ibv_context* context) {
  const std::lock_guard lock(TheState().mutex);
  auto* const fake = reinterpret_cast<FakeContext*>(context);
  TheState().contexts.erase(fake);
  ::close(context->async_fd);
  delete fake;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const std::lock_guard lock(TheState().mutex);
  const PlantedDevice& device = DeviceOf(context).planted;
  *attributes = {};
  attributes->max_mr_size = UINT64_MAX;
  attributes->max_qp = 1 << 16;
  attributes->max_qp_wr = 1 << 14;
  attributes->max_cqe = 1 << 16;
  attributes->max_srq_wr = 1 << 14;
  attributes->max_qp_rd_atom = device.reads_in;
  attributes->max_qp_init_rd_atom = device.reads_out;
  attributes->phys_port_cnt = static_cast<uint8_t>(device.ports.size());
  if (device.windows) {
    attributes->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    attributes->max_mw = 1 << 16;
  }
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t number, _compat_ibv_port_attr* result) {
  const std::lock_guard lock(TheState().mutex);
  const PlantedDevice& device = DeviceOf(context).planted;
  if (number == 0 || number > device.ports.size()) return EINVAL;
  const PlantedPort& port = device.ports[number - 1];
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(result);
  attributes->state = port.state;
  attributes->active_mtu = attributes->max_mtu = port.mtu;
  attributes->gid_tbl_len = static_cast<int>(port.gids.size());
  attributes->pkey_tbl_len = static_cast<uint16_t>(port.pkeys.size());
  attributes->max_msg_sz = 1U << 30;
  attributes->lid = port.ethernet ? 0 : port.lid;
  attributes->active_width = 2;  // four lanes
  attributes->active_speed = 128;
  attributes->link_layer = port.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  attributes->flags = port.needs_grh ? IBV_QPF_GRH_REQUIRED : 0;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t number, uint32_t index, ibv_gid_entry* entry,
                      uint32_t, size_t) {
  const std::lock_guard lock(TheState().mutex);
  const PlantedPort& port = DeviceOf(context).planted.ports.at(number - 1);
  if (index >= port.gids.size() || port.gids[index].gid == Gid{}) return ENODATA;
  *entry = {};
  std::copy(port.gids[index].gid.begin(), port.gids[index].gid.end(), entry->gid.raw);
  entry->gid_index = index;
  entry->port_num = number;
  entry->gid_type = port.gids[index].type;
  return 0;
}

int ibv_query_pkey(ibv_context* context, uint8_t number, int index, __be16* key) {
  const std::lock_guard lock(TheState().mutex);
  const PlantedPort& port = DeviceOf(context).planted.ports.at(number - 1U);
  if (static_cast<size_t>(index) >= port.pkeys.size()) return -1;
  *key = htons(port.pkeys[static_cast<size_t>(index)]);
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }

int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  eventfd_t one = 0;
  if (::eventfd_read(context->async_fd, &one) != 0) return -1;
  const std::lock_guard lock(TheState().mutex);
  auto& events = reinterpret_cast<FakeContext*>(context)->events;
  *event = events.front();
  events.pop_front();
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {}

const char* ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR  ? "remote access error"
         : status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded"
         : status == IBV_WC_WR_FLUSH_ERR  ? "Work Request Flushed Error"
                                          : "another error";
}
const char* ibv_event_type_str(ibv_event_type) { return "an event"; }
const char* ibv_port_state_str(ibv_port_state) { return "another state"; }

}  // extern "C"
