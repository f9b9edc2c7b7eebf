//! Drawings as SVG inside the page.

use std::fmt::Write;

/// Width and height of the area of a drawing.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 180.0;
/// Room for words at the left and below.
const LEFT: f64 = 50.0;
const BELOW: f64 = 34.0;

/// Values of both axes, and where they are drawn.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        let share = ((value - self.y.0) / (self.y.1 - self.y.0)).clamp(0.0, 1.0);
        10.0 + (1.0 - share) * HEIGHT
    }

    /// Begin a drawing: frame, ends of the axes, words below.
    fn begin(&self, out: &mut String, title: &str, below: &str) {
        let (width, height) = (LEFT + WIDTH + 20.0, HEIGHT + BELOW + 10.0);
        let (bottom, right) = (HEIGHT + 10.0, LEFT + WIDTH);
        let _ = writeln!(
            out,
            "<svg width=\"{width}\" height=\"{height}\" role=\"img\" font-size=\"12\"><title>{title}</title>\
             <path d=\"M{LEFT} 10V{bottom}H{right}\" fill=\"none\" stroke=\"#444\"/>\
             <text x=\"{}\" y=\"20\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">{}</text>\
             <text x=\"{LEFT}\" y=\"{}\">{}</text><text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{below}</text>",
            LEFT - 6.0,
            self.y.1,
            LEFT - 6.0,
            self.y.0,
            bottom + 16.0,
            self.x.0,
            bottom + 16.0,
            self.x.1,
            LEFT + WIDTH / 2.0,
            bottom + 30.0,
        );
    }

    fn line(&self, out: &mut String, points: impl IntoIterator<Item = (f64, f64)>, colour: &str) {
        let points: Vec<String> =
            points.into_iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y))).collect();
        let _ =
            writeln!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>", points.join(" "));
    }
}

/// The share of output bits that changed, for each flipped bit.
pub fn by_bit(out: &mut String, what: &str, shares: &[f64]) {
    let furthest = shares.iter().map(|share| (share - 0.5).abs()).fold(0.005, f64::max);
    let reach = (furthest * 100.0).ceil() / 100.0;
    let last = shares.len().saturating_sub(1).max(1) as f64;
    let axes = Axes { x: (0.0, last), y: (0.5 - reach, 0.5 + reach) };
    axes.begin(out, "Share of output bits that changed", &format!("flipped {what} bit"));
    axes.line(out, [(0.0, 0.5), (last, 0.5)], "#a31515");
    axes.line(out, (0u32..).zip(shares).map(|(bit, share)| (f64::from(bit), *share)), "#2458a8");
    out.push_str("</svg>\n");
}

/// How often so many output bits changed, and what the binomial distribution expects.
pub fn weights(out: &mut String, weights: &[u64]) {
    let bits = weights.len().saturating_sub(1) as f64;
    let total = weights.iter().sum::<u64>() as f64;
    if bits < 1.0 || total < 1.0 {
        return;
    }
    let mut expected = vec![0.5f64.powf(bits) * total];
    for weight in 1..weights.len() {
        let weight = weight as f64;
        expected.push(expected.last().copied().unwrap_or_default() * (bits - weight + 1.0) / weight);
    }
    let most = weights.iter().map(|count| *count as f64).chain(expected.iter().copied()).fold(1.0, f64::max);
    let axes = Axes { x: (0.0, bits), y: (0.0, most.ceil()) };
    axes.begin(out, "Number of output bits that changed", "output bits that changed (red: expected)");
    axes.line(out, (0u32..).zip(expected).map(|(weight, count)| (f64::from(weight), count)), "#a31515");
    axes.line(
        out,
        (0u32..).zip(weights).map(|(weight, count)| (f64::from(weight), *count as f64)),
        "#2458a8",
    );
    out.push_str("</svg>\n");
}

/// The p values in order, beside the uniform distribution.
pub fn p_values(out: &mut String, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len().max(1) as f64;
    let axes = Axes { x: (0.0, 1.0), y: (0.0, 1.0) };
    axes.begin(out, "Distribution of p values", "p value (red: uniform)");
    axes.line(out, [(0.0, 0.0), (1.0, 1.0)], "#a31515");
    let steps = (0u32..)
        .zip(&sorted)
        .flat_map(|(index, p)| [(*p, f64::from(index) / count), (*p, f64::from(index + 1) / count)]);
    axes.line(out, [(0.0, 0.0)].into_iter().chain(steps).chain([(1.0, 1.0)]), "#2458a8");
    out.push_str("</svg>\n");
}
