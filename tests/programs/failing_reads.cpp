// Linked with the objects of larder's command line. Takes from the environment which read of the process fails.
#include "support/read_faults.h"

namespace {

[[maybe_unused]] const bool taken = [] {
    larder::test::read_faults_from_environment();
    return true;
}();

} // namespace
