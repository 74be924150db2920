// One queue pair of a port: how it is made, joined with the far end's, and ended.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "transport/link/verbs/device.h"
#include "transport/link/verbs/offer.h"
#include "transport/link/verbs/options.h"
#include "transport/link/verbs/progress.h"

namespace onecopy::verbs {

// Lives on its progress thread.
class QueuePair {
 public:
  // `port`: by its place among the device's.
  QueuePair(std::shared_ptr<Device> device, size_t port, const Options& options)
      : device_(std::move(device)),
        port_index_(port),
        port_(device_->port(port)),
        options_(options) {}
  ~QueuePair() { Destroy(); }
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Of the port's addresses, the best that reaches this one; false where there is none. Before it
  // is made.
  bool UseAddressFor(const Gid& remote);
  // Makes it; `events` hears of its work until Destroy. Fails where the port is not active, or the
  // device has no more of them.
  Status Create(Progress& progress, QueuePairEvents* events, bool reader);
  QueuePairAddress address() const;
  // Connects it with the far end's.
  Status Connect(const QueuePairAddress& remote);

  // What is posted ends with an error, and nothing more is taken.
  void Stop();
  // After Stop: waits, not for long, until what was posted up to `sequence` (0: nothing) has ended,
  // and the last receive entry that it has taken. A completion that is not fetched when a queue
  // pair is destroyed may go with it, and so its entry of the shared receive queue.
  void Drain(uint64_t sequence);
  // The device neither reads nor writes for it afterwards.
  void Destroy();

  bool exists() const { return handle_ != nullptr; }
  bool connected() const { return exists() && connected_; }
  ibv_qp* handle() const { return handle_; }
  uint32_t number() const { return number_; }  // also when it is gone
  const std::shared_ptr<Device>& device() const { return device_; }
  const Port& port() const { return port_; }
  size_t port_index() const { return port_index_; }
  const QueuePairAddress& remote() const { return remote_; }
  uint32_t max_read_bytes() const { return max_read_bytes_; }  // of one RDMA READ, once connected
  uint32_t most_inline() const { return most_inline_; }  // of a message, as part of its request

  // What its work requests carry, and where the frames lie that they send.
  uint64_t WorkId(uint64_t sequence) const { return Endpoint::WorkId(place_, sequence); }
  std::byte* SendSlot(uint32_t slot) const { return endpoint_->SendSlot(place_, slot); }
  uint32_t slots_lkey() const { return endpoint_->slots_lkey(); }

 private:
  Status Modify(ibv_qp_attr& attributes, int mask, const char* what);

  const std::shared_ptr<Device> device_;
  const size_t port_index_;
  Port port_;
  const Options& options_;
  bool reader_ = false;
  bool connected_ = false;
  bool stopped_ = false;  // and the device has taken note of it
  Endpoint* endpoint_ = nullptr;
  uint32_t place_ = 0;
  ibv_qp* handle_ = nullptr;
  uint32_t number_ = 0;
  uint32_t first_packet_ = 0;
  uint32_t max_read_bytes_ = 0;
  uint32_t most_inline_ = 0;
  QueuePairAddress remote_;
};

}  // namespace onecopy::verbs
