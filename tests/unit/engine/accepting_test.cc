// How many connections a node answers, whatever names its callers have.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/peering/connections.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/quiet_connection.h"
#include "transport/core/base/mutex.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace accepting_test {
namespace {

class OwnersEnd final : public QuietConnection<OwnersEnd> {
 public:
  OwnersEnd(os::EventLoop& loop, const std::string& peer) : QuietConnection(loop, "quiet", peer) {}

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest&, const GetDone&) {}
  void CancelNow(ChannelId) {}
  void SendNow(ChannelId, const std::string&) {}
  void Shut(const Status& why, bool) {
    if (BeginEnd(why)) End();
  }
};

// The connections that a link has answered, in order.
class AnsweredList {
 public:
  void Add(std::shared_ptr<Connection> connection) {
    const MutexLock lock(mutex_);
    all_.push_back(std::move(connection));
  }
  // Whether each is open still.
  std::vector<bool> open() const {
    const MutexLock lock(mutex_);
    std::vector<bool> open;
    for (const auto& one : all_) open.push_back(!one->closed());
    return open;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Connection>> all_ ONECOPY_GUARDED_BY(mutex_);
};

// Answers every offer, and dials nowhere.
class QuietLink final : public Link {
 public:
  explicit QuietLink(std::shared_ptr<AnsweredList> answered) : answered_(std::move(answered)) {}

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override {
    LinkCapability capability;
    capability.name = name_;
    return capability;
  }
  void OnChange(UniqueFunction<void()>) override {}
  Result<std::vector<NicRegistration>> Register(const RegionRef&,
                                                const std::vector<std::string>&) override {
    return std::vector<NicRegistration>();
  }
  void Dial(const std::string&, Dialled done) override {
    done(Status(Code::kUnavailable, "", "this link only answers"));
  }
  void Accept(const std::string& peer, const std::string&, Answered done) override {
    auto connection = std::make_shared<OwnersEnd>(thread_.loop(), peer);
    answered_->Add(connection);
    done(Accepted{std::move(connection), "an answer"});
  }
  void Shutdown() override { thread_.StopAndJoin(); }

 private:
  const std::string name_ = "quiet";
  const std::shared_ptr<AnsweredList> answered_;
  os::LoopThread thread_{"quiet"};
};

// East is connected to west, and answers every node that asks to read.
struct AcceptingRig {
  std::shared_ptr<AnsweredList> answered = std::make_shared<AnsweredList>();
  EngineCluster cluster{{"east", "west"}, [this](const std::string& name, NodePlan& plan) {
                          // However slow the machine, no peer is lost meanwhile.
                          plan.options.heartbeat = std::chrono::minutes(1);
                          if (name == "east") {
                            plan.links.push_back(std::make_unique<QuietLink>(answered));
                          }
                        }};

  void Connect(const std::string& caller) {
    std::promise<Result<ConnectReply>> replied;
    REQUIRE(cluster.PostTo("east", [&](PeerApi& api) {
      api.Connect(caller, {"quiet", "an offer"},
                  [&](Result<ConnectReply> reply) { replied.set_value(std::move(reply)); });
    }));
    REQUIRE_OK(replied.get_future().get());
  }
};

}  // namespace

TEST_CASE("callers of ever new names have only so many connections and cost a peer none of its") {
  constexpr size_t kOfWest = 8;
  constexpr size_t kTooMany = 20;
  AcceptingRig rig;
  for (size_t i = 0; i < kOfWest; ++i) rig.Connect("west");
  for (size_t i = 0; i < Connections::kMostOfUnconnected + kTooMany; ++i) {
    rig.Connect("stranger-" + std::to_string(i));
  }
  std::vector<bool> expected(kOfWest, true);
  expected.insert(expected.end(), kTooMany, false);
  expected.insert(expected.end(), Connections::kMostOfUnconnected, true);
  CHECK(rig.answered->open() == expected);
  // West's own newest one takes the place of its oldest, and of none else.
  rig.Connect("west");
  expected.front() = false;
  expected.push_back(true);
  CHECK(rig.answered->open() == expected);
}

}  // namespace accepting_test
