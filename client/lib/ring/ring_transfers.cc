#include "client/lib/ring/ring_transfers.h"

#include <sched.h>

#include <charconv>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/wire.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "transport/digest/tree.h"

namespace onecopy::client {
namespace {

// A daemon that died wakes no sleeper, so a sleeper looks this often.
constexpr std::chrono::milliseconds kLookPause{100};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A ring does not interrupt a submission. What a client has under way before a long one takes up to
// a tenth of a second, so a deadline below a second goes by gRPC. So does an invalid deadline: the
// daemon then says what is wrong with it.
bool CanEndBy(const TransferRequest& request) {
  if (!request.deadline) return true;
  constexpr std::chrono::milliseconds kLeast{1};
  constexpr std::chrono::milliseconds kLeastOfLong{1000};
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(24);
  const bool brief = request.equal_ranges == nullptr && SaidBytes(request) > 0 &&
                     SaidBytes(request) <= ring::kMaxBytes;
  return *request.deadline >= (brief ? kLeast : kLeastOfLong) && *request.deadline <= kMost;
}

// A ring compares checksums only of short transfers with one range.
bool MaySum(const TransferRequest& request) {
  return !request.checksum ||
         (request.equal_ranges == nullptr && SaidBytes(request) <= ring::kMaxBytes);
}

ring::ClientEnd::Pieces ColumnsOf(const TransferRequest& request) {
  const EqualRanges& ranges = *request.equal_ranges;
  return {request.source.offset_bytes.value_or(0), ranges.sources,
          request.destination.offset_bytes.value_or(0), ranges.destinations};
}

}  // namespace

RingTransfers::RingTransfers(AttachSocket& attach, Silence& silence, bool allowed)
    : attach_(attach),
      silence_(silence),
      allowed_(allowed),
      usable_(allowed && attach.ring_layout() == ring::kLayout) {}

RingTransfers::~RingTransfers() = default;

bool RingTransfers::Fits(const TransferRequest& request) const {
  if (!usable_.load(std::memory_order_relaxed)) return false;
  if (silence_.lasts() && silence_.Look()) return false;
  const BufferPair pair = PairOf(request);
  const auto& from = request.source.bytes;
  const auto& to = request.destination.bytes;
  return from.value_or(1) > 0 && to.value_or(1) > 0 && SaidBytes(request) <= ring::kMaxLongBytes &&
         (!from || !to || *from == *to || request.equal_ranges != nullptr) &&
         (pair.source_node.empty() || pair.destination_node.empty()) && MaySum(request) &&
         !request.sync && CanEndBy(request) && request.request_id.empty() &&
         AreRangesForRing(request) && !request.source.buffer.empty() &&
         !request.destination.buffer.empty() && request.source.fd_handle == 0 &&
         request.destination.fd_handle == 0 && request.more_sources.empty() &&
         request.more_destinations.empty() && request.part_of.empty() && request.message.empty() &&
         request.pacing == Pacing() && request.trace.empty() && !request.validate_only &&
         !request.policy.client_file;
}

BufferPair RingTransfers::PairOf(const TransferRequest& request) const {
  const auto named = [this](const std::string& node) {
    return node == attach_.node() ? std::string_view() : std::string_view(node);
  };
  return {named(request.source.node), request.source.buffer, named(request.destination.node),
          request.destination.buffer};
}

RouteRef RingTransfers::RouteFor(const TransferRequest& request) {
  const BufferPair pair = PairOf(request);
  const uint64_t bytes = SaidBytes(request);
  {
    const MutexLock lock(mutex_);
    Routes::Found found = routes_.Find(pair, bytes);
    if (found.known != Routes::Known::kSecond) return std::move(found.route);
  }
  const MutexLock opening(opening_);
  {
    // Another thread may have asked meanwhile.
    const MutexLock lock(mutex_);
    Routes::Found found = routes_.Find(pair, bytes);
    if (found.known != Routes::Known::kSecond) return std::move(found.route);
  }
  if (!EnsureRing()) return nullptr;  // nothing to be remembered of these buffers
  RouteRef route = OpenRoute(request);
  const MutexLock lock(mutex_);
  if (route == nullptr) {
    routes_.SetNone(pair, bytes);
  } else {
    routes_.Set(pair, route);
  }
  return route;
}

Status RingTransfers::OpenRing() {
  v1::AttachRequest request;
  request.mutable_open_ring();
  std::vector<os::UniqueFd> fds;
  ONECOPY_ASSIGN_OR_RETURN(const v1::AttachReply reply, attach_.Ask(request, &fds));
  if (!reply.has_ring() || fds.size() != 2) {
    return {Code::kUnimplemented, reasons::kNotServed, "the daemon did not provide a ring"};
  }
  ONECOPY_ASSIGN_OR_RETURN(ring::ClientEnd end, ring::ClientEnd::Open(fds[0], std::move(fds[1])));
  const MutexLock lock(mutex_);
  owned_ =
      std::make_unique<Ring>(std::move(end), reply.ring().transfer_prefix(), reply.ring().owner(),
                             std::chrono::nanoseconds(reply.ring().spin_nanoseconds()));
  ring_.store(owned_.get(), std::memory_order_release);
  return OkStatus();
}

bool RingTransfers::EnsureRing() {
  if (ring_.load(std::memory_order_acquire) != nullptr) return true;
  const Status opened = OpenRing();
  // There may be room for descriptors later.
  usable_ = opened.ok() || opened.reason() == reasons::kOpenFiles;
  return opened.ok();
}

RouteRef RingTransfers::OpenRoute(const TransferRequest& request) {
  v1::AttachRequest ask;
  codec::Print(request.source, ask.mutable_open_route()->mutable_source());
  codec::Print(request.destination, ask.mutable_open_route()->mutable_destination());
  // The length is the source's; a range that is as long must fit. Of many pieces, as if they were
  // one.
  if (const uint64_t bytes = SaidBytes(request); bytes > 0) {
    if (request.equal_ranges != nullptr)
      ask.mutable_open_route()->mutable_source()->set_bytes(bytes);
    ask.mutable_open_route()->mutable_destination()->set_bytes(bytes);
  }
  const auto reply = attach_.Ask(ask, nullptr);
  // Whatever is wrong is said, with its reason, by gRPC.
  if (!reply.ok() || !reply->has_route()) return nullptr;
  const v1::AttachReply::Route& wire = reply->route();
  auto route = std::make_shared<Route>();
  route->word = wire.route();
  route->source_node = wire.source().node();
  route->source = wire.source().buffer();
  route->destination_node = wire.destination().node();
  route->destination = wire.destination().buffer();
  route->one_buffer =
      route->source_node == route->destination_node && route->source == route->destination;
  route->from = {wire.source().offset_bytes(), wire.source().bytes()};
  route->to = {wire.destination().offset_bytes(), wire.destination().bytes()};
  route->max_bytes = wire.max_bytes();
  route->max_list_bytes = wire.max_list_bytes();
  route->source_bytes = wire.source_bytes();
  route->sums = wire.sums();
  Result<Plan> plan = Read(wire.plan());
  if (!plan.ok()) return nullptr;
  route->path = std::move(plan->path);
  route->link = std::move(plan->link);
  route->steps = std::move(plan->steps);
  for (const v1::Step& step : wire.list_steps()) {
    const Result<ExecutedStep> read = Read(step);
    if (!read.ok()) return nullptr;
    route->list_steps.push_back(read->step);
  }
  return route;
}

std::optional<uint64_t> RingTransfers::Submit(const TransferRequest& request, const RouteRef& route,
                                              bool waited_for) {
  const std::optional<RingMove> move = MoveBy(*route, request);
  if (!move || !route->Meets(request.policy)) return std::nullopt;
  const bool sum = request.checksum;
  if (sum && (!route->sums || move->pieces > 0 || move->bytes > ring::kMaxBytes)) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_);
  Ring& ring = *owned_;
  ReapAll();
  uint64_t number = 0;
  if (ring.slots[next_.load(std::memory_order_relaxed) % kSlots].waited_for) return std::nullopt;
  const bool taken = move->pieces == 0 ? ring.end.Submit(route->word, move->from.offset,
                                                         move->to.offset, move->bytes, &number, sum)
                                       : ring.end.SubmitMany(route->word, ColumnsOf(request),
                                                             request.equal_ranges->bytes, &number);
  if (!taken) return std::nullopt;
  next_.store(number + 1, std::memory_order_relaxed);
  Slot& slot = ring.slots[number % kSlots];
  slot.number = number;
  slot.waited_for = waited_for;
  slot.sum = sum;
  slot.route = route;
  slot.move = *move;
  slot.submitted = std::chrono::system_clock::now();
  slot.begun = Clock::now();
  const CallLimit::Time until = CallLimit::For(request.deadline);
  slot.until = until ? until->time_since_epoch().count() : 0;
  return number;
}

