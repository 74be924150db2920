#include "daemon/rpc/identity/presenters.h"

#include <utility>

#include "daemon/rpc/identity/caller.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {

Result<Presented> PresentedBy(Presenters& presenters, const grpc::ServerContext& context) {
  Presented presented;
  ONECOPY_ASSIGN_OR_RETURN(presented.by, presenters.Presenter(context));
  presented.token = MetadataOf(context, kSessionMetadata);
  if (presented.token.empty()) return NoSession();
  presented.payer = presenters.PayerOf(context);
  return presented;
}

}  // namespace onecopy::rpc
