// The link over UCX: whatever transports the UCX that is found at run time has. See README.md for
// what UCX makes of trust, of peers that are lost, and of gets that it cannot do.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/contracts/link.h"
#include "transport/core/toolkit/open_connections.h"
#include "transport/link/ucx/connection.h"
#include "transport/link/ucx/context.h"
#include "transport/link/ucx/trust.h"
#include "transport/link/ucx/worker.h"

namespace onecopy::ucx {

struct LinkOptions {
  std::string node;
  std::string library;  // empty: the system's
  TrustSettings trust;
  std::vector<std::string> transports;  // empty: see DefaultTransports
  std::vector<std::string> devices;     // as [rdma] devices
  unsigned threads = 1;
  uint64_t chunk_bytes = 0;
  unsigned gets = 1;
};

class UcxLink final : public Link {
 public:
  // Always succeeds: where there is no UCX, or it cannot be used, the link is not viable.
  static std::unique_ptr<Link> Create(LinkOptions options);
  ~UcxLink() override;

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override { return capability_; }
  void OnChange(UniqueFunction<void()>) override {}  // what it describes stays as it is
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics) override;
  void Dial(const std::string& peer, Dialled done) override;
  void Accept(const std::string& peer, const std::string& offer, Answered done) override;
  void Shutdown() override;

 private:
  friend class UcxDialing;

  // A thread, its worker, and where peers of this machine find the worker's address.
  struct WorkerThread {
    explicit WorkerThread(std::string name) : thread(std::move(name)) {}
    os::LoopThread thread;
    std::unique_ptr<Worker> worker;
    os::UniqueFd address_file;
  };

  // The far end of a connection, as its offer or answer says.
  struct Far {
    Offer offer;
    std::string address;
  };

  explicit UcxLink(LinkOptions options);
  Status Start();
  void DescribeWhatIs();
  Status Unusable() const;  // OK where it can be used

  // On the thread of `from`.
  Offer MakeOffer(const std::string& peer, const WorkerThread& from) const;
  FarWorker WorkerOf(const std::string& peer, const Far& far) const;
  // Everything about `text` that must be right before UCX sees any of it.
  Result<Far> CheckFar(const std::string& peer, const std::string& text) const;
  Result<std::shared_ptr<UcxConnection>> NewConnection(const std::string& peer, const Far& far,
                                                       EndId near, bool reader,
                                                       const std::string& address,
                                                       WorkerThread& home);
  WorkerThread& NextThread() { return *threads_[next_thread_.fetch_add(1) % threads_.size()]; }

  const std::string name_ = "ucx";
  const LinkOptions options_;
  LinkCapability capability_;
  std::string host_;
  std::string device_;  // for LaneInfo
  std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<WorkerThread>> threads_;
  std::atomic<size_t> next_thread_{0};
  OpenConnections<UcxConnection> connections_{"ucx"};
};

// The reader's half of setting up a connection.
class UcxDialing final : public Dialing {
 public:
  UcxDialing(UcxLink& link, std::string peer, UcxLink::WorkerThread& home, const Offer& offer)
      : link_(link), peer_(std::move(peer)), home_(home), near_(offer.end), offer_(Encode(offer)) {}

  const std::string& offer() const override { return offer_; }
  void Establish(const std::string& host, const std::string& answer,
                 UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) override;

 private:
  UcxLink& link_;
  const std::string peer_;
  UcxLink::WorkerThread& home_;
  const EndId near_;
  const std::string offer_;
};

}  // namespace onecopy::ucx
