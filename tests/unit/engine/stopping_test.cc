// What is asked of a node between its stop and its end.
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

// Two nodes, each with a buffer "from" and one "to", and transfers of which each waits for its
// source to be prepared.
struct StoppingRig {
  EngineCluster cluster{{"east", "west"}};
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  Principal in_east = east.Attach();
  Principal in_west = west.Attach();
  TransferId to_east;
  TransferId to_west;

  StoppingRig() {
    for (const char* name : {"from", "to"}) {
      REQUIRE_OK(east.CreateBuffer(in_east, name, 65536));
      REQUIRE_OK(west.CreateBuffer(in_west, name, 65536));
    }
    cluster.HoldCalls("Prepare");
    to_east = Begin(east, in_east, Request("west:from", "to"), 1);
    to_west = Begin(west, in_west, Request("east:from", "to"), 2);
  }

  // Returns once that many such calls are held.
  TransferId Begin(EngineNode& node, const Principal& who, const TransferRequest& request,
                   size_t held) {
    const auto begun = node.Start(who, request);
    REQUIRE_OK(begun);
    while (cluster.calls("Prepare") < held) std::this_thread::yield();
    (void)GetTransfer(node, who, begun->id);  // whose thread is through with that call now
    return begun->id;
  }

  // Stops east. `stopping` runs on its thread when it has begun to stop, and has not ended.
  void StopEast(const std::function<void()>& stopping) {
    std::promise<Status> watching;
    east.engine().loop().Post([&] {
      auto watch = east.engine().client().WatchTransfer(in_east, to_east,
                                                        [stopping](const TransferInfo& info) {
                                                          if (IsFinal(info.state)) stopping();
                                                        });
      watching.set_value(watch.status());
    });
    REQUIRE_OK(watching.get_future().get());
    east.engine().Stop();
  }
};

// Two nodes, and a copy of a file in parts from east to west, of which the first has not begun.
struct SeriesRig {
  EngineCluster cluster{{"east", "west"}, [](const std::string&, NodePlan& plan) {
                          plan.options.stall_timeout = plan.options.resume_for =
                              std::chrono::hours(1);
                        }};
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  Principal in_east = east.Attach();
  Principal in_west = west.Attach();
  TransferId series = Open();
  TransferRequest part = Part();

 private:
  TransferId Open() {
    REQUIRE_OK(east.CreateBuffer(in_east, "from", 65536));
    REQUIRE_OK(west.CreateBuffer(in_west, "to", 65536));
    SeriesRequest request;
    request.source.file = "f";
    request.destination = ParseEnd("west:to");
    const auto opened = east.Ask<TransferInfo>(
        [&](ClientApi& api, auto reply) { api.OpenSeries(in_east, request, std::move(reply)); });
    REQUIRE_OK(opened);
    return opened->id;
  }
  TransferRequest Part() const {
    TransferRequest request = Request("from", "west:to");
    request.part_of = series;
    return request;
  }
};

}  // namespace

TEST_CASE("a node that stops is the source of nothing that has not begun") {
  StoppingRig rig;
  rig.StopEast([&] { rig.cluster.ReleaseCalls(); });
  const TransferInfo refused = rig.west.Wait(rig.in_west, rig.to_west);
  CHECK(refused.state == TransferState::kFailed);
  CHECK(refused.error.code() == Code::kUnavailable);
  CHECK(refused.error.reason() == reasons::kDraining);
  CHECK(refused.bytes_done == 0);
}

TEST_CASE("a node that stops is no destination any more, not even of a plan") {
  StoppingRig rig;
  std::optional<Result<TransferInfo>> answer;
  rig.StopEast([&] {
    rig.east.engine().loop().Post([&] {
      TransferRequest request = Request("from", "to");
      request.validate_only = true;
      rig.east.engine().client().CreateTransfer(rig.in_east, request, {},
                                                [&](Result<TransferInfo> info) { answer = info; });
    });
  });
  REQUIRE(answer.has_value());
  CHECK(answer->status().code() == Code::kUnavailable);
  CHECK(answer->status().reason() == reasons::kDraining);
  rig.cluster.ReleaseCalls();
}

TEST_CASE("a node that stops does not wait for a series whose part a silent node decides") {
  SeriesRig rig;
  rig.cluster.HoldCalls("Prepare");
  REQUIRE_OK(rig.east.Start(rig.in_east, rig.part));
  while (rig.cluster.calls("Prepare") == 0) std::this_thread::yield();
  const bool silent = GENERATE(false, true);  // or out of reach
  CAPTURE(silent);
  if (silent) {
    rig.cluster.HangCalls("Cancel");
    rig.cluster.HangCalls("Query");
  } else {
    rig.cluster.Cut("east", "west");
    rig.cluster.Cut("west", "east");
  }
  SECTION("that goes on") { rig.east.engine().Stop(); }
  SECTION("that its client has cancelled") {
    REQUIRE_OK(rig.east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.EndSeries(rig.in_east, {rig.series, Status(Code::kCancelled, "R", "enough"), {}},
                    std::move(reply));
    }));
    rig.east.engine().Stop();
  }
  rig.cluster.ReleaseCalls();
  CHECK(GetTransfer(rig.west, rig.in_west, TransferId("none")).status().reason() ==
        reasons::kTransferNotFound);
}

TEST_CASE("a node that stops does not wait for a series whose part begins only then") {
  SeriesRig rig;
  REQUIRE_OK(rig.west.CreateBuffer(rig.in_west, "from", 65536));
  rig.part.source = ParseEnd("west:from");
  // Before east has a record of the part.
  rig.cluster.HoldCalls("Reserve");
  std::thread starting([&] { (void)rig.east.Start(rig.in_east, rig.part); });
  while (rig.cluster.calls("Reserve") == 0) std::this_thread::yield();
  std::thread stopping([&] { rig.east.engine().Stop(); });
  // Refused from the task on in which all that runs is told to end.
  TransferRequest plan = Request("from", "from");
  plan.validate_only = true;
  while (rig.east
             .Ask<TransferInfo>([&](ClientApi& api, auto reply) {
               api.CreateTransfer(rig.in_east, plan, {}, std::move(reply));
             })
             .status()
             .reason() != reasons::kDraining) {
    std::this_thread::yield();
  }
  // From then on west says nothing of the part, which it has begun.
  for (const char* method : {"Report", "Cancel", "Query"}) rig.cluster.HangCalls(method);
  rig.cluster.ReleaseCalls();
  stopping.join();
  starting.join();
  CHECK(GetTransfer(rig.west, rig.in_west, TransferId("none")).status().reason() ==
        reasons::kTransferNotFound);
}
