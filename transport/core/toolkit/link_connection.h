// What the connections of all links have in common: their thread, the listeners of each channel,
// and how a connection ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/contracts/link.h"
#include "transport/core/toolkit/channel_listeners.h"

namespace onecopy {

// A link's connection, `Self`, derives from this and is held by std::shared_ptr. It lives on one
// thread, that of `Home`, an Executor. An end has three parts: closed() refuses on any thread what
// comes from now on; ending() is the same at home, where gets, keys and the far end are then seen
// to; ended() is when nothing is under way any more.
//
// Self has, for this to call at home:
//   void StartGet(const GetRequest&, GetDone);            also when it is ending
//   void CancelNow(ChannelId);                            likewise
//   void SendNow(ChannelId, std::string message);         not when it is ending
//   void Shut(Status why, bool tell_peer);                begins the end, by BeginEnd; safe to
//   repeat
template <typename Self, typename Home>
class LinkConnection : public Connection, public std::enable_shared_from_this<Self> {
 public:
  Executor& executor() final { return home_; }
  void Get(const GetRequest& request, GetDone done) final {
    if (home_.InThread()) return self().StartGet(request, std::move(done));
    home_.Post([self = this->shared_from_this(), request, done = std::move(done)]() mutable {
      self->StartGet(request, std::move(done));
    });
  }
  void CancelGets(ChannelId channel) final {
    InHome([self = this->shared_from_this(), channel] { self->CancelNow(channel); });
  }
  void Listen(ChannelId channel, MessageHandler handler) final {
    listeners_.Listen(channel, std::move(handler));
  }
  void Ignore(ChannelId channel) final { listeners_.Ignore(channel); }
  Status Send(ChannelId channel, std::span<const std::byte> message) final {
    if (message.size() > kMaxMessageBytes) {
      return {Code::kInvalidArgument, reasons::kBadSize,
              std::string("a message over ") + link_ + " that is longer than " +
                  std::to_string(kMaxMessageBytes) + " bytes"};
    }
    if (closed_) return Closed();
    InHome([self = this->shared_from_this(), channel,
            text = std::string(reinterpret_cast<const char*>(message.data()),
                               message.size())]() mutable {
      if (!self->ending()) self->SendNow(channel, std::move(text));
    });
    return OkStatus();
  }
  void OnClosed(UniqueFunction<void(Status)> closed) final {
    InHome([self = this->shared_from_this(), closed = std::move(closed)]() mutable {
      if (self->ended_) return closed(self->why_);
      self->closed_callbacks_.push_back(std::move(closed));
    });
  }
  void Close(Status why) final {
    closed_ = true;
    home_.Post([self = this->shared_from_this(), why = std::move(why)]() mutable {
      self->Shut(std::move(why), true);
    });
  }
  bool closed() const final { return closed_; }

 protected:
  // `link`: its name, a literal. `peer`: the far end's node, for messages to people.
  LinkConnection(Home& home, const char* link, std::string peer)
      : home_(home), link_(link), peer_(std::move(peer)) {}

  // Any thread.
  Home& home() { return home_; }
  const std::string& peer() const { return peer_; }
  Status Closed() const {
    return {Code::kUnavailable, reasons::kLinkDown,
            std::string("the ") + link_ + " connection with node " + peer_ + " is closed"};
  }
  void InHome(Task task) {  // at once when already there
    if (home_.InThread()) return task();
    home_.Post(std::move(task));
  }

  // Home. Why it ends is told with whom; false where it is ending already.
  bool BeginEnd(const Status& why) {
    if (std::exchange(ending_, true)) return false;
    closed_ = true;
    why_ = why.WithContext("connection with node " + peer_);
    return true;
  }
  bool ending() const { return ending_; }
  const Status& why() const { return why_; }  // once it is ending
  // Home, once: every get has completed and every export ended. Who waits for the end is told
  // after what these have posted.
  void End() {
    ended_ = true;
    listeners_.Clear();
    home_.Post([self = this->shared_from_this()] {
      for (auto& closed : std::exchange(self->closed_callbacks_, {})) closed(self->why_);
    });
  }
  bool ended() const { return ended_; }
  // Home: a message of the peer's.
  void Deliver(ChannelId channel, std::span<const std::byte> message) {
    listeners_.Deliver(channel, message);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  Home& home_;
  const char* const link_;
  const std::string peer_;
  std::atomic<bool> closed_{false};
  ChannelListeners listeners_;

  // Home only.
  bool ending_ = false;
  bool ended_ = false;
  Status why_;
  std::vector<UniqueFunction<void(Status)>> closed_callbacks_;
};

}  // namespace onecopy
