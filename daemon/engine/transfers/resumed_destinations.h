// Resumes transfers to this node that a previous process of the daemon accepted.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/record_texts.h"
#include "daemon/engine/transfers/destination_plans.h"
#include "daemon/engine/transfers/destination_run.h"
#include "daemon/engine/transfers/reporter.h"

namespace onecopy::engine {

// Engine thread.
class ResumedDestinations {
 public:
  struct Needs {
    const DestinationPlans& plans;
    Probes& probes;
    DestinationRun::Needs runs;
  };

  explicit ResumedDestinations(const Needs& needs) : needs_(needs) {}

  // Records a transfer that was just accepted. Returns whether the next process can resume it.
  bool Record(const std::string& caller, const StartRequest& request, const Buffer& buffer,
              const TransferInfo& info) const;

  // Resumes a transfer of which `arrived` bytes have arrived. Erases its record instead if its
  // buffer or user is gone, the user has no room for it, or too many earlier starts moved nothing.
  void Resume(const ArrivingRecord& begun, uint64_t arrived);

  // Ends, for reason `why`, a transfer that was left to the next process (see Run::Leave). Does
  // nothing with any other transfer.
  void CancelLeft(TransferRecord& record, const Status& why);

  // Reports to the source's node, and to `caller`, the node that asked for the transfer. An empty
  // `caller` gets no reports.
  std::shared_ptr<Reporter> ReporterOf(const TransferId& id, const std::string& caller,
                                       const std::string& source_node) const;

 private:
  // Counts this start in the record. Returns false if too many starts in a row moved nothing.
  bool MayResume(const ArrivingRecord& begun, uint64_t arrived) const;
  // Checks the right to write again, runs the probes that the plan needs, and plans the path.
  void Learn(const std::string& caller, const StartRequest& request, Reply<plan::Path> reply);

  const Needs needs_;
};

}  // namespace onecopy::engine
