// What a mover says of a chunk that it moved in several gets.
#include <future>
#include <vector>

#include "daemon/pipeline/mover.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/support/quiet_connection.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

StepList ListOf(const std::string& by) {
  return std::make_shared<const std::vector<Step>>(
      std::vector<Step>{{"east", "host", "host", by, false, false}});
}

// Ends each get at once, by the lists in turn, and moves nothing.
class Alternating final : public testing::QuietConnection<Alternating> {
 public:
  Alternating(os::EventLoop& loop, std::vector<StepList> lists)
      : QuietConnection(loop, "alternating", "east"), lists_(std::move(lists)) {}

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest&, GetDone done) {
    const StepList& steps = lists_[gets_++ % lists_.size()];
    home().Post([done = std::move(done), steps]() mutable { done(OkStatus(), steps, 0); });
  }
  void CancelNow(ChannelId) {}
  void SendNow(ChannelId, std::string) {}
  void Shut(const Status& why, bool) {
    if (BeginEnd(why)) End();
  }

  const std::vector<StepList> lists_;
  size_t gets_ = 0;
};

}  // namespace

TEST_CASE("each get of a chunk counts its bytes for the steps that it took") {
  constexpr uint64_t kPiece = 4096;
  const StepList copied = ListOf("kernel");
  const StepList left = ListOf("wire");
  os::LoopThread thread("home");
  const auto connection =
      std::make_shared<Alternating>(thread.loop(), std::vector<StepList>{copied, left, left});
  pipeline::GetMover mover(connection, 1, {}, HostRegion(8 * kPiece), {}, {}, {}, kPiece);
  std::promise<pipeline::Moved> ended;
  thread.RunSync([&] {
    const pipeline::Chunk chunk{.offset = 0, .bytes = 3 * kPiece + 100};
    mover.Move(chunk, chunk, [&](pipeline::Moved moved) { ended.set_value(std::move(moved)); });
  });
  const pipeline::Moved moved = ended.get_future().get();
  REQUIRE_OK(moved.status);
  CHECK(moved.steps == nullptr);
  const std::vector<std::pair<StepList, uint64_t>> expected = {
      {copied, kPiece}, {left, 2 * kPiece}, {copied, 100}};
  CHECK(moved.step_bytes == expected);
  std::promise<void> closed;
  connection->OnClosed([&](const Status&) { closed.set_value(); });
  connection->Close({Code::kCancelled, reasons::kCancelled, "enough"});
  closed.get_future().wait();
}
