// The link over RDMA devices, by libibverbs: the remote side's processor takes no part in a get.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/link.h"
#include "transport/core/toolkit/open_connections.h"
#include "transport/link/verbs/connection.h"
#include "transport/link/verbs/device.h"
#include "transport/link/verbs/leases.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/link/verbs/options.h"
#include "transport/link/verbs/progress.h"

namespace onecopy::verbs {

class VerbsLink final : public Link {
 public:
  // Never fails: without devices it is a link that is not viable, and says why.
  static std::unique_ptr<Link> Create(Options options);
  ~VerbsLink() override;

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override;
  void OnChange(UniqueFunction<void()> changed) override;
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics) override;
  void EndLeases(const RegionRef& region) override;
  void Dial(const std::string& peer, Dialled done) override;
  void Accept(const std::string& peer, const std::string& offer, Answered done) override;
  void Shutdown() override;

 private:
  explicit VerbsLink(Options options);

  void WatchDevices();
  void OnAsyncEvents(const std::shared_ptr<Device>& device);
  void HandleEvent(const std::shared_ptr<Device>& device, const Device::Event& event);
  Status NotViable() const;
  Result<std::shared_ptr<VerbsConnection>> NewConnection(const std::string& peer,
                                                         Progress& progress);
  Progress& NextThread() { return *threads_[next_thread_.fetch_add(1) % threads_.size()]; }

  const std::string name_ = "verbs";
  const Options options_;
  const DeviceList devices_;
  const std::shared_ptr<MemoryTable> memory_;
  const std::shared_ptr<Leases> leases_;
  const std::shared_ptr<Pairings> pairings_ = std::make_shared<Pairings>();
  std::vector<std::unique_ptr<Progress>> threads_;  // none where the link is not viable
  std::unique_ptr<os::LoopThread> slow_;
  std::atomic<size_t> next_thread_{0};

  OpenConnections<VerbsConnection> connections_{"verbs"};
  Mutex mutex_;
  UniqueFunction<void()> changed_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::verbs
