#include "daemon/engine/removal.h"

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
  auto removed = [this, id, reply = std::move(reply)](const Status& status) mutable {
    needs_.exporter.WhenRecalled(id, [this, id, status, reply = std::move(reply)]() mutable {
      needs_.mappings.WhenReleased(id, [this, id, status, reply = std::move(reply)]() mutable {
        needs_.rings.WhenReleased(id, [this, id, status, reply = std::move(reply)]() mutable {
          needs_.openings.WhenReleased(
              id, [status, reply = std::move(reply)]() mutable { reply(status); });
        });
      });
    });
  };
  needs_.buffers.Remove(id, force,
                        {Code::kCancelled, reasons::kCancelled,
                         "buffer \"" + (*buffer)->name + "\" was removed by " + who.ToString()},
                        std::move(removed));
}

}  // namespace onecopy::engine
