#include "client/nixl/names.h"

#include "transport/os/machine/machine.h"

namespace onecopy::nixl {

std::string RandomName() { return "nixl-" + os::RandomHex(8); }

}  // namespace onecopy::nixl
