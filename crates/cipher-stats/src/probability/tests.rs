//! Reference values of scipy 1.17.1.

use super::*;

#[track_caller]
fn near(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{got} is not {want}");
}

#[test]
fn normal_tails() {
    for (z, want) in [
        (0.0, 1.0),
        (0.5, 0.617_075_077_451_973_8),
        (1.959_963_984_540_054, 0.05),
        (-4.9, 9.583_665_531_806_37e-7),
        (8.0, 1.244_192_114_854_348e-15),
        (20.0, 5.507_248_237_212_311e-89),
    ] {
        near(two_sided_normal(z), want, 1e-9);
    }
}

#[test]
fn chi_square_tails() {
    for (value, degrees, want) in [
        (0.5, 1.0, 0.479_500_122_186_953_37),
        (3.0, 7.0, 0.885_002_231_643_150_6),
        (255.0, 255.0, 0.488_222_521_770_406_4),
        (400.0, 255.0, 1.660_002_524_412_339_8e-8),
        (1200.0, 255.0, 3.430_921_792_988_556_7e-122),
        (17284.0, 16384.0, 5.111_832_463_596_228e-7),
        (33000.0, 32768.0, 0.182_276_740_313_929_38),
        (31232.0, 32768.0, 0.999_999_999_448_643_4),
    ] {
        near(chi_square(value, degrees), want, 1e-6);
    }
    assert_eq!(chi_square(0.0, 5.0), 1.0);
    assert!(chi_square(1.0, 0.0).is_nan());
    assert!(chi_square(f64::NAN, 5.0).is_nan());
}

#[test]
fn poisson_tails() {
    for (count, mean, want) in [
        (0, 2.0, 0.270_670_566_473_225_4),
        (2, 2.0, 1.0),
        (20, 2.0, 1.288_746_278_622_420_3e-13),
        (128, 127.9, 1.0),
        (190, 128.0, 3.702_222_143_712_740_5e-7),
        (70, 128.0, 2.972_040_623_408_103_8e-8),
        (1, 1e-8, 1.999_999_989_999_995e-8),
    ] {
        near(two_sided_poisson(count, mean), want, 1e-6);
    }
}

#[test]
fn least_of_many() {
    near(least_of(1e-9, 16384.0), 1.638_386_579_119_687_3e-5, 1e-9);
    near(least_of(0.001, 10.0), 0.009_955_119_790_251_79, 1e-12);
    near(least_of(1e-20, 32768.0), 3.276_8e-16, 1e-12);
    assert_eq!(least_of(1.0, 5.0), 1.0);
}

#[test]
fn kolmogorov_tails() {
    for (x, want) in [
        (0.3, 0.999_990_694_198_665_5),
        (0.5, 0.963_945_243_664_875_1),
        (0.99, 0.280_873_839_225_548_9),
        (1.0, 0.269_999_671_677_354_56),
        (1.36, 0.049_485_876_755_377_876),
        (2.0, 0.000_670_925_255_779_695_3),
        (2.7, 9.311_431_431_566_156e-7),
    ] {
        near(kolmogorov(x), want, 1e-9);
    }
}

#[test]
fn distance_from_uniform() {
    // The exact probabilities of scipy; the correction is good to some percent.
    let slow: Vec<f64> = (0..57).map(|i| (f64::from(i) + 0.5) / 57.0 * 0.9).collect();
    let (distance, p) = uniform(&slow);
    near(distance, 0.107_894_736_842_105_27, 1e-12);
    near(p, 0.487_292_110_774_260_27, 0.03);
    let bent: Vec<f64> = (0..57).map(|i| ((f64::from(i) + 0.5) / 57.0).powi(2)).rev().collect();
    let (distance, p) = uniform(&bent);
    near(distance, 0.258_771_929_824_561_43, 1e-12);
    near(p, 0.000_744_087_694_741_435_4, 0.1);
}

#[test]
fn values_that_are_all_alike_are_not_uniform() {
    assert!(uniform(&[0.5; 60]).1 < 1e-6);
    assert!(uniform(&[1.0; 60]).1 < 1e-6);
    assert!(uniform(&[0.0; 60]).1 < 1e-6);
    assert_eq!(uniform(&[]), (0.0, 1.0));
    assert!(uniform(&[0.5, f64::NAN]).1.is_nan());
}
