// The functions of base/special.h, of float64: the coefficients are of Chebyshev polynomials and
// minimax polynomials fitted to values of 40 digits.
#include "backend/opencl/opencl_functions.h"

namespace snug {
namespace {

constexpr OpenClHelper kSpecial[] = {
    // A sum of Chebyshev polynomials of t from -1 to 1.
    {"chebyshev", R"(static $T chebyshev_$T(__constant $T* c, int n, $T t) {
  $T y = 0, before = 0;
  for (int k = n - 1; k > 0; --k) {
    const $T next = fma(2 * t, y, c[k] - before);
    before = y;
    y = next;
  }
  return fma(t, y, c[0] - before);
}
)"},
    {"horner", R"(static $T horner_$T(__constant $T* c, int n, $T x) {
  $T y = c[n - 1];
  for (int k = n - 2; k >= 0; --k) y = fma(y, x, c[k]);
  return y;
}
)"},
    // sin(pi (x + quadrants / 2)), pi times a remainder that is exact.
    {"sine_of_pi", R"(static $T sine_of_pi_$T($T x, int quadrants) {
  const $T r = x - 2 * rint($(0.5) * x), n = rint(2 * r);
  return $sine((int)n + quadrants, (r - $(0.5) * n) * $(3.141592653589793238));
}
)"},
    // log(gamma(x)) less (x - 0.5) log(x) - x + log(2 pi) / 2, for x of at least 8.
    {"stirling_rest", R"(__constant $T stirling_of[8] = {
    0.08333333333333333, -0.0027777777777776747, 0.0007936507935117282, -0.0005952380234291254,
    0.0008417325268022405, -0.001914965912162907, 0.0062081367662297935, -0.020855820837463113};
static $T stirling_rest_$T($T x) {
  const $T r = 1 / x;
  return r * $horner(stirling_of, 8, r * r);
}
)"},
    // In two factors, since the product may be too large.
    {"gamma_positive", R"(__constant $T gamma_of[23] = {
    0.9417855977954946, 0.004415381324841007, 0.05685043681599363, -0.00421983539641856,
    0.0013268081812124603, -0.00018930245297988805, 3.606925327441245e-05, -6.056761904460864e-06,
    1.0558295463022833e-06, -1.811967365542384e-07, 3.117724964715322e-08, -5.354219639019687e-09,
    9.193275519859589e-10, -1.5779412802883398e-10, 2.7079806229349544e-11, -4.64681865382573e-12,
    7.97335019200742e-13, -1.368078209830916e-13, 2.3473194865638007e-14, -4.027432614949067e-15,
    6.910051747372101e-16, -1.185584500221993e-16, 2.034148542496374e-17};
static $T gamma_positive_$T($T x, $T* rest) {
  *rest = 1;
  if (x >= 8) {
    *rest = $pow(x, fma($(0.5), x, $(-0.25)));
    return *rest * $exp(-x) * ($(2.506628274631000502) * $exp($stirling_rest(x)));
  }
  $T product = 1;
  for (; x > 2; product *= x) x -= 1;
  if (x < 1) return $chebyshev(gamma_of, 23, 2 * x - 1) / x;
  return product * $chebyshev(gamma_of, 23, 2 * x - 3);
}
)"},
    {"gamma", R"(static $T gamma_$T($T x) {
  $T rest;
  if (x > 0) {
    if (x > 200) return x < INFINITY ? INFINITY : x;
    const $T y = $gamma_positive(x, &rest);
    return y * rest;
  }
  if (x == 0) return 1 / x;
  if (isnan(x) || floor(x) == x) return NAN;
  if (x > $(-8e-17)) return 1 / x;
  if (x < -190) return $(0.0) * $sine_of_pi(x, 0);
  const $T y = $gamma_positive(-x, &rest);
  return $(-3.141592653589793238) / (x * $sine_of_pi(x, 0) * y) / rest;
}
)"},
    // Of 1 + u = 2 + v, from 1 to 2.
    {"gammaln_above_1", R"(__constant $T gammaln_of[22] = {
    0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608,
    0.00014900748003692963, -2.1512399888556784e-05, 3.1979329860862186e-06,
    -4.851693012139927e-07, 7.47148782116316e-08, -1.1638296700170518e-08, 1.829400437118668e-09,
    -2.8969180607129607e-10, 4.61570140620909e-11, -7.392810230497983e-12, 1.1894280008333085e-12,
    -1.9212068676522805e-13, 3.113975526387164e-14, -5.0628432984486114e-15,
    8.254150281631144e-16, -1.3490578987574844e-16, 2.209876116782623e-17,
    -3.6274129549239766e-18};