void RingTransfers::ReapAll() {
  Ring& ring = *owned_;
  ring::Ended ended;
  bool others = false;
  while (ring.end.Reap(&ended)) {
    Slot& slot = ring.slots[ended.number % kSlots];
    if (slot.number != ended.number) continue;  // no submission of ours
    slot.ended = ended;
    slot.seen = Clock::now();
    slot.ended_number.store(ended.number + 1, std::memory_order_release);
    others = true;
  }
  if (!others) return;
  silence_.NoteHeard();
  ring.end.WakeOthers();
}

bool RingTransfers::HasEnded(uint64_t number) const {
  const Slot& slot = ring_.load(std::memory_order_acquire)->slots[number % kSlots];
  // Or another submission has its place, since it ended long ago.
  return slot.ended_number.load(std::memory_order_acquire) == number + 1 ||
         slot.number.load(std::memory_order_relaxed) != number;
}

RingTransfers::Progress RingTransfers::Look(uint64_t number) {
  if (HasEnded(number)) return Progress::kEnded;
  Ring& ring = *ring_.load(std::memory_order_acquire);
  const bool gone = gone_.load(std::memory_order_relaxed) || silence_.lasts();
  if (ring.end.HasCompleted()) {
    const MutexLock lock(mutex_);
    ReapAll();
  }
  if (HasEnded(number)) return Progress::kEnded;
  return gone || IsLate(number) ? Progress::kGone : Progress::kUnderWay;
}

