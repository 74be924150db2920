#include "daemon/holder_client/holder_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::holder {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerPatience{5};
constexpr std::chrono::milliseconds kPause{20};

Status Gone(const std::string& what) {
  return {Code::kUnavailable, reasons::kNotServed, "the holder of this node's memory " + what,
          "start onecopy-holder; until then buffers end with the daemon"};
}

Message Question(What what, uint64_t number = 0, uint64_t value = 0) {
  Message question;
  question.what = what;
  question.number = number;
  question.value = value;
  return question;
}

}  // namespace

Result<HolderLink> HolderLink::Connect(const std::string& path, std::chrono::milliseconds hold_for,
                                       std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  const Message hello = Question(What::kHello, 0, static_cast<uint64_t>(hold_for.count()));
  while (true) {
    Result<os::UniqueFd> socket = os::ConnectUnix(path, SOCK_SEQPACKET);
    if (!socket.ok()) return Gone("cannot be reached: " + socket.status().message());
    ONECOPY_ASSIGN_OR_RETURN(const os::PeerProcess peer, os::UnixPeer(socket->get()));
    if (peer.uid != ::geteuid()) {
      return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                    "the holder at " + path + " runs as uid " + std::to_string(peer.uid) +
                        ", and this daemon as uid " + std::to_string(::geteuid()),
                    "run both as the same user");
    }
    HolderLink link(std::move(*socket));
    ONECOPY_ASSIGN_OR_RETURN(const Answer answer, link.Ask(hello));
    if (answer.message.what == What::kDone) return link;
    if (answer.message.what != What::kBusy) {
      return Status(Code::kFailedPrecondition, reasons::kNotServed,
                    "the holder at " + path + " speaks protocol " +
                        std::to_string(answer.message.protocol) + ", and this daemon " +
                        std::to_string(kProtocol),
                    "restart onecopy-holder; what it holds is lost then");
    }
    // The kernel closes the files of a killed process one after the other. The lock on the run
    // directory may be free a little before this connection is.
    if (Clock::now() >= until) {
      return Status(Code::kAborted, reasons::kNotServed,
                    "the holder at " + path + " serves another daemon",
                    "wait until that has ended, or give each daemon its own --run-dir");
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<HolderLink::Answer> HolderLink::Ask(const Message& question, int fd) {
  const Status sent = fd < 0 ? os::SendPacket(socket_.get(), question.bytes())
                             : os::SendPacket(socket_.get(), question.bytes(), fd);
  if (!sent.ok()) return Gone("does not take a message: " + sent.message());
  const auto until = Clock::now() + kAnswerPatience;
  while (true) {
    ONECOPY_ASSIGN_OR_RETURN(std::optional<os::Packet> packet,
                             os::ReceivePacket(socket_.get(), sizeof(Message)));
    if (packet) {
      if (packet->end) return Gone("has ended");
      const std::optional<Message> message = Message::Parse(packet->bytes);
      if (!message) return Gone("answers with something else");
      if (packet->fds_cut) {
        return Status(Code::kResourceExhausted, reasons::kNoMemory,
                      "this process may open no more files",
                      "raise LimitNOFILE= of the unit, or ulimit -n");
      }
      Answer answer{*message, {}};
      if (!packet->fds.empty()) answer.fd = std::move(packet->fds.front());
      return answer;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) {
      // A late answer would be taken for the answer to the next question.
      ::shutdown(socket_.get(), SHUT_RDWR);
      return Status(Code::kDeadlineExceeded, reasons::kNotServed,
                    "the holder of this node's memory has not answered within 5 s",
                    "try again; if it is stopped, let it go on");
    }
    pollfd waiting{socket_.get(), POLLIN, 0};
    (void)::poll(&waiting, 1, static_cast<int>(left));
  }
}

Status HolderLink::Hold(uint64_t number, int fd) {
  ONECOPY_ASSIGN_OR_RETURN(const Answer answer, Ask(Question(What::kHold, number), fd));
  if (answer.message.what == What::kDone) return OkStatus();
  if (answer.message.what == What::kFull) {
    return {Code::kResourceExhausted, reasons::kNoMemory,
            "the holder of this node's memory may open no more files",
            "raise LimitNOFILE= of onecopy-holder.service, or ulimit -n"};
  }
  return Gone("refuses a descriptor");
}

Status HolderLink::ReleaseAll() { return AskDone(Question(What::kReleaseAll)); }

Status HolderLink::AskDone(const Message& question) {
  ONECOPY_ASSIGN_OR_RETURN(const Answer answer, Ask(question));
  return answer.message.what == What::kDone ? OkStatus() : Gone("refuses to release memory");
}

Status HolderLink::Release(uint64_t number) { return AskDone(Question(What::kRelease, number)); }

Result<std::map<uint64_t, os::UniqueFd>> HolderLink::TakeAll() {
  std::map<uint64_t, os::UniqueFd> all;
  uint64_t after = 0;
  while (true) {
    ONECOPY_ASSIGN_OR_RETURN(Answer answer, Ask(Question(What::kNext, after)));
    if (answer.message.what == What::kEnd) return all;
    if (answer.message.what != What::kItem || !answer.fd || answer.message.number <= after) {
      return Gone("answers with something else");
    }
    after = answer.message.number;
    all[after] = std::move(answer.fd);
  }
}

}  // namespace onecopy::holder
