#include "daemon/engine/engine.h"

#include <chrono>
#include <future>
#include <utility>

#include "daemon/engine/engine_state.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kReportPatience{2};

}  // namespace

Engine::Engine(Options options, std::vector<std::unique_ptr<Memory>> memories,
               std::vector<std::unique_ptr<Link>> links, PeerDialer& dialer,
               std::vector<std::unique_ptr<Store>> stores)
    : state_(std::make_unique<State>(std::move(options), std::move(memories), std::move(links),
                                     std::move(stores), dialer)) {
  state_->thread.RunSync([this] {
    state_->Wire();
    state_->Restore();
  });
}

Engine::~Engine() { Stop(); }

os::EventLoop& Engine::loop() { return state_->thread.loop(); }
ClientApi& Engine::client() { return state_->client; }
const Ledger& Engine::ledger() const { return state_->context.ledger; }
PeerApi& Engine::node() { return state_->self; }
Sessions& Engine::sessions() { return state_->sessions; }
RingApi& Engine::rings() { return state_->rings; }
SlabApi& Engine::slabs() { return state_->slabs; }
MappingApi& Engine::mappings() { return state_->mappings; }
bool Engine::has_stores() const { return !state_->stores.empty(); }
Status Engine::AdmitPeer(const std::string& node, bool local) {
  return state_->peers.Admit(node, local);
}

void Engine::Start(const std::string& address) {
  loop().Post([state = state_.get(), address] {
    state->context.serving = true;
    state->ordered.Serving();
    state->peers.Start(address);
  });
}

void Engine::ReadFigures(UniqueFunction<void(Figures)> reply) {
  loop().Post(
      [state = state_.get(), reply = std::move(reply)]() mutable { reply(state->figures.Read()); });
}

void Engine::ReadStatus(UniqueFunction<void(Figures)> reply) {
  loop().Post([state = state_.get(), reply = std::move(reply)]() mutable {
    state->status.Read(std::move(reply));
  });
}

void Engine::SetPeers(std::vector<PeerOptions> peers) {
  loop().Post([state = state_.get(), peers = std::move(peers)] { state->peers.Configure(peers); });
}

void Engine::SetExports(std::vector<ExportOptions> exports) {
  loop().Post([state = state_.get(), exports = std::move(exports)]() mutable {
    state->exports.Configure(std::move(exports));
  });
}

void Engine::SetShares(std::vector<ShareOptions> shares) {
  loop().Post([state = state_.get(), shares = std::move(shares)]() mutable {
    state->context.flows.Configure(std::move(shares));
    state->context.paces.Refresh(state->context.flows);
    state->rings.DropLimited();
  });
}

void Engine::Drain(Task done) {
  loop().Post([state = state_.get(), done = std::move(done)]() mutable {
    state->context.draining = state->context.ending = true;
    state->context.draining_since = std::chrono::system_clock::now();
    state->rings.Drain(true);
    state->openings.CloseAll(state->context.Draining());
    state->mappings.EndAll({Code::kUnavailable, reasons::kDraining,
                            "node " + state->context.node() + " is shutting down" +
                                (state->held.on() ? ": map the buffer again when it is back"
                                                  : ", and its buffers go with it")});
    log::Info("draining", {{"transfers", std::to_string(state->transfers.running())}});
    const auto timer = state->context.loop.RunAfter(state->context.options.drain_timeout, [state] {
      state->LeaveAll(
          {Code::kUnavailable, reasons::kDraining,
           "node " + state->context.node() + " is shutting down and its drain time is over"});
    });
    state->transfers.OnIdle([state, timer, done = std::move(done)]() mutable {
      state->context.loop.CancelTimer(timer);
      // The other nodes should hear how the last transfers ended, and that they read here no more.
      state->When(
          [state] { return state->context.reports_under_way == 0 && !state->openings.any(); },
          kReportPatience, std::move(done));
    });
  });
}

void Engine::Stop() {
  if (state_ == nullptr || std::exchange(state_->stopped, true)) return;
  State* state = state_.get();
  // Every transfer releases what it uses before that goes.
  std::promise<void> idle;
  loop().Post([state, &idle] {
    state->context.draining = state->context.ending = true;
    state->LeaveAll(
        {Code::kUnavailable, reasons::kDraining, "node " + state->context.node() + " is stopping"});
    state->transfers.OnIdle([state, &idle] {
      // Who does not wait for draining has not waited for this, either.
      const auto reported = [state] { return state->context.reports_under_way == 0; };
      state->When(reported, kReportPatience, [state, &idle] {
        state->peers.Stop();
        state->probe_slabs.CloseAll();
        state->probes.Stop([&idle] { idle.set_value(); });
      });
    });
  });
  idle.get_future().wait();
  // What is under way needs its links to end.
  state->thread.RunSync([state] { state->rings.Clear(); });
  for (const auto& link : state->links) link->Shutdown();
  state->thread.RunSync([state] {
    state->openings.Clear();
    state->sources.Clear();
    state->exporter.Clear();
    state->importer.Clear();
    state->connections.Clear();
    state->slots.Clear();
    state->slabs.Clear();
    state->mappings.Clear();
    state->buffers.Clear();
    state->held.Unwatch();
  });
  state->context.ledger.OnFall(nullptr);
  state->thread.StopAndJoin();
  state->workers.StopAndJoin();
}

}  // namespace onecopy::engine
