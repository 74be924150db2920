#include "transport/link/verbs/connection.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {
namespace {

constexpr std::chrono::milliseconds kByeLimit{500};

std::string EncodeStatus(const Status& status) {
  Writer out;
  out.Put(static_cast<uint8_t>(status.code()));
  out.PutText(status.reason().substr(0, 64));
  out.PutText(status.message().substr(0, 255));
  return out.Take();
}

Status DecodeStatus(std::string_view text, const std::string& peer) {
  Reader in(text);
  in.Get<uint8_t>();
  const std::string reason = in.GetText();
  const std::string message = in.GetText();
  return {Code::kUnavailable, in.ok() && !reason.empty() ? reason : std::string(reasons::kLinkDown),
          "node " + peer + " closed the connection: " + message};
}

uint64_t ExportOf(const RemoteKey& text) {
  const Result<Key> key = DecodeKey(text);
  return key.ok() ? key->id : 0;
}

}  // namespace

VerbsConnection::VerbsConnection(const Options& options, std::string peer, Progress& progress,
                                 std::vector<std::shared_ptr<Device>> devices,
                                 std::shared_ptr<Pairings> pairings,
                                 std::shared_ptr<MemoryTable> memory, SlowCalls slow)
    : LinkConnection(progress.loop(), "verbs", std::move(peer)),
      options_(options),
      memory_(std::move(memory)),
      home_(progress.loop(), [this] { return shared_from_this(); }),
      lanes_(options, this->peer(), home_, progress, std::move(devices), std::move(pairings),
             control_, *this),
      control_(lanes_.list(), [this](const Frame& frame) { Dispatch(frame); }),
      exports_(this->peer(), home_, *memory_, std::move(slow), lanes_.list(), control_),
      reads_(options, this->peer(), home_, *memory_, lanes_, control_) {}

Result<Offer> VerbsConnection::MakeOffer() {
  reader_ = true;
  return lanes_.MakeOffer();
}

void VerbsConnection::Establish(const Answer& answer, UniqueFunction<void(Status)> done) {
  lanes_.Establish(answer, [this, done = std::move(done)](Status outcome) mutable {
    if (!outcome.ok()) Shut(outcome, false);
    done(std::move(outcome));
  });
}

void VerbsConnection::OnPortDown(const Device* device, uint8_t port, const Status& why) {
  home().Post([self = shared_from_this(), device, port, why] {
    self->lanes_.OnPortDown(device, port, why);
  });
}

void VerbsConnection::OnPortsChanged(const Device* device) {
  home().Post([self = shared_from_this(), device] { self->lanes_.OnPortsChanged(device); });
}

unsigned VerbsConnection::depth() const {
  return std::max(lanes_.live(), 1U) * options_.reads_per_lane;
}

LinkAccess VerbsConnection::Access(const RemoteKey& text, const Region& into) const {
  const Result<Key> key = DecodeKey(text);
  const std::shared_ptr<const KnownMemory> known = memory_->Find(into);
  LinkAccess access;
  std::string here = "none";
  for (size_t i = 0; known != nullptr && i < known->devices.size(); ++i) {
    if (known->devices[i]->region) here = known->devices[i]->how;
  }
  if (!key.ok() || key->bytes == 0) return access;
  access.registration = key->registration == here ? here : key->registration + " > " + here;
  access.key = key->window ? "window" : "lease";
  return access;
}

void VerbsConnection::Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    self->exports_.Add(span, Exports::Reach::kRegion, std::move(done));
  });
}

void VerbsConnection::Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    self->exports_.Add(span, Exports::Reach::kSpan, std::move(done));
  });
}

void VerbsConnection::Revoke(const RemoteKey& key, Task done) {
  InHome([self = shared_from_this(), id = ExportOf(key), done = std::move(done)]() mutable {
    self->exports_.Revoke(id, std::move(done));
  });
}

