// How much memory values take, as it is charged to their payers (see Ledger).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/core/ranges/layout.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy::engine {

// Of a text beside the object itself.
inline uint64_t FootprintOf(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
}
uint64_t FootprintOf(const Status& status);
uint64_t FootprintOf(const Endpoint& end);
uint64_t FootprintOf(const Plan& plan);
uint64_t FootprintOf(const Receipt& receipt);
// With the object itself.
uint64_t FootprintOf(const TransferInfo& info);
uint64_t FootprintOf(const BufferInfo& info);
uint64_t FootprintOf(const GrantInfo& info);
uint64_t FootprintOf(const NodeInfo& info);
uint64_t FootprintOf(const ExportInfo& info);
// Null: nothing. With the copies that are made of it, of which so many may wait at a time.
uint64_t FootprintOf(const LayoutRef& layout);
uint64_t FootprintOf(const ScatterRef& ranges);

}  // namespace onecopy::engine
