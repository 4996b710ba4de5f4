#include "engine/page_stats.h"

#include <utility>

namespace larder {

void add_page_stats(EngineStats &stats, const ExpertPager &pager, uint64_t read_bytes_at_load) {
    PagerStats page = pager.stats();
    stats.store.expert_hits = page.expert_hits;
    stats.store.expert_misses = page.expert_misses;
    stats.store.evictions = page.slices_dropped;
    stats.page_disk_read_bytes = stats.memory.read_bytes - read_bytes_at_load;
    stats.page = std::move(page);
}

nlohmann::ordered_json page_json(const EngineStats &stats) {
    const PagerStats &page = *stats.page;
    auto samples = nlohmann::ordered_json::array();
    for (const RssSample &sample : page.rss) {
        samples.push_back({{"tokens", sample.n_token}, {"rss_bytes", sample.rss_bytes}});
    }
    return {{"evict", to_string(page.options.evict)},
            {"hot_tokens", page.options.hot_tokens},
            {"mapped_bytes", page.mapped_bytes},
            {"sweeps", page.sweeps},
            {"experts_dropped", page.experts_dropped},
            {"bytes_dropped", page.bytes_dropped},
            {"bytes_reread", page.bytes_reread},
            {"major_faults", page.major_faults},
            {"disk_read_bytes", stats.page_disk_read_bytes},
            {"rss_over_time", std::move(samples)}};
}

} // namespace larder