void VerbsConnection::EndLoan(const RemoteKey& key, Task done) {
  InHome([self = shared_from_this(), id = ExportOf(key), done = std::move(done)]() mutable {
    self->exports_.EndLoan(id, std::move(done));
  });
}

void VerbsConnection::Release(const RemoteKey& key) {
  InHome([self = shared_from_this(), id = ExportOf(key)] { self->reads_.Forbid(id); });
}

void VerbsConnection::OnFramesArrived(unsigned lane, uint64_t number) {
  if (number == kHelloNumber) return lanes_.OnUp(lane);
  control_.OnArrived(number);
  if (ending() && bye_number_ != 0 && number >= bye_number_) {
    home().Post([self = shared_from_this()] { self->Finish(); });
  }
}

void VerbsConnection::OnFrame(unsigned lane, std::span<const std::byte> bytes) {
  const std::optional<Frame> frame = DecodeFrame(bytes);
  if (!frame) {
    return Shut(
        {Code::kUnavailable, reasons::kLinkDown, "node " + peer() + " sent a malformed frame"},
        true);
  }
  if (frame->kind == FrameKind::kPing) return;
  if (frame->kind == FrameKind::kHello) return lanes_.OnUp(lane);
  ShutUnless(control_.OnFrame(*frame));
}

void VerbsConnection::Dispatch(const Frame& frame) {
  if (ending()) return;
  switch (frame.kind) {
    case FrameKind::kMessage:
      return Deliver(frame.subject, std::as_bytes(std::span(frame.text)));
    case FrameKind::kRevoke:
      if (reader_) reads_.OnRevoke(frame.subject);
      return ShutIfOverfull();
    case FrameKind::kRevoked:
      return reader_ ? void() : exports_.OnRevoked(frame.subject);
    case FrameKind::kRepair:
      return reader_ ? void() : ShutUnless(lanes_.OnRepair(frame, exports_.next_id()));
    case FrameKind::kRepaired:
      return reader_ ? ShutUnless(lanes_.OnRepaired(frame)) : void();
    case FrameKind::kBye:
      return Shut(DecodeStatus(frame.text, peer()), false);
    case FrameKind::kHello:
    case FrameKind::kPing:
      return;
  }
}

void VerbsConnection::OnLaneFailed(unsigned lane, const Status& why, const GetRef& culprit) {
  const std::vector<GetRef> unfinished = lanes_.GiveUp(lane, why);
  if (ended()) return;
  reads_.OnLaneFailed(unfinished, culprit, why);
  if (!ending()) control_.OnLaneFailed(lane);
  lanes_.Settle();
  if (lanes_.any_left()) return;
  if (ending()) return Finish();
  Shut(why, false);
}

void VerbsConnection::Shut(const Status& reason, bool tell_peer) {
  if (ending()) return;
  const bool farewell = tell_peer && control_.HasLane();
  if (farewell) bye_number_ = control_.Send(FrameKind::kBye, 0, EncodeStatus(reason));
  BeginEnd(reason);
  lanes_.Stop();
  exports_.Stop(why());
  reads_.Stop(why());
  if (!farewell) return home().Post([self = shared_from_this()] { self->Finish(); });
  home_.RunAfter(kByeLimit, [this] { Finish(); });
}

// After the word of farewell is out, or cannot be.
void VerbsConnection::Finish() {
  if (ended()) return;
  const auto keep = shared_from_this();
  lanes_.Close();
  reads_.EndAll();
  exports_.Clear();
  End();
}

void VerbsConnection::Evidence(
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) {
  InHome([self = shared_from_this(), done = std::move(done)]() mutable {
    std::vector<std::pair<std::string, uint64_t>> counters;
    for (const auto& lane : self->lanes_.list()) {
      const std::string name =
          "queue pair " + std::to_string(lane->number()) + " of " + lane->port().name;
      counters.emplace_back(name + ": bytes read", lane->bytes_read());
      counters.emplace_back(name + ": completions", lane->completions());
    }
    done(std::move(counters));
  });
}

}  // namespace onecopy::verbs
