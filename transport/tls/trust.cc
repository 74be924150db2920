#include "transport/tls/trust.h"

#include <utility>

namespace onecopy::tls {

Result<std::shared_ptr<Trust>> Trust::Open(Files files, std::string node) {
  ONECOPY_ASSIGN_OR_RETURN(auto identity, Identity::Load(files, node));
  std::shared_ptr<Trust> trust(new Trust(std::move(files), std::move(node)));
  trust->current_ = {std::move(identity), 1};
  return trust;
}

Trust::Current Trust::Now() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

Result<bool> Trust::Reload() {
  const std::lock_guard one(reloading_);
  ONECOPY_ASSIGN_OR_RETURN(auto identity, Identity::Load(files_, node_));
  const std::lock_guard lock(mutex_);
  if (identity->SameFiles(*current_.identity)) return false;
  current_ = {std::move(identity), current_.generation + 1};
  return true;
}

Result<bool> Trust::Reload(const Files& files) {
  {
    const std::lock_guard one(reloading_);
    if (files != files_) {
      // Only names that lead to right files replace those before.
      ONECOPY_RETURN_IF_ERROR(Identity::Load(files, node_).status());
      files_ = files;
    }
  }
  return Reload();
}

}  // namespace onecopy::tls
