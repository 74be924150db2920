#include "daemon/attach/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/attach/mapping_messages.h"
#include "daemon/attach/ring_messages.h"
#include "onecopy/reasons.h"
#include "proto/codec/codec.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"
#include "transport/orders/layout.h"
#include "transport/os/base/error.h"
#include "transport/os/files/descriptor_kind.h"
#include "transport/ring/layout.h"

namespace onecopy::attach {
namespace {

constexpr int kPacketsPerTurn = 16;   // so that one client does not starve the others
constexpr int kPacketsDropped = 256;  // more than a socket's queue holds by default

Status Bad(std::string message) {
  return {Code::kInvalidArgument, reasons::kBadArgument, std::move(message)};
}

v1::AttachReply ErrorReply(const Status& status) {
  v1::AttachReply reply;
  *reply.mutable_error() = ToProto(status);
  return reply;
}

// A Unix socket that is closed with something unread takes the last reply from its client.
// Descriptors that lie in it are closed by this thread.
void DropUnread(const os::UniqueFd& socket) {
  for (int i = 0; i < kPacketsDropped; ++i) {
    const auto packet = os::ReceivePacket(socket.get(), 1);
    if (!packet.ok() || !*packet || (*packet)->end) break;
  }
}

}  // namespace

void TurnAway(const os::UniqueFd& socket, const Status& why) {
  ::shutdown(socket.get(), SHUT_RD);  // what it says from now on fails
  (void)os::SendPacket(socket.get(), ErrorReply(why).SerializeAsString());
  DropUnread(socket);
}

Connection::Connection(const Options& options, std::shared_ptr<os::LoopThread> thread,
                       std::shared_ptr<os::Closer> closer, Client client,
                       std::unique_ptr<EngineSession> session, std::function<void()> ended)
    : options_(options),
      thread_(std::move(thread)),
      loop_(thread_->loop()),
      closer_(std::move(closer)),
      client_(std::move(client)),
      payer_(client_.known.identity.uid.payer()),
      session_(std::move(session)),
      ended_(std::move(ended)) {}

Connection::~Connection() { Close(); }

Status Connection::Start() {
  // The watches hold the connection until Close ends them: a handler may be running then.
  const auto self = shared_from_this();
  ONECOPY_RETURN_IF_ERROR(loop_.Watch(client_.socket.get(), EPOLLIN,
                                      [self](uint32_t events) { self->OnSocket(events); }));
  if (client_.known.pidfd) {
    ONECOPY_RETURN_IF_ERROR(
        loop_.Watch(client_.known.pidfd.get(), EPOLLIN, [self](uint32_t) { self->End(); }));
  }
  hello_timer_ = loop_.RunAfter(options_.hello_timeout, [self] {
    self->Refuse({Code::kDeadlineExceeded, reasons::kDeadline,
                  "no Hello has arrived since the connection was made"});
  });
  return OkStatus();
}

void Connection::Close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  loop_.CancelTimer(hello_timer_);
  loop_.Unwatch(client_.socket.get());
  if (client_.known.pidfd) loop_.Unwatch(client_.known.pidfd.get());
  session_.reset();
  // The client hears of it now, though the descriptor may be closed much later.
  ::shutdown(client_.socket.get(), SHUT_RDWR);
  closer_->Run(payer(), [socket = std::move(client_.socket)] { DropUnread(socket); });
  client_.known.pidfd.Reset();
}

void Connection::End() {
  if (state_ == State::kClosed) return;
  Close();
  ended_();
}

void Connection::Refuse(const Status& why) {
  if (state_ == State::kClosed) return;
  Reply(ErrorReply(why));
  End();
}

void Connection::OnSocket(uint32_t epoll_events) {
  if (state_ == State::kAsking) {
    if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0) End();
    return;
  }
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    if (state_ != State::kNew && state_ != State::kAttached) return;
    auto packet = os::ReceivePacket(client_.socket.get(), kMaxAttachBytes);
    if (!packet.ok()) return End();
    if (!*packet) return;
    if ((*packet)->end) return End();
    OnPacket(std::move(**packet));
  }
}

void Connection::OnPacket(os::Packet packet) {
  Passed passed{{}, packet.fds_cut};
  for (os::UniqueFd& fd : packet.fds) passed.fds.emplace_back(std::move(fd), closer_, payer());
  if (packet.bytes_cut) {
    return Refuse(Bad("a packet has more than " + std::to_string(kMaxAttachBytes) + " bytes"));
  }
  v1::AttachRequest request;
  if (!request.ParseFromString(packet.bytes)) {
    return Refuse(Bad("a packet is not a onecopy.v1.AttachRequest"));
  }
  may_show_ = may_show_ && request.has_show_namespaces();
  switch (request.request_case()) {
    case v1::AttachRequest::kHello:
      return OnHello(request.hello(), passed);
    case v1::AttachRequest::kShowNamespaces:
      return OnShowNamespaces(std::move(passed));
    case v1::AttachRequest::kPassDescriptor:
      return OnPassDescriptor(request.pass_descriptor().file(), std::move(passed));
    case v1::AttachRequest::kOpenRing:
      return OnOpenRing(passed);
    case v1::AttachRequest::kOpenRoute:
      return OnOpenRoute(request.open_route(), passed);
    case v1::AttachRequest::kOpenSlab:
      return OnOpenSlab(passed);
    case v1::AttachRequest::kMapBuffer:
      return OnMapBuffer(request.map_buffer(), passed);
    case v1::AttachRequest::REQUEST_NOT_SET:
      return Refuse(Bad("a packet has no request that this daemon knows"));
  }
}

