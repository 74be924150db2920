// Records of buffers, rights and running transfers, which the next process of this daemon reads.
#pragma once

#include <algorithm>
#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/record_texts.h"

namespace onecopy::engine {

// Engine thread. Without a holder every call does nothing.
class Records {
 public:
  explicit Records(Context& context) : context_(context), holder_(context.options.holder) {}

  bool on() const { return holder_ != nullptr; }

  // Whether the same owner text will name the same user in the next process. It does not for users
  // of containers: the kernel can give the numbers of their namespaces to another container.
  bool CanName(const Owner& owner) const;

  // Each returns false if the table is full; then nothing has changed. The log reports that, at
  // most once a minute.
  bool Put(const BufferRecord& record);
  bool Put(const GrantRecord& record);
  bool Put(const ArrivingRecord& record);
  bool Put(const OrderedRecord& record);
  bool PutArrived(const TransferId& id, uint64_t bytes);
  bool PutNode(const std::string& name);
  // Returns the number of the record, for EraseTicket, or 0 if the table is full.
  uint64_t Put(const TicketRecord& record);

  void Erase(BufferId id);
  void Erase(const GrantId& id);
  void EraseTicket(uint64_t number);
  void EraseArriving(const TransferId& id);
  void EraseOrdered(const TransferId& id);
  // One that the previous process left.
  void EraseLeft(const std::string& key);

  // Tickets get numbers above this one from now on.
  void BeginTicketsAbove(uint64_t number) { next_ticket_ = std::max(next_ticket_, number + 1); }

 private:
  bool PutText(const std::string& key, const std::string& text, const std::string& what,
               HolderApi::Share share);

  Context& context_;
  HolderApi* const holder_;
  uint64_t next_ticket_ = 1;
  os::Clock::time_point told_full_ = {};
  uint64_t refused_ = 0;  // since the log was told
};

}  // namespace onecopy::engine
