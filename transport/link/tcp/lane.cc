#include "transport/link/tcp/lane.h"

#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/contracts/link.h"
#include "transport/os/base/error.h"

namespace onecopy::tcp {
namespace {

constexpr uint64_t kTurnBytes = uint64_t{512}
                                << 10;  // then the thread's other lanes have their turn
// Messages for a peer that does not receive them: more than all rings and transfers have to say.
constexpr uint64_t kMaxMessageBytes = uint64_t{64} << 20;
constexpr uint64_t kMessageOverhead = 256;
constexpr size_t kSendVector = 48;
// Frames for a peer that asks without taking them, two for each get. Readers of this version ask
// for far less at a time (TcpConnection).
constexpr size_t kMaxOutgoing = 8192;
constexpr size_t kDiscardBytes = size_t{256} << 10;
constexpr size_t kInboxBytes = size_t{64} << 10;
static_assert(kInboxBytes > kHeaderBytes + Connection::kMaxMessageBytes);

// Where abandoned bytes go: one per thread, written by the kernel, never read.
std::byte* DiscardBuffer() {
  static thread_local std::vector<std::byte> buffer(kDiscardBytes);
  return buffer.data();
}

// What is sent in the place of a body that is void once its header has been sent.
constexpr size_t kZeroBytes = size_t{64} << 10;
const std::byte* Zeroes() {
  static const std::vector<std::byte> zeroes(kZeroBytes);
  return zeroes.data();
}

// Of payload that a client has taken from under the daemon.
Status Unusable(const std::string& how) {
  return {
      Code::kAborted, reasons::kMemoryFault,
      "the memory lacks a page whose bytes were to be " + how,
      "its client removed it, or the hardware failed: remove the buffer and register memory again"};
}

Status Broken(const std::string& what) {
  return {Code::kUnavailable, reasons::kLinkDown, "tcp lane: " + what};
}

}  // namespace

Lane::Lane(unsigned index, os::EventLoop& loop, LaneSocket socket, ZeroCopyUse zero_copy)
    : index_(index), loop_(loop), socket_(std::move(socket)), zero_copy_(zero_copy) {}

void Lane::Start(std::shared_ptr<LaneOwner> owner, bool send_welcome) {
  owner_ = std::move(owner);
  serves_ = send_welcome && index_ > 0;
  if (serves_) zero_copy_.Open(socket_.fd());
  Status watching =
      loop_.Watch(socket_.fd(), EPOLLIN,
                  [self = shared_from_this()](uint32_t events) { self->OnEvents(events); });
  if (!watching.ok()) return Fail(std::move(watching));
  if (send_welcome) Queue({.header = Encode(FrameHeader{FrameKind::kWelcome, index_, 0, 0, 0})});
  ReceiveRest();  // what came with the greeting
}

// Nobody is woken for what has left the kernel already.
void Lane::ReceiveRest() {
  if (owner_ == nullptr || receive_posted_ || !socket_.buffered()) return;
  receive_posted_ = true;
  loop_.Post([self = shared_from_this()] {
    self->receive_posted_ = false;
    if (self->owner_ != nullptr) self->OnEvents(EPOLLIN);
  });
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
    owner_->GetAbandoned(index_, expected.tag);
    if (owner_ == nullptr) return;
  }
}

void Lane::Void(uint64_t key, const Status& why) {
  if (owner_ == nullptr) return;
  std::deque<Outgoing> frames;
  frames.swap(outgoing_);
  for (size_t i = 0; i < frames.size(); ++i) {
    Outgoing& frame = frames[i];
    const bool meant = frame.exported != nullptr && frame.key == key;
    const uint64_t tag = frame.tag;
    if (meant) {
      if (i == 0 && frame.apart) zero_copy_.Abandon();
      frame.exported = nullptr;
      frame.data = nullptr;
      frame.apart = false;
    }
    if (!meant || frame.sent > 0) outgoing_.push_back(std::move(frame));
    if (!meant) continue;
    ++i;  // its END
    outgoing_.push_back(Failure(tag, why));
  }
}

