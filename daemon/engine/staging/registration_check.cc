#include "daemon/engine/staging/registration_check.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/pattern.h"
#include "daemon/engine/base/routes.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kPage = 4096;
// The client may be writing at the time.
constexpr int kTries = 5;

}  // namespace

Status RegistrationCheck::CannotCompare(const Status& why) const {
  return {Code::kFailedPrecondition, why.reason(),
          "the descriptor of buffer \"" + params_.buffer +
              "\" could not be compared with its handle: " + why.message(),
          why.remedy()};
}

void RegistrationCheck::Start(StatusReply done) {
  done_ = std::move(done);
  page_ = std::min(kPage, params_.region->bytes());
  channel_ = os::RandomNumber();
  connections_.Get(
      context_.node(), params_.link, [self = shared_from_this()](Result<Connections::Use> use) {
        if (!use.ok()) return self->End(self->CannotCompare(use.status()));
        self->use_ = std::move(*use);
        auto serving = self->connections_.FindAccepted(self->context_.node(), self->use_->number);
        if (!serving.ok()) return self->End(self->CannotCompare(serving.status()));
        self->serving_ = serving->connection;
        self->PlanLooks();
        self->MakeScratch();
      });
}

// Whose memory is read is the far end of a lane.
void RegistrationCheck::PlanLooks() {
  const std::vector<LaneInfo>& lanes = use_->connection->lanes();
  const auto add = [&](int lane, const std::string& nic) {
    looks_.push_back({lane, nic, 0});
    const uint64_t last = params_.region->bytes() - page_;
    if (last > 0) looks_.push_back({lane, nic, last});
  };
  for (const std::string& nic : params_.nics) {
    const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LaneInfo& info) {
      return info.peer_device == nic || (info.peer_device.empty() && info.device == nic);
    });
    const bool found = lane != lanes.end();
    add(found ? static_cast<int>(lane - lanes.begin()) : GetRequest::kAnyLane, nic);
  }
}

void RegistrationCheck::MakeScratch() {
  Link* link = context_.FindLink(params_.link);
  context_.workers.Run<RegionRef>(
      {"host", params_.payer},
      [&context = context_, link, bytes = page_]() -> Result<RegionRef> {
        ONECOPY_ASSIGN_OR_RETURN(const RegionRef region, AllocateAt(context, {"host", {}}, bytes));
        ONECOPY_ASSIGN_OR_RETURN(const auto registered, link->Register(region));
        (void)registered;
        return region;
      },
      [self = shared_from_this()](Result<RegionRef> scratch) {
        if (!scratch.ok()) return self->End(self->CannotCompare(scratch.status()));
        self->scratch_ = std::move(*scratch);
        self->Export();
      });
}

void RegistrationCheck::Export() {
  range_ = std::make_shared<ExportedRange>(context_, serving_);
  range_->Open({params_.region, 0, params_.region->bytes()},
               [self = shared_from_this()](Result<RemoteKey> key) {
                 if (!key.ok()) return self->End(self->CannotCompare(key.status()));
                 self->key_ = std::move(*key);
                 self->BeginLook();
               });
}

void RegistrationCheck::BeginLook() {
  if (next_look_ == looks_.size()) return End(OkStatus());
  const Span page{params_.region, looks_[next_look_].offset, page_};
  context_.workers.Run<std::vector<std::byte>>(
      {WorkerOf(params_.region->place()), params_.payer},
      [&context = context_, page] { return ReadBytes(context, page); },
      [self = shared_from_this()](Result<std::vector<std::byte>> before) {
        if (!before.ok()) return self->End(self->CannotCompare(before.status()));
        self->Get(std::move(*before));
      });
}

void RegistrationCheck::Get(std::vector<std::byte> before) {
  const Look& look = looks_[next_look_];
  GetRequest get;
  get.channel = channel_;
  get.key = &key_;
  get.key_offset = look.offset;
  get.into = {scratch_, 0, page_};
  get.lane = look.lane;
  use_->connection->Get(get, [self = shared_from_this(), before = std::move(before)](
                                 const Status& status, const StepList&, unsigned) mutable {
    self->context_.loop.Post([self, status, before = std::move(before)]() mutable {
      if (!status.ok()) return self->End(self->CannotCompare(status));
      self->Compare(std::move(before));
    });
  });
}

// Bytes that changed meanwhile tell nothing; those that did not must be what the device read.
void RegistrationCheck::Compare(std::vector<std::byte> before) {
  const Span page{params_.region, looks_[next_look_].offset, page_};
  context_.workers.Run<bool>(
      {WorkerOf(params_.region->place()), params_.payer},
      [&context = context_, page, scratch = scratch_,
       before = std::move(before)]() -> Result<bool> {
        ONECOPY_ASSIGN_OR_RETURN(const std::vector<std::byte> after, ReadBytes(context, page));
        bool compared = false;
        for (size_t i = 0; i < after.size(); ++i) {
          if (before[i] != after[i]) continue;
          if (scratch->address()[i] != after[i]) return false;
          compared = true;
        }
        return compared;
      },
      [self = shared_from_this()](Result<bool> same) {
        if (!same.ok()) return self->End(self->CannotCompare(same.status()));
        self->EndLook(*same);
      });
}

void RegistrationCheck::EndLook(bool same) {
  const Look& look = looks_[next_look_];
  if (same) {
    ++next_look_;
    tries_ = 0;
  } else if (++tries_ == kTries) {
    return End(
        {Code::kFailedPrecondition, reasons::kBadHandle,
         "buffer \"" + params_.buffer + "\": at byte " + std::to_string(look.offset) + " " +
             look.nic +
             " reads different bytes through the buffer's descriptor than through its handle",
         "pass a dma-buf descriptor of this same memory"});
  }
  BeginLook();
}

void RegistrationCheck::End(const Status& status) {
  // Nothing of the client's memory stays open to reading.
  if (const auto range = std::exchange(range_, nullptr)) {
    return range->Close([self = shared_from_this(), status] { self->End(status); });
  }
  scratch_.reset();
  serving_.reset();
  use_.reset();
  std::exchange(done_, nullptr)(status);
}

}  // namespace onecopy::engine