bool RingTransfers::IsLate(uint64_t number) const {
  const Slot& slot = ring_.load(std::memory_order_acquire)->slots[number % kSlots];
  const Clock::rep until = slot.until.load(std::memory_order_relaxed);
  return until != 0 && slot.number.load(std::memory_order_relaxed) == number &&
         Clock::now().time_since_epoch().count() > until;
}

std::optional<std::chrono::nanoseconds> RingTransfers::ExpectedLeft(uint64_t number) {
  const MutexLock lock(mutex_);
  const Slot& slot = owned_->slots[number % kSlots];
  if (slot.number != number) return std::nullopt;
  const auto expected = slot.route->rate.Expect(slot.move.bytes);
  if (!expected) return std::nullopt;
  return slot.begun + *expected - Clock::now();
}

void RingTransfers::Idle(uint64_t number, std::chrono::nanoseconds waited,
                         std::chrono::nanoseconds longest) {
  Ring& ring = *ring_.load(std::memory_order_acquire);
  const auto left = waited < ring.spin ? std::nullopt : ExpectedLeft(number);
  const RingPause pause = ChoosePause(waited, ring.spin, left, longest);
  switch (pause.kind) {
    case RingPause::Kind::kPause:
      return Pause();
    case RingPause::Kind::kYield:
      ::sched_yield();
      return;
    case RingPause::Kind::kSleep:
      ring.end.Sleep(pause.longest);
      if (!ring.end.HasCompleted()) LookForDaemon();
  }
}

