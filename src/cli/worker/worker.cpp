#include "cli/worker/worker.h"

#include "runtime/spec_json.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

namespace larder {

namespace {

constexpr int by_signal = 128;

std::string text_of(const std::string &task, Json job) {
    job["task"] = task;
    return job.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ErrorKind kind_of(int code) {
    for (const ErrorKind kind : {ErrorKind::budget, ErrorKind::usage}) {
        if (code == exit_code(kind)) {
            return kind;
        }
    }
    return ErrorKind::engine;
}

Error error_of(int code) {
    if (code == by_signal + SIGKILL) {
        return {ErrorKind::engine, "its process was killed (signal 9), most likely because memory ran out",
                "lower --ram, or free some memory"};
    }
    return {kind_of(code), code > by_signal ? fmt::format("its process was terminated by signal {}", code - by_signal)
                                            : fmt::format("its process ended with exit code {}", code)};
}

} // namespace

Worker::Worker(const std::string &task, Json job) : process_({"worker"}, text_of(task, std::move(job))) {}

std::optional<Json> Worker::next() {
    for (std::string line; process_.read_line(line);) {
        Json json = Json::parse(line, nullptr, false);
        if (!json.is_object()) {
            break; // the worker ended in the middle of a line
        }
        if (!json.contains("error")) {
            return json;
        }
        told_ = error_from(json.at("error"));
    }
    return std::nullopt;
}

WorkerEnd Worker::wait() {
    WorkerEnd end;
    end.exit_code = process_.wait();
    end.interrupted = end.exit_code == by_signal + SIGINT || end.exit_code == by_signal + SIGTERM;
    if (told_) {
        end.error = told_;
    } else if (end.exit_code != 0) {
        end.error = error_of(end.exit_code);
    }
    return end;
}

} // namespace larder
