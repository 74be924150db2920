#include "daemon/engine/probing/probe_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/pattern.h"
#include "daemon/engine/base/routes.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// Of one pair, and of all lanes together: a slow link is not kept busy for longer. A fast one is
// for as long as it takes to tell it from one that is 10 % slower: some milliseconds, in which
// neither the first and last gets nor a late wake-up count any more.
constexpr std::chrono::milliseconds kPairTime{10};
constexpr std::chrono::milliseconds kAllTime{50};
constexpr uint64_t kPairBytes = uint64_t{128} << 20;
constexpr uint64_t kAllBytes = uint64_t{1} << 30;
constexpr uint64_t kMinProbePiece = 4096;

}  // namespace

ProbeRun::ProbeRun(Context& context, Nodes& nodes, Connections& connections, Activities& activities,
                   Params params)
    : context_(context),
      nodes_(nodes),
      connections_(connections),
      activities_(activities),
      params_(std::move(params)),
      seed_(os::RandomNumber()),
      channel_(os::RandomNumber()) {}

void ProbeRun::Start(UniqueFunction<void(ProbeOutcome)> done) {
  done_ = std::move(done);
  const auto limit = context_.options.probe_limit;
  timer_ = context_.loop.RunAfter(limit, [self = shared_from_this(), limit] {
    self->timer_ = 0;
    self->End(ProbeOutcome::Kind::kUnknown,
              {Code::kDeadlineExceeded, reasons::kDeadline,
               "the probe did not end within " + std::to_string(limit.count()) + " ms"});
  });
  MakeTarget();
}

void ProbeRun::MakeTarget() {
  const Place place{params_.wire.destination.kind, params_.wire.destination.device};
  Link* link = context_.FindLink(params_.wire.link);
  context_.workers.Run<Target>(
      WorkerOf(place),
      [&context = context_, link, place, bytes = context_.options.probe_bytes]() -> Result<Target> {
        Target target;
        ONECOPY_ASSIGN_OR_RETURN(target.region, AllocateAt(context, place, bytes));
        Result<std::vector<NicRegistration>> registered = link->Register(target.region);
        target.registration = registered.status();
        if (registered.ok()) target.registrations = std::move(*registered);
        return target;
      },
      [self = shared_from_this(), busy = activities_.Begin()](Result<Target> target) {
        if (self->over()) return;
        if (!target.ok()) return self->End(ProbeOutcome::Kind::kUnknown, target.status());
        self->target_ = std::move(target->region);
        self->outcome_.registrations = std::move(target->registrations);
        self->outcome_.registration = target->registration;
        if (!target->registration.ok())
          return self->End(ProbeOutcome::Kind::kFailed, target->registration);
        self->Connect();
      });
}

void ProbeRun::Connect() {
  // Weakly: the making of a connection may outlast the probe, and then needs nothing of it.
  connections_.Get(
      params_.peer, params_.wire.link, [weak = weak_from_this()](Result<Connections::Use> use) {
        const auto self = weak.lock();
        if (self == nullptr || self->over()) return;
        if (use.ok()) {
          self->use_ = std::move(*use);
          return self->Open();
        }
        // That a link does not reach its own node says nothing about the memory, and a peer that
        // does not answer nothing about the link.
        const Status failure = use.status();
        const std::string& reason = failure.reason();
        const bool telling = !self->params_.own_lanes_only && reason != reasons::kPeerDown &&
                             reason != reasons::kPeerNotFound && failure.code() != Code::kCancelled;
        self->End(telling ? ProbeOutcome::Kind::kFailed : ProbeOutcome::Kind::kUnknown, failure);
      });
}

void ProbeRun::Open() {
  OpenProbeRequest request;
  request.connection = use_->number;
  request.memory = params_.wire.source.kind;
  request.device = params_.wire.source.device;
  request.bytes = target_->bytes();
  request.seed = seed_;
  auto answered = [self = shared_from_this()](Result<OpenProbeReply> reply) {
    if (self->over()) {
      if (reply.ok()) self->CloseAtPeer(reply->probe);
      return;
    }
    if (reply.ok()) return self->Opened(*reply);
    const Status why = self->connections_.Heard(*self->use_, reply.status());
    if (why.reason() == reasons::kLinkDown && !std::exchange(self->connected_anew_, true)) {
      self->use_.reset();
      return self->Connect();
    }
    // Only what the other side found out about its memory says something about the wire.
    self->End(reply.status().code() == Code::kFailedPrecondition ? ProbeOutcome::Kind::kFailed
                                                                 : ProbeOutcome::Kind::kUnknown,
              why.WithContext("node " + self->params_.peer));
  };
  const Result<PeerApi*> peer = nodes_.Find(params_.peer);
  if (!peer.ok()) return End(ProbeOutcome::Kind::kUnknown, peer.status());
  (*peer)->OpenProbe(context_.node(), request, std::move(answered));
}

void ProbeRun::Opened(const OpenProbeReply& reply) {
  opened_ = reply.probe;
  if (reply.bytes == 0 || reply.bytes > target_->bytes()) {
    return End(ProbeOutcome::Kind::kUnknown,
               {Code::kUnavailable, reasons::kBadSize,
                "node " + params_.peer + " opened a probe of " + std::to_string(reply.bytes) +
                    " bytes, of " + std::to_string(target_->bytes()) + " asked for"});
  }
  key_ = std::make_shared<const RemoteKey>(reply.key);
  PlanJobs(reply.bytes);
  NextJob();
}

