// An RDMA device that is open, and its ports.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/link/verbs/gid.h"
#include "transport/link/verbs/options.h"
#include "transport/shim/verbs.h"

namespace onecopy::verbs {

// One port as it was when it was last looked at.
struct Port {
  uint8_t number = 1;
  std::string name;  // "mlx5_0"; "mlx5_0:2" where the device has several
  bool ethernet = false;
  GidEntry gid;
  std::vector<GidEntry> gids;  // that may be used
  uint16_t lid = 0;
  bool needs_grh = false;  // all packets are to name addresses of the whole fabric
  uint32_t mtu_bytes = 0;
  uint16_t pkey_index = 0;
  uint64_t bytes_per_second = 0;
  Viability viability;

  // Devices reach each other only where this is equal; on Ethernet that is for a probe to find out.
  std::string Fabric() const;
  // Whether this port, as it is now, is still reached by the address that it had then.
  bool Has(const Port& then) const;
};

// Why a device did not make a queue (`what`): it has run out of them (KEYS_EXHAUSTED), or it is no
// longer there, which its driver may say before its event does (LINK_DOWN).
Status QueueRefused(const std::string& device, const std::string& what, int error);

// Any thread. Closed when the last who uses it lets go: a region's registration may outlive the
// link.
class Device {
 public:
  // Opens it and looks at its ports. The library's own error.
  static Result<std::shared_ptr<Device>> Open(std::shared_ptr<const shim::VerbsApi> api,
                                              ibv_device* device, const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const shim::VerbsApi& api() const { return *api_; }
  const std::string& name() const { return name_; }
  ibv_context* context() const { return context_; }
  ibv_pd* protection_domain() const { return domain_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  bool emulated() const { return emulated_; }
  // Whether it has memory windows that are bound by work requests (type 2B).
  bool has_windows() const;

  // Asks the device about its ports again; true when something is not as before.
  bool Refresh();
  std::vector<Port> ports() const;
  Port port(size_t index) const;
  size_t port_count() const { return port_count_; }

  // An event that concerns more than one queue pair.
  struct Event {
    ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
    uint8_t port = 0;  // 0: all
  };
  // Reads what the device has to tell. What concerns its ports or all of it is for TakeEvents.
  void ReadEvents();
  std::vector<Event> TakeEvents();
  // `wake` runs on any thread that has read what is for TakeEvents; null: nobody takes them.
  void OnEvents(std::function<void()> wake);
  // Whether the device has said that a queue pair in error takes no more receive entries. Reads
  // events.
  bool SaidLastReceive(const ibv_qp* queue_pair);
  void ForgetQueuePair(const ibv_qp* queue_pair);  // once it is destroyed
  // Not every driver says it; one that once did not is not waited for again.
  bool says_last_receive() const { return says_last_receive_; }
  void NeverSaysLastReceive() { says_last_receive_ = false; }

  // After a fatal event nothing is posted to it any more.
  void MarkLost() { lost_ = true; }
  bool lost() const { return lost_; }

 private:
  Device(std::shared_ptr<const shim::VerbsApi> api, const Options& options)
      : api_(std::move(api)), options_(options) {}
  Port Look(uint8_t number) const;
  Viability FindGid(uint8_t number, const ibv_port_attr& attributes, Port* port) const;
  Viability FindPkey(uint8_t number, const ibv_port_attr& attributes, Port* port) const;

  const std::shared_ptr<const shim::VerbsApi> api_;
  const Options options_;
  std::string name_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_device_attr attributes_{};
  bool emulated_ = false;
  size_t port_count_ = 0;
  std::atomic<bool> lost_{false};
  std::atomic<bool> says_last_receive_{true};

  Mutex reading_;  // events, one thread at a time
  Mutex events_mutex_;
  std::vector<Event> events_ ONECOPY_GUARDED_BY(events_mutex_);
  std::unordered_set<const ibv_qp*> last_receives_ ONECOPY_GUARDED_BY(events_mutex_);
  std::function<void()> wake_ ONECOPY_GUARDED_BY(events_mutex_);

  mutable Mutex mutex_;
  std::vector<Port> ports_ ONECOPY_GUARDED_BY(mutex_);
};

// The devices that the options allow, and why others, or all, cannot be used.
struct DeviceList {
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<std::pair<std::string, Viability>> refused;  // by name
  Viability viability;                                     // of the link
};
DeviceList OpenDevices(const Options& options);

}  // namespace onecopy::verbs