void Connection::OnHello(const v1::AttachRequest::Hello& hello, const Passed& passed) {
  if (state_ != State::kNew) return Refuse(Bad("this connection has already sent a Hello"));
  if (passed.any()) return Refuse(Bad("Hello must not carry a descriptor"));
  const Result<uint32_t> protocol =
      AgreeOnClientProtocol(hello.protocol_min(), hello.protocol_max(), options_.version);
  if (!protocol.ok()) return Refuse(protocol.status());
  loop_.CancelTimer(hello_timer_);
  if (greeted_) std::exchange(greeted_, nullptr)();
  client_.known.identity.program = CutUtf8(hello.client(), kMaxProgramBytes);
  protocol_ = *protocol;
  may_show_ = client_.known.alone;
  Welcome();
}

void Connection::Welcome() {
  BeginAsking();
  session_->Open(client_.known.identity, [weak = weak_from_this()](Result<std::string> token) {
    const auto self = weak.lock();
    if (!self || self->state_ == State::kClosed) return;
    if (!token.ok()) return self->Refuse(token.status());
    v1::AttachReply reply;
    v1::AttachReply::Welcome& welcome = *reply.mutable_welcome();
    welcome.set_protocol(self->protocol_);
    welcome.set_token(std::move(*token));
    welcome.set_node(self->options_.node);
    welcome.set_version(self->options_.version);
    welcome.set_ring_layout(self->session_->has_rings() ? ring::kLayout : 0);
    welcome.set_slab_layout(self->session_->has_slabs() ? orders::kLayout : 0);
    welcome.set_maps(self->session_->maps());
    welcome.set_files(self->options_.files);
    welcome.set_takes_no_dma_bufs(!self->options_.takes_dma_bufs);
    welcome.set_alone(self->client_.known.alone);
    welcome.set_keeps_buffers(self->options_.keeps_buffers);
    self->Answer(reply);
  });
}

void Connection::OnShowNamespaces(Passed passed) {
  if (!std::exchange(may_show_, false)) {
    return Refuse(Bad("ShowNamespaces must follow Hello, and only if Welcome asks for it"));
  }
  if (passed.fds.size() != 2 || passed.cut) {
    return RefuseDescriptors(std::move(passed), Bad("ShowNamespaces must carry two descriptors"));
  }
  Status shown = engine::TakeShown(client_.known, passed.fds[0].get(), passed.fds[1].get(),
                                   *options_.namespace_names);
  if (!shown.ok()) return RefuseDescriptors(std::move(passed), std::move(shown));
  Welcome();
}

void Connection::OnPassDescriptor(bool file, Passed passed) {
  if (state_ == State::kNew) {
    return Refuse({Code::kUnauthenticated, reasons::kNoSession,
                   "the first message of a connection must be Hello"});
  }
  if (passed.cut) {  // more than there was room for
    return RefuseDescriptors(
        std::move(passed),
        os::ErrnoStatus(EMFILE, "onecopyd could not receive the client's descriptor"));
  }
  if (passed.fds.size() != 1) {
    const std::string count = std::to_string(passed.fds.size());
    return RefuseDescriptors(std::move(passed),
                             Bad("PassDescriptor must carry exactly one descriptor, not " + count));
  }
  if (file && !options_.files) {
    return RefuseDescriptors(std::move(passed),
                             Bad("this daemon does not move files, as its Welcome said"));
  }
  // What a file's is, is asked where its file system may take its time to answer.
  if (const int fd = passed.fds.front().get();
      !file && os::KindOf(fd) == os::DescriptorKind::kOther) {
    Status why(Code::kInvalidArgument, reasons::kBadHandle,
               "the passed descriptor is not a memory file: it is " + os::DescribeDescriptor(fd),
               "pass a memfd, a dma-buf, or what a GPU's driver exports memory as");
    return RefuseDescriptors(std::move(passed), std::move(why));
  }
  BeginAsking();
  session_->Deposit(std::move(passed.fds.front()), file,
                    [weak = weak_from_this()](Result<uint64_t> fd_handle) {
                      const auto self = weak.lock();
                      if (!self || self->state_ == State::kClosed) return;
                      if (!fd_handle.ok()) return self->Answer(ErrorReply(fd_handle.status()));
                      v1::AttachReply reply;
                      reply.mutable_passed()->set_fd_handle(*fd_handle);
                      self->Answer(reply);
                    });
}