static $T gammaln_above_1_$T($T u, $T v) {
  return fma(u * v, $chebyshev(gammaln_of, 22, 2 * u - 1), $(0.0));
}
)"},
    {"gammaln_positive", R"(static $T gammaln_positive_$T($T x) {
  if (x >= 8) return fma(x - $(0.5), $log(x) - 1, $(0.4189385332046727418) + $stirling_rest(x));
  $T product = 1;
  for (; x > 2; product *= x) x -= 1;
  if (x < 1) return $gammaln_above_1(x, x - 1) - $log(x);
  const $T y = $gammaln_above_1(x - 1, x - 2);
  return product == 1 ? y : y + $log(product);
}
)"},
    // Beside its zeros the product is near 1, so it has twice the digits.
    {"gammaln", R"(static $T gammaln_$T($T x) {
  if (x > 0) return x < INFINITY ? $gammaln_positive(x) : x;
  if (isnan(x)) return x;
  if (floor(x) == x) return INFINITY;
  if (x > -20) {
    const $T u = x - floor(x);
    $T product = u, lost = 0;
    for (; x < 0; x += 1) {
      const $T next = product * x;
      lost = fma(lost, x, fma(product, x, -next));
      product = next;
    }
    return $gammaln_above_1(u, u - 1) - ($log(fabs(product)) + lost / product);
  }
  return $log($(3.141592653589793238) / fabs(x * $sine_of_pi(x, 0))) - $gammaln_positive(-x);
}
)"},
    // Of 1 + u from 1 to 2; the distance from the root is a factor.
    {"digamma_above_1", R"(__constant $T digamma_of[23] = {
    0.983570260441567, -0.2270640863346444, 0.03336889902393011, -0.005320077271596548,
    0.0008788656937820505, -0.00014773492650606044, 2.5060543468359146e-05,
    -4.2721034029993324e-06, 7.302769272465923e-07, -1.2502886813559594e-07,
    2.1425009322359472e-08, -3.673295918565179e-09, 6.299717236108931e-10, -1.080593028883266e-10,
    1.853735192053638e-11, -3.18023536582553e-12, 5.456147570322795e-13, -9.360993131036438e-14,
    1.606064636295075e-14, -2.7555431377438815e-15, 4.727736178601912e-16, -8.11148420346509e-17,
    1.391707769474154e-17};
static $T digamma_above_1_$T($T u) {
  const $T from_root = u - $(0.46163214496836225) - $(9.549995429965697e-17);
  return from_root * $chebyshev(digamma_of, 23, 2 * u - 1);
}
)"},
    {"digamma_positive", R"(__constant $T digamma_far[9] = {
    0.08333333333333333, -0.008333333333333273, 0.003968253968150779, -0.0041666665982644955,
    0.007575734736252119, -0.021088476563015532, 0.08284662584146767, -0.4103919397123186,
    1.772343884803876};
static $T digamma_positive_$T($T x) {
  if (x >= 8) {
    const $T r = 1 / x, z = r * r;
    return $log(x) - fma(z, $horner(digamma_far, 9, z), $(0.5) * r);
  }
  if (x < 1) return $digamma_above_1(x) - 1 / x;
  $T sum = 0;
  for (; x > 2; sum += 1 / x) x -= 1;
  return $digamma_above_1(x - 1) + sum;
}
)"},
    {"digamma", R"(static $T digamma_$T($T x) {
  if (x > 0) return x < INFINITY ? $digamma_positive(x) : x;
  if (x == 0) return -1 / x;
  if (isnan(x) || floor(x) == x) return NAN;
  if (x < -20)
    return $digamma_positive(-x) - 1 / x -
           $(3.141592653589793238) * $sine_of_pi(x, 1) / $sine_of_pi(x, 0);
  const $T u = x - floor(x);
  $T sum = -1 / u, lost = -fma(sum, u, $(1.0)) / u;
  for (; x < 0; x += 1) {
    const $T r = 1 / x, next = sum - r, of_r = sum - next;
    lost += (sum - (next + of_r)) + (of_r - r) - fma(-r, x, $(1.0)) * r;
    sum = next;
  }
  return $digamma_above_1(u) + sum + lost;
}
)"},
    {"trigamma_positive", R"(__constant $T trigamma_far[9] = {
    0.16666666666666666, -0.0333333333333322, 0.023809523807580096, -0.03333333204380414,
    0.07575714459070881, -0.25303182992145234, 1.1574253415441726, -6.4640994255594775,
    30.16232499270368};
