#include "transport/store/posix/posix_store.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/store/posix/drive_places.h"
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

}  // namespace

struct PosixStore::Shared {
  Shared(const Options& options, bool ring, std::shared_ptr<HeldMemory> held)
      : cut(options.cut),
        drives(options.topology),
        cached_reads(ring && options.io == Io::kAuto, options.cached_by_threads),
        lanes(ring, std::move(held)) {}

  const Cut cut;
  Mounts mounts;
  DrivePlaces drives;
  CachedReads cached_reads;
  Lanes lanes;
};

PosixStore::PosixStore(Options options) {
  capability_.name = "posix";
  capability_.attributes["io"] = "threads";
  const Io io = options.io;
  const Status tried = io == Io::kThreads ? OkStatus() : TryRing();
  const bool ring = io != Io::kThreads && tried.ok();
  shared_ = std::make_shared<Shared>(options, ring, held_);
  if (ring) capability_.attributes["io"] = "io_uring";
  if (tried.ok()) return;
  capability_.attributes["no_io_uring"] = tried.message();
  if (options.io == Io::kRing) {
    capability_.viability = Viability::No(tried.reason(), tried.message(), tried.remedy());
  }
}

StoreCapability PosixStore::Describe() const {
  StoreCapability now = capability_;
  now.attributes.merge(shared_->mounts.Describe());
  now.attributes.merge(shared_->cached_reads.Describe());
  now.attributes.merge(held_->Describe());
  return now;
}

PosixStore::~PosixStore() { shared_->lanes.Close(); }

void PosixStore::Open(OpenFileRequest request, Opened done) {
  if (!capability_.viability.viable) {
    const Viability& why = capability_.viability;
    return done(Status(Code::kFailedPrecondition, why.reason, why.detail, why.remedy));
  }
  Lanes::Key key{request.owner, request.gid, request.lane};
  Result<std::shared_ptr<Lane>> opens = shared_->lanes.For(key, {});
  if (!opens.ok()) return done(opens.status());
  auto told = std::make_shared<Opened>(std::move(done));
  const bool waits = (*opens)->Wait([shared = shared_, key, lane = *opens,
                                     request = std::move(request), told]() mutable {
    const Status opened = request.open ? request.open(&request) : OkStatus();
    Result<FileFacts> facts = opened.ok() ? InspectDescriptor(request, shared->mounts,
                                                              shared->drives, shared->cached_reads)
                                          : Result<FileFacts>(opened);
    std::shared_ptr<Lane> moves = lane;
    if (facts.ok() && facts->drive.numa_node >= 0) {
      key.numa_node = facts->drive.numa_node;
      // Without it the file is merely farther away.
      if (auto near = shared->lanes.For(key, facts->drive.cpus); near.ok()) moves = *near;
    }
    // The lane's own thread releases what is held at the latest, never by one that waits.
    os::EventLoop& loop = lane->loop();
    loop.Post([shared = std::move(shared), lane = std::move(lane), moves = std::move(moves),
               request = std::move(request), facts = std::move(facts), told]() mutable {
      if (!facts.ok()) return (*told)(facts.status());
      os::EventLoop& mover = moves->loop();
      const bool elsewhere = moves != lane;
      auto make = [shared = std::move(shared), moves = std::move(moves),
                   request = std::move(request), facts = std::move(facts), told]() mutable {
        // One object for as long as a file uses it.
        PosixFile::Known known{{shared, &shared->mounts}, {shared, &shared->cached_reads}};
        (*told)(std::shared_ptr<StoreFile>(
            std::make_shared<PosixFile>(std::move(request), std::move(*facts), shared->cut,
                                        std::move(known), std::move(moves))));
      };
      // By the thread that moves it, which makes its descriptors known.
      if (elsewhere) return mover.Post(std::move(make));
      make();
    });
  });
  if (!waits) (*told)(Lane::NoThread());
}

}  // namespace onecopy::posix
