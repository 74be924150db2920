#include <string>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {

Assessment AssessFileOverLink(const Rung& rung, const Ends& ends, const FileEnd& file,
                              const std::string& link) {
  const bool reads = file.use == FileUse::kRead;
  const NodeCapability& node = reads ? ends.source_node : ends.destination_node;
  const NodeCapability& other = reads ? ends.destination_node : ends.source_node;
  if (rung.carrier == Carrier::kStorage) {
    return Refused(rung, reasons::kOtherNode,
                   "the file is on " + node.node + ", and the memory is on " + other.node,
                   "use a path that continues over a link: " + std::string(kFileThenLink) + "…");
  }
  if (!MayFollowFile(rung)) {
    return Refused(rung, reasons::kNotApplicable,
                   "a link cannot read a file in place: a file goes through slots of " + node.node);
  }
  Assessment assessment;
  if (Viability store = AnyStore(node); !store.viable) {
    assessment = Refused(rung, std::move(store));
  } else {
    assessment =
        rung.carrier == Carrier::kTcp ? AssessTcp(rung, ends) : AssessRdma(rung, ends, link);
  }
  for (Candidate& candidate : assessment.candidates) CountFile(ends, file, &candidate.path);
  if (!assessment.refusal.path.empty()) {
    assessment.refusal.path.insert(0, kFileThenLink);
  }
  return assessment;
}

}  // namespace onecopy::plan
