#include "dpcore/chacha20.hpp"

#include <cstring>

namespace dpcore {

namespace {

constexpr int kDoubleRounds = 10;

// Vectors of 32-bit words, one lane a block: eight lanes where there is AVX2, four (which the x86-64 baseline and
// every 64-bit ARM hold in one register) elsewhere. may_alias: they are copied from and to byte buffers.
typedef std::uint32_t Row4 __attribute__((vector_size(16), may_alias));
typedef std::uint32_t Row8 __attribute__((vector_size(32), may_alias));
typedef std::uint8_t Bytes32 __attribute__((vector_size(32), may_alias));

template <int N, class Row>
[[gnu::always_inline]] inline void rotate(Row& x) {
    if constexpr (sizeof(Row) == 32 && (N == 16 || N == 8)) {
        // A rotation by whole bytes is one byte shuffle.
        Bytes32 b;
        std::memcpy(&b, &x, sizeof b);
        if constexpr (N == 16)
            b = __builtin_shufflevector(b, b, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 18, 19, 16, 17,
                                        22, 23, 20, 21, 26, 27, 24, 25, 30, 31, 28, 29);
        else
            b = __builtin_shufflevector(b, b, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14, 19, 16, 17, 18,
                                        23, 20, 21, 22, 27, 24, 25, 26, 31, 28, 29, 30);
        std::memcpy(&x, &b, sizeof b);
    } else {
        x = (x << N) | (x >> (32 - N));
    }
}

template <class Row>
[[gnu::always_inline]] inline void quarter_round(Row& a, Row& b, Row& c, Row& d) {
    a += b;
    d ^= a;
    rotate<16>(d);
    c += d;
    b ^= c;
    rotate<12>(b);
    a += b;
    d ^= a;
    rotate<8>(d);
    c += d;
    b ^= c;
    rotate<7>(b);
}

// Rows are words of all blocks; blocks are stored one after the other.
[[gnu::always_inline]] inline void store_blocks(const Row4* row, std::uint8_t* out) {
    for (int w = 0; w < 16; w += 4) {
        const Row4 s0 = __builtin_shufflevector(row[w], row[w + 1], 0, 4, 1, 5);
        const Row4 s1 = __builtin_shufflevector(row[w], row[w + 1], 2, 6, 3, 7);
        const Row4 s2 = __builtin_shufflevector(row[w + 2], row[w + 3], 0, 4, 1, 5);
        const Row4 s3 = __builtin_shufflevector(row[w + 2], row[w + 3], 2, 6, 3, 7);
        const Row4 quarter[4] = {
            __builtin_shufflevector(s0, s2, 0, 1, 4, 5), __builtin_shufflevector(s0, s2, 2, 3, 6, 7),
            __builtin_shufflevector(s1, s3, 0, 1, 4, 5), __builtin_shufflevector(s1, s3, 2, 3, 6, 7)};
        for (int block = 0; block < 4; ++block)
            std::memcpy(out + kChaChaBlockBytes * block + 4 * w, &quarter[block], sizeof(Row4));
    }
}

[[gnu::always_inline]] inline void store_blocks(const Row8* row, std::uint8_t* out) {
    for (int w = 0; w < 16; w += 8) {
        Row8 s[8];
        for (int i = 0; i < 8; i += 2) {
            s[i] = __builtin_shufflevector(row[w + i], row[w + i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            s[i + 1] = __builtin_shufflevector(row[w + i], row[w + i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        Row8 t[8];  // t[i] holds words w..w+3 (i < 4) or w+4..w+7 of blocks i % 4 and i % 4 + 4
        for (int i = 0; i < 8; i += 4) {
            t[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
            t[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        for (int i = 0; i < 4; ++i) {
            const Row8 low = __builtin_shufflevector(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            const Row8 high = __builtin_shufflevector(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
            std::memcpy(out + kChaChaBlockBytes * i + 4 * w, &low, sizeof low);
            std::memcpy(out + kChaChaBlockBytes * (i + 4) + 4 * w, &high, sizeof high);
        }
    }
}

template <class Row>
[[gnu::always_inline]] inline void some_blocks(const ChaChaKey& key, const ChaChaNonce& nonce,
                                               std::uint32_t counter, std::uint8_t* out) {
    const Row zero = {};
    Row start[16] = {};
    // "expand 32-byte k"
    start[0] = zero + 0x61707865U;
    start[1] = zero + 0x3320646eU;
    start[2] = zero + 0x79622d32U;
    start[3] = zero + 0x6b206574U;
    for (int i = 0; i < 8; ++i) start[4 + i] = zero + key.words[i];
    start[12] = zero + counter;
    for (std::size_t lane = 0; lane < sizeof(Row) / 4; ++lane) start[12][lane] += static_cast<std::uint32_t>(lane);
    for (int i = 0; i < 3; ++i) start[13 + i] = zero + nonce[i];
    Row x[16];
    for (int i = 0; i < 16; ++i) x[i] = start[i];
    for (int round = 0; round < kDoubleRounds; ++round) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < 16; ++i) x[i] += start[i];
    store_blocks(x, out);
}

template <class Row>
[[gnu::always_inline]] inline void keystream(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter,
                                             std::uint8_t* out, std::size_t blocks) {
    constexpr std::size_t kLanes = sizeof(Row) / 4;
    for (; blocks >= kLanes; blocks -= kLanes) {
        some_blocks<Row>(key, nonce, counter, out);
        counter += kLanes;
        out += kLanes * kChaChaBlockBytes;
    }
    if (blocks != 0) {
        std::uint8_t last[kLanes * kChaChaBlockBytes];
        some_blocks<Row>(key, nonce, counter, last);
        std::memcpy(out, last, blocks * kChaChaBlockBytes);
        wipe(last, sizeof last);
    }
}

#if DPCORE_DISPATCH_AVX2
[[gnu::target("avx2")]] void keystream_avx2(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter,
                                            std::uint8_t* out, std::size_t blocks) {
    keystream<Row8>(key, nonce, counter, out, blocks);
}
#endif

}  // namespace

bool uses_avx2() noexcept {
#if DPCORE_DISPATCH_AVX2
    static const bool has = [] {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
    }();
    return has;
#else
    return false;
#endif
}

void chacha20_keystream_portable(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter,
                                 std::uint8_t* out, std::size_t blocks) noexcept {
    keystream<Row4>(key, nonce, counter, out, blocks);
}

void chacha20_keystream(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter, std::uint8_t* out,
                        std::size_t blocks) noexcept {
#if DPCORE_DISPATCH_AVX2
    if (uses_avx2()) {
        keystream_avx2(key, nonce, counter, out, blocks);
        return;
    }
#endif
    keystream<Row4>(key, nonce, counter, out, blocks);
}

void wipe(void* memory, std::size_t bytes) noexcept {
    std::memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

// 4 KiB: the largest frame of the functions above takes 2.5 KiB (gcc 12, -fstack-usage).
[[gnu::noinline]] void wipe_stack() noexcept {
    unsigned char below[4096];
    wipe(below, sizeof below);
}

}  // namespace dpcore
