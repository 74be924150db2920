#include "transport/core/toolkit/file_copier.h"

#include <array>
#include <utility>

#include "transport/core/ranges/scatter.h"

namespace onecopy {
namespace {

constexpr const char* kPageCacheName = "page-cache";
constexpr const char* kHostName = "host";
constexpr const char* kGpuBounceName = "gpu-bounce";
constexpr std::array kPasses = {FilePass::kDirect, FilePass::kPageCache, FilePass::kMemory,
                                FilePass::kHostBounce, FilePass::kGpuBounce};

class FileRoute final : public CopyRoute {
 public:
  FileRoute(const std::string& node, RegionRef from, RegionRef to)
      : from_(std::move(from)),
        to_(std::move(to)),
        use_(from_->file() != nullptr ? FileUse::kRead : FileUse::kWrite),
        file_(use_ == FileUse::kRead ? *from_->file() : *to_->file()) {
    const Region& memory = use_ == FileUse::kRead ? *to_ : *from_;
    for (const FilePass pass : kPasses) {
      steps_[static_cast<size_t>(pass)] =
          std::make_shared<const std::vector<Step>>(StepsOf(pass, use_, node, memory.step_name()));
    }
    expected_ = steps_[static_cast<size_t>(file_.PassOf({}, nullptr))];
  }

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override {
    const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
    if (Status wrong = CheckInside({&copy, 1}, from_->bytes(), to_->bytes()); !wrong.ok()) {
      return Refuse(std::move(wrong), std::move(done));
    }
    StoreFile::Done moved = [this, done = std::move(done)](Status status, FilePass pass) mutable {
      done(std::move(status), steps_[static_cast<size_t>(pass)]);
    };
    if (use_ == FileUse::kRead) {
      return file_.Read(from_offset, {to_, to_offset, bytes}, std::move(moved));
    }
    file_.Write(to_offset, {from_, from_offset, bytes}, std::move(moved));
  }

  void CopyMany(std::vector<StridedCopy> copies, Done done) override {
    auto batch = std::make_shared<Batch>();
    for (const StridedCopy& copy : copies) batch->left += copy.count;
    batch->done = std::move(done);
    batch->steps = expected_;
    if (batch->left == 0) return Refuse(OkStatus(), std::move(batch->done));
    for (const StridedCopy& copy : copies) {
      for (uint64_t i = 0; i < copy.count; ++i) {
        Copy(copy.from + i * copy.from_stride, copy.to + i * copy.to_stride, copy.bytes,
             [batch](Status status, const StepList& steps) {
               if (!status.ok() && batch->status.ok()) batch->status = std::move(status);
               // Of the pieces of one batch those that took the most steps count for all.
               if (steps->size() > batch->steps->size()) batch->steps = steps;
               if (--batch->left == 0) batch->done(std::move(batch->status), batch->steps);
             });
      }
    }
  }

  const StepList& steps() const override { return expected_; }
  unsigned depth() const override { return file_.depth(); }
  uint64_t chunk_bytes() const override { return file_.chunk_bytes(); }
  uint64_t grain() const override { return file_.grain(); }
  Executor& executor() override { return file_.executor(); }

 private:
  // Its copies complete on one thread, and never before they have all been asked for there.
  struct Batch {
    uint64_t left = 0;
    Status status;
    StepList steps;
    Done done;
  };

  // Completions never come before Copy has returned.
  void Refuse(Status why, Done done) {
    executor().Post([why = std::move(why), steps = expected_, done = std::move(done)]() mutable {
      done(std::move(why), steps);
    });
  }

  const RegionRef from_;
  const RegionRef to_;
  const FileUse use_;
  StoreFile& file_;
  std::array<StepList, kPasses.size()> steps_;
  StepList expected_;
};

}  // namespace

bool FileCopier::Copies(const Place& from, const Place& to) const {
  return (from.kind == kFileKind && to.kind == "host") ||
         (from.kind == "host" && to.kind == kFileKind);
}

Result<std::unique_ptr<CopyRoute>> FileCopier::Prepare(const RegionRef& from, const RegionRef& to) {
  return std::unique_ptr<CopyRoute>(std::make_unique<FileRoute>(node_, from, to));
}

void Store::OpenDirect(OpenFileRequest request, OpenedDirect done) {
  done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
              Describe().name + " moves " + request.name + " only to and from host memory"));
}

std::unique_ptr<Region> RegionOf(std::shared_ptr<StoreFile> file,
                                 std::shared_ptr<const DirectWay> direct) {
  auto region = std::make_unique<Region>(Place{kFileKind, {}}, nullptr, file->bytes(), false,
                                         Region::Release());
  region->SetFile(std::move(file));
  region->SetDirectWay(std::move(direct));
  return region;
}

std::vector<Step> StepsOf(FilePass pass, FileUse use, const std::string& node,
                          const std::string& memory) {
  std::vector<Step> steps;
  const bool reads = use == FileUse::kRead;
  const std::string from = reads ? kFileKind : memory;
  const std::string to = reads ? memory : kFileKind;
  const auto add = [&](const std::string& begin, const std::string& end, const char* by) {
    Step step;
    step.node = node;
    step.from = begin;
    step.to = end;
    step.by = by;
    steps.push_back(std::move(step));
  };
  switch (pass) {
    case FilePass::kDirect:
      add(from, to, "storage");
      break;
    case FilePass::kMemory:
      add(from, to, "cpu");
      break;
    case FilePass::kPageCache:
      add(from, kPageCacheName, reads ? "storage" : "cpu");
      add(kPageCacheName, to, reads ? "cpu" : "storage");
      break;
    case FilePass::kGpuBounce:
      add(from, kGpuBounceName, reads ? "storage" : "copy-engine");
      add(kGpuBounceName, to, reads ? "copy-engine" : "storage");
      break;
    case FilePass::kHostBounce:
      if (reads) {
        add(from, kPageCacheName, "storage");
        add(kPageCacheName, kHostName, "cpu");
        add(kHostName, to, "copy-engine");
      } else {
        add(from, kHostName, "copy-engine");
        add(kHostName, kPageCacheName, "cpu");
        add(kPageCacheName, to, "storage");
      }
      break;
  }
  return steps;
}

}  // namespace onecopy