bool Lane::VoidFirst(const Status& why) {
  Outgoing& first = outgoing_.front();
  if (first.exported == nullptr) return false;
  if (first.apart) zero_copy_.Abandon();
  first.exported = nullptr;
  first.data = nullptr;
  first.apart = false;
  outgoing_[1] = Failure(first.tag, why);
  return true;
}

void Lane::SendMessage(uint64_t channel, std::string message) {
  if (owner_ == nullptr) return;
  if (message_bytes_ > kMaxMessageBytes) {
    return Fail(Broken("the peer does not receive the messages that it is sent"));
  }
  message_bytes_ += message.size() + kMessageOverhead;
  const FrameHeader header{FrameKind::kMessage, channel, 0, 0, message.size()};
  outgoing_.push_back({.header = Encode(header), .message = true, .text = std::move(message)});
  SendLater();
}

void Lane::SendReport(uint64_t tag, bool copied) {
  if (owner_ == nullptr) return;
  if (outgoing_.size() >= kMaxOutgoing)
    return Fail(Broken("the peer does not receive the data that it is sent"));
  outgoing_.push_back(
      {.header = Encode(FrameHeader{FrameKind::kReport, tag, copied ? kCopied : 0})});
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
  loop_.Unwatch(socket_.fd());
  at_end_ = socket_.ReadCounters();
  socket_.Close(zero_copy_.under_way() > 0);
  zero_copy_.Forget();
  outgoing_.clear();
  body_left_ = 0;
  const std::shared_ptr<LaneOwner> owner = std::move(owner_);
  owner_ = nullptr;
  std::deque<Expected> ended;
  ended.swap(expected_);
  for (Expected& expected : ended) {
    if (std::exchange(expected.into.region, nullptr) == nullptr) continue;
    owner->GetLost(index_, expected.tag, why);
  }
}

void Lane::Fail(Status status) {
  if (owner_ == nullptr) return;
  const std::shared_ptr<LaneOwner> owner = owner_;
  Close(status);
  owner->LaneFailed(shared_from_this(), std::move(status));
}