static $T trigamma_positive_$T($T x) {
  $T sum = 0;
  for (; x < 8; x += 1) sum += 1 / (x * x);
  const $T r = 1 / x, z = r * r;
  return sum + fma(r * z, $horner(trigamma_far, 9, z), fma($(0.5), z, r));
}
)"},
    {"trigamma", R"(static $T trigamma_$T($T x) {
  if (x > 0) return $trigamma_positive(x);
  if (isnan(x)) return x;
  if (floor(x) == x) return INFINITY;
  const $T y = $(3.141592653589793238) / $sine_of_pi(x, 0);
  return fma(y, y, -$trigamma_positive(1 - x));
}
)"},
    // The sum of (x / (x + k))^s, by Euler and Maclaurin.
    {"zeta_terms", R"(__constant $T zeta_of[12] = {
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18,
    -1.3954464685812522e-19};
static $T zeta_terms_$T($T s, $T x) {
  $T sum = 0, a = x;
  for (int k = 0; k < 10; ++k, a += 1) sum += $pow(x / a, s);
  const $T r = 1 / a, power = $pow(x / a, s);
  $T tail = $(0.5) + a / (s - 1), term = s * r;
  for (int k = 0; k < 12; ++k) {
    tail = fma(zeta_of[k], term, tail);
    term *= (s + 2 * k + 1) * (s + 2 * k + 2) * r * r;
  }
  return fma(power, tail, sum);
}
)"},
    // Without its sign. For large n the factor gamma(s) x^-s is a power of 16.
    {"polygamma_positive", R"(static $T polygamma_positive_$T($T n, $T x) {
  const $T s = n + 1, y = $zeta_terms(s, x);
  if (n < 20) return $gamma(s) * $pow(x, -s) * y;
  $T root = $pow(s, s * $(0.0625)) * $exp(s * $(-0.0625)) * $pow(x, s * $(-0.0625));
  root *= root;
  root *= root;
  root *= root;
  return root * $(2.506628274631000502) / sqrt(s) * $exp($stirling_rest(s)) * root * y;
}
)"},
    {"polygamma", R"(static $T polygamma_$T($T n, $T x) {
  if (isnan(x) || !(n >= 0 && n <= 1000 && floor(n) == n)) return NAN;
  if (n == 0) return $digamma(x);
  if (n == 1) return $trigamma(x);
  const int odd = n != 2 * floor($(0.5) * n);
  const $T sign = odd ? 1 : -1;
  if (x > 0) return x < INFINITY ? sign * $polygamma_positive(n, x) : sign * $(0.0);
  if (x == 0) return odd ? INFINITY : copysign(($T)INFINITY, -x);
  if (floor(x) == x) return odd ? INFINITY : NAN;
  const $T near = x - rint(x);
  const $T above = $polygamma_positive(n, near > 0 ? near : 1 + near);
  const $T below = $polygamma_positive(n, near > 0 ? 1 - near : -near);
  const $T both = odd ? above + below : fabs(near) == $(0.5) ? 0 : below - above;
  return both - $polygamma_positive(n, 1 - x);
}
)"},
    // For p up to 1/2, by Newton's steps on the logarithm.
    {"erfcinv_tail", R"(static $T erfcinv_tail_$T($T p) {
  const $T l = $log(p), both = $log(p * (2 - p)), k = fma($(0.5), both, $(4.330746750799873));
  $T y = sqrt(sqrt(fma(k, k, both * $(-6.802721088435374))) - k);
  for (int step = 0; step < 4; ++step) {
    const $T e = $erfcx(y);
    y = fma($(0.8862269254527580137) * e, $log(e) - fma(y, y, l), y);
  }
  return y;
}
)"},
    // For |x| up to 1/2.
    {"erfinv_near", R"(static $T erfinv_near_$T($T x) {
  const $T z = x * x;
  $T y = x * fma(fma(fma(z, $(0.0865787690), $(0.1275561753)), z, $(0.2320136665)), z, $(0.8862269254527580137));
  for (int step = 0; step < 3; ++step)
    y = fma((x - $erf(y)) * $(0.8862269254527580137), $exp(y * y), y);
  return y;
}
)"},
    {"erfinv", R"(static $T erfinv_$T($T x) {
  const $T ax = fabs(x);
  if (!(ax < 1)) return ax == 1 ? copysign(($T)INFINITY, x) : NAN;
  if (ax < $(1e-300)) return x * $(0.8862269254527580137);
  return ax <= $(0.5) ? $erfinv_near(x) : copysign($erfcinv_tail(1 - ax), x);
}
)"},
    {"erfcinv", R"(static $T erfcinv_$T($T x) {
  if (!(x > 0 && x < 2)) return x == 0 ? INFINITY : x == 2 ? -INFINITY : NAN;
  if (x < $(0.5)) return $erfcinv_tail(x);
  return x > $(1.5) ? -$erfcinv_tail(2 - x) : $erfinv_near(1 - x);
}
)"},
    {"j0", R"(__constant $T j0_near[17] = {
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17};
__constant $T j0_p[13] = {
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16,
    -1.0011513723467786e-16, 1.6305919233744186e-17};
