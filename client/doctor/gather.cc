#include "client/doctor/gather.h"

#include "client/doctor/gather_parts.h"
#include "transport/shim/cuda.h"
#include "transport/shim/ucx.h"

namespace onecopy::doctor {

void PrepareEnvironment() {
  shim::UsePciBusOrder();
  shim::PrepareUcxEnvironment();
}

Facts Gather(const GatherOptions& options) {
  Facts facts;
  GatherTopology(options.root, facts);
  GatherNics(options.root, facts);
  GatherGpus(options.root, facts);
  GatherKernel(options.root, facts);
  GatherStorage(options.root, facts);
  GatherMemlock(options.root, facts);
  GatherHugePages(options.root, facts);
  GatherPcie(options.root, facts);
  if (options.root != "/") {
    facts.daemon.why_not = "it was not asked";
    return facts;
  }
  AskCuda(facts);
  AskNvml(facts);
  AskVerbs(facts);
  AskUcx(facts);
  AskCuFile(facts);
  AddDaemon(options, facts);
  return facts;
}

}  // namespace onecopy::doctor
