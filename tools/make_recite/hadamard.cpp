#include "hadamard.h"

#include "base/check.h"

#include <bit>
#include <optional>

namespace larder::make_recite {

namespace {

bool is_prime(uint32_t number) {
    for (uint32_t divisor = 2; divisor * divisor <= number; divisor++) {
        if (number % divisor == 0) {
            return false;
        }
    }
    return number >= 2;
}

// The order of the factor that is not a power of two, 1 if there is none; nullopt if no matrix of this order can be
// made.
std::optional<uint32_t> odd_core(uint32_t order) {
    if (order == 0 || order > 65536) {
        return std::nullopt;
    }
    if (std::has_single_bit(order)) {
        return 1;
    }
    for (uint32_t core = order; core >= 12; core /= 2) {
        if ((core - 1) % 4 == 3 && is_prime(core - 1)) {
            return core;
        }
        if (core % 2 != 0) {
            break;
        }
    }
    return std::nullopt;
}

// Paley's construction: Q[i][j] is the quadratic character of i − j modulo the prime q, bordered by ones, plus the
// identity.
std::vector<int8_t> paley(uint32_t order) {
    const uint32_t q = order - 1;
    std::vector<int8_t> character(q, -1);
    character[0] = 0;
    for (uint64_t x = 1; x < q; x++) {
        character[x * x % q] = 1;
    }
    std::vector<int8_t> signs(size_t{order} * order);
    for (uint32_t i = 0; i < order; i++) {
        for (uint32_t j = 0; j < order; j++) {
            int sign = 1;
            if (i > 0 && j == 0) {
                sign = -1;
            } else if (i > 0) {
                sign = i == j ? 1 : character[(i + q - j) % q];
            }
            signs[size_t{i} * order + j] = static_cast<int8_t>(sign);
        }
    }
    return signs;
}

} // namespace

bool Hadamard::has(uint32_t order) { return odd_core(order).has_value(); }

// The Kronecker product of the core and Sylvester's matrix. The sign of entry (i, j) of the latter is the parity of the
// common bits of i and j.
Hadamard::Hadamard(uint32_t order, uint32_t rows) : order_(order), signs_(size_t{order} * rows) {
    LARDER_CHECK(has(order) && rows <= order);
    const uint32_t core = *odd_core(order);
    const uint32_t power = order / core;
    const std::vector<int8_t> core_signs = core == 1 ? std::vector<int8_t>{1} : paley(core);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < order; j++) {
            const int8_t sign = core_signs[size_t{i / power} * core + j / power];
            const bool odd = std::popcount((i % power) & (j % power)) % 2 != 0;
            signs_[size_t{i} * order + j] = static_cast<int8_t>(odd ? -sign : sign);
        }
    }
}

} // namespace larder::make_recite