__constant $T j0_q[16] = {
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18,
    1.0473158973776097e-18};
static $T j0_$T($T x) {
  const $T ax = fabs(x);
  if (isinf(x)) return 0;
  if (!(ax > 8)) return $chebyshev(j0_near, 17, fma(ax, ax * $(0.03125), $(-1.0)));
  const $T r = 1 / ax, t = fma(r, r * 128, $(-1.0)), s = $sin(ax), c = $cos(ax);
  const $T p = $chebyshev(j0_p, 13, t), q = r * $chebyshev(j0_q, 16, t);
  const $T y = fma(s + c, p, (c - s) * q) * ($one_over_root_pi / sqrt(ax));
  return y;
}
)"},
    {"i0", R"(__constant $T i0_near[30] = {
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18};
__constant $T i0_far[25] = {
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15,
    1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18};
static $T i0_$T($T x) {
  const $T ax = fabs(x);
  if (!(ax > 8)) return $exp(ax) * $chebyshev(i0_near, 30, fma($(0.25), ax, $(-1.0)));
  if (isinf(x)) return ax;
  const $T e = $exp($(0.5) * ax);
  return (e / sqrt(ax) * $chebyshev(i0_far, 25, 16 / ax - 1)) * e;
}
)"},
    {"j1", R"(__constant $T j1_near[16] = {
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15,
    -2.4441972916190464e-17};
__constant $T j1_p[13] = {
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16,
    1.0667689114335412e-16, -1.7312313216116335e-17};
__constant $T j1_q[15] = {
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18};
static $T j1_$T($T x) {
  const $T ax = fabs(x);
  if (isinf(x)) return copysign($(0.0), x);
  if (!(ax > 8)) return x * $chebyshev(j1_near, 16, fma(ax, ax * $(0.03125), $(-1.0)));
  const $T r = 1 / ax, t = fma(r, r * 128, $(-1.0)), s = $sin(ax), c = $cos(ax);
  const $T p = $chebyshev(j1_p, 13, t), q = r * $chebyshev(j1_q, 15, t);
  const $T y = fma(s - c, p, (s + c) * q) * ($one_over_root_pi / sqrt(ax));
  return copysign($(1.0), x) * y;
}
)"},
    {"i1", R"(__constant $T i1_near[29] = {
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18};
__constant $T i1_far[25] = {
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
    4.414348323071708e-18, 7.517296310842105e-18};
