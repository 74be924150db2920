#include "transport/store/posix/posix_store.h"

#include <deque>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/store/posix/open_descriptor.h"
#include "transport/store/posix/posix_file.h"
#include "transport/store/posix/ring.h"

namespace onecopy::posix {
namespace {

// Whether a ring can be had, found out by having one.
Status TryRing() {
  ONECOPY_ASSIGN_OR_RETURN(const auto thread, os::LoopThread::Make("store-try"));
  Status tried;
  thread->RunSync(
      [&] { tried = Ring::Make(thread->loop(), 1, std::make_shared<HeldMemory>()).status(); });
  return tried;
}

// Lanes with something under way that may never end, for good.
std::deque<std::shared_ptr<Lane>>& Abandoned() {
  static auto* const lanes = new std::deque<std::shared_ptr<Lane>>;
  return *lanes;
}

}  // namespace

PosixStore::PosixStore(Options options) : cut_(options.cut) {
  const Io io = options.io;
  capability_.name = "posix";
  capability_.attributes["io"] = "threads";
  const Status tried = io == Io::kThreads ? Status() : TryRing();
  ring_ = io != Io::kThreads && tried.ok();
  cached_reads_ = std::make_shared<CachedReads>(ring_ && io == Io::kAuto);
  if (io == Io::kThreads) return;
  if (ring_) {
    capability_.attributes["io"] = "io_uring";
    return;
  }
  capability_.attributes["no_io_uring"] = tried.message();
  if (io == Io::kRing) {
    capability_.viability = Viability::No(tried.reason(), tried.message(), tried.remedy());
  }
}

StoreCapability PosixStore::Describe() const {
  StoreCapability now = capability_;
  now.attributes.merge(mounts_->Describe());
  now.attributes.merge(cached_reads_->Describe());
  now.attributes.merge(held_->Describe());
  return now;
}

PosixStore::~PosixStore() {
  const MutexLock lock(mutex_);
  for (auto& [owner, lane] : lanes_) {
    lane->Settle();  // what has just ended may hold it still
    if (lane.use_count() == 1) continue;
    lane->loop().Stop();  // nobody hears of what ends now
    Abandoned().push_back(std::move(lane));
  }
}

Result<std::shared_ptr<Lane>> PosixStore::LaneFor(const OpenFileRequest& request) {
  const MutexLock lock(mutex_);
  const LaneKey key{request.owner, request.gid, request.lane};
  std::shared_ptr<Lane>& lane = lanes_[key];
  if (lane != nullptr) return lane;
  // A lane that nobody else holds has nothing under way, and gets nothing but from here.
  if (lanes_.size() > kMostLanes) {
    std::erase_if(lanes_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  if (lanes_.size() > kMostLanes) {
    lanes_.erase(key);
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  std::to_string(kMostLanes) + " users have files open, and no more may",
                  "try again later");
  }
  Result<std::shared_ptr<Lane>> made = Lane::Make(request.owner, request.gid, ring_, held_);
  if (made.ok()) {
    lane = *made;
  } else {
    lanes_.erase(key);
  }
  return made;
}

void PosixStore::Open(OpenFileRequest request, Opened done) {
  if (!capability_.viability.viable) {
    const Viability& why = capability_.viability;
    return done(Status(Code::kFailedPrecondition, why.reason, why.detail, why.remedy));
  }
  Result<std::shared_ptr<Lane>> lane = LaneFor(request);
  if (!lane.ok()) return done(lane.status());
  auto shared = std::make_shared<Opened>(std::move(done));
  const bool waits = (*lane)->Wait([cut = cut_, known = PosixFile::Known{mounts_, cached_reads_},
                                    lane = *lane, request = std::move(request), shared]() mutable {
    const Status opened = request.open ? request.open(&request) : OkStatus();
    Result<FileFacts> facts = opened.ok()
                                  ? InspectDescriptor(request, *known.mounts, *known.cached_reads)
                                  : Result<FileFacts>(opened);
    // What is held is let go by the lane's own thread at the latest, never by one that waits.
    os::EventLoop& loop = lane->loop();
    loop.Post([cut, known = std::move(known), lane = std::move(lane), request = std::move(request),
               facts = std::move(facts), shared]() mutable {
      if (!facts.ok()) return (*shared)(facts.status());
      (*shared)(std::shared_ptr<StoreFile>(std::make_shared<PosixFile>(
          std::move(request), std::move(*facts), cut, std::move(known), std::move(lane))));
    });
  });
  if (!waits) (*shared)(Lane::NoThread());
}

}  // namespace onecopy::posix
