#include "transport/store/cufile/cufile_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"
#include "transport/os/base/error.h"
#include "transport/store/cufile/cufile_file.h"
#include "transport/store/cufile/failure.h"
#include "transport/store/cufile/probe_child.h"

namespace onecopy::cufile {
namespace {

// Beside two probes: for the driver to be opened here.
constexpr std::chrono::seconds kOpenPatience{20};

Status StatusOf(const Viability& why) {
  return {Code::kFailedPrecondition, why.reason, why.detail, why.remedy};
}

// Lanes with something under way that may never end, for good.
std::deque<std::shared_ptr<Lane>>& Abandoned() {
  static auto* const lanes = new std::deque<std::shared_ptr<Lane>>;
  return *lanes;
}

// Blocks, as opening the driver does.
Result<std::shared_ptr<const Driver>> OpenDriver(
    const CufileStore::Options& options, const std::map<std::string, std::string>& attributes) {
  const auto attribute = [&](const std::string& key) {
    const auto found = attributes.find(key);
    return found == attributes.end() ? std::string() : found->second;
  };
  const std::string nvidia_fs = attribute("nvidia_fs");
  auto driver = std::make_shared<Driver>();
  ONECOPY_ASSIGN_OR_RETURN(driver->api, shim::LoadCuFile(options.probe.library));
  ONECOPY_ASSIGN_OR_RETURN(driver->cuda, shim::LoadCuda(options.probe.cuda_library));
  const shim::cufile::Error opened = shim::OpenCuFileDriver(*driver->api, false);
  if (opened.code != 0) return Failure("opening libcufile's driver", opened);
  driver->ledger = std::make_shared<Ledger>(std::make_shared<Counts>(driver->api));
  driver->registrations =
      std::make_shared<Registrations>(driver->api, driver->cuda, options.slice_bytes);
  auto properties = std::make_unique<shim::cufile::Properties>();
  if (attribute("batch") == kBatchWorks && driver->api->batches() &&
      driver->api->GetProperties(properties.get()).code == 0) {
    driver->batch_entries = std::min(options.batch, properties->max_batch);
  }
  driver->root = options.probe.root == "/" ? "" : options.probe.root;
  driver->threads = options.threads;
  driver->slice_bytes = options.slice_bytes;
  driver->name = "libcufile" + (driver->api->version.empty() ? "" : " " + driver->api->version);
  if (!nvidia_fs.empty() && nvidia_fs != "0.0") driver->name += ", nvidia-fs " + nvidia_fs;
  return std::shared_ptr<const Driver>(std::move(driver));
}

}  // namespace

struct CufileStore::Shared {
  explicit Shared(Options options) : options(std::move(options)) {}

  const Options options;
  mutable Mutex mutex;
  mutable Condition known;
  StoreCapability capability ONECOPY_GUARDED_BY(mutex);
  bool probing ONECOPY_GUARDED_BY(mutex) = false;
  bool closed ONECOPY_GUARDED_BY(mutex) = false;
  std::shared_ptr<const Driver> driver ONECOPY_GUARDED_BY(mutex);
  std::vector<Task> waiting ONECOPY_GUARDED_BY(mutex);
  UniqueFunction<void()> changed ONECOPY_GUARDED_BY(mutex);
  std::map<std::pair<Uid, uint32_t>, std::shared_ptr<Lane>> lanes ONECOPY_GUARDED_BY(mutex);

  static void OpenDirect(const std::shared_ptr<Shared>& self, OpenFileRequest request,
                         OpenedDirect done);

  // The probe's thread.
  void Run() {
    Probed probed = Probe(options.probe);
    std::shared_ptr<const Driver> opened;
    if (probed.viability.viable) {
      Result<std::shared_ptr<const Driver>> made = OpenDriver(options, probed.attributes);
      if (made.ok()) {
        opened = std::move(*made);
      } else {
        const Status& why = made.status();
        probed.viability = Viability::No(why.reason(), why.message(), why.remedy());
      }
    }
    std::vector<Task> told;
    {
      const MutexLock lock(mutex);
      capability.viability = std::move(probed.viability);
      for (auto& [key, value] : probed.attributes) capability.attributes[key] = std::move(value);
      driver = std::move(opened);
      probing = false;
      told.swap(waiting);
      known.NotifyAll();
      if (!closed && changed) changed();
    }
    for (Task& task : told) task();
  }

  Result<std::shared_ptr<Lane>> LaneFor(const Uid& owner, uint32_t gid) ONECOPY_REQUIRES(mutex) {
    std::shared_ptr<Lane>& lane = lanes[{owner, gid}];
    if (lane != nullptr) return lane;
    // A lane without another holder has nothing under way, and gets work only from here.
    if (lanes.size() > kMostLanes) {
      std::erase_if(lanes, [](const auto& entry) { return entry.second.use_count() == 1; });
    }
    Result<std::shared_ptr<Lane>> made =
        lanes.size() > kMostLanes
            ? Status(Code::kResourceExhausted, reasons::kQuota,
                     std::to_string(kMostLanes) + " users have files open, which is the limit",
                     "try again later")
            : Lane::Make(owner, gid, options.threads,
                         std::make_unique<Batches>(
                             driver->api, Batches::Options{.entries = driver->batch_entries}));
    if (made.ok()) {
      lanes[{owner, gid}] = *made;
    } else {
      lanes.erase({owner, gid});
    }
    return made;
  }

  Result<std::pair<std::shared_ptr<const Driver>, std::shared_ptr<Lane>>> Get(
      const OpenFileRequest& request) {
    const MutexLock lock(mutex);
    if (!capability.viability.viable) return StatusOf(capability.viability);
    if (closed || driver == nullptr) {
      return Status(Code::kUnavailable, reasons::kDraining, "the daemon is ending");
    }
    ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<Lane> lane, LaneFor(request.owner, request.gid));
    return std::pair(driver, std::move(lane));
  }
};