static $T i1_$T($T x) {
  const $T ax = fabs(x);
  if (!(ax > 8)) return x * $exp(ax) * $chebyshev(i1_near, 29, fma($(0.25), ax, $(-1.0)));
  if (isinf(x)) return x;
  const $T e = $exp($(0.5) * ax);
  return copysign($(1.0), x) * (e / sqrt(ax) * $chebyshev(i1_far, 25, 16 / ax - 1)) * e;
}
)"},
    // As in base/special.h.
    {"betaln", R"(static $T betaln_$T($T x, $T y) {
  if (isnan(x) || isnan(y)) return NAN;
  $T a = x > y ? y : x, b = x > y ? x : y;
  if (a <= 0 && floor(a) == a) {
    if (!(floor(b) == b && b > 0 && a + b < 1)) return INFINITY;
    const $T other = 1 - a - b;
    a = other > b ? b : other;
    b = other > b ? other : b;
  }
  if (!(a > 0)) return $gammaln(a) + $gammaln(b) - $gammaln(a + b);
  if (isinf(b)) return -INFINITY;
  if (b < 10) return $gammaln(a) + ($gammaln(b) - $gammaln(a + b));
  const $T ratio = a / b, rest = $stirling_rest(b) - $stirling_rest(a + b);
  if (a < 10)
    return $gammaln(a) + rest + a - a * $log(b) - (a + b - $(0.5)) * $log1p(ratio);
  return $(0.5) * ($(1.8378770664093454836) - $log(b)) + $stirling_rest(a) + rest +
         (a - $(0.5)) * $log(ratio / (1 + ratio)) - b * $log1p(ratio);
}
)"},
    // log(1 + x) - x
    {"log1p_rest", R"(static $T log1p_rest_$T($T x) {
  if (fabs(x) > $(0.4)) return $log1p(x) - x;
  const $T s = x / (2 + x), z = s * s;
  $T y = $(0.037037037037037035);
  for (int k = 25; k > 2; k -= 2) y = fma(y, z, 1 / ($T)k);
  return s * fma(2 * z, y, -x);
}
)"},
    // x^k e^-x / gamma(k + 1)
    {"gamma_density", R"(static $T gamma_density_$T($T k, $T x) {
  if (k < 8) return x > 800 ? 0 : $pow(x, k) * $exp(-x) / $gamma(k + 1);
  const $T far = (x - k) / k;
  const $T y = far < $(-0.4) ? $log(x / k) - far : $log1p_rest(far);
  return $exp(k * y) / (sqrt(k) * ($(2.506628274631000502) * $exp($stirling_rest(k))));
}
)"},
    // By its series, for x below k + 1.
    {"gammainc_lower", R"(static $T gammainc_lower_$T($T k, $T x) {
  $T sum = 1, term = 1;
  for (int n = 1; n < 10000 && term > sum * $(1e-17); ++n) {
    term *= x / (k + n);
    sum += term;
  }
  return $gamma_density(k, x) * sum;
}
)"},
    // By a continued fraction, for x from k + 1 on.
    {"gammaincc_upper", R"(static $T gammaincc_upper_$T($T k, $T x) {
  $T b = x + 1 - k, c = $(1e300), d = 1 / b, y = d, change = 0;
  for (int n = 1; n < 10000 && fabs(change - 1) > $(1e-16); ++n) {
    const $T a = n * (k - n);
    b += 2;
    d = 1 / fma(a, d, b);
    c = b + a / c;
    change = c * d;
    y *= change;
  }
  return $gamma_density(k, x) * k * y;
}
)"},
    // For large k by Temme's expansion: the upper part for sign 1, the lower one for -1.
    {"gammainc_large", R"(__constant $T gammainc_of[64] = {
    -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
    0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
    -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
    0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
    -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
    1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09,
    4.162792991842583e-10, 0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
    2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
    -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
    -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
    -1.409252991086752e-08, 6.228974084922022e-09, -1.3670488396617114e-09, 9.428356159014678e-13,
    0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
    -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05,
    -5.6749528269915965e-06, 1.4230900732435883e-06, -2.7861080291528143e-11,
    -1.6958404091930278e-07, 8.099464905388083e-08, -1.9111168485973655e-08,
    2.3928620439808118e-12, 2.0620131815488797e-09, -9.460496661855133e-10};
