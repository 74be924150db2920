#include "transport/tls/trust.h"

#include <utility>

namespace onecopy::tls {

Result<std::shared_ptr<Trust>> Trust::Open(Files files, std::string node) {
  ONECOPY_ASSIGN_OR_RETURN(auto identity, Identity::Load(files, node));
  return std::shared_ptr<Trust>(new Trust(std::move(files), std::move(node), std::move(identity)));
}

Trust::Current Trust::Now() const {
  const MutexLock lock(mutex_);
  return current_;
}

Result<bool> Trust::Reload() {
  const MutexLock one(reloading_);
  ONECOPY_ASSIGN_OR_RETURN(auto identity, Identity::Load(files_, node_));
  const MutexLock lock(mutex_);
  if (identity->SameFiles(*current_.identity)) return false;
  current_ = {std::move(identity), current_.generation + 1};
  return true;
}

Result<bool> Trust::Reload(const Files& files) {
  {
    const MutexLock one(reloading_);
    if (files != files_) {
      // Only names that lead to right files replace those before.
      ONECOPY_RETURN_IF_ERROR(Identity::Load(files, node_).status());
      files_ = files;
    }
  }
  return Reload();
}

}  // namespace onecopy::tls
