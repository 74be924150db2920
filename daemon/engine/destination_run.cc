#include "daemon/engine/destination_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/local_move.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/probes.h"
#include "daemon/engine/remote_move.h"
#include "daemon/engine/shared_move.h"
#include "daemon/engine/transfers.h"
#include "daemon/log/log.h"
#include "transport/core/reasons.h"
#include "transport/core/size.h"

namespace onecopy::engine {
namespace {

// Shorter transfers are over before a wire is at full speed.
constexpr uint64_t kLeastToCompare = uint64_t{16} << 20;
constexpr double kFarSlower = 0.5;

double Seconds(os::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// A device that has run out of what it gives, or that does not reach the other, says nothing about
// sockets; where the sockets fail there is nothing left to try.
bool AnotherPathMayDo(const Status& failure, const plan::Path& path) {
  if (failure.code() == Code::kFailedPrecondition) return true;
  if (failure.reason() == reasons::kMemlock || failure.reason() == reasons::kKeysExhausted) {
    return true;
  }
  const bool unreachable =
      failure.reason() == reasons::kLinkDown || failure.reason() == reasons::kNicUnreachable;
  return unreachable && path.name.starts_with("rdma-");
}

}  // namespace

DestinationRun::DestinationRun(Parts& parts, Order order)
    : parts_(parts),
      order_(std::move(order)),
      accepted_(os::Clock::now()),
      progressed_(accepted_) {}

TransferRecord& DestinationRun::record() { return *parts_.transfers.Find(order_.id); }

void DestinationRun::Start(std::shared_ptr<Reporter> reporter, Replan replan) {
  reporter_ = std::move(reporter);
  replan_ = std::move(replan);
  if (order_.deadline) {
    deadline_timer_ = parts_.context.loop.RunAfter(*order_.deadline, [self = shared_from_this()] {
      self->deadline_timer_ = 0;
      self->Cancel({Code::kDeadlineExceeded, reasons::kDeadline,
                    "the transfer did not end within its deadline of " +
                        std::to_string(self->order_.deadline->count()) + " ms"});
    });
  }
  Begin();
}

void DestinationRun::Begin() {
  record().info.plan = order_.plan;
  const plan::Path& path = order_.plan.path;
  if (IsLocal()) {
    move_ = std::make_shared<LocalMove>(parts_, path, *order_.source_area, order_.destination);
  } else {
    RemoteMove::Order order{path,
                            order_.source.source.node,
                            order_.source.ticket,
                            order_.checksum,
                            order_.client_buffer,
                            {order_.source.memory, order_.source.device},
                            {},
                            record().info,
                            order_.ranges};
    if (order_.deadline) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - accepted_);
      order.deadline = std::max(*order_.deadline - passed, std::chrono::milliseconds(1));
    }
    if (path.link.empty()) {
      move_ = std::make_shared<SharedMove>(parts_, std::move(order), order_.destination);
    } else {
      move_ = std::make_shared<RemoteMove>(parts_, std::move(order), order_.destination);
    }
  }
  move_->Start(
      [self = shared_from_this()] { self->OnRunning(); },
      [self = shared_from_this()](MoveOutcome outcome) { self->OnMoved(std::move(outcome)); });
}

void DestinationRun::OnRunning() {
  running_ = true;
  shared_ = parts_.transfers.running() > 1;
  progressed_ = os::Clock::now();
  TransferInfo& info = record().info;
  info.state = TransferState::kRunning;
  info.receipt.negotiation_seconds = Seconds(progressed_ - accepted_);
  parts_.transfers.Changed(record());
  reporter_->Report(false);
}

void DestinationRun::Cancel(const Status& why) {
  if (ended_ || !cancelled_.ok()) return;
  cancelled_ = why;
  *stop_ = true;
  if (move_ != nullptr) move_->Stop(why);
}

void DestinationRun::Tick() {
  if (!running_ || move_ == nullptr) return;
  shared_ = shared_ || parts_.transfers.running() > 1;
  const uint64_t bytes = move_->bytes_done();
  const os::Clock::time_point now = os::Clock::now();
  if (bytes != bytes_seen_) {
    bytes_seen_ = bytes;
    progressed_ = now;
    record().info.bytes_done = bytes;
    parts_.transfers.Changed(record());
    reporter_->Report(true);
    return;
  }
  const auto waited = now - progressed_;
  const std::string& source = order_.source.source.node;
  if (!IsLocal() && waited > std::chrono::seconds(1) && !parts_.peers.IsConnected(source)) {
    return Cancel({Code::kUnavailable, reasons::kPeerDown,
                   "node " + source + ", which sends the bytes, no longer answers",
                   "try again when it is back: onecopy node ls"});
  }
  if (waited > parts_.context.options.stall_timeout) {
    Cancel({Code::kDeadlineExceeded, reasons::kStalled,
            "no byte has moved for " +
                std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) +
                " s"});
  }
}