void Lane::OnEvents(uint32_t events) {
  const std::shared_ptr<Lane> keep = shared_from_this();
  if ((events & EPOLLERR) != 0 && zero_copy_.open()) {
    zero_copy_.TakeReports(socket_.fd());
    PassReports();
  }
  if ((events & EPOLLOUT) != 0) Send();
  // An error or a hang-up shows itself to recvmsg.
  if (owner_ == nullptr || (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return;
  if (index_ == 0 || serves_) {
    ReceiveFrames();
  } else {
    Receive();
  }
  ReceiveRest();
}

void Lane::ReceiveFrames() {
  if (inbox_.empty()) inbox_.resize(kInboxBytes);
  iovec room{inbox_.data() + inbox_have_, inbox_.size() - inbox_have_};
  const ssize_t got = socket_.Receive(&room, 1);
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
    const std::optional<FrameHeader> header = Decode(received.subspan(at).first<kHeaderBytes>());
    if (!header) return std::nullopt;
    if (serves_) {
      if (header->kind != FrameKind::kGet || !HandleGet(*header)) return std::nullopt;
      at += kHeaderBytes;
      continue;
    }
    if (header->kind == FrameKind::kReport && header->key <= kCopied) {
      owner_->ReportArrived(header->tag, header->key == kCopied);
      at += kHeaderBytes;
      continue;
    }
    if (header->kind != FrameKind::kMessage) return std::nullopt;
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
    // With the end of a body comes, in the same call, the header after it; with that of payload
    // two, since the first of them is its END. No byte of another body.
    if (body == body_left_) {
      const size_t most = in_data_ ? head_.size() : kHeaderBytes;
      vector[count++] = {head_.data() + head_have_, most - head_have_};
    }
    const ssize_t got = socket_.Receive(vector, count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0 && errno == EFAULT && DiscardBody(Unusable("received"))) continue;
    if (got < 0) return Fail(Broken("receiving: " + os::ErrnoText(errno)));
    if (got == 0) return Fail(Broken("the peer closed the connection"));

    turn += static_cast<uint64_t>(got);
    const uint64_t of_body = std::min<uint64_t>(static_cast<uint64_t>(got), body);
    head_have_ += static_cast<size_t>(got) - of_body;
    if (of_body > 0) {
      body_left_ -= of_body;
      if (body_at_ != nullptr) body_at_ += of_body;
      if (body_left_ == 0) EndBody();
    }
    if (!TakeHeaders()) return Fail(Broken("the peer broke the protocol"));
  }
}

bool Lane::DiscardBody(const Status& why) {
  if (body_left_ == 0 || body_at_ == nullptr || frame_.kind != FrameKind::kData) return false;
  expected_.front().failure = why;
  body_at_ = nullptr;
  return true;
}

bool Lane::TakeHeaders() {
  const auto drop = [this](size_t bytes) {
    head_have_ -= bytes;
    std::memmove(head_.data(), head_.data() + bytes, head_have_);
  };
  while (owner_ != nullptr && body_left_ == 0 && head_have_ >= kHeaderBytes) {
    const std::optional<FrameHeader> header = Decode(std::span(head_).first<kHeaderBytes>());
    drop(kHeaderBytes);
    if (!header) return false;
    frame_ = *header;
    if (!HandleReply(frame_)) return false;
    // The beginning of a failure's text may have come in the place of a second header.
    const size_t of_body = std::min<uint64_t>(head_have_, body_left_);
    if (of_body == 0) continue;
    if (body_at_ != nullptr) {
      std::memcpy(body_at_, head_.data(), of_body);
      body_at_ += of_body;
    }
    drop(of_body);
    body_left_ -= of_body;
    if (body_left_ == 0) EndBody();
  }
  return true;
}

bool Lane::HandleGet(const FrameHeader& get) {
  if (outgoing_.size() >= kMaxOutgoing) return false;
  Result<ExportRef> exported = owner_->exports().Find(get.key, get.offset, get.bytes);
  const Status usable =
      exported.ok() ? (*exported)->span().region->CheckIntact() : exported.status();
  if (!usable.ok()) {
    Queue(Failure(get.tag, usable));
    return true;
  }
  const FrameHeader header{FrameKind::kData, get.tag, 0, 0, get.bytes};
  const std::byte* data = (*exported)->span().address() + get.offset;
  outgoing_.push_back({.header = Encode(header),
                       .tag = get.tag,
                       .key = get.key,
                       .exported = std::move(*exported),
                       .data = data,
                       .bytes = get.bytes,
                       .apart = zero_copy_.wanted() && get.bytes >= ZeroCopy::kMinBytes});
  outgoing_.push_back({.header = Encode(FrameHeader{FrameKind::kEnd, get.tag})});
  SendLater();
  return true;
}

bool Lane::HandleReply(const FrameHeader& reply) {
  if (expected_.empty() || expected_.front().tag != reply.tag) return false;
  const Expected& expected = expected_.front();
  switch (reply.kind) {
    case FrameKind::kData:
      if (in_data_ || reply.bytes != expected.bytes) return false;
      in_data_ = true;
      body_at_ = expected.into.region != nullptr ? expected.into.address() : nullptr;
      body_left_ = reply.bytes;
      return true;
    case FrameKind::kEnd:
      if (!in_data_ || reply.key > kReportFollows) return false;
      EndFirst(OkStatus(), reply.key == kReportFollows);
      return true;
    case FrameKind::kFail:
      text_.resize(reply.bytes);
      body_at_ = text_.data();
      body_left_ = reply.bytes;
      if (body_left_ == 0) EndBody();
      return true;
    default:
      return false;
  }
}

// Of DATA it is not known before END whether it is good.
void Lane::EndBody() {
  if (frame_.kind == FrameKind::kFail) EndFirst(DecodeFailure(frame_.key, text_));
}

void Lane::EndFirst(Status status, bool report_follows) {
  in_data_ = false;
  Expected ended = std::move(expected_.front());
  expected_.pop_front();
  if (ended.into.region == nullptr) return owner_->Discarded(index_, ended.bytes);
  if (status.ok()) status = std::move(ended.failure);
  if (status.ok()) status = ended.into.region->CheckIntact();
  // Memory is released before the end of its get is reported.
  ended.into.region.reset();
  // The owner's kernel reports what this one has acknowledged, which might wait otherwise.
  if (report_follows) socket_.AcknowledgeNow();
  owner_->GetEnded(index_, ended.tag, std::move(status), report_follows);
}

Lane::Outgoing Lane::Failure(uint64_t tag, const Status& status) {
  std::string body = EncodeFailure(status);
  const FrameHeader header{FrameKind::kFail, tag, static_cast<uint64_t>(status.code()), 0,
                           body.size()};
  return {.header = Encode(header), .text = std::move(body)};
}

void Lane::Queue(Outgoing outgoing) {
  outgoing_.push_back(std::move(outgoing));
  if (outgoing_.size() == 1) Send();
}

ssize_t Lane::SendSome() {
  const Outgoing& first = outgoing_.front();
  if (first.apart && first.sent >= kHeaderBytes) {
    const uint64_t of_body = first.sent - kHeaderBytes;
    if (!zero_copy_.sending() && zero_copy_.Begin(first.tag, first.exported, first.bytes)) {
      outgoing_[1].header = Encode(FrameHeader{FrameKind::kEnd, first.tag, kReportFollows});
    }
    return zero_copy_.Send(socket_.fd(), first.data + of_body, first.bytes - of_body);
  }
  iovec vector[kSendVector];
  bool more = false;
  const size_t count = FillSendVector(vector, &more);
  const ssize_t sent = socket_.Send(vector, count, more);
  // The kernel may mean a later part than the first.
  if (sent < 0 && errno == EFAULT && count > 1) return socket_.Send(vector, 1, true);
  return sent;
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
    const uint64_t left = frame.body() - of_body;
    if (left == 0) continue;
    if (!frame.text.empty()) {
      vector[count++] = {const_cast<char*>(frame.text.data()) + of_body, left};
    } else if (frame.data != nullptr) {
      vector[count++] = {const_cast<std::byte*>(frame.data) + of_body, left};
    } else {
      vector[count++] = {const_cast<std::byte*>(Zeroes()), std::min<uint64_t>(left, kZeroBytes)};
      if (left > kZeroBytes) break;
    }
  }
  return count;
}