void RingTransfers::LookForDaemon() {
  Ring& ring = *ring_.load(std::memory_order_acquire);
  if (silence_.Look()) ring.end.WakeOthers();
  if (ring.end.state() == ring::State::kOpen && !ring.end.DaemonIsGone()) return;
  usable_ = false;
  gone_ = true;
  ring.end.WakeOthers();
}

Status RingTransfers::Gone(uint64_t number) const {
  if (IsLate(number)) {
    return {Code::kDeadlineExceeded, reasons::kDeadline,
            "the transfer did not end within its deadline, and may be under way still",
            "allow it more time; if it is under way still, removing its buffer waits for its end"};
  }
  if (!gone_.load(std::memory_order_relaxed)) {
    return {Code::kUnavailable, reasons::kDaemonUnreachable,
            "the daemon has been silent for " + std::to_string(silence_.limit().count()) +
                " ms, and the transfer may be under way still",
            "see whether onecopyd still runs, and in its log what keeps it busy"};
  }
  return {Code::kUnavailable, reasons::kSessionLost,
          "the daemon ended the ring before it reported the transfer's outcome",
          "check that onecopyd still runs; the next call reconnects"};
}

Status RingTransfers::Wait(uint64_t number) {
  const Clock::time_point began = Clock::now();
  for (;;) {
    switch (Look(number)) {
      case Progress::kEnded:
        return OkStatus();
      case Progress::kGone:
        Forget(number);
        return Gone(number);
      case Progress::kUnderWay:
        break;
    }
    Idle(number, Clock::now() - began, kLookPause);
  }
}

