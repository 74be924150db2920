// The reader's half of a connection's sockets: connects each lane to its address of the owner's,
// and again where it has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/core/contracts/link.h"
#include "transport/link/tcp/connection.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/greeting.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::tcp {

// Lives on the connection's home thread, and for as long as something is under way or the
// connection has not ended. Data lanes take the owner's addresses in turn. The lane of messages
// goes to the address by which the owner's daemon answered, or else to the first one that takes
// another lane. An address that does not answer keeps the connection waiting for a moment only, is
// told (Connection::OnAddress), and tried again every few seconds. What is told of one that answers
// again stands for as long, however soon its lanes end.
class LaneDialer : public std::enable_shared_from_this<LaneDialer> {
 public:
  struct Plan {
    std::vector<os::HostPort> addresses;
    std::string answered;  // host from which the owner's daemon answered
    Token token;
    std::optional<Greeting::Secure> secure;  // lanes are encrypted
    std::function<os::EventLoop&(uint32_t lane)> loop_of;
  };
  using Done = UniqueFunction<void(Result<std::shared_ptr<Connection>>)>;

  LaneDialer(std::shared_ptr<TcpConnection> connection, os::EventLoop& home, Plan plan);

  // `done` runs once: with the connection, or with why it could not be made; it is closed then.
  void Start(Done done);

 private:
  // A lane without a socket that is not being dialled is missing.
  struct LaneState {
    bool dialling = false;
    bool up = false;
  };
  struct Address {
    os::HostPort where;
    bool silent = false;    // and told so
    bool returned = false;  // a moment ago: its silence is told after that
    Status why{};
  };

  size_t AddressOf(uint32_t lane) const;
  void Dial(uint32_t lane);
  void DialMessages(size_t address);
  void Greeted(uint32_t lane, size_t address, const Status& welcome, LaneSocket socket);
  void LaneIsUp(uint32_t lane, size_t address, LaneSocket socket);
  // Whether the connection can be handed out, or cannot be made.
  void Look();
  void HandOut();
  void Fail(const Status& why);
  void Ended(uint32_t lane, const Status& why);
  void Tell(size_t address, const Status& why);
  void StandsNoLonger(size_t address);
  bool AnyLane(size_t address, bool LaneState::*state) const;
  void RetryLater();
  void Retry();

  os::EventLoop& home_;
  const Plan plan_;
  const bool several_;
  std::shared_ptr<TcpConnection> making_;    // until it is handed out
  std::weak_ptr<TcpConnection> connection_;  // which keeps this by OnLaneEnded
  Done done_;
  std::vector<LaneState> lanes_;
  std::vector<Address> addresses_;
  std::vector<bool> messages_tried_;  // by address
  bool waiting_ = false;              // for those that have not answered; it could do without them
  bool waited_ = false;               // long enough
  bool retrying_ = false;
};

}  // namespace onecopy::tcp
