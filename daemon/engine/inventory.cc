#include "daemon/engine/inventory.h"

#include <set>
#include <utility>

#include "daemon/engine/registry/places.h"
#include "daemon/engine/registry/tickets.h"

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

void Inventory::SumOf(const Principal& who, const Endpoint& endpoint, Reply<BufferSum> reply) {
  Result<Buffer*> buffer = grants_.FindKnown(buffers_, who, endpoint.buffer);
  if (!buffer.ok()) return reply(buffer.status());
  Result<ByteRange> range =
      ResolveRange(endpoint, (*buffer)->bytes, "buffer \"" + (*buffer)->name + "\"");
  if (!range.ok()) return reply(range.status());
  const auto grant = grants_.Check(who, **buffer, *range, Access::kRead);
  if (!grant.ok()) return reply(grant.status());
  Result<MemoryPlace> place = PlaceOf(**buffer, *range, nullptr);
  if (!place.ok()) return reply(place.status());
  // Not needed any more once its client has gone. A peer's word for one of its users has no
  // session.
  std::shared_ptr<const std::atomic<bool>> stop = sessions_.Gone(who.session);
  if (stop == nullptr) stop = std::make_shared<std::atomic<bool>>(false);
  checksums_.Sum((*buffer)->region, place->range, place->layout, std::move(stop),
                 PayerAt(self_, who.node, OwnerOf(who)),
                 [bytes = range->bytes, reply = std::move(reply)](Result<std::string> sum) mutable {
                   if (!sum.ok()) return reply(sum.status());
                   reply(BufferSum{kChecksumAlgorithm, std::move(*sum), bytes});
                 });
}

}  // namespace onecopy::engine
