// Carries out what a Chain decides, by transfers of one client.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/broadcast/chain.h"
#include "client/lib/calls/waiter.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/async.h"
#include "onecopy/broadcast.h"
#include "onecopy/client.h"

namespace onecopy::client {

// How a payload is divided.
struct Pieces {
  uint64_t bytes = 0;        // of all
  uint64_t piece_bytes = 1;  // of each but the last
  size_t count() const {
    return static_cast<size_t>(bytes / piece_bytes + (bytes % piece_bytes == 0 ? 0 : 1));
  }
  uint64_t BytesOf(size_t piece) const;
};

// Used by one thread, once.
class Spread {
 public:
  // `buffers`: the source, then the destinations as the chain has them, all of the payload's
  // length. `request` gives policy and checksum, `waiter` the end.
  Spread(Client& client, const BroadcastRequest& request, const Waiter& waiter,
         std::vector<RemoteRange> buffers, const Pieces& pieces, bool direct);

  // What is under way is cancelled, and waited for, but no longer than for a node that is silent.
  ~Spread();

  // Before Run: this destination does not answer, and will not get it.
  void LeaveOut(size_t member, const Status& why) { chain_.GiveUp(member, why, begun_); }

  // Blocks until every destination has all bytes or has failed, and nothing moves any more, except
  // on a node that does not answer: it may still write, as it was ordered to. Once
  // the waiter says so, what is under way is cancelled. One for each destination, as the chain has
  // them.
  std::vector<BroadcastCopy> Run(const OnBroadcast& on_update);

 private:
  using Clock = std::chrono::steady_clock;
  using Number = uint64_t;  // of a transfer: one piece may have several, one after another
  // What the callbacks tell.
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<Number, Result<TransferInfo>>> ended;
    std::map<Number, uint64_t> bytes_done;
  };
  struct UnderWay {
    Chain::Take take;
    TransferFuture transfer;
    uint64_t bytes_done = 0;
    std::optional<Clock::time_point> cancel_time;  // since nothing moved
  };
  struct Connected {
    Clock::time_point looked;
    bool is = true;
  };

  void Begin(const Chain::Take& take);
  void End(Number number, const Result<TransferInfo>& ended);
  void Note(const Chain::Take& take, const Result<TransferInfo>& ended, bool stood_still);
  void LookAtProgress();
  void LookAtWhatStands();
  bool IsConnected(size_t member);
  Status StoodStill(const Chain::Take& take) const;
  void StopAll(const Status& why);
  void Tell(const OnBroadcast& on_update);
  void Finish(size_t member);
  std::string NameOf(size_t member) const;

  Client& client_;
  const BroadcastRequest& request_;
  const Waiter& waiter_;
  const std::vector<RemoteRange> buffers_;
  const Pieces pieces_;
  const Clock::time_point begun_;
  Chain chain_;
  std::map<Number, UnderWay> under_way_;
  Number next_number_ = 0;
  std::vector<BroadcastCopy> copies_;                // by member; the source's is empty
  std::vector<std::map<size_t, uint64_t>> origins_;  // by member: bytes, by where from
  std::map<std::string, Connected> connected_;       // by node
  uint64_t told_ = 0;                                // bytes, at the last update
  bool is_stopped_ = false;
  const std::shared_ptr<News> news_ = std::make_shared<News>();
};

}  // namespace onecopy::client
