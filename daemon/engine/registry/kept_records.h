// What the next process of this daemon needs to know of buffers, grants, tickets and transfers, as
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "onecopy/array_shape.h"
#include "onecopy/range.h"

namespace onecopy::engine {

// How memory is held: what Region::Share said of it, without the descriptor.
struct HeldForm {
  uint64_t number = 0;  // see KeeperApi; 0: it is not held, and `why`
  std::string form;
  uint64_t offset = 0;
  uint64_t allocation_bytes = 0;
  std::string why;
  bool passing = false;  // `why` is that no holder was there just then; not in the record

  friend bool operator==(const HeldForm&, const HeldForm&) = default;
};

// Of memory of the daemon's own, or of a view of it.
struct BufferRecord {
  BufferId id;
  std::string name;
  Owner owner;
  std::string kind;    // of memory
  std::string device;  // its UUID
  uint64_t bytes = 0;
  WallTime create_time;
  bool keep_arrivals = false;
  bool peer_room = false;  // counts against create_bytes of its owner's node
  std::string request_id;  // of the request that made it; empty: it had none
  std::string request;     // what that asked for
  HeldForm held;

  std::optional<BufferId> view_of;  // of a view: the rest
  uint64_t offset = 0;
  std::optional<ArrayShape> array;
};

struct GrantRecord {
  GrantId id;
  BufferId buffer;
  ByteRange range;
  Owner to;
  bool read = false;
  bool write = false;
  std::optional<WallTime> expire_time;
};

// A right to read for one transfer, which may be under way: see Ticket. Ranges of it are not said.
struct TicketRecord {
  std::string text;  // the secret
  TransferId transfer;
  TransferId whole;
  BufferId buffer;
  ByteRange range;
  std::string destination_node;
  std::string initiator;
  Owner owner;
  std::optional<GrantId> grant;
};

// A transfer to a buffer of this node that is under way: what Destinations accepted, without
// ranges, message, deadline or series.
struct ArrivingRecord {
  StartRequest request;  // its destination by the buffer's id, and complete
  std::string caller;    // the node that asked for it
  std::string path;      // by which the bytes came
  WallTime create_time;
};

// Under which records stand.
inline constexpr char kBufferKeys[] = "buffer/";
inline constexpr char kGrantKeys[] = "grant/";
inline constexpr char kTicketKeys[] = "ticket/";
inline constexpr char kArrivingKeys[] = "arriving/";
inline constexpr char kArrivedKeys[] = "arrived/";  // bytes, as a number
std::string KeyOf(BufferId id);
std::string KeyOf(const GrantId& id);
std::string KeyOfTicket(uint64_t number);

std::string ToText(const BufferRecord& record);
std::string ToText(const GrantRecord& record);
std::string ToText(const TicketRecord& record);
std::string ToText(const ArrivingRecord& record);
// INVALID_ARGUMENT (BAD_HANDLE) for what ToText has not made. `node` is this one.
Result<BufferRecord> BufferOfText(const std::string& text, const std::string& node);
Result<GrantRecord> GrantOfText(const std::string& text, const std::string& node);
Result<TicketRecord> TicketOfText(const std::string& text, const std::string& node);
Result<ArrivingRecord> ArrivingOfText(const std::string& text, const std::string& node);

}  // namespace onecopy::engine
