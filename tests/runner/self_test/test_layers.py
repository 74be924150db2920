from checks import layers
from self_test.planted import Planted


class LayersTest(Planted):
    def test_values_and_core_use_the_standard_library_only(self):
        for name in ("values/onecopy/size.h", "transport/core/base/duration.h"):
            self.append(name, "#include <unistd.h>\n")
            self.assert_found(layers.run(self.context()), name, "standard library only")

    def test_values_use_nothing_of_ours_but_themselves(self):
        self.append("values/onecopy/size.h", '#include "transport/core/base/duration.h"\n')
        self.assert_found(layers.run(self.context()), "values/onecopy/size.h", "may not include")

    def test_core_uses_nothing_of_ours_but_values(self):
        self.append("transport/core/base/duration.h", '#include "transport/os/base/error.h"\n')
        self.assert_found(layers.run(self.context()), "transport/core/base/duration.h", "may not include")

    def test_public_headers_use_nothing_below_the_values(self):
        self.append("client/lib/include/onecopy/planted.h", '#include "transport/core/base/duration.h"\n')
        self.assert_found(layers.run(self.context()), "client/lib/include/onecopy/planted.h", "may not include")

    def test_a_backend_does_not_include_another_of_its_kind(self):
        self.append("transport/memory/other/CMakeLists.txt", "onecopy_module(SOURCES a.cc)\n")
        self.append("transport/memory/other/a.cc", '#include "transport/memory/host/factory.h"\n')
        self.assert_found(layers.run(self.context()), "transport/memory/other/a.cc", "another one")

    def test_a_backend_does_not_include_one_of_another_kind(self):
        self.append("transport/link/other/CMakeLists.txt", "onecopy_module(SOURCES a.cc)\n")
        self.append("transport/link/other/a.cc", '#  include  "transport/memory/host/factory.h"\n')
        self.assert_found(layers.run(self.context()), "transport/link/other/a.cc", "another one")

    def test_the_plan_does_not_know_the_engine(self):
        self.append("daemon/plan/planner.h", '#include "daemon/engine/api/types.h"\n')
        self.assert_found(layers.run(self.context()), "daemon/plan/planner.h", "may not include")

    def test_the_way_through_the_own_folder_does_not_help(self):
        self.append("daemon/plan/planner.h", '#include "../engine/api/types.h"\n')
        self.assert_found(layers.run(self.context()), "daemon/plan/planner.h", "may not include")

    def test_only_few_see_grpc(self):
        self.append("daemon/engine/api/types.h", "#include <grpcpp/grpcpp.h>\n")
        self.assert_found(layers.run(self.context()), "daemon/engine/api/types.h", "gRPC is seen by")

    def test_the_engine_does_not_see_the_protocol(self):
        self.append("daemon/engine/api/types.h", '#include "onecopy/v1/buffer.pb.h"\n')
        self.assert_found(layers.run(self.context()), "daemon/engine/api/types.h", "may not include")

    def test_public_headers_of_the_client_do_not_see_the_protocol(self):
        self.append("client/lib/include/onecopy/planted.h", '#include "onecopy/v1/buffer.pb.h"\n')
        self.assert_found(layers.run(self.context()), "client/lib/include/onecopy/planted.h", "may not include")

    def test_a_folder_in_no_layer_is_found(self):
        self.append("daemon/new/a.cc", "#include <vector>\n")
        self.assert_found(layers.run(self.context()), "daemon/new/a.cc", "in no layer")

    def test_a_quoted_include_that_is_nowhere_is_found(self):
        self.append("daemon/plan/planner.h", '#include "daemon/plan/nowhere.h"\n')
        self.assert_found(layers.run(self.context()), "daemon/plan/planner.h", "no file of ours")

    def test_a_room_may_not_include_a_later_room(self):
        self.append("transport/os/base/error.h", '#include "transport/os/sockets/acceptor.h"\n')
        self.assert_found(layers.run(self.context()), "transport/os/base/error.h", "may not include")

    def test_a_folder_of_rooms_stands_for_all_of_them(self):
        before = layers.run(self.context())
        self.append("daemon/config/schema.h", '#include "transport/os/files/new_file.h"\n')
        self.assertEqual(layers.run(self.context()), before)
        self.append("daemon/plan/planner.h", '#include "transport/os/files/new_file.h"\n')
        self.assert_found(layers.run(self.context()), "daemon/plan/planner.h", "may not include")

    def test_what_the_picture_allows_is_not_found(self):
        before = layers.run(self.context())
        self.append("transport/memory/host/factory.h", '#include "transport/os/base/error.h"\n')
        self.append("daemon/main.cc", '#include "daemon/engine/api/types.h"\n')
        self.append("client/cli/planted.h.in", "")
        self.append("client/cli/a.cc",
                    '#include "onecopy/planted.h"\n#include "client/cli/planted.h"\n#include <sys/stat.h>\n')
        self.append("client/lib/a.cc", '#include <onecopy/planted.h>\n#include <grpcpp/grpcpp.h>\n')
        self.append("client/lib/include/onecopy/planted.h", '#include "onecopy/size.h"\n')
        self.assertEqual(layers.run(self.context()), before)