// Each pair reads a piece of its own, so that what it brought can be told from what others did.
void ProbeRun::PlanJobs(uint64_t bytes) {
  const std::vector<LaneInfo>& lanes = use_->connection->lanes();
  for (size_t i = 0; i < lanes.size(); ++i) {
    const LaneInfo& lane = lanes[i];
    if (lane.peer_device.empty() || lane.device.empty()) continue;
    if (params_.own_lanes_only && lane.device != lane.peer_device) continue;
    const bool known =
        std::any_of(outcome_.pairs.begin(), outcome_.pairs.end(), [&](const auto& pair) {
          return pair.source_nic == lane.peer_device && pair.destination_nic == lane.device;
        });
    if (known) continue;
    Job job;
    job.lane = static_cast<int>(i);
    job.pair = static_cast<int>(outcome_.pairs.size());
    outcome_.pairs.push_back({lane.peer_device, lane.device, {}, 0, 0});
    jobs_.push_back(job);
  }
  const bool all = !params_.own_lanes_only || outcome_.pairs.empty();
  if (jobs_.size() == 1 && all) jobs_.clear();  // all lanes are of that pair
  const uint64_t pieces = std::max<uint64_t>(jobs_.size(), 1);
  const uint64_t piece = std::max(bytes / pieces, std::min(kMinProbePiece, bytes));
  for (size_t i = 0; i < jobs_.size(); ++i) {
    jobs_[i].offset = std::min(i * piece, bytes - piece);
    jobs_[i].bytes = piece;
    jobs_[i].most_bytes = kPairBytes;
  }
  if (!all) return;
  Job job;
  job.pair = jobs_.empty() && outcome_.pairs.size() == 1 ? 0 : -1;
  job.bytes = bytes;
  job.most_bytes = kAllBytes;
  jobs_.push_back(job);
}

void ProbeRun::NextJob() {
  if (next_job_ == jobs_.size()) return Conclude();
  const Job job = jobs_[next_job_++];
  const bool any = job.lane == GetRequest::kAnyLane;
  // The link would use lanes that have just failed.
  const bool some_failed = std::any_of(outcome_.pairs.begin(), outcome_.pairs.end(),
                                       [](const auto& pair) { return !pair.failure.ok(); });
  if (any && some_failed) return Conclude();
  Connection& connection = *use_->connection;
  TimedReadParams read;
  read.connection = use_->connection;
  read.channel = channel_;
  read.key = key_;
  read.into = {target_, job.offset, job.bytes};
  read.lane = job.lane;
  const auto lanes = static_cast<unsigned>(std::max<size_t>(connection.lanes().size(), 1));
  read.depth = any ? connection.depth() : std::max(connection.depth() / lanes, 2U);
  read.most_bytes = job.most_bytes;
  read.most_time = any ? kAllTime : kPairTime;
  StartTimedRead(std::move(read), [self = shared_from_this(), job](const TimedReadResult& result) {
    self->context_.loop.Post([self, job, result] {
      if (!self->over()) self->Read(job, result);
    });
  });
}

void ProbeRun::Read(const Job& job, const TimedReadResult& result) {
  outcome_.link_seconds += result.seconds;
  if (!result.status.ok()) {
    Note(job, result, result.status);
    // Where that took the whole connection with it, nothing is known about the other pairs.
    if (!use_->connection->Send(channel_, {}).ok()) {
      if (job.pair >= 0) outcome_.pairs.resize(static_cast<size_t>(job.pair) + 1);
      return Conclude();
    }
    return NextJob();
  }
  const Span landed{target_, job.offset, result.landed};
  context_.workers.Run<bool>(
      WorkerOf(target_->place()),
      [&context = context_, landed, seed = seed_]() -> Result<bool> {
        ONECOPY_RETURN_IF_ERROR(CheckPattern(context, landed, seed));
        return true;
      },
      [self = shared_from_this(), busy = activities_.Begin(), job,
       result](const Result<bool>& checked) {
        if (self->over()) return;
        self->Note(job, result, checked.status());
        self->NextJob();
      });
}

void ProbeRun::Note(const Job& job, const TimedReadResult& result, const Status& status) {
  if (job.pair >= 0) {
    ProbeOutcome::Pair& pair = outcome_.pairs[static_cast<size_t>(job.pair)];
    pair.failure = status;
    pair.bytes_per_second = result.bytes_per_second;
    pair.latency_seconds = result.latency_seconds;
  }
  if (!status.ok()) {
    outcome_.why = status;
  } else if (result.bytes_per_second > outcome_.bytes_per_second ||
             job.lane == GetRequest::kAnyLane) {
    outcome_.bytes_per_second = result.bytes_per_second;
    outcome_.latency_seconds = result.latency_seconds;
  }
  // All lanes together carry nothing although each does, or there was only one reading.
  if (!status.ok() && job.lane == GetRequest::kAnyLane) outcome_.bytes_per_second = 0;
}

void ProbeRun::Conclude() {
  if (outcome_.bytes_per_second > 0) return End(ProbeOutcome::Kind::kMeasured, OkStatus());
  End(ProbeOutcome::Kind::kFailed, outcome_.why);
}

void ProbeRun::Stop(const Status& why) { End(ProbeOutcome::Kind::kUnknown, why); }

void ProbeRun::End(ProbeOutcome::Kind kind, const Status& why) {
  if (over()) return;
  context_.loop.CancelTimer(timer_);
  outcome_.kind = kind;
  outcome_.why = why;
  if (use_) use_->connection->CancelGets(channel_);
  if (opened_) CloseAtPeer(*opened_);
  use_.reset();
  target_.reset();
  std::exchange(done_, nullptr)(std::move(outcome_));
}

void ProbeRun::CloseAtPeer(uint64_t probe) {
  // Unheard, it ends by its own lifetime.
  const Result<PeerApi*> peer = nodes_.Find(params_.peer);
  if (peer.ok()) (*peer)->CloseProbe(context_.node(), probe, [](const Status&) {});
}

}  // namespace onecopy::engine
