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
  thread->RunSync([&] { tried = Ring::Make(thread->loop(), 1).status(); });
  return tried;
}

}  // namespace

struct PosixStore::Shared {
  Shared(const Options& options, bool ring)
      : cut(options.cut), drives(options.topology), lanes(ring) {}

  const Cut cut;
  Mounts mounts;
  DrivePlaces drives;
  Lanes lanes;
};

PosixStore::PosixStore(Options options) {
  capability_.name = "posix";
  capability_.attributes["io"] = "threads";
  const Status tried = options.io == Io::kThreads ? OkStatus() : TryRing();
  const bool ring = options.io != Io::kThreads && tried.ok();
  shared_ = std::make_shared<Shared>(options, ring);
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
  const bool waits = (*opens)->Wait(
      [shared = shared_, key, lane = *opens, request = std::move(request), told]() mutable {
        const Status opened = request.open ? request.open(&request) : OkStatus();
        Result<FileFacts> facts = opened.ok()
                                      ? InspectDescriptor(request, shared->mounts, shared->drives)
                                      : Result<FileFacts>(opened);
        std::shared_ptr<Lane> moves = lane;
        if (facts.ok() && facts->drive.numa_node >= 0) {
          key.numa_node = facts->drive.numa_node;
          // Without it the file is merely farther away.
          if (auto near = shared->lanes.For(key, facts->drive.cpus); near.ok()) moves = *near;
        }
        // What is held is let go by the lane's own thread at the latest, never by one that waits.
        os::EventLoop& loop = lane->loop();
        loop.Post([shared = std::move(shared), lane = std::move(lane), moves = std::move(moves),
                   request = std::move(request), facts = std::move(facts), told]() mutable {
          if (!facts.ok()) return (*told)(facts.status());
          // One object for as long as a file uses it.
          std::shared_ptr<Mounts> mounts(shared, &shared->mounts);
          (*told)(std::shared_ptr<StoreFile>(
              std::make_shared<PosixFile>(std::move(request), std::move(*facts), shared->cut,
                                          std::move(mounts), std::move(moves))));
        });
      });
  if (!waits) (*told)(Lane::NoThread());
}

}  // namespace onecopy::posix
