#include "tests/support/served_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace onecopy::testing {

constexpr char kServed[] = "east";

ServedCluster::ServedCluster(std::string run_dir, const Change& change)
    : run_dir_(std::move(run_dir)) {
  cluster_ = std::make_unique<EngineCluster>(
      std::vector<std::string>{kServed, "west"},
      [this, change](const std::string& name, NodePlan& plan) {
        plan.options.daemon_uid = ::geteuid();  // so that tests are administrators
        plan.links.clear();
        plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 0, link_, "tcp"));
        if (change) change(name, plan);
      });
  engine::Engine& engine = (*cluster_)[kServed].engine();
  rpc::ApiServerOptions api;
  api.path = run_dir_ + "/api.sock";
  api.report = [](const Status&) {};
  auto serving =
      rpc::ApiServer::Start(std::move(api), engine.loop(), engine.client(), engine.sessions());
  REQUIRE_OK(serving);
  api_ = std::move(*serving);
  attach::Options attach;
  attach.path = run_dir_ + "/attach.sock";
  attach.node = kServed;
  attach.version = "9.9.9";
  attach.files = engine.has_stores();
  attach.report = [](const Status&) {};
  auto attaching =
      attach::AttachServer::Start(std::move(attach), engine.loop(), engine.sessions(),
                                  &engine.rings(), &engine.slabs(), &engine.mappings());
  REQUIRE_OK(attaching);
  attach_ = std::move(*attaching);
}

ServedCluster::~ServedCluster() {
  observer_.reset();
  attach_->Stop();
  api_->Stop();
  cluster_.reset();
}

void ServedCluster::AddBuffer(const std::string& node, const std::string& name, uint64_t bytes) {
  EngineNode& on = (*cluster_)[node];
  Owned added{on.Attach(::geteuid()), {}};
  auto memory = on.Register(added.session, name, bytes);
  REQUIRE_OK(memory);
  added.memory = std::move(*memory);
  std::memset(added.memory.data, 0, bytes);  // memory that nobody has written goes other ways
  buffers_[{node, name}] = std::move(added);
}

ServedCluster::Owned& ServedCluster::Find(const std::string& node, const std::string& name) {
  const auto found = buffers_.find({node, name});
  if (found == buffers_.end()) throw std::runtime_error("no buffer " + name);
  return found->second;
}

std::string ServedCluster::Bytes(const std::string& node, const std::string& name) {
  const EngineNode::Registered& memory = Find(node, name).memory;
  return {reinterpret_cast<const char*>(memory.data), memory.info.bytes};
}

void ServedCluster::SetBytes(const std::string& node, const std::string& name,
                             const std::string& bytes) {
  const EngineNode::Registered& memory = Find(node, name).memory;
  std::memcpy(memory.data, bytes.data(), std::min<size_t>(bytes.size(), memory.info.bytes));
}

void ServedCluster::RemoveBuffer(const std::string& node, const std::string& name) {
  (*cluster_)[node].Detach(Find(node, name).session);
  buffers_.erase({node, name});
}

void ServedCluster::Hold() {
  link_->Set([](FakeNics::Hooks& hooks) { hooks.hold_all = true; });
}

void ServedCluster::CorruptArrivals() {
  link_->Set([](FakeNics::Hooks& hooks) {
    hooks.on_landed = [](const Span& landed) {
      if (landed.bytes > 0) *landed.address() ^= std::byte{1};
    };
  });
}

void ServedCluster::AwaitHeld(size_t count) const {
  while (link_->waiting() < count) std::this_thread::yield();
}

void ServedCluster::AwaitRunning(size_t count) {
  const auto running = [this] {
    const std::vector<TransferInfo> all = transfers();
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const auto& transfer) {
      return transfer.state == TransferState::kRunning;
    }));
  };
  while (running() < count) std::this_thread::yield();
}

void ServedCluster::AwaitCancelRequested() {
  while (cluster_->calls("Cancel") == 0) std::this_thread::yield();
}

void ServedCluster::AwaitBuffers(size_t count) {
  while (buffers().size() != count) std::this_thread::yield();
}

std::vector<TransferInfo> ServedCluster::transfers() {
  auto all = observer().ListTransfers();
  REQUIRE_OK(all);
  std::reverse(all->begin(), all->end());
  return std::move(*all);
}

std::vector<BufferInfo> ServedCluster::buffers() {
  auto all = observer().ListBuffers();
  REQUIRE_OK(all);
  return std::move(*all);
}

Client& ServedCluster::observer() {
  if (!observer_.has_value()) {
    auto made = Client::Connect({.run_dir = run_dir_, .program = "observer"});
    REQUIRE_OK(made);
    observer_.emplace(std::move(*made));
  }
  return *observer_;
}

}  // namespace onecopy::testing