std::optional<uint64_t> RingTransfers::NumberOf(const TransferId& id) const {
  const Ring* ring = ring_.load(std::memory_order_acquire);
  if (ring == nullptr) return std::nullopt;
  const std::string& text = id.str();
  const size_t dash = ring->prefix.size();
  if (text.size() <= dash + 1 || text[dash] != '-' || !text.starts_with(ring->prefix)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + dash + 1, end, number, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  if (number >= next_.load(std::memory_order_relaxed)) return std::nullopt;
  return number;
}

TransferInfo RingTransfers::Describe(const Slot& slot) const {
  char text[17];
  const auto hex = std::to_chars(text, text + sizeof text, slot.number.load(), 16);
  std::string id;
  id.reserve(owned_->prefix.size() + sizeof text);
  id.append(owned_->prefix).append("-").append(text, hex.ptr);
  TransferInfo info;
  info.id = TransferId(std::move(id));
  info.state = TransferState::kRunning;
  info.role = TransferRole::kDestination;
  const RingMove& move = slot.move;
  info.source = {slot.route->source_node, slot.route->source, move.from.offset, move.from.bytes};
  info.destination = {slot.route->destination_node, slot.route->destination, move.to.offset,
                      move.to.bytes};
  info.bytes = move.bytes;
  if (move.pieces > 0) info.receipt.ranges = info.receipt.merged_ranges = move.pieces;
  info.owner = owned_->owner;
  info.create_time = slot.submitted;
  return info;
}

std::optional<TransferInfo> RingTransfers::TakeEnd(uint64_t number) {
  const MutexLock lock(mutex_);
  Slot& slot = owned_->slots[number % kSlots];
  if (slot.number != number || slot.route == nullptr) return std::nullopt;
  slot.waited_for = false;
  if (slot.ended.code != Code::kOk) {
    // The route was withdrawn, or does not allow this range, which another route may allow. After
    // a checksum mismatch the route remains usable.
    if (slot.ended.reason != std::string_view(reasons::kChecksumMismatch)) routes_.Drop(slot.route);
    return std::nullopt;
  }
  const RingMove& move = slot.move;
  if (move.pieces == 0) {
    slot.route->rate.Note(move.bytes, std::chrono::nanoseconds(slot.ended.nanoseconds));
  }
  TransferInfo info = Describe(slot);
  info.state = TransferState::kSucceeded;
  info.bytes_done = move.bytes;
  info.end_time = std::chrono::system_clock::now();
  Receipt& receipt = info.receipt;
  receipt.path = slot.route->path;
  receipt.link = slot.route->link;
  const std::vector<Step>& steps = move.pieces > 0 ? slot.route->list_steps : slot.route->steps;
  receipt.steps.reserve(steps.size());
  for (const Step& step : steps) receipt.steps.push_back({step, move.bytes});
  receipt.seconds = static_cast<double>(slot.ended.nanoseconds) * 1e-9;
  receipt.asked_seconds = std::chrono::duration<double>(slot.seen - slot.begun).count();
  if (slot.sum) {
    receipt.checksum = ChecksumResult{digest::kTreeAlgorithm, digest::HexOf(slot.ended.sum), true};
  }
  if (receipt.seconds > 0) {
    receipt.bytes_per_second = static_cast<double>(move.bytes) / receipt.seconds;
  }
  return info;
}

std::optional<uint64_t> RingTransfers::Begin(const TransferRequest& request) {
  if (!Fits(request)) return std::nullopt;
  const RouteRef route = RouteFor(request);
  if (route == nullptr) return std::nullopt;
  return Submit(request, route, true);
}

RingTransfers::Attempt RingTransfers::TryBegin(const TransferRequest& request) {
  if (!Fits(request)) return {};
  Routes::Found found;
  {
    const MutexLock lock(mutex_);
    found = routes_.Find(PairOf(request), SaidBytes(request));
  }
  if (found.known == Routes::Known::kSecond) return {std::nullopt, true};
  if (found.route == nullptr) return {};
  return {Submit(request, found.route, true), false};
}

std::optional<uint64_t> RingTransfers::Keep(const TransferId& id) {
  const std::optional<uint64_t> number = NumberOf(id);
  if (!number) return std::nullopt;
  const MutexLock lock(mutex_);
  Slot& slot = owned_->slots[*number % kSlots];
  if (slot.number != *number) return std::nullopt;
  slot.waited_for = true;
  return number;
}

void RingTransfers::Forget(uint64_t number) {
  const MutexLock lock(mutex_);
  Slot& slot = owned_->slots[number % kSlots];
  if (slot.number == number) slot.waited_for = false;
}

std::optional<Result<TransferInfo>> RingTransfers::Run(const TransferRequest& request) {
  const std::optional<uint64_t> number = Begin(request);
  if (!number) return std::nullopt;
  if (Status gone = Wait(*number); !gone.ok()) return gone;
  if (auto info = TakeEnd(*number)) return std::move(*info);
  return std::nullopt;
}

std::optional<Result<TransferInfo>> RingTransfers::Start(const TransferRequest& request) {
  // gRPC sends wrong blocks again. A ring does not, and Await would only report the mismatch.
  if (!Fits(request) || request.checksum) return std::nullopt;
  const RouteRef route = RouteFor(request);
  if (route == nullptr) return std::nullopt;
  const std::optional<uint64_t> number = Submit(request, route, false);
  if (!number) return std::nullopt;
  const MutexLock lock(mutex_);
  const Slot& slot = owned_->slots[*number % kSlots];
  return Describe(slot);
}

std::optional<Result<TransferInfo>> RingTransfers::Await(const TransferId& id) {
  const std::optional<uint64_t> number = NumberOf(id);
  if (!number) return std::nullopt;
  if (Status gone = Wait(*number); !gone.ok()) return gone;
  if (auto info = TakeEnd(*number)) return std::move(*info);
  return std::nullopt;
}

void RingTransfers::WaitForAll() {
  if (ring_.load(std::memory_order_acquire) == nullptr) return;
  const uint64_t next = next_.load(std::memory_order_relaxed);
  for (uint64_t number = next > kSlots ? next - kSlots : 0; number < next; ++number) {
    if (!Wait(number).ok()) return;
  }
}

void RingTransfers::WaitFor(const TransferId& id) {
  if (const std::optional<uint64_t> number = NumberOf(id)) static_cast<void>(Wait(*number));
}

}  // namespace onecopy::client