void DestinationRun::OnMoved(MoveOutcome outcome) {
  move_.reset();
  running_ = false;
  const plan::Path& path = order_.plan.path;
  record().info.receipt.attempts.push_back(
      {path.name, outcome.status.ok() ? "SUCCEEDED" : outcome.status.reason(), 0});
  const Status failure = outcome.status;
  if (failure.ok()) {
    record().info.bytes_done = order_.destination.payload();
    record().info.receipt.attempts.back().bytes = order_.destination.payload();
    return Verify(std::move(outcome));
  }
  // What only showed itself impossible when it was tried is like a refusal: another path may do.
  if (!outcome.began && cancelled_.ok() && AnotherPathMayDo(failure, path) &&
      std::none_of(excluded_.begin(), excluded_.end(),
                   [&](const plan::Exclusion& one) { return one.Covers(path); })) {
    excluded_.push_back(plan::Exclusion::Of(path, failure));
    Result<plan::Plan> other =
        replan_(order_.source, order_.destination, order_.ranges, order_.policy, excluded_);
    // Of what may be otherwise in a moment, the caller hears as such: it can try again.
    const bool passing = failure.code() != Code::kFailedPrecondition;
    if (!other.ok()) return End(passing ? failure : other.status());
    log::Info("path refused when it was tried", {{"transfer", order_.id.str()},
                                                 {"path", path.name},
                                                 {"why", failure.ToString()},
                                                 {"instead", other->path.name}});
    order_.plan = std::move(*other);
    return Begin();
  }
  record().info.bytes_done = bytes_seen_;
  record().info.receipt.attempts.back().bytes = bytes_seen_;
  Note(std::move(outcome));
  End(failure);
}

void DestinationRun::Note(MoveOutcome outcome) {
  Receipt& receipt = record().info.receipt;
  const plan::Plan& plan = order_.plan;
  if (order_.ranges != nullptr) {
    receipt.ranges = order_.ranges->ranges;
    receipt.merged_ranges = order_.ranges->merged_ranges;
  }
  receipt.path = plan.path.name;
  receipt.link = plan.path.link;
  receipt.refused = plan.refused;
  receipt.registration = outcome.access.registration;
  receipt.key = outcome.access.key;
  receipt.lanes = std::move(outcome.lanes);
  receipt.seconds = outcome.seconds;
  receipt.evidence = std::move(outcome.evidence);
  receipt.steps = std::move(outcome.steps);
  receipt.emulated = std::any_of(receipt.steps.begin(), receipt.steps.end(),
                                 [](const ExecutedStep& step) { return step.step.emulated; });
}

void DestinationRun::CompareWithProbe() {
  const plan::Path& path = order_.plan.path;
  Receipt& receipt = record().info.receipt;
  const uint64_t bytes = order_.destination.payload();
  if (!path.measured || shared_ || bytes < kLeastToCompare || receipt.seconds <= 0) return;
  const double rate = static_cast<double>(bytes) / receipt.seconds;
  if (rate >= kFarSlower * path.estimated_bytes_per_second) return;
  const std::string figures = FormatRate(rate) + ", although its probe lets expect " +
                              FormatRate(path.estimated_bytes_per_second);
  receipt.evidence["alarm"] = "far slower than probed: " + figures;
  parts_.probes.CountSlow(order_.source.source.node);
  log::Warning("transfer far slower than probed", {{"transfer", order_.id.str()},
                                                   {"from", record().info.source.ToString()},
                                                   {"path", path.name},
                                                   {"link", path.link},
                                                   {"rate", figures}});
}

void DestinationRun::Verify(MoveOutcome outcome) {
  const std::string source_sum = outcome.source_checksum;
  Note(std::move(outcome));
  CompareWithProbe();
  if (!cancelled_.ok()) return End(cancelled_);
  if (!order_.checksum) return End(OkStatus());
  auto self = shared_from_this();
  auto sum_here = [self](Result<std::string> source) {
    const auto& [here, layout] = self->order_.destination;
    self->parts_.checksums.Sum(here.region, {here.offset, here.bytes}, layout, self->stop_,
                               [self, source = std::move(source)](const Result<std::string>& sum) {
                                 self->Compare(source, sum);
                               });
  };
  if (!IsLocal()) {
    if (!source_sum.empty()) return sum_here(source_sum);
    return sum_here(
        Status(Code::kUnavailable, reasons::kPeerDown,
               "node " + order_.source.source.node + " did not answer with the source's checksum"));
  }
  const auto& [there, layout] = *order_.source_area;
  parts_.checksums.Sum(there.region, {there.offset, there.bytes}, layout, stop_,
                       std::move(sum_here));
}

void DestinationRun::Compare(const Result<std::string>& source, const Result<std::string>& here) {
  if (!cancelled_.ok()) return End(cancelled_);
  for (const Result<std::string>* sum : {&source, &here}) {
    if (!sum->ok())
      return End(sum->status().WithContext("the bytes have arrived, their checksum is not known"));
  }
  record().info.receipt.checksum = ChecksumResult{kChecksumAlgorithm, *here, *source == *here};
  if (*source == *here) return End(OkStatus());
  End({Code::kDataLoss, reasons::kChecksumMismatch,
       "the source's checksum is " + *source + ", the destination's " + *here,
       "was either changed meanwhile? if not, suspect memory or network"});
}

void DestinationRun::End(const Status& status) {
  if (std::exchange(ended_, true)) return;
  parts_.context.loop.CancelTimer(deadline_timer_);
  order_.destination.span.region.reset();
  if (order_.source_area) order_.source_area->span.region.reset();
  TransferRecord& record = this->record();
  const Receipt& receipt = record.info.receipt;
  const auto level = status.ok() ? log::Level::kInfo : log::Level::kWarning;
  log::Write(level, "transfer ended",
             {{"transfer", order_.id.str()},
              {"from", record.info.source.ToString()},
              {"to", record.info.destination.ToString()},
              {"path", order_.plan.path.name},
              {"copies", std::to_string(receipt.steps.size())},
              {"bytes", std::to_string(record.info.bytes_done)},
              {"seconds", std::to_string(receipt.seconds)},
              {"outcome", status.ToString()}});
  parts_.buffers.LetGo(order_.buffer, order_.id);
  if (order_.source_buffer) parts_.buffers.LetGo(*order_.source_buffer, order_.id);
  parts_.transfers.Conclude(record, status);
  reporter_->Report(false);
  parts_.transfers.EndRun(record);
}

}  // namespace onecopy::engine
