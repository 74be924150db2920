// A reader's end of a connection, told by the test what its owner says.
#include "transport/link/ucx/connection.h"

#include <chrono>
#include <semaphore>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/shim/ucx.h"

using namespace onecopy;
using ucx::MessageKind;

namespace {

[[maybe_unused]] const bool kEnvironmentPrepared = [] {
  shim::PrepareUcxEnvironment();
  return true;
}();

constexpr ucx::EndId kNear = 1;
constexpr ucx::EndId kNobody = 2;  // answers nothing

// What the owner hears tells that the connection of the two workers is made. UCX 1.13's tcp uses a
// connection once more that ends while it is being made, after it has freed it: nothing here ends
// before that.
class Listener : public ucx::End {
 public:
  void Arrived(ucx::Message) override { heard_.release(); }
  void EndpointFailed(const ucx::Endpoint&) override {}
  bool HeardWithin(std::chrono::seconds limit) { return heard_.try_acquire_for(limit); }

 private:
  std::counting_semaphore<> heard_{0};
};

struct WelcomeRig {
  explicit WelcomeRig(std::shared_ptr<const shim::UcxApi> api) {
    auto context = ucx::Context::Open({std::move(api), {"tcp"}, {}, false});
    REQUIRE_OK(context);
    auto reader_made = ucx::Worker::Create(*context, home);
    REQUIRE_OK(reader_made);
    reader = std::move(*reader_made);
    auto owner_made = ucx::Worker::Create(*context, there);
    REQUIRE_OK(owner_made);
    owner = std::move(*owner_made);
    const auto listener = std::make_shared<Listener>();
    ucx::Endpoint unused;
    there.RunSync([&] { owner->Attach(unused, {kNobody, kNear}, listener); });
    ucx::ConnectionOptions options;
    options.node = "reader";
    options.peer = "owner";
    options.reader = true;
    options.near = kNear;
    options.far = kNobody;
    connection = std::make_shared<ucx::UcxConnection>(std::move(options), *reader);
    Status reached;
    home.RunSync([&] {
      auto endpoint = reader->Connect(Owner());
      reached = endpoint.status();
      if (!reached.ok()) return;
      connection->Start(std::move(*endpoint), [this](const Status& status) { ready = status; });
    });
    REQUIRE_OK(reached);
    REQUIRE(listener->HeardWithin(std::chrono::seconds(30)));
  }
  ~WelcomeRig() {
    connection->Close({Code::kCancelled, reasons::kCancelled, "the test is over"});
    Hear(MessageKind::kByeToo);
    home.RunSync([&] { reader->Stop(); });
    there.RunSync([&] {
      owner->Detach(kNobody);
      owner->Stop();
    });
  }

  ucx::FarWorker Owner(std::vector<ucx::EndId> lost = {}) const {
    return {"owner", owner->address(), false, std::move(lost)};
  }
  void Hear(MessageKind kind) {
    home.RunSync([&] { connection->Arrived({kind, kNear, sequence++, 0, {}}); });
  }
  size_t Timers() {
    size_t timers = 0;
    home.RunSync([&] { timers = home.loop().timers(); });
    return timers;
  }

  os::LoopThread home{"home"};
  os::LoopThread there{"there"};
  std::unique_ptr<ucx::Worker> reader;
  std::unique_ptr<ucx::Worker> owner;
  std::shared_ptr<ucx::UcxConnection> connection;
  Status ready{Code::kUnknown, "", "nothing was heard"};
  uint64_t sequence = 0;
};

}  // namespace

TEST_CASE("a welcome that is said twice means nothing the second time") {
  const auto api = shim::LoadUcx();
  if (!api.ok()) ONECOPY_SKIP(api.status().message());
  WelcomeRig rig(*api);
  rig.Hear(MessageKind::kWelcome);
  CHECK(rig.ready.ok());
  const size_t timers = rig.Timers();
  rig.Hear(MessageKind::kWelcome);
  CHECK(rig.Timers() == timers);  // one watch over the peer, as before
  CHECK_FALSE(rig.connection->closed());
}

TEST_CASE("what the far worker has lost is not built upon any more") {
  const auto api = shim::LoadUcx();
  if (!api.ok()) ONECOPY_SKIP(api.status().message());
  WelcomeRig rig(*api);
  rig.Hear(MessageKind::kWelcome);
  const auto connect = [&](std::vector<ucx::EndId> lost) {
    ucx::EndpointRef endpoint;
    rig.home.RunSync([&] { endpoint = *rig.reader->Connect(rig.Owner(std::move(lost))); });
    return endpoint;
  };
  const auto lost_here = [&](const std::string& peer) {
    std::vector<ucx::EndId> lost;
    rig.home.RunSync([&] { lost = rig.reader->LostEnds(peer); });
    return lost;
  };
  const ucx::EndpointRef first = connect({});
  CHECK(connect({kNobody, 12345}) == first);  // not ends of this worker's
  CHECK_FALSE(rig.connection->closed());
  CHECK(lost_here("owner").empty());

  const ucx::EndpointRef second = connect({12345, kNear});
  CHECK(second != first);
  CHECK(rig.connection->closed());
  CHECK(first->failure.reason() == reasons::kLinkDown);
  CHECK(second->failure.ok());
  // The far worker is told in turn, at the next offer; and what is lost already is lost once.
  CHECK(lost_here("owner") == std::vector<ucx::EndId>{kNobody});
  CHECK(lost_here("somebody else").empty());
  CHECK(connect({kNear}) == second);
}

TEST_CASE("a welcome to a connection that is ending does not keep it from its end") {
  const auto api = shim::LoadUcx();
  if (!api.ok()) ONECOPY_SKIP(api.status().message());
  std::binary_semaphore closed{0};
  WelcomeRig rig(*api);
  rig.Hear(MessageKind::kWelcome);
  rig.connection->OnClosed([&](const Status&) { closed.release(); });
  rig.connection->Close({Code::kCancelled, reasons::kCancelled, "enough"});
  rig.Hear(MessageKind::kWelcome);
  // The owner does not answer that: the connection ends by its own limit.
  CHECK(closed.try_acquire_for(std::chrono::seconds(30)));
}
