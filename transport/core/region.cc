#include "transport/core/region.h"

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

void Region::OnRelease(Release hook) {
  const std::lock_guard lock(mutex_);
  hooks_.push_back(std::move(hook));
}

}  // namespace onecopy
