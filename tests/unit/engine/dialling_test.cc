// A connection that is being made to a peer which is not to be believed any more meanwhile.
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/unit/engine/between.h"
#include "transport/core/base/mutex.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace dialling_test {
namespace {

using Made = Result<std::shared_ptr<Connection>>;

// Connections that have been made and that nobody has been told of.
class Holds {
 public:
  void Keep(Made made, UniqueFunction<void(Made)> done) {
    const MutexLock lock(mutex_);
    if (!holding_) return done(std::move(made));
    held_.emplace_back(std::move(made), std::move(done));
  }
  size_t kept() const {
    const MutexLock lock(mutex_);
    return held_.size();
  }
  // The first of them.
  std::shared_ptr<Connection> Release() {
    const MutexLock lock(mutex_);
    holding_ = false;
    const std::shared_ptr<Connection> first = *held_.front().first;
    for (auto& [made, done] : std::exchange(held_, {})) done(std::move(made));
    return first;
  }

 private:
  mutable Mutex mutex_;
  bool holding_ ONECOPY_GUARDED_BY(mutex_) = true;
  std::vector<std::pair<Made, UniqueFunction<void(Made)>>> held_ ONECOPY_GUARDED_BY(mutex_);
};

class HeldDialing final : public Dialing {
 public:
  HeldDialing(std::unique_ptr<Dialing> dialing, std::shared_ptr<Holds> holds)
      : dialing_(std::move(dialing)), holds_(std::move(holds)) {}

  const std::string& offer() const override { return dialing_->offer(); }
  void Establish(const std::string& host, const std::string& answer,
                 UniqueFunction<void(Made)> done) override {
    dialing_->Establish(host, answer, [holds = holds_, done = std::move(done)](Made made) mutable {
      holds->Keep(std::move(made), std::move(done));
    });
  }

 private:
  const std::unique_ptr<Dialing> dialing_;
  const std::shared_ptr<Holds> holds_;
};

class HeldLink final : public Link {
 public:
  HeldLink(std::unique_ptr<Link> link, std::shared_ptr<Holds> holds)
      : link_(std::move(link)), holds_(std::move(holds)) {}

  const std::string& name() const override { return link_->name(); }
  LinkCapability Describe() const override { return link_->Describe(); }
  void OnChange(UniqueFunction<void()> changed) override { link_->OnChange(std::move(changed)); }
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics) override {
    return link_->Register(region, nics);
  }
  void Dial(const std::string& peer, Dialled done) override {
    link_->Dial(peer, [this, done = std::move(done)](auto dialing) mutable {
      if (!dialing.ok()) return done(dialing.status());
      done(std::unique_ptr<Dialing>(std::make_unique<HeldDialing>(std::move(*dialing), holds_)));
    });
  }
  void Accept(const std::string& peer, const std::string& offer, Answered done) override {
    link_->Accept(peer, offer, std::move(done));
  }
  void Shutdown() override { link_->Shutdown(); }

 private:
  const std::unique_ptr<Link> link_;
  const std::shared_ptr<Holds> holds_;
};

}  // namespace

TEST_CASE("a connection that was being made to a peer that is not believed any more is closed") {
  auto holds = std::make_shared<Holds>();
  Between nodes(1000, [&](const std::string& name, NodePlan& plan) {
    if (name != "west") return;
    plan.links.clear();
    plan.links.push_back(std::make_unique<HeldLink>(MakeTcpLink(name), holds));
  });
  REQUIRE_OK(nodes.west.Start(nodes.in_west, Request("east:a", "west:b")));
  WaitUntil("a connection is made", [&] { return holds->kept() > 0; });
  nodes.west.engine().SetPeers({});
  // After that, on the engine's thread.
  REQUIRE_OK(nodes.west.Ask<Page<TransferInfo>>(
      [&](ClientApi& api, auto reply) { api.ListTransfers(nodes.in_west, {}, std::move(reply)); }));
  std::promise<Status> closed;
  holds->Release()->OnClosed([&](const Status& why) { closed.set_value(why); });
  // Not because nobody uses it for a minute.
  CHECK(closed.get_future().get().message().find("minute") == std::string::npos);
}

}  // namespace dialling_test