namespace {

// Blocks. As Store::OpenDirect.
Result<std::shared_ptr<DirectFile>> OpenNow(OpenFileRequest request,
                                            std::shared_ptr<const Driver> driver,
                                            std::shared_ptr<Lane> lane) {
  struct stat file {};
  if (::fstat(request.direct_fd, &file) != 0) {
    return os::ErrnoStatus(errno, "looking at " + request.name);
  }
  if (!S_ISREG(file.st_mode)) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  request.name + " is not a regular file, and libcufile gets only regular files",
                  "use storage-bounce");
  }
  shim::cufile::Descriptor descriptor;
  descriptor.handle.fd = request.direct_fd;
  shim::cufile::Handle handle = nullptr;
  const shim::cufile::Error known = driver->api->RegisterHandle(&handle, &descriptor);
  DriveTrouble drive = FindDriveTrouble(driver->root, request.direct_fd);
  if (known.code != 0) {
    return drive.Explain(Failure(driver->name + " does not take " + request.name, known));
  }
  const uint64_t bytes = request.use == FileUse::kWrite
                             ? static_cast<uint64_t>(std::numeric_limits<off_t>::max())
                             : static_cast<uint64_t>(file.st_size);
  return std::shared_ptr<DirectFile>(std::make_shared<CufileFile>(
      std::move(request), bytes, handle, std::move(drive), std::move(driver), std::move(lane)));
}

}  // namespace

void CufileStore::Shared::OpenDirect(const std::shared_ptr<Shared>& self, OpenFileRequest request,
                                     OpenedDirect done) {
  {
    const MutexLock lock(self->mutex);
    if (self->probing) {
      auto later = std::make_shared<std::pair<OpenFileRequest, OpenedDirect>>(std::move(request),
                                                                              std::move(done));
      self->waiting.push_back([self, later]() mutable {
        OpenDirect(self, std::move(later->first), std::move(later->second));
      });
      return;
    }
  }
  if (request.direct_fd < 0) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       request.name + " cannot be opened with O_DIRECT: it is smaller than 1 MiB, "
                                      "or its file system does not support it",
                       "use storage-bounce"));
  }
  auto got = self->Get(request);
  if (!got.ok()) return done(got.status());
  auto shared = std::make_shared<OpenedDirect>(std::move(done));
  const std::shared_ptr<Lane> lane = got->second;
  const bool waits = lane->Wait(
      [request = std::move(request), driver = std::move(got->first), lane, shared]() mutable {
        os::EventLoop& loop = lane->loop();
        auto opened = std::make_shared<Result<std::shared_ptr<DirectFile>>>(
            OpenNow(std::move(request), std::move(driver), lane));
        // The lane's own thread releases what is held at the latest, never by one that waits.
        loop.Post([opened, shared, lane] { (*shared)(std::move(*opened)); });
      });
  if (!waits) {
    (*shared)(Status(Code::kResourceExhausted, reasons::kNoMemory,
                     "this process cannot start more threads to wait for files",
                     "raise its limit on threads (TasksMax, ulimit -u)"));
  }
}

CufileStore::CufileStore(Options options) : shared_(std::make_shared<Shared>(std::move(options))) {
  const MutexLock lock(shared_->mutex);
  StoreCapability& capability = shared_->capability;
  capability.name = "cufile";
  if (shared_->options.use == Use::kOff) {
    capability.viability = Viability::No(reasons::kSwitchedOff,
                                         "GPUDirect Storage is switched off: use = \"off\" under "
                                         "[cufile]",
                                         "set use = \"auto\"");
    return;
  }
  capability.viability =
      Viability::No(reasons::kNotYetKnown, "libcufile is being tried in a process of its own",
                    "ask again in some seconds");
  shared_->probing = true;
  // Not joined: the library may never come back.
  std::thread([shared = shared_] { shared->Run(); }).detach();
}

CufileStore::~CufileStore() {
  std::vector<Task> dropped;
  const MutexLock lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed = nullptr;
  dropped.swap(shared_->waiting);
  for (auto& [owner, lane] : shared_->lanes) {
    lane->Settle();  // what has just ended may hold it still
    if (lane.use_count() == 1) continue;
    lane->loop().Stop();  // ends from now on are not reported
    Abandoned().push_back(std::move(lane));
  }
  shared_->lanes.clear();
}

StoreCapability CufileStore::Describe() const {
  const MutexLock lock(shared_->mutex);
  return shared_->capability;
}

void CufileStore::OnChange(UniqueFunction<void()> changed) {
  const MutexLock lock(shared_->mutex);
  shared_->changed = std::move(changed);
  // Else a listener that asked before the probe ended would never hear of it.
  if (!shared_->probing && shared_->changed) shared_->changed();
}

Viability CufileStore::AwaitProbe() const {
  const auto deadline =
      std::chrono::steady_clock::now() + 2 * shared_->options.probe.limit + kOpenPatience;
  MutexLock lock(shared_->mutex);
  while (shared_->probing) {
    if (!shared_->known.WaitUntil(shared_->mutex, deadline)) break;
  }
  return shared_->capability.viability;
}

void CufileStore::Open(OpenFileRequest request, Opened done) {
  done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
              "cufile moves " + request.name + " only to and from GPU memory"));
}

void CufileStore::OpenDirect(OpenFileRequest request, OpenedDirect done) {
  Shared::OpenDirect(shared_, std::move(request), std::move(done));
}

}  // namespace onecopy::cufile
