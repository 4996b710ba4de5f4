// larder inspect: prints the sizes of a model's weights, from its metadata.
#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/flags/model_flags.h"
#include "layout/account.h"
#include "layout/layout.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <memory>
#include <numeric>
#include <string>

namespace larder {

namespace {

struct InspectOptions {
    std::string model;
    bool json = false;
};

// "shared expert" is "shared_expert_bytes" in JSON.
std::string json_key(TensorKind kind) {
    std::string key(to_string(kind));
    std::ranges::transform(key, key.begin(),
                           [](unsigned char c) { return c == ' ' ? '_' : static_cast<char>(std::tolower(c)); });
    return key + "_bytes";
}

uint64_t file_bytes(const ModelLayout &layout) {
    return std::accumulate(layout.file_bytes.begin(), layout.file_bytes.end(), uint64_t{0});
}

nlohmann::ordered_json facts_json(const ModelLayout &layout, const WeightAccount &account) {
    return {
        {"files", layout.files},
        {"file_bytes", file_bytes(layout)},
        {"architecture", layout.architecture},
        {"name", layout.name},
        {"context_length", layout.context_length},
        {"n_layer", layout.n_layer},
        {"n_layer_nextn", layout.n_layer_nextn},
        {"n_expert_layer", account.expert_layers.size()},
        {"n_expert", layout.n_expert},
        {"n_expert_used", layout.n_expert_used},
        {"sliding_window", layout.sliding_window},
        {"full_attention_layers", layout.full_attention_layers},
        {"windowed_layers", layout.windowed_layers},
        {"recurrent_layers", layout.recurrent_layers},
        {"total_bytes", account.total_bytes},
        {"routed_bytes", account.routed_bytes},
        {"resident_bytes", account.resident_bytes},
        {"token_bytes", account.token_bytes},
        {"token_bytes_max", account.token_bytes_max},
        {"layer_bytes_mean", account.layer_bytes_mean},
        {"layer_bytes_max", account.layer_bytes_max},
    };
}

nlohmann::ordered_json account_json(const ModelLayout &layout, const WeightAccount &account) {
    nlohmann::ordered_json json = facts_json(layout, account);
    for (const auto &[kind, bytes] : account.resident_by_kind) {
        json["resident"][json_key(kind)] = bytes;
    }
    json["expert_sizes"] = nlohmann::ordered_json::array();
    for (const ExpertSize &size : account.expert_sizes) {
        json["expert_sizes"].push_back(
            {{"expert_bytes", size.expert_bytes}, {"n_expert", size.n_expert}, {"layers", size.layers}});
    }
    json["slices"] = nlohmann::ordered_json::array();
    for (const SliceFormat &slice : account.slices) {
        json["slices"].push_back({{"projection", slice.projection},
                                  {"type", slice.type},
                                  {"slice_bytes", slice.slice_bytes},
                                  {"layers", slice.layers}});
    }
    json["size_classes"] = nlohmann::ordered_json::array();
    for (const SizeClass &size_class : layout.size_classes) {
        json["size_classes"].push_back({{"slice_bytes", size_class.slice_bytes},
                                        {"slot_bytes", size_class.slot_bytes},
                                        {"n_slices", size_class.n_slices},
                                        {"n_slices_per_token", size_class.n_slices_per_token}});
    }
    return json;
}

// "20 layers: 0-19"
std::string count_and_list(const std::vector<uint32_t> &layers) {
    return fmt::format("{} layer{}: {}", layers.size(), layers.size() == 1 ? "" : "s", format_layers(layers));
}

void print_layers(const char *what, const std::vector<uint32_t> &layers) {
    if (!layers.empty()) {
        fmt::print("  {:<18}{}\n", what, count_and_list(layers));
    }
}

void print_facts(const ModelLayout &layout, const WeightAccount &account) {
    const size_t n_more = layout.files.size() - 1;
    fmt::print("{}{}\n", printable(layout.files.front()),
               n_more > 0 ? fmt::format(" and {} more shard{}", n_more, n_more == 1 ? "" : "s") : "");
    fmt::print("  {:<18}{}{}\n", "model", layout.architecture,
               layout.name.empty() ? "" : fmt::format(", {}", layout.name));
    fmt::print("  {:<18}{} ({} B)\n", "file", format_bytes(file_bytes(layout)), file_bytes(layout));
    if (account.expert_layers.empty()) {
        fmt::print("  {:<18}{}, none with routed experts: all weights stay in RAM\n", "layers", layout.n_layer);
    } else {
        fmt::print("  {:<18}{}, of which {} have {} experts each; {} are used for a token\n", "layers", layout.n_layer,
                   account.expert_layers.size(), layout.n_expert, layout.n_expert_used);
    }
    if (layout.n_layer_nextn > 0) {
        fmt::print("  {:<18}the last {} only predict additional tokens; larder does not run them\n", "",
                   layout.n_layer_nextn);
    }
    print_layers("full attention", layout.full_attention_layers);
    print_layers("windowed", layout.windowed_layers);
    print_layers("recurrent", layout.recurrent_layers);
    if (layout.sliding_window > 0) {
        fmt::print("  {:<18}{} tokens{}\n", "window", layout.sliding_window,
                   layout.windowed_layers.empty() ? "; the file does not say in which layers" : "");
    }
}

void print_row(std::string_view what, uint64_t bytes, uint64_t total_bytes) {
    const double share = total_bytes == 0 ? 0.0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(total_bytes);
    fmt::print("  {:<18}{:>12}{:>18} B {:>6.1f} %\n", what, format_bytes(bytes), bytes, share);
}

void print_weights(const WeightAccount &account) {
    fmt::print("\nweights\n");
    print_row("total", account.total_bytes, account.total_bytes);
    print_row("routed experts", account.routed_bytes, account.total_bytes);
    print_row("resident", account.resident_bytes, account.total_bytes);
    for (const auto &[kind, bytes] : account.resident_by_kind) {
        if (bytes > 0) {
            print_row(fmt::format("  {}", to_string(kind)), bytes, account.total_bytes);
        }
    }
}

void print_experts(const ModelLayout &layout, const WeightAccount &account) {
    fmt::print("\none expert\n");
    for (const ExpertSize &size : account.expert_sizes) {
        fmt::print("  {:>10} ({} B) in {}\n", format_bytes(size.expert_bytes), size.expert_bytes,
                   count_and_list(size.layers));
    }
    fmt::print("\none token\n");
    fmt::print("  {:<18}{} mean, {} largest\n", "one layer", format_bytes(account.layer_bytes_mean),
               format_bytes(account.layer_bytes_max));
    fmt::print("  {:<18}{}; {} if all experts had the largest size\n", "all layers", format_bytes(account.token_bytes),
               format_bytes(account.token_bytes_max));
    for (const SizeClass &size_class : layout.size_classes) {
        fmt::print("  {:<18}{} slices of {} B\n", "", size_class.n_slices_per_token, size_class.slice_bytes);
    }
    fmt::print("\nslices\n");
    for (const SliceFormat &slice : account.slices) {
        fmt::print("  {:<14}{:<10}{:>12} B in {}\n", slice.projection, slice.type, slice.slice_bytes,
                   count_and_list(slice.layers));
    }
}

int inspect(const InspectOptions &options) {
    const ModelLayout layout = open_layout(options.model);
    const WeightAccount account = account_of(layout);
    if (options.json) {
        // Names inside a GGUF need not be UTF-8.
        fmt::print("{}\n", account_json(layout, account).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return 0;
    }
    print_facts(layout, account);
    print_weights(account);
    if (!account.expert_layers.empty()) {
        print_experts(layout, account);
    }
    return 0;
}

} // namespace

void add_inspect(CLI::App &app, CommandBody &body) {
    auto options = std::make_shared<InspectOptions>();
    CLI::App *command = app.add_subcommand("inspect", "show the sizes of a model's weights; reads only its metadata");
    add_model_flag(*command, options->model);
    command->add_flag("--json", options->json, "print JSON instead of text");
    command->callback([options, &body] { body = [options] { return inspect(*options); }; });
}

} // namespace larder