void Lane::PassReports() {
  for (const ZeroCopy::Report& report : zero_copy_.TakeFinished()) {
    owner_->BodySent(report.tag, report.copied);
  }
}

void Lane::Consumed(size_t bytes) {
  while (bytes > 0) {
    Outgoing& frame = outgoing_.front();
    const uint64_t whole = kHeaderBytes + frame.body();
    const uint64_t step = std::min<uint64_t>(bytes, whole - frame.sent);
    frame.sent += step;
    bytes -= step;
    if (frame.sent != whole) continue;
    if (frame.message) message_bytes_ -= frame.text.size() + kMessageOverhead;
    outgoing_.pop_front();
  }
}

void Lane::Send() {
  uint64_t turn = 0;
  while (!outgoing_.empty() && turn < kTurnBytes) {
    const ssize_t sent = SendSome();
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0 && errno == EFAULT && VoidFirst(Unusable("sent"))) continue;
    if (sent < 0) return Fail(Broken("sending: " + os::ErrnoText(errno)));
    turn += static_cast<uint64_t>(sent);
    Consumed(static_cast<size_t>(sent));
  }
  PassReports();
  if (outgoing_.empty() && !socket_.Flush() && errno != EAGAIN) {
    return Fail(Broken("sending: " + os::ErrnoText(errno)));
  }
  SetWriteInterest(!outgoing_.empty() || socket_.unsent());
}

void Lane::SetWriteInterest(bool wanted) {
  if (wanted == write_interest_) return;
  write_interest_ = wanted;
  loop_.Rewatch(socket_.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

}  // namespace onecopy::tcp
