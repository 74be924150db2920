// A daemon for tests of clients, in this process: node "east" of an EngineCluster with the daemon's
// own servers for clients, and "west", its peer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/rpc/serving/api_server.h"
#include "onecopy/client.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"

namespace onecopy::testing {

// The test's thread, but where it says otherwise.
class ServedCluster {
 public:
  using Change = std::function<void(const std::string& node, NodePlan&)>;

  // Clients find east in `run_dir`. `change` may change either node before it starts.
  explicit ServedCluster(std::string run_dir, const Change& change = {});
  // As when the daemon stops: clients lose it first.
  ~ServedCluster();

  const std::string& run_dir() const { return run_dir_; }
  EngineCluster& cluster() { return *cluster_; }
  // What carries between the nodes: gets can be held, and fail.
  FakeNics& link() { return *link_; }
  // The calls of clients are not served any more, although they may attach.
  void StopApi() { api_->Stop(); }

  // A buffer of this process's user, filled with zeroes.
  void AddBuffer(const std::string& node, const std::string& name, uint64_t bytes);
  // Of a buffer that was so added.
  std::string Bytes(const std::string& node, const std::string& name);
  void SetBytes(const std::string& node, const std::string& name, const std::string& bytes);
  void RemoveBuffer(const std::string& node, const std::string& name);

  // Any thread, as all down to AwaitHeld. Transfers between the nodes run from now on until they
  // are cancelled, or Release.
  void Hold();
  void Release() { link_->Release(); }
  // Transfers between the nodes fail with this from now on.
  void FailTransfers(const Status& why) { cluster_->FailCalls("Prepare", why); }

  // What transfers between the nodes bring is altered on its way from now on.
  void CorruptArrivals();

  // Waits until gets of so many transfers, or parts of one, are held.
  void AwaitHeld(size_t count) const;
  // Waits until so many transfers are RUNNING, as east tells.
  void AwaitRunning(size_t count);
  // Waits until somebody asked for the end of a transfer that west decides.
  void AwaitCancelRequested();
  // Waits until so many buffers are in east.
  void AwaitBuffers(size_t count);

  // What east tells a client of this process's user.
  std::vector<TransferInfo> transfers();  // the oldest first
  std::vector<BufferInfo> buffers();      // of east

 private:
  struct Owned {
    engine::Principal session;
    EngineNode::Registered memory;
  };

  Owned& Find(const std::string& node, const std::string& name);
  Client& observer();

  const std::string run_dir_;
  const std::shared_ptr<FakeNics> link_ = std::make_shared<FakeNics>();
  std::unique_ptr<EngineCluster> cluster_;
  std::unique_ptr<rpc::ApiServer> api_;
  std::unique_ptr<attach::AttachServer> attach_;
  std::map<std::pair<std::string, std::string>, Owned> buffers_;
  std::optional<Client> observer_;  // made when it is first needed
};

}  // namespace onecopy::testing
