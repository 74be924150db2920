#include "transport/link/tcp/lane.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/core/link.h"
#include "transport/core/reasons.h"
#include "transport/link/tcp/send_vector.h"
#include "transport/os/error.h"

namespace onecopy::tcp {
namespace {

constexpr uint64_t kTurnBytes = uint64_t{8} << 20;  // then the thread's other lanes have their turn
constexpr size_t kSendVector = 32;
constexpr size_t kMaxOutgoing = 4096;  // replies that a peer may ask for without taking them
constexpr size_t kDiscardBytes = size_t{256} << 10;
constexpr size_t kInboxBytes = size_t{64} << 10;
static_assert(kInboxBytes > kHeaderBytes + Connection::kMaxMessageBytes);

// Where abandoned bytes go: one per thread, written by the kernel, read by nobody.
std::byte* DiscardBuffer() {
  static thread_local std::vector<std::byte> buffer(kDiscardBytes);
  return buffer.data();
}

// Has the kernel send nothing more once the socket is closed, as it would send from memory that is
// no longer the peer's to read.
void DropUnsent(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

Status Broken(const std::string& what) {
  return {Code::kUnavailable, reasons::kLinkDown, "tcp lane: " + what};
}

}  // namespace

Lane::Lane(unsigned index, os::EventLoop& loop, os::UniqueFd fd, ZeroCopyUse zero_copy)
    : index_(index), loop_(loop), fd_(std::move(fd)), zero_copy_(zero_copy) {}

void Lane::Start(std::shared_ptr<LaneOwner> owner, bool send_welcome) {
  owner_ = std::move(owner);
  serves_ = send_welcome && index_ > 0;
  if (serves_) zero_copy_.Open(fd_.get());
  Status watching = loop_.Watch(
      fd_.get(), EPOLLIN, [self = shared_from_this()](uint32_t events) { self->OnEvents(events); });
  if (!watching.ok()) return Fail(std::move(watching));
  if (send_welcome) Queue({.header = Encode(FrameHeader{FrameKind::kWelcome, index_, 0, 0, 0})});
}

void Lane::Get(const FrameHeader& get, Span into) {
  if (owner_ == nullptr) return;
  expected_.push_back({get.tag, std::move(into), get.bytes});
  outgoing_.push_back({.header = Encode(get)});
  SendLater();
}

void Lane::Abandon(const std::vector<uint64_t>& tags) {
  if (owner_ == nullptr) return;
  for (size_t i = 0; i < expected_.size(); ++i) {
    Expected& expected = expected_[i];
    if (expected.into.region == nullptr ||
        std::find(tags.begin(), tags.end(), expected.tag) == tags.end()) {
      continue;
    }
    if (i == 0 && body_left_ > 0 && frame_.kind == FrameKind::kData) body_at_ = nullptr;
    expected.into.region = nullptr;
    owner_->GetEnded(index_, expected.tag,
                     {Code::kCancelled, reasons::kCancelled, "the get was cancelled"}, false);
    if (owner_ == nullptr) return;
  }
}

void Lane::SendMessage(uint64_t channel, std::string message) {
  if (owner_ == nullptr) return;
  const FrameHeader header{FrameKind::kMessage, channel, 0, 0, message.size()};
  outgoing_.push_back({.header = Encode(header), .text = std::move(message)});
  SendLater();
}

// A send wakes the peer, which costs both ends more than what is said, or small payloads.
void Lane::SendLater() {
  if (send_posted_ || write_interest_) return;
  send_posted_ = true;
  loop_.Post([self = shared_from_this()] {
    self->send_posted_ = false;
    if (self->owner_ != nullptr) self->Send();
  });
}

void Lane::Close(const Status& why) {
  if (owner_ == nullptr) return;
  loop_.Unwatch(fd_.get());
  if (zero_copy_.under_way() > 0) DropUnsent(fd_.get());
  fd_.Reset();
  zero_copy_.Forget();
  outgoing_.clear();
  body_left_ = 0;
  const std::shared_ptr<LaneOwner> owner = std::move(owner_);
  owner_ = nullptr;
  std::deque<Expected> ended;
  ended.swap(expected_);
  for (Expected& expected : ended) {
    if (std::exchange(expected.into.region, nullptr) == nullptr) continue;
    owner->GetEnded(index_, expected.tag, why, false);
  }
}

void Lane::Fail(Status status) {
  if (owner_ == nullptr) return;
  const std::shared_ptr<LaneOwner> owner = owner_;
  Close(status);
  owner->LaneFailed(index_, std::move(status));
}

void Lane::OnEvents(uint32_t events) {
  const std::shared_ptr<Lane> keep = shared_from_this();
  if ((events & EPOLLERR) != 0 && zero_copy_.open()) zero_copy_.TakeReports(fd_.get());
  if ((events & EPOLLOUT) != 0) Send();
  // An error or a hang-up shows itself to recvmsg.
  if (owner_ == nullptr || (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return;
  if (index_ == 0 || serves_) return ReceiveFrames();
  Receive();
}

void Lane::ReceiveFrames() {
  if (inbox_.empty()) inbox_.resize(kInboxBytes);
  const ssize_t got =
      ::recv(fd_.get(), inbox_.data() + inbox_have_, inbox_.size() - inbox_have_, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) return Fail(Broken("receiving: " + os::ErrnoText(errno)));
  if (got == 0) return Fail(Broken("the peer closed the connection"));
  inbox_have_ += static_cast<size_t>(got);
  const std::optional<size_t> delivered = Deliver({inbox_.data(), inbox_have_});
  if (!delivered) return Fail(Broken("the peer broke the protocol"));
  inbox_have_ -= *delivered;
  std::memmove(inbox_.data(), inbox_.data() + *delivered, inbox_have_);
}

// The bytes of the whole frames at the beginning, which have been seen to; nothing where something
// else is there. A listener may end the lane.
std::optional<size_t> Lane::Deliver(std::span<const std::byte> received) {
  size_t at = 0;
  while (owner_ != nullptr && received.size() - at >= kHeaderBytes) {
    std::memcpy(header_.data(), received.data() + at, kHeaderBytes);
    const std::optional<FrameHeader> header = Decode(header_);
    if (!header) return std::nullopt;
    const bool get = header->kind == FrameKind::kGet || header->kind == FrameKind::kGetCopied;
    if (serves_ ? !get : header->kind != FrameKind::kMessage) return std::nullopt;
    if (serves_) {
      if (!HandleGet(*header)) return std::nullopt;
      at += kHeaderBytes;
      continue;
    }
    if (received.size() - at - kHeaderBytes < header->bytes) break;
    owner_->MessageArrived(header->tag, received.subspan(at + kHeaderBytes, header->bytes));
    at += kHeaderBytes + header->bytes;
  }
  return at;
}

void Lane::Receive() {
  uint64_t turn = 0;
  while (owner_ != nullptr && turn < kTurnBytes) {
    iovec vector[2];
    size_t count = 0;
    uint64_t body = 0;
    if (body_left_ > 0) {
      body = body_at_ != nullptr ? body_left_ : std::min<uint64_t>(body_left_, kDiscardBytes);
      vector[count++] = {body_at_ != nullptr ? body_at_ : DiscardBuffer(), body};
    }
    // The next header comes along with the end of a body, in the same call.
    if (body == body_left_) {
      vector[count++] = {header_.data() + header_have_, kHeaderBytes - header_have_};
    }
    msghdr message{};
    message.msg_iov = vector;
    message.msg_iovlen = count;
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return Fail(Broken("receiving: " + os::ErrnoText(errno)));
    if (got == 0) return Fail(Broken("the peer closed the connection"));

    turn += static_cast<uint64_t>(got);
    const uint64_t of_body = std::min<uint64_t>(static_cast<uint64_t>(got), body);
    header_have_ += static_cast<size_t>(got) - of_body;
    if (of_body > 0) {
      body_left_ -= of_body;
      if (body_at_ != nullptr) body_at_ += of_body;
      if (body_left_ == 0) EndBody();
    }
    if (owner_ != nullptr && header_have_ == kHeaderBytes) {
      header_have_ = 0;
      if (!HandleHeader()) return Fail(Broken("the peer broke the protocol"));
    }
  }
}

bool Lane::HandleHeader() {
  const std::optional<FrameHeader> header = Decode(header_);
  if (!header) return false;
  frame_ = *header;
  return (frame_.kind == FrameKind::kData || frame_.kind == FrameKind::kFail) &&
         HandleReply(frame_);
}

bool Lane::HandleGet(const FrameHeader& get) {
  if (outgoing_.size() >= kMaxOutgoing) return false;
  Result<ExposureRef> exposure = owner_->exposures().Find(get.key, get.offset, get.bytes);
  if (!exposure.ok()) {
    SendFailure(get.tag, exposure.status());
    return true;
  }
  const bool accounted = zero_copy_.open() && get.kind == FrameKind::kGet;
  const bool apart = accounted && get.bytes >= ZeroCopy::kLeastBytes;
  if (accounted && !apart) (*exposure)->CountCopied(get.bytes);
  const uint64_t flag = accounted ? kOwnerAccounts : 0;
  const FrameHeader header{FrameKind::kData, get.tag, flag, 0, get.bytes};
  const std::byte* data = (*exposure)->span().address() + get.offset;
  outgoing_.push_back({.header = Encode(header),
                       .exposure = std::move(*exposure),
                       .data = data,
                       .bytes = get.bytes,
                       .apart = apart});
  SendLater();
  return true;
}

bool Lane::HandleReply(const FrameHeader& reply) {
  if (expected_.empty() || expected_.front().tag != reply.tag) return false;
  const Expected& expected = expected_.front();
  if (reply.kind == FrameKind::kFail) {
    text_.resize(reply.bytes);
    body_at_ = text_.data();
  } else {
    if (reply.bytes != expected.bytes || reply.key > kOwnerAccounts) return false;
    body_at_ = expected.into.region != nullptr ? expected.into.address() : nullptr;
  }
  body_left_ = reply.bytes;
  if (body_left_ == 0) EndBody();
  return true;
}

void Lane::EndBody() {
  Expected ended = std::move(expected_.front());
  expected_.pop_front();
  // Memory is let go before its get is said to have ended.
  if (std::exchange(ended.into.region, nullptr) == nullptr) return;
  const bool failed = frame_.kind == FrameKind::kFail;
  owner_->GetEnded(index_, ended.tag, failed ? DecodeFailure(frame_.key, text_) : OkStatus(),
                   !failed && frame_.key == kOwnerAccounts);
}

void Lane::SendFailure(uint64_t tag, const Status& status) {
  std::string body = EncodeFailure(status);
  const FrameHeader header{FrameKind::kFail, tag, static_cast<uint64_t>(status.code()), 0,
                           body.size()};
  Queue({.header = Encode(header), .text = std::move(body)});
}

void Lane::Queue(Outgoing outgoing) {
  outgoing_.push_back(std::move(outgoing));
  if (outgoing_.size() == 1) Send();
}

ssize_t Lane::SendSome() {
  const Outgoing& first = outgoing_.front();
  if (first.apart && first.sent >= kHeaderBytes) {
    const uint64_t of_body = first.sent - kHeaderBytes;
    return zero_copy_.Send(fd_.get(), first.exposure, first.data + of_body, first.bytes - of_body);
  }
  iovec vector[kSendVector];
  bool more = false;
  const size_t count = FillSendVector(vector, &more);
  return SendVector(fd_.get(), vector, count, more ? MSG_MORE : 0);
}

// `more`: a body that goes by itself follows at once.
size_t Lane::FillSendVector(iovec* vector, bool* more) const {
  size_t count = 0;
  for (const Outgoing& frame : outgoing_) {
    if (count + 2 > kSendVector) break;
    const uint64_t of_header = std::min<uint64_t>(frame.sent, kHeaderBytes);
    if (of_header < kHeaderBytes) {
      vector[count++] = {const_cast<std::byte*>(frame.header.data()) + of_header,
                         kHeaderBytes - of_header};
    }
    *more = frame.apart;
    if (*more) break;
    const uint64_t of_body = frame.sent - of_header;
    if (frame.exposure != nullptr && of_body < frame.bytes) {
      vector[count++] = {const_cast<std::byte*>(frame.data) + of_body, frame.bytes - of_body};
    } else if (frame.exposure == nullptr && of_body < frame.text.size()) {
      vector[count++] = {const_cast<char*>(frame.text.data()) + of_body,
                         frame.text.size() - of_body};
    }
  }
  return count;
}

void Lane::Consumed(size_t bytes) {
  while (bytes > 0) {
    Outgoing& frame = outgoing_.front();
    const uint64_t body = frame.exposure != nullptr ? frame.bytes : frame.text.size();
    const uint64_t step = std::min<uint64_t>(bytes, kHeaderBytes + body - frame.sent);
    frame.sent += step;
    bytes -= step;
    if (frame.sent == kHeaderBytes + body) outgoing_.pop_front();
  }
}

void Lane::Send() {
  uint64_t turn = 0;
  while (!outgoing_.empty() && turn < kTurnBytes) {
    const ssize_t sent = SendSome();
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return Fail(Broken("sending: " + os::ErrnoText(errno)));
    turn += static_cast<uint64_t>(sent);
    Consumed(static_cast<size_t>(sent));
  }
  SetWriteInterest(!outgoing_.empty());
}

void Lane::SetWriteInterest(bool wanted) {
  if (wanted == write_interest_) return;
  write_interest_ = wanted;
  loop_.Rewatch(fd_.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

Lane::Counters Lane::ReadCounters() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (owner_ == nullptr || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return {};
  return {info.tcpi_bytes_received, info.tcpi_bytes_acked};
}

}  // namespace onecopy::tcp
