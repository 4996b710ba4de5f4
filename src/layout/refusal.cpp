#include "layout/refusal.h"

#include <fmt/format.h>

namespace larder {

Error refusal(std::string_view path, std::string_view what, std::string remedy) {
    return {ErrorKind::model, fmt::format("{}: {}", path, what), std::move(remedy)};
}

} // namespace larder
