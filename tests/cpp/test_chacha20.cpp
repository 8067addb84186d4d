#include "dpcore/chacha20.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"

using dpcore::chacha20_keystream;
using dpcore::chacha20_keystream_portable;
using dpcore::ChaChaKey;
using dpcore::ChaChaNonce;

namespace {

std::string hex(const std::uint8_t* bytes, std::size_t count) {
    static const char* digits = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
        out += digits[bytes[i] >> 4];
        out += digits[bytes[i] & 15];
    }
    return out;
}

ChaChaKey key_from(const std::vector<int>& bytes) {
    ChaChaKey key;
    for (std::size_t i = 0; i < 32; ++i) key.words[i / 4] |= static_cast<std::uint32_t>(bytes[i]) << (8 * (i % 4));
    return key;
}

// RFC 8439 as it is printed: the reference of every path.
std::uint32_t rotate(std::uint32_t x, int n) { return (x << n) | (x >> (32 - n)); }
void quarter(std::uint32_t* x, int a, int b, int c, int d) {
    x[a] += x[b];
    x[d] = rotate(x[d] ^ x[a], 16);
    x[c] += x[d];
    x[b] = rotate(x[b] ^ x[c], 12);
    x[a] += x[b];
    x[d] = rotate(x[d] ^ x[a], 8);
    x[c] += x[d];
    x[b] = rotate(x[b] ^ x[c], 7);
}
void plain_block(const ChaChaKey& key, const ChaChaNonce& nonce, std::uint32_t counter, std::uint8_t* out) {
    std::uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (int i = 0; i < 8; ++i) start[4 + i] = key.words[i];
    start[12] = counter;
    for (int i = 0; i < 3; ++i) start[13 + i] = nonce[i];
    std::uint32_t x[16];
    std::memcpy(x, start, sizeof x);
    for (int i = 0; i < 10; ++i) {
        quarter(x, 0, 4, 8, 12);
        quarter(x, 1, 5, 9, 13);
        quarter(x, 2, 6, 10, 14);
        quarter(x, 3, 7, 11, 15);
        quarter(x, 0, 5, 10, 15);
        quarter(x, 1, 6, 11, 12);
        quarter(x, 2, 7, 8, 13);
        quarter(x, 3, 4, 9, 14);
    }
    for (int i = 0; i < 16; ++i) {
        x[i] += start[i];
        for (int b = 0; b < 4; ++b) out[4 * i + b] = static_cast<std::uint8_t>(x[i] >> (8 * b));
    }
}

}  // namespace

TEST(rfc_8439_section_2_3_2) {
    std::vector<int> bytes;
    for (int i = 0; i < 32; ++i) bytes.push_back(i);
    const ChaChaNonce nonce{0x09000000, 0x4a000000, 0};
    std::uint8_t out[64];
    chacha20_keystream(key_from(bytes), nonce, 1, out, 1);
    CHECK(hex(out, 64) ==
          "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
          "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e");
}

TEST(rfc_8439_appendix_a_1) {
    const std::vector<int> zeros(32, 0);
    std::uint8_t out[128];
    chacha20_keystream(key_from(zeros), ChaChaNonce{}, 0, out, 2);
    CHECK(hex(out, 64) ==
          "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
          "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
    CHECK(hex(out + 64, 64) ==
          "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
          "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
    std::vector<int> last = zeros;
    last[31] = 1;
    chacha20_keystream(key_from(last), ChaChaNonce{}, 1, out, 1);
    CHECK(hex(out, 64) ==
          "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
          "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0");
    const ChaChaNonce two{0, 0, 0x02000000};
    chacha20_keystream(key_from(zeros), two, 0, out, 1);
    CHECK(hex(out, 64) ==
          "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
          "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d");
}

TEST(every_path_and_length_equals_the_rfc) {
    ChaChaKey key;
    for (std::uint32_t i = 0; i < 8; ++i) key.words[i] = 0x9E3779B9U * (i + 1);
    const ChaChaNonce nonce{1, 2, 3};
    constexpr std::size_t kMost = 40;
    // The counter wraps inside the longer ones.
    for (const std::uint32_t counter : {0U, 1U, 0xFFFFFFF0U}) {
        std::vector<std::uint8_t> want(kMost * 64);
        for (std::uint32_t i = 0; i < kMost; ++i) plain_block(key, nonce, counter + i, want.data() + 64 * i);
        for (std::size_t blocks = 0; blocks <= kMost; ++blocks) {
            std::vector<std::uint8_t> fast(kMost * 64 + 1, 0xAA);
            std::vector<std::uint8_t> portable(kMost * 64 + 1, 0xAA);
            chacha20_keystream(key, nonce, counter, fast.data() + 1, blocks);  // unaligned on purpose
            chacha20_keystream_portable(key, nonce, counter, portable.data() + 1, blocks);
            CHECK(std::memcmp(fast.data() + 1, want.data(), 64 * blocks) == 0);
            CHECK(fast == portable);
            CHECK(blocks == kMost || fast[1 + 64 * blocks] == 0xAA);
        }
    }
}

TEST(keys_are_wiped) {
    alignas(ChaChaKey) unsigned char memory[sizeof(ChaChaKey)];
    auto* key = new (memory) ChaChaKey();
    key->words.fill(0x12345678);
    key->~ChaChaKey();
    unsigned char all = 0;
    const volatile unsigned char* seen = memory;
    for (std::size_t i = 0; i < sizeof memory; ++i) all = static_cast<unsigned char>(all | seen[i]);
    CHECK(all == 0);
}
