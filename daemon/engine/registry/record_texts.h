// Buffers, grants, tickets and transfers as texts, for the next process of this daemon.
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

// How the holder keeps a buffer's memory: what Region::Share returned, without the descriptor.
struct HeldForm {
  uint64_t number = 0;  // see HolderApi; 0: the memory cannot be held
  std::string form;
  uint64_t offset = 0;
  uint64_t allocation_bytes = 0;
  std::string why;       // why it is not held; empty: it is
  bool passing = false;  // no holder was connected just then; not part of the text

  friend bool operator==(const HeldForm&, const HeldForm&) = default;
};

// A buffer that the daemon allocated, or a view of one.
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
  std::string request_id;  // the request that made it; empty: it had no id
  std::string request;     // what that request asked for
  HeldForm held;

  std::optional<BufferId> view_of;  // a view has these, and no memory of its own
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

// A ticket, which may be in use. Only tickets for one range are recorded.
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

// A running transfer to a buffer of this node. It has no ranges, message, deadline or series.
struct ArrivingRecord {
  StartRequest request;  // names the destination by the buffer's id, offset and length
  std::string caller;    // the node that asked for the transfer
  std::string path;      // the path that it took
  WallTime create_time;
  uint64_t resumed_from = 0;  // bytes that had arrived when a process resumed it last
  uint32_t vain_starts = 0;   // processes that have resumed it since then and ended
};

// A transfer that a client of this node asked for. It has no receipt yet.
struct OrderedRecord {
  // Its id, role, ends, bytes and numbers of buffers, owner's text and creation time.
  TransferInfo info;
  Owner owner;
  bool bundle = false;     // of several buffers
  std::string request_id;  // empty: the request had no id
  std::string request;     // stands for what the request asked for
};

// The keys of records begin with these.
inline constexpr char kNodeKey[] = "node";  // the whole key; the name of the node
inline constexpr char kBufferKeys[] = "buffer/";
inline constexpr char kGrantKeys[] = "grant/";
inline constexpr char kTicketKeys[] = "ticket/";
inline constexpr char kArrivingKeys[] = "arriving/";
inline constexpr char kArrivedKeys[] = "arrived/";  // bytes, as a number
inline constexpr char kOrderedKeys[] = "ordered/";
std::string KeyOf(BufferId id);
std::string KeyOf(const GrantId& id);
std::string KeyOfTicket(uint64_t number);

std::string ToText(const BufferRecord& record);
std::string ToText(const GrantRecord& record);
std::string ToText(const TicketRecord& record);
std::string ToText(const ArrivingRecord& record);
std::string ToText(const OrderedRecord& record);
// INVALID_ARGUMENT (BAD_HANDLE) if the text is not a record. `node` is this node.
Result<BufferRecord> BufferOfText(const std::string& text, const std::string& node);
Result<GrantRecord> GrantOfText(const std::string& text, const std::string& node);
Result<TicketRecord> TicketOfText(const std::string& text, const std::string& node);
Result<ArrivingRecord> ArrivingOfText(const std::string& text, const std::string& node);
Result<OrderedRecord> OrderedOfText(const std::string& text, const std::string& node);

}  // namespace onecopy::engine
