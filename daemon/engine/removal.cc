#include "daemon/engine/removal.h"

#include <memory>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {

Result<Buffer*> Removal::FindOwn(const Principal& who, const std::string& name) const {
  ONECOPY_ASSIGN_OR_RETURN(Buffer* const buffer,
                           needs_.grants.FindKnown(needs_.buffers, who, name));
  if (needs_.owners.Owns(who, buffer->owner)) return buffer;
  return Status(Code::kPermissionDenied, reasons::kNotOwner,
                "buffer \"" + buffer->name + "\" belongs to " + buffer->owner.ToString() +
                    ", not to " + who.ToString());
}

void Removal::Remove(const Principal& who, const std::string& name, bool force, StatusReply reply) {
  Result<Buffer*> buffer = FindOwn(who, name);
  if (!buffer.ok()) return reply(buffer.status());
  const BufferId id = (*buffer)->id;
  // Memory that another process still has open must not be freed by its owner.
  std::vector<BufferId> ids((*buffer)->views.begin(), (*buffer)->views.end());
  ids.push_back(id);
  auto removed = [this, ids = std::move(ids),
                  reply = std::move(reply)](const Status& status) mutable {
    AwaitLetGo(ids, [status, reply = std::move(reply)]() mutable { reply(status); });
  };
  needs_.buffers.Remove(id, force,
                        {Code::kCancelled, reasons::kCancelled,
                         "buffer \"" + (*buffer)->name + "\" was removed by " + who.ToString()},
                        std::move(removed));
}

void Removal::AwaitLetGo(const std::vector<BufferId>& ids, Task done) {
  struct Pending {
    size_t left;
    Task done;
  };
  const auto pending = std::make_shared<Pending>(Pending{ids.size(), std::move(done)});
  for (const BufferId id : ids) {
    AwaitLetGo(id, [pending] {
      if (--pending->left == 0) pending->done();
    });
  }
}

void Removal::AwaitLetGo(BufferId id, Task done) {
  needs_.exporter.WhenRecalled(id, [this, id, done = std::move(done)]() mutable {
    needs_.mappings.WhenReleased(id, [this, id, done = std::move(done)]() mutable {
      needs_.rings.WhenReleased(id, [this, id, done = std::move(done)]() mutable {
        needs_.openings.WhenReleased(id, std::move(done));
      });
    });
  });
}

}  // namespace onecopy::engine
