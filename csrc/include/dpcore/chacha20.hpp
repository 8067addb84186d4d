// The ChaCha20 key stream.
//
// Method:    the block function of RFC 8439 on four blocks at once, written with compiler vector types; an AVX2
//            build of the same code on eight blocks is chosen at run time where the processor has it.
// Domain:    any key, nonce and counter. The 32-bit block counter wraps modulo 2^32 as in the RFC; callers here
//            never come near it (a stream of this library ends below 2^20 blocks).
// Guarantee: byte for byte the key stream of RFC 8439, section 2.3, on every path. No branch and no memory
//            address depends on the key.
// Evidence:  tests/cpp/test_chacha20.cpp (the vectors of RFC 8439; every path against a plain transcription of the
//            RFC), tests/test_samplers_stream.py (OpenSSL, where present).
// Reference: Nir and Langley, RFC 8439 (2018); Bernstein, "ChaCha, a variant of Salsa20" (2008).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define DPCORE_DISPATCH_AVX2 1
#else
#define DPCORE_DISPATCH_AVX2 0
#endif

namespace dpcore {

constexpr std::size_t kChaChaBlockBytes = 64;

using ChaChaNonce = std::array<std::uint32_t, 3>;  // little-endian words of the 12-byte nonce

// Overwrites memory with zeros in a way the compiler must keep.
void wipe(void* memory, std::size_t bytes) noexcept;

// Overwrites the stack below the caller's frame, where the key stream's rounds leave copies of the key: registers
// that did not fit, which the compiler stores where no variable's destructor reaches.
void wipe_stack() noexcept;

// A key, wiped when it goes away.
struct ChaChaKey {
    std::array<std::uint32_t, 8> words{};  // little-endian words of the 32-byte key
    ChaChaKey() = default;
    ChaChaKey(const ChaChaKey&) = default;
    ChaChaKey& operator=(const ChaChaKey&) = default;
    ~ChaChaKey() { wipe(words.data(), sizeof words); }
};

// Writes `blocks` blocks of 64 bytes, the first with block counter `counter`.
void chacha20_keystream(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter, std::uint8_t* out,
                        std::size_t blocks) noexcept;

// As above on the portable path, whatever the processor: for tests that compare the paths.
void chacha20_keystream_portable(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter,
                                 std::uint8_t* out, std::size_t blocks) noexcept;

// True when code built for AVX2 and BMI2 is used here.
bool uses_avx2() noexcept;

}  // namespace dpcore
