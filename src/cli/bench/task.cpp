#include "cli/bench/task.h"

#include "base/bytes.h"
#include "cli/console/text_file.h"
#include "lab/probe/probe.h"
#include "layout/layout.h"

#include <memory>

namespace larder {

namespace {

constexpr uint64_t text_bytes_max = 16 * MiB;

Json to_json(const Repetition &repetition) {
    Json json = {{"n_token", repetition.n_token},
                 {"wall_ms", repetition.wall_ms},
                 {"stall_ms", repetition.stall_ms},
                 {"expert_hits", repetition.expert_hits},
                 {"expert_misses", repetition.expert_misses},
                 {"bytes_read", repetition.bytes_read},
                 {"bytes_dropped", repetition.bytes_dropped},
                 {"bytes_reread", repetition.bytes_reread},
                 {"cpu_ms_token", nullptr},
                 {"token_repeated", repetition.token_repeated}};
    if (repetition.cpu_ms_token) {
        json["cpu_ms_token"] = *repetition.cpu_ms_token;
    }
    return json;
}

BenchJob job_from(const Json &json) {
    BenchJob job;
    job.open = open_options_from(json.at("open"));
    job.residency = static_cast<Residency>(json.at("residency").get<int>());
    job.pager.hot_tokens = json.at("hot_tokens");
    job.pager.evict = static_cast<PageEvict>(json.at("evict").get<int>());
    job.test = {json.at("n_prompt"), json.at("n_gen"), json.at("depth")};
    job.input = {json.at("text"), json.at("seed"), json.at("go_on")};
    job.text_file = json.at("text_file");
    job.first = json.at("first");
    job.repetitions = json.at("repetitions");
    job.warmup = json.at("warmup");
    job.cold = json.at("cold");
    return job;
}

} // namespace

Json to_json(const BenchJob &job) {
    return {{"open", to_json(job.open)},
            {"residency", static_cast<int>(job.residency)},
            {"hot_tokens", job.pager.hot_tokens},
            {"evict", static_cast<int>(job.pager.evict)},
            {"n_prompt", job.test.n_prompt},
            {"n_gen", job.test.n_gen},
            {"depth", job.test.depth},
            {"text", job.input.text},
            {"seed", job.input.seed},
            {"go_on", job.input.go_on},
            {"text_file", job.text_file},
            {"first", job.first},
            {"repetitions", job.repetitions},
            {"warmup", job.warmup},
            {"cold", job.cold}};
}

Repetition repetition_from(const Json &json) {
    Repetition repetition;
    json.at("n_token").get_to(repetition.n_token);
    json.at("wall_ms").get_to(repetition.wall_ms);
    json.at("stall_ms").get_to(repetition.stall_ms);
    json.at("expert_hits").get_to(repetition.expert_hits);
    json.at("expert_misses").get_to(repetition.expert_misses);
    json.at("bytes_read").get_to(repetition.bytes_read);
    json.at("bytes_dropped").get_to(repetition.bytes_dropped);
    json.at("bytes_reread").get_to(repetition.bytes_reread);
    json.at("token_repeated").get_to(repetition.token_repeated);
    if (!json.at("cpu_ms_token").is_null()) {
        repetition.cpu_ms_token = json.at("cpu_ms_token").get<double>();
    }
    return repetition;
}

void bench_task(const Json &json) {
    BenchJob job = job_from(json);
    if (!job.text_file.empty()) {
        job.input.text = read_text_file(job.text_file, "-f", text_bytes_max);
    }
    if (job.cold) {
        drop_page_cache(open_layout(job.open.model.path).files);
    }
    const std::unique_ptr<OpenModel> model = open_with(job.residency, job.open, job.pager);
    if (!model->reader_info().notice.empty()) {
        tell("notice", model->reader_info().notice);
    }
    BenchRun run(*model, job.test, job.input);
    if (job.warmup) {
        run.repeat(0);
    }
    for (uint64_t i = 0; i < job.repetitions; i++) {
        tell("repetition", to_json(run.repeat(job.first + i)));
    }
    tell("figures", stats_json(*model));
}

} // namespace larder
