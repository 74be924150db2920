#include "transport/store/cufile/lane.h"

#include "transport/os/threads/acting_user.h"

namespace onecopy::cufile {

Result<std::shared_ptr<Lane>> Lane::Make(const Uid& owner, uint32_t gid, size_t threads,
                                         std::unique_ptr<Batches> batches) {
  std::shared_ptr<Lane> lane(new Lane);
  lane->batches_ = std::move(batches);
  ONECOPY_ASSIGN_OR_RETURN(lane->thread_, os::LoopThread::Make("cufile"));
  lane->pool_ =
      std::make_unique<os::Pool>("cufile-io", threads, [owner, gid] { os::ActFor(owner, gid); });
  return lane;
}

}  // namespace onecopy::cufile
