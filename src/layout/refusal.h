// refusal.h — the errors of layout, in one line: "FILE: fault; remedy".
#pragma once

#include "base/error.h"

#include <string>
#include <string_view>

namespace larder {

inline constexpr const char *download_again = "the file is damaged or incomplete, download it again";
inline constexpr const char *convert_again = "convert the model again, or take another GGUF of it";

// Limit of the length of ggml's reason, which may quote a name from the file.
inline constexpr size_t reason_characters_max = 300;

// An Error(model) about the file at `path`.
Error refusal(std::string_view path, std::string_view what, std::string remedy = download_again);

} // namespace larder
