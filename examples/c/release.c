/* Releases counts with exact noise and says what the releases cost. Plain C99. */
#include <dpcore/c_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void must(dpcore_status status) {
    if (status == DPCORE_OK) return;
    fprintf(stderr, "%s: %s\n", dpcore_status_name(status), dpcore_last_error());
    exit(1);
}

int main(void) {
    if (dpcore_abi_version() < DPCORE_ABI_VERSION) {
        fprintf(stderr, "the library is older than its header\n");
        return 1;
    }

    /* How much noise makes 4 releases of a count (1, 1e-6)-private? */
    double sigma = 0.0;
    must(dpcore_gaussian_sigma(1.0, 1e-6, 1.0, 4, &sigma));
    printf("sigma %.6f\n", sigma);

    dpcore_sampler* sampler = NULL;
    must(dpcore_discrete_gaussian_new(sigma, &sampler));
    const int64_t counts[4] = {120, 4711, 0, 35};
    int64_t released[4];
    must(dpcore_sampler_add_fill(sampler, NULL, counts, released, 4, 1));
    for (int i = 0; i < 4; ++i) printf("released %" PRId64 "\n", released[i]);
    dpcore_sampler_free(sampler);

    /* What they cost: integer noise of that sigma costs a little more than the continuous noise. Certified. */
    dpcore_loss *one = NULL, *all = NULL;
    must(dpcore_loss_from_discrete_gaussian(sigma, 1, &one));
    must(dpcore_loss_times(one, 4, &all));
    double lower = 0.0, upper = 0.0;
    must(dpcore_loss_epsilon(all, 1e-6, &lower, &upper));
    printf("epsilon at most %.6f\n", upper);
    dpcore_loss_free(all);
    dpcore_loss_free(one);

    /* A count against attackers who know at most half of 10000 records, of which 20 to 30 percent count; whatever
     * they know, (1, 1e-6)-differential privacy holds as well. */
    double scale = 0.0, delta = 0.0;
    must(dpcore_count_calibrate(0.2, 1e-6, 10000, 5000, 0.2, 0.3, 1.0, 1, &scale, &delta));
    printf("count noise %.6f\n", scale);
    dpcore_noise* noise = NULL;
    must(dpcore_gaussian_new(scale, 0.0, &noise));
    double noisy = 0.0;
    must(dpcore_noise_add(noise, NULL, 2417.0, &noisy));
    printf("noisy count %.1f\n", noisy);
    dpcore_noise_free(noise);

    /* Infinity instead of 1.0 asks for no such floor; a noise scale of 0 then means that none is needed. */
    must(dpcore_count_calibrate(1.0, 1e-6, 1000000, 500000, 0.3, 0.3, INFINITY, 1, &scale, &delta));
    if (scale != 0.0) return 1;

    /* Mistakes come back as a status and a message, never as a crash. */
    if (dpcore_discrete_laplace_new(-1.0, &sampler) == DPCORE_OK) return 1;
    printf("refused: %s\n", dpcore_last_error());
    return 0;
}
