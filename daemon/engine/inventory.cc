#include "daemon/engine/inventory.h"

#include <set>
#include <utility>

#include "daemon/engine/registry/places.h"
#include "daemon/engine/registry/tickets.h"
#include "onecopy/reasons.h"
#include "transport/digest/hasher.h"

namespace onecopy::engine {

Result<Page<BufferInfo>> Inventory::BuffersSeenBy(const Principal& who,
                                                  const PageRequest& page) const {
  if (who.administrator) return buffers_.ListAll(page);
  Buffers::Names names = buffers_.NamesOf(owners_, who);
  for (const BufferId id : grants_.GrantedTo(who)) {
    if (const Buffer* buffer = buffers_.FindById(id)) names.insert(buffer->name);
  }
  return buffers_.List(page, names);
}

Result<Page<GrantInfo>> Inventory::GrantsOf(const Principal& who, const PageRequest& page) const {
  std::set<BufferId> own;
  for (const std::string& name : buffers_.NamesOf(owners_, who)) {
    own.insert(buffers_.by_name().at(name));
  }
  return grants_.List(page, own, OwnerOf(who));
}

void Inventory::SumOf(const Principal& who, const SumRequest& request, Reply<BufferSum> reply) {
  const Endpoint& endpoint = request.range;
  Result<Buffer*> buffer = grants_.FindKnown(buffers_, who, endpoint.buffer);
  if (!buffer.ok()) return reply(buffer.status());
  Result<ByteRange> range =
      ResolveRange(endpoint, (*buffer)->bytes, "buffer \"" + (*buffer)->name + "\"");
  if (!range.ok()) return reply(range.status());
  const auto grant = grants_.Check(who, **buffer, *range, Access::kRead);
  if (!grant.ok()) return reply(grant.status());
  const uint64_t block_bytes = request.block_bytes;
  if (block_bytes != 0 && range->bytes > 0 &&
      (range->bytes - 1) / block_bytes >= kMaxSummedBlocks) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        std::to_string(range->bytes) + " bytes are more than " +
                            std::to_string(kMaxSummedBlocks) + " blocks of " +
                            std::to_string(block_bytes),
                        "sum a shorter range, or longer blocks"));
  }
  Result<MemoryPlace> place = PlaceOf(**buffer, *range, nullptr);
  if (!place.ok()) return reply(place.status());
  // Not needed any more once its client has gone. A peer's word for one of its users has no
  // session.
  std::shared_ptr<const std::atomic<bool>> stop = sessions_.Gone(who.session);
  if (stop == nullptr) stop = std::make_shared<std::atomic<bool>>(false);
  auto done = [bytes = range->bytes, reply = std::move(reply)](Result<Sums> sums) mutable {
    if (!sums.ok()) return reply(sums.status());
    reply(BufferSum{digest::kAlgorithm, std::move(sums->whole), bytes, std::move(sums->blocks),
                    std::move(sums->tree.root)});
  };
  checksums_.SumBlocks((*buffer)->region, place->range, place->layout, block_bytes, std::move(stop),
                       PayerAt(self_, who.node, OwnerOf(who)), std::move(done));
}

}  // namespace onecopy::engine
