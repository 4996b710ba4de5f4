#include "runtime/placement.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "llama-model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace larder {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) {
            result += '\\';
        }
        result += c;
    }
    return result;
}

// A name split at its first number: "blk." 17 ".attn_q.weight". A name without a number is all head.
struct NumberedName {
    std::string head;
    std::string number;
    std::string tail;
    explicit NumberedName(const std::string &name) {
        const auto begin = std::ranges::find_if(name, is_digit);
        const auto end = std::find_if_not(begin, name.end(), is_digit);
        head.assign(name.begin(), begin);
        number.assign(begin, end);
        tail.assign(end, name.end());
    }
};

std::string joined(const std::set<std::string> &texts) {
    std::string result;
    for (const std::string &text : texts) {
        result += (result.empty() ? "" : "|") + text;
    }
    return result;
}

using Place = ggml_backend_buffer_type *;

// All tensors of the model except the experts, with their places. A name that occurs twice has two places.
std::map<std::string, std::set<Place>> places_of(const llama_model *model) {
    std::map<std::string, std::set<Place>> places;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model)) {
        Place place = ggml_backend_buffer_get_type(tensor->buffer);
        if (place == expert_buffer_type()) {
            continue;
        }
        if (place != repack_buffer_type() && !ggml_backend_buft_is_host(place)) {
            throw Error(
                ErrorKind::engine,
                fmt::format("{}: llama.cpp keeps it in its buffer type {} on this CPU, which larder cannot fill", name,
                            ggml_backend_buft_name(place)),
                "use --kernels plain");
        }
        places[name].insert(place);
    }
    return places;
}

} // namespace

std::string pattern_of_names(const std::vector<std::string> &names, const std::vector<std::string> &others) {
    using Frame = std::pair<std::string, std::string>; // head and tail
    std::map<Frame, std::set<std::string>> numbers;
    std::set<Frame> ambiguous;
    for (const std::string &name : names) {
        const NumberedName parts(name);
        numbers[{parts.head, parts.tail}].insert(parts.number);
    }
    for (const std::string &other : others) {
        const NumberedName parts(other);
        ambiguous.insert({parts.head, parts.tail});
    }
    std::set<std::string> alternatives;
    for (const auto &[frame, of_frame] : numbers) {
        const bool numbered = !of_frame.begin()->empty();
        const std::string number = !numbered                   ? ""
                                   : ambiguous.contains(frame) ? "(?:" + joined(of_frame) + ")"
                                                               : "[0-9]+";
        alternatives.insert(escaped(frame.first) + number + escaped(frame.second));
    }
    return "^(?:" + joined(alternatives) + ")$";
}

PlacePatterns places_of_stock(const llama_model *model) {
    std::vector<std::string> plain;
    std::vector<std::string> repacked;
    std::vector<std::string> tied;
    for (const auto &[name, places] : places_of(model)) {
        if (!places.contains(repack_buffer_type())) {
            plain.push_back(name);
        } else {
            (places.size() == 1 ? repacked : tied).push_back(name);
        }
    }
    const auto pattern = [&plain](const std::vector<std::string> &names, const std::vector<std::string> &others) {
        std::vector<std::string> rest = plain;
        rest.insert(rest.end(), others.begin(), others.end());
        return names.empty() ? std::string() : pattern_of_names(names, rest);
    };
    return {pattern(repacked, tied), pattern(tied, repacked)};
}

Placement::Placement(PlacePatterns patterns, ggml_backend_buffer_type *experts) : patterns_(std::move(patterns)) {
    overrides_.push_back({expert_tensor_pattern, experts});
    if (!patterns_.repacked.empty()) {
        overrides_.push_back({patterns_.repacked.c_str(), repack_buffer_type()});
    }
    if (!patterns_.tied.empty()) {
        overrides_.push_back({patterns_.tied.c_str(), tied_buffer_type()});
    }
    overrides_.push_back({nullptr, nullptr});
}

} // namespace larder
