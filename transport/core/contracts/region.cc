#include "transport/core/contracts/region.h"

#include "onecopy/reasons.h"

namespace onecopy {

Region::~Region() {
  while (!hooks_.empty()) {
    Release hook = std::move(hooks_.back());
    hooks_.pop_back();
    hook();
  }
  if (release_) release_();
}

std::string Region::step_name() const {
  if (!place_.device.empty()) return place_.device;
  return step_name_.empty() ? place_.kind : step_name_;
}

Result<DmaBuf> Region::ExportDmaBuf() {
  if (export_dmabuf_) return export_dmabuf_();
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                "memory of " + step_name() + " cannot be exported as a dma-buf");
}

Result<ImportRequest> Region::Share() {
  if (share_) return share_();
  return Status(Code::kFailedPrecondition, reasons::kNotShareable,
                "memory of " + step_name() + " cannot be shared with other processes");
}

Status Region::CheckIntact() const {
  if (distrusted_) {
    return {Code::kAborted, reasons::kDriverFailed,
            "a drive may still write into this " + step_name() +
                " memory: libcufile no longer reports the state of a transfer of it",
            "remove the buffer and restart onecopyd; the daemon keeps the memory until then"};
  }
  if (faulted_ == nullptr || !*faulted_) return OkStatus();
  return {
      Code::kAborted, reasons::kMemoryFault, "a page of " + step_name() + " memory is missing",
      "its client removed it, or the hardware failed: remove the buffer and register memory again"};
}

Status Region::CheckUsable() const {
  ONECOPY_RETURN_IF_ERROR(CheckIntact());
  return backing_ == nullptr ? OkStatus() : backing_->Cover();
}

Status Region::FlushRemoteWrites() { return flush_ ? flush_() : OkStatus(); }

void Region::OnRelease(Release hook) {
  const MutexLock lock(mutex_);
  hooks_.push_back(std::move(hook));
}

}  // namespace onecopy
