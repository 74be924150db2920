// Files that are ends of transfers are buffers for as long.
#include <utility>

#include "daemon/engine/registry/buffers.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

Result<BufferId> Buffers::AddFile(const Principal& who, const std::string& name,
                                  std::unique_ptr<Region> file, bool kept) {
  if (sessions_.Identity(who.session) == nullptr) {
    return Status(Code::kAborted, reasons::kOwnerDied,
                  "the client ended while its file was opened");
  }
  Buffer draft;
  draft.name = name;
  draft.owner = OwnerOf(who);
  draft.bytes = file->bytes();
  draft.registered = draft.file = true;
  draft.kept = kept;
  draft.session = who.session;
  ONECOPY_ASSIGN_OR_RETURN(draft.charge, context_.ledger.Take(Charged::kBuffers, who));
  draft.region = std::move(file);
  return Place(std::move(draft)).id;
}

Result<BufferId> Buffers::AddExported(const Owner& owner, const std::string& name,
                                      std::unique_ptr<Region> file, FileUse use) {
  Buffer draft;
  draft.name = name;
  draft.owner = owner;
  draft.bytes = file->bytes();
  draft.file = true;
  draft.exported = draft.kept = use == FileUse::kRead;
  ONECOPY_ASSIGN_OR_RETURN(
      draft.charge,
      context_.ledger.Take(Charged::kBuffers, PayerAt(context_.node(), owner.node, owner), false));
  draft.region = std::move(file);
  return Place(std::move(draft)).id;
}

void Buffers::DropUnused(BufferId file) {
  Buffer* buffer = FindById(file);
  if (buffer == nullptr || !buffer->file) return;
  buffer->kept = false;
  if (buffer->users.empty()) Erase(*buffer);
}

}  // namespace onecopy::engine
