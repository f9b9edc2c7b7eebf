//! Round trips by the number of the probe, as Figures 8 and 9 of paper 002 show them, on a logarithmic axis.

use std::error::Error;
use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot::{COLOURS, GREY, STYLE};

/// A plot before it is drawn.
pub struct Dots<'a> {
    /// The text above the plot.
    pub title: &'a str,
    /// Name and times in milliseconds, one a probe; none where no answer came.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

const SIZE: (u32, u32) = (900, 480);
const LEFT: i32 = 70;
const RIGHT: i32 = 880;
const TOP: i32 = 90;
const BOTTOM: i32 = 430;

impl Dots<'_> {
    /// Write the plot as an SVG file.
    ///
    /// # Errors
    /// Without any time, and as the file system says.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
        if let Some(at) = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1)) {
            svg.insert_str(at, STYLE);
        }
        Ok(std::fs::write(path, svg)?)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn Error>> {
        let times = || self.series.iter().flat_map(|(_, times)| times.iter().flatten().copied());
        let low = times().filter(|time| *time > 0.0).min_by(f64::total_cmp).ok_or("nothing was measured")?;
        let high = times().max_by(f64::total_cmp).ok_or("nothing was measured")?;
        let (low, high) = (low.log10().floor(), (high * 1.01).log10().ceil());
        let y = |time: f64| {
            let share = (time.max(1e-9).log10() - low) / (high - low);
            BOTTOM - (share * f64::from(BOTTOM - TOP)).round() as i32
        };
        let count = self.series.iter().map(|(_, times)| times.len()).max().unwrap_or(1).max(1);
        let x = |probe: usize| LEFT + ((probe as f64 + 0.5) / count as f64 * f64::from(RIGHT - LEFT)) as i32;
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let text = |what: &str, at: (i32, i32), side: HPos, size: f64| -> Result<(), Box<dyn Error>> {
            let style = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
            Ok(area.draw(&Text::new(what.to_owned(), at, style))?)
        };
        text(self.title, (SIZE.0 as i32 / 2, 20), HPos::Center, 21.0)?;
        for power in low as i32..=high as i32 {
            let time = 10f64.powi(power);
            let at = y(time);
            area.draw(&PathElement::new(vec![(LEFT, at), (RIGHT, at)], GREY.mix(0.5)))?;
            text(&format!("{time}"), (LEFT - 8, at), HPos::Right, 15.0)?;
        }
        text("round trip, ms (logarithmic); no dot: no answer", (LEFT, TOP - 16), HPos::Left, 15.0)?;
        text("probe", ((LEFT + RIGHT) / 2, BOTTOM + 34), HPos::Center, 16.0)?;
        for tenth in 0..=10 {
            let probe = count * tenth / 10;
            let at = LEFT + (RIGHT - LEFT) * tenth as i32 / 10;
            text(&format!("{probe}"), (at, BOTTOM + 14), HPos::Center, 14.0)?;
        }
        let step = (RIGHT - LEFT) / self.series.len().max(1) as i32;
        for (number, (name, times)) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let at = LEFT + step * number as i32;
            area.draw(&Circle::new((at, 48), 4, colour.filled()))?;
            text(name, (at + 8, 48), HPos::Left, 13.0)?;
            for (probe, time) in times.iter().enumerate() {
                if let Some(time) = time {
                    area.draw(&Circle::new((x(probe), y(*time)), 3, colour.filled()))?;
                }
            }
        }
        area.draw(&PathElement::new(vec![(LEFT, BOTTOM), (RIGHT, BOTTOM)], BLACK))?;
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_a_dot_and_a_lost_probe_is_none() {
        let series =
            vec![("one".to_owned(), vec![Some(0.1), None, Some(20.0)]), ("two".to_owned(), vec![None])];
        let mut dots = Dots { title: "A title", series };
        let path = std::env::temp_dir().join(format!("ravelin-dots-{}.svg", std::process::id()));
        dots.write(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // Two answers, and two marks of the legend.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(["A title", "one", "two"].iter().all(|text| svg.contains(text)));
        dots.series.clear();
        assert!(dots.write(&path).is_err());
    }
}