void Connection::RefuseDescriptors(Passed passed, Status why) {
  BeginAsking();
  auto closed = [thread = thread_, weak = weak_from_this(), why = std::move(why)] {
    thread->loop().Post([weak, why] {
      const auto self = weak.lock();
      if (self && self->state_ != State::kClosed) self->Answer(ErrorReply(why));
    });
  };
  // One payer's work is done in order.
  passed.fds.clear();
  closer_->Run(payer(), std::move(closed));
}

bool Connection::Refuses(const Passed& passed, const std::string& what, bool has) {
  Status wrong;
  if (state_ == State::kNew) {
    wrong = {Code::kUnauthenticated, reasons::kNoSession,
             "the first message of a connection must be Hello"};
  } else if (!has) {
    wrong = Bad("this daemon has no " + what + ", as its Welcome said");
  } else if (passed.any()) {
    wrong = Bad("a message about " + what + " must not carry a descriptor");
  }
  if (wrong.ok()) return false;
  Refuse(wrong);
  return true;
}

void Connection::OnOpenRing(const Passed& passed) {
  if (RefusesRing(passed)) return;
  BeginAsking();
  session_->OpenRing([weak = weak_from_this()](Result<engine::RingGiven> given) {
    const auto self = weak.lock();
    if (!self || self->state_ == State::kClosed) return;
    if (!given.ok()) return self->Answer(ErrorReply(given.status()));
    self->Answer(RingReply(*given), std::array{given->memory.get(), given->socket.get()});
  });
}

void Connection::OnOpenRoute(const v1::AttachRequest::OpenRoute& request, const Passed& passed) {
  if (RefusesRing(passed)) return;
  const codec::Field at;
  const Result<Endpoint> source = codec::Parse(request.source(), at / "source");
  if (!source.ok()) return Reply(ErrorReply(source.status()));
  const Result<Endpoint> destination = codec::Parse(request.destination(), at / "destination");
  if (!destination.ok()) return Reply(ErrorReply(destination.status()));
  BeginAsking();
  session_->OpenRoute(*source, *destination,
                      [weak = weak_from_this()](const Result<engine::RingRoute>& route) {
                        const auto self = weak.lock();
                        if (!self || self->state_ == State::kClosed) return;
                        self->Answer(route.ok() ? RouteReply(*route) : ErrorReply(route.status()));
                      });
}

void Connection::OnOpenSlab(const Passed& passed) {
  if (Refuses(passed, "slabs", session_->has_slabs())) return;
  BeginAsking();
  session_->OpenSlab([weak = weak_from_this()](Result<engine::SlabGiven> given) {
    const auto self = weak.lock();
    if (!self || self->state_ == State::kClosed) return;
    if (!given.ok()) return self->Answer(ErrorReply(given.status()));
    v1::AttachReply reply;
    reply.mutable_slab()->set_bytes(given->bytes);
    self->Answer(reply, std::array{given->slab.get(), given->orders.get(), given->socket.get()});
  });
}

void Connection::OnMapBuffer(const v1::AttachRequest::MapBuffer& request, const Passed& passed) {
  if (Refuses(passed, "mappings", session_->maps())) return;
  const codec::Field at;
  for (const auto& [text, field] :
       {std::pair(&request.node(), at / "node"), std::pair(&request.buffer(), at / "buffer")}) {
    const Status good = codec::CheckText(*text, field);
    if (!good.ok()) return Reply(ErrorReply(good));
  }
  BeginAsking();
  session_->MapBuffer(request.node(), request.buffer(),
                      [weak = weak_from_this()](const Result<engine::MappingGiven>& given) {
                        const auto self = weak.lock();
                        if (!self || self->state_ == State::kClosed) return;
                        if (!given.ok()) return self->Answer(ErrorReply(given.status()));
                        std::vector<int> fds = {given->lease.get()};
                        for (const os::UniqueFd& fd : given->fds) fds.push_back(fd.get());
                        self->Answer(MappedReply(*given), fds);
                      });
}

void Connection::BeginAsking() {
  state_ = State::kAsking;
  loop_.Rewatch(client_.socket.get(), 0);  // the far end's hanging up is still told
}

void Connection::Answer(const v1::AttachReply& reply, std::span<const int> fds) {
  state_ = State::kAttached;
  loop_.Rewatch(client_.socket.get(), EPOLLIN);
  Reply(reply, fds);
}

void Connection::Reply(const v1::AttachReply& reply, std::span<const int> fds) {
  const std::string packet = reply.SerializeAsString();
  const Status sent = fds.empty() ? os::SendPacket(client_.socket.get(), packet)
                                  : os::SendPacket(client_.socket.get(), packet, fds);
  if (!sent.ok()) End();
}

}  // namespace onecopy::attach
