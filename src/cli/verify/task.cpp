#include "cli/verify/task.h"

#include "cli/verify/logits_file.h"
#include "cli/worker/worker.h"
#include "lab/residency/residency.h"
#include "session/session.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <span>

namespace larder {

namespace {

Json to_json(const VerifyJob &job) {
    return {{"open", to_json(job.open)},
            {"stock", job.stock},
            {"prompt", job.prompt},
            {"n_predict", job.n_predict},
            {"write_logits", job.write_logits},
            {"reference", job.reference}};
}

VerifyJob job_from(const Json &json) {
    return {open_options_from(json.at("open")),
            json.at("stock"),
            json.at("prompt"),
            json.at("n_predict"),
            json.at("write_logits"),
            json.at("reference")};
}

// JSON has no NaN and no infinity.
Json number_or_null(float number) { return std::isfinite(number) ? Json(number) : Json(); }
float number_from(const Json &json) { return json.is_null() ? std::nanf("") : json.get<float>(); }

int32_t top_of(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void write_row(uint32_t position, Token token, std::span<const float> logits, LogitsWriter &written,
               LogitsReference &reference) {
    written.append(token, logits);
    const XXH128_hash_t hash = XXH3_128bits(logits.data(), logits.size_bytes());
    const int32_t top = top_of(logits);
    tell("row", {{"position", position},
                 {"token", token},
                 {"digest", fmt::format("{:016x}{:016x}", hash.high64, hash.low64)},
                 {"top", top},
                 {"top_logit", number_or_null(logits[static_cast<size_t>(top)])},
                 {"n_nan", std::ranges::count_if(logits, [](float logit) { return std::isnan(logit); })},
                 {"error", reference.error_of(token, logits)}});
}

} // namespace

// Writes {"row": {…}} for each position, then {"figures": {…}}.
void verify_task(const Json &json) {
    VerifyJob job = job_from(json);
    job.open.model.context.logits_for_all = true;
    const std::unique_ptr<OpenModel> model =
        open_with(job.stock ? Residency::stock : Residency::arena, job.open, PagerOptions());
    SamplingOptions greedy;
    greedy.temperature = 0;
    Session session(*model, greedy);
    const std::vector<Token> prompt = model->tokenize({job.prompt, {}});
    LogitsWriter written(job.write_logits);
    LogitsReference reference(job.reference);
    Token next = 0;
    session.on_batch = [&](uint32_t first, uint32_t count) {
        for (uint32_t i = 0; i < count; i++) {
            write_row(first + i, prompt[first + i], session.logits(i), written, reference);
        }
        next = top_of(session.logits(count - 1));
    };
    session.prefill(prompt);
    for (uint32_t n = 0; n < job.n_predict && session.n_token() < model->ctx_tokens(); n++) {
        const Token token = reference.next_token().value_or(next);
        const uint32_t position = session.n_token();
        session.decode(token);
        write_row(position, token, session.logits(0), written, reference);
        next = top_of(session.logits(0));
    }
    tell("figures", stats_json(*model));
}

VerifyRun run_verify_worker(const std::string &name, const VerifyJob &job) {
    Worker worker("verify", to_json(job));
    VerifyRun run;
    while (const std::optional<Json> told = worker.next()) {
        if (told->contains("figures")) {
            run.figures = told->at("figures");
            continue;
        }
        const Json &row = told->at("row");
        run.rows.push_back({row.at("position"), row.at("token"), row.at("digest"), row.at("top"),
                            number_from(row.at("top_logit")), row.at("n_nan"), row.at("error")});
    }
    const WorkerEnd end = worker.wait();
    if (end.exit_code == 128 + SIGKILL && job.stock) {
        throw Error(ErrorKind::engine,
                    fmt::format("{} was killed (signal 9), most likely because memory ran out", name),
                    "use --kernels plain, which needs the least memory: stock llama.cpp then maps the file");
    }
    if (end.error) {
        throw end.error->within(name);
    }
    return run;
}

} // namespace larder
