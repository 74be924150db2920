// A source's bytes on their way through slots: fills them, and has the reader read them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/base/move.h"
#include "daemon/engine/staging/registrations.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/pipeline/chain.h"
#include "daemon/pipeline/channel.h"
#include "daemon/pipeline/lent_slots.h"

namespace onecopy::engine {

// Engine thread.
class StagedSource : public std::enable_shared_from_this<StagedSource> {
 public:
  struct Params {
    Area area;
    std::string owner;  // of the bytes in the slots; see Slots
    Owner payer;
    Flow flow = {};
    std::string link;
    std::shared_ptr<Connection> connection;
    pipeline::Channel* channel = nullptr;  // outlives it
    uint64_t chunk_bytes = 0;              // the most that the reader takes at a time
    uint64_t skip = 0;                     // of the payload's beginning, that the reader has
    uint64_t until = 0;                    // where in the payload it ends; 0: at its end
  };
  struct Events {
    // The slots begin to fill; chunks have this size, and take these steps.
    UniqueFunction<void(uint64_t chunk_bytes, const std::vector<Step>& steps)> ready;
    UniqueFunction<void(const Status&)> failed;
  };

  StagedSource(Context& context, Registrations& registrations, std::shared_ptr<Slots> slots,
               Params params)
      : context_(context),
        registrations_(registrations),
        slots_(std::move(slots)),
        params_(std::move(params)) {}

  void Start(Events events);

  // Ends it. `closed` runs when no slot of it is being filled or read any more, with the steps that
  // its chain has done; nothing else is called after this.
  void Close(const Status& why, UniqueFunction<void(std::vector<ExecutedStep>)> closed);

  uint64_t bytes_done() const {
    return chain_ == nullptr ? 0 : params_.skip + chain_->bytes_done();
  }
  // What it waits for: nothing once it has slots.
  std::optional<pipeline::WaitingMessage> Waits() const;
  // Since when the reader has not read what others wait for; nothing where they do not.
  std::optional<os::Clock::time_point> OwesSlotsSince() const;

 private:
  // The end of what is sent, in the payload.
  uint64_t end() const { return params_.until != 0 ? params_.until : params_.area.payload(); }
  void Prepare(const RegionRef& slab);
  void TakeSlots();
  void Begin();
  void Fail(const Status& why);
  void OnePartClosed();

  Context& context_;
  Registrations& registrations_;
  const std::shared_ptr<Slots> slots_;
  Params params_;
  Events events_;
  std::shared_ptr<CopyRoute> route_;
  pipeline::SlotShareRef share_;
  std::shared_ptr<pipeline::LentSlots> lent_slots_;
  std::shared_ptr<pipeline::Chain> chain_;
  bool chain_running_ = false;

  UniqueFunction<void(std::vector<ExecutedStep>)> closed_;
  bool closing_ = false;
  int parts_open_ = 0;  // while closing
  std::vector<ExecutedStep> steps_;
};

}  // namespace onecopy::engine