static $T gammainc_large_$T($T k, $T x, $T sign) {
  const $T far = (x - k) / k, square = -2 * (far < $(-0.4) ? $log(x / k) - far : $log1p_rest(far));
  const $T eta = copysign(sqrt(square), far);
  $T sum = 0;
  for (int j = 3; j >= 0; --j) sum = sum / k + $horner(gammainc_of + 16 * j, 16, eta);
  const $T rest = $exp($(-0.5) * k * square) / sqrt($(6.283185307179586477) * k) * sum;
  return $(0.5) * $erfc(sign * eta * sqrt($(0.5) * k)) + sign * rest;
}
)"},
    {"gammainc", R"(static $T gammainc_$T($T k, $T x) {
  if (!(k >= 0 && x >= 0)) return NAN;
  if (k == 0) return x > 0 ? 1 : NAN;
  if (isinf(k)) return isinf(x) ? NAN : 0;
  if (isinf(x)) return 1;
  if (x == 0) return 0;
  if (k >= $(1e4) && fabs(x - k) < $(0.4) * k) return $gammainc_large(k, x, -1);
  return x < k + 1 ? $gammainc_lower(k, x) : 1 - $gammaincc_upper(k, x);
}
)"},
    {"gammaincc", R"(static $T gammaincc_$T($T k, $T x) {
  if (!(k >= 0 && x >= 0)) return NAN;
  if (k == 0) return x > 0 ? 0 : NAN;
  if (isinf(k)) return isinf(x) ? NAN : 1;
  if (isinf(x)) return 0;
  if (x == 0) return 1;
  if (k >= $(1e4) && fabs(x - k) < $(0.4) * k) return $gammainc_large(k, x, 1);
  if (x >= k + 1) return $gammaincc_upper(k, x);
  if (k >= 1) return 1 - $gammainc_lower(k, x);
  $T sum = 0, term = 1;
  for (int n = 1; n < 40; ++n) {
    term *= -x / n;
    sum += term * k / (k + n);
  }
  const $T l = fma(k, $log(x), -$gammaln_above_1(k, k - 1));
  return -$expm1(l) - $exp(l) * sum;
}
)"},
    // The power series of I (sign 1) and of J (sign -1) of order v, where terms do not cancel.
    {"bessel_series", R"(static $T bessel_series_$T($T v, $T x, $T sign) {
  const $T z = $(0.25) * x * x;
  $T sum = 1, term = 1, scale = 0;
  for (int k = 1; k < 200000; ++k) {
    term *= sign * z / (k * (v + k));
    sum += term;
    if (v + k > 0 && fabs(term) < $(1e-17) * fabs(sum)) break;
    if (fabs(sum) > $(1e250)) {
      sum *= $(1e-250);
      term *= $(1e-250);
      scale += $(575.6462732485114210);
    }
  }
  const $T half_x = $(0.5) * x;
  if (v >= 8 && scale == 0) {
    const $T density = $gamma_density(v, half_x);
    if (density > $(1e-280)) return half_x < 700 ? density * $exp(half_x) * sum
                                                 : density * $exp($(0.5) * half_x) * sum * $exp($(0.5) * half_x);
  } else if (fabs(v) < 8 && scale == 0) {
    return $pow(half_x, v) / $gamma(v + 1) * sum;
  }
  const $T turn = v < -1 ? copysign($(1.0), -$sine_of_pi(v, 0)) : 1;
  return turn * copysign($exp(scale + v * $log(half_x) - $gammaln(v + 1) + $log(fabs(sum))), sum);
}
)"},
    // K e^-64, the integral of exp(-x cosh t) cosh(v t); sums of such a function converge at once.
    {"bessel_k", R"(static $T bessel_k_$T($T v, $T x) {
  const $T width = 1 / sqrt(sqrt(x * x + v * v)), h = width < $(0.5) ? $(0.25) * width : $(0.125);
  $T sum = $(0.5) * $exp(-x - 64), most = -x;
  for (int k = 1; k < 100000; ++k) {
    const $T t = k * h, part = v * t - x * $cosh(t);
    sum += $exp(part - 64) * $(0.5) * (1 + $exp(-2 * v * t));
    if (part < most - 40) break;
    most = part > most ? part : most;
  }
  return h * sum;
}
)"},
    {"iv", R"(static $T iv_$T($T order, $T x) {
  if (isnan(order) || isnan(x)) return NAN;
  const int whole = floor(order) == order, odd = whole && rint($(0.5) * order) != $(0.5) * order;
  if (x < 0 && !whole) return NAN;
  const $T v = fabs(order), sign = x < 0 && odd ? -1 : 1, z = fabs(x);
  if (isinf(x)) return sign * INFINITY;
  if (x == 0)
    return order == 0 ? 1 : order > 0 || whole ? 0 : copysign(($T)INFINITY, $gamma(order + 1));
  if (isinf(v)) return 0;
  const $T r = v / z;
  const $T l = r < $(1e9) ? z * (sqrt(r * r + 1) - r * $asinh(r))
                          : v * ($(0.3068528194400546906) - $log(v) + $log(z));
  if (l > 760) return sign * INFINITY;
  const int with_k = order < 0 && !whole;
  if (!with_k && l < -800) return sign * $(0.0);
  if (v > $(1e5)) return NAN;
  const $T y = v == 0 || l >= -800 ? sign * $bessel_series(v, z, 1) : 0;
  if (!with_k) return y;
  const $T k = $bessel_k(v, z) * ($(0.6366197723675813431) * $sine_of_pi(v, 0));
  return fma(k, $(6.235149080811616882909239e27), y);
}
)"},
    // J of order v below 2 by its asymptotic series, for x from 25 on.
    {"hankel", R"(static $T hankel_$T($T v, $T x) {
  const $T r = $(0.125) / x, mu = 4 * v * v;
  $T p = 1, q = 0, term = 1;
  for (int k = 1; k < 60; ++k) {
    const $T odd = 2 * k - 1, next = term * (mu - odd * odd) * r / k;
    if (fabs(next) < $(1e-18) || fabs(next) > fabs(term)) break;
    term = next;
    if (k & 1) q += k & 2 ? -term : term;
    else p += k & 2 ? -term : term;
  }
  const $T a = fma($(0.5), v, $(0.25)), ca = $sine_of_pi(a, 1), sa = $sine_of_pi(a, 0);
  const $T c = $cos(x), s = $sin(x);
  return sqrt($(0.6366197723675813431) / x) * (p * fma(c, ca, s * sa) - q * fma(s, ca, -c * sa));
}
)"},
    // J of order mu + n, by recurrence from an order where it is next to nothing; a sum of all is
    // known.
    {"bessel_j_down", R"(static $T bessel_j_down_$T($T mu, int n, $T x) {
  const $T far = n > x ? n : x;
  const int m = ((int)(far + 12 * $exp($log(far) / 3)) + 30) / 2;
  $T weight = 1, sum = 0, above = 0, f = $(1e-280), wanted = 0;
  for (int j = 1; j < m; ++j) weight *= (mu + j) / (j + 1);
  for (int k = 2 * m; k >= 0; --k) {
    if (k == n) wanted = f;
    if (k == 0) break;
    if (!(k & 1)) {
      sum += (mu + k) * weight * f;
      weight *= (k / 2) / (mu + k / 2 - 1);
    }
    const $T below = 2 * (mu + k) / x * f - above;
    above = f;
    f = below;
    if (fabs(f) > $(1e200)) {
      f *= $(1e-200);
      above *= $(1e-200);
      sum *= $(1e-200);
      wanted *= $(1e-200);
    }
  }
  return wanted / (sum + f) * ($pow($(0.5) * x, mu) / $gamma(mu + 1));
}
)"},
    // Of order v >= 0 and x > 0.
    {"bessel_j_positive", R"(static $T bessel_j_positive_$T($T v, $T x) {
  if (x * x < 4 * (v + 1)) return $bessel_series(v, x, -1);
  if (x < v) {
    const $T r = x / v, w = sqrt((1 - r) * (1 + r));
    if (v * (w - $log((1 + w) / r)) < -800) return 0;
  }
  const int n = (int)v;
  const $T mu = v - n;
  if (x < 25 || x < v) return $bessel_j_down(mu, n, x);
  $T f = $hankel(mu, x), next = $hankel(mu + 1, x);
  for (int k = 1; k <= n; ++k) {
    const $T above = 2 * (mu + k) / x * next - f;
    f = next;
    next = above;
  }
  return f;
}
)"},
    {"jv", R"(static $T jv_$T($T order, $T x) {
  if (isnan(order) || isnan(x)) return NAN;
  if (order == 0) return $j0(x);
  if (order == 1) return $j1(x);
  const int whole = floor(order) == order, odd = whole && rint($(0.5) * order) != $(0.5) * order;
  if (x < 0 && !whole) return NAN;
  if (isinf(x)) return 0;
  const $T v = fabs(order), z = fabs(x);
  if (x == 0) return order > 0 || whole ? 0 : copysign(($T)INFINITY, $gamma(order + 1));
  if (v > $(1e5)) return (order > 0 || whole) && z < $(0.9) * v ? 0 : NAN;
  if (order > 0 || whole) {
    const $T y = $bessel_j_positive(v, z);
    return odd && (x < 0) != (order < 0) ? -y : y;
  }
  $T k = order - floor(order), above = $bessel_j_positive(k + 1, z), f = $bessel_j_positive(k, z);
  for (; k > order + $(0.5); k -= 1) {
    const $T below = 2 * k / z * f - (isinf(f) ? 0 : above);
    above = f;
    f = below;
  }
  return f;
}
)"},
};

}  // namespace

std::span<const OpenClHelper> special_opencl_functions() { return kSpecial; }

}  // namespace snug
