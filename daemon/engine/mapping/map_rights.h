// Whether a client may map a buffer.
#pragma once

#include <vector>

#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/contracts/import_request.h"

namespace onecopy::engine {

// The grants that the right rests on; none for an owner. Neither the processor nor a GPU limits a
// mapping to a part of what was passed, or lets the daemon say later that it is for reading alone:
// so it takes the right to read and to write the whole buffer. PERMISSION_DENIED (NOT_OWNER,
// GRANT_EXPIRED).
Result<std::vector<GrantId>> RightToMap(const Grants& grants, const Principal& who,
                                        const Buffer& buffer);

// Of memory that `who`, which has that right and `owns` the buffer or not, would be given.
// FAILED_PRECONDITION (NOT_SHAREABLE, PID_NAMESPACE).
Status CheckMayHave(const ImportRequest& memory, const Buffer& buffer, const ClientIdentity& client,
                    const ClientIdentity* registrant, bool owns);

}  // namespace onecopy::engine
