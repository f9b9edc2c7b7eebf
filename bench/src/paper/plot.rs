//! Plots as SVG, for pages of light and of dark background: one row a category, one mark a series, with the range of the rounds.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::fs;
use std::path::Path;

/// A measured value with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// The value of the lowest round.
    pub min: f64,
    /// The median of the rounds.
    pub value: f64,
    /// The value of the highest round.
    pub max: f64,
}

/// A plot before it is drawn: a row for each category, a mark in it for each series.
pub struct Plot<'a> {
    /// The text above the plot.
    pub title: &'a str,
    /// The text below the axis, with its unit.
    pub axis: &'a str,
    /// Whether the axis is logarithmic; else it starts at zero, or at what is less.
    pub log: bool,
    /// The names of the rows, from the top.
    pub categories: Vec<&'a str>,
    /// Name and marks, one a category; none where nothing was measured.
    pub series: Vec<(String, Vec<Option<Mark>>)>,
}

const WIDTH: u32 = 900;
/// Pixels of a row, without and for each series.
const ROW: (u32, u32) = (14, 9);
/// Pixels above the rows (title and legend), and below them (axis).
const ABOVE: u32 = 72;
const BELOW: u32 = 58;
/// Pixels of the categories' names, and right of the axis.
const LEFT: u32 = 290;
const RIGHT: u32 = 24;
/// Told apart also by readers who do not see all colours (Okabe and Ito), on light and on dark.
pub(super) const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];
pub(super) const GREY: RGBColor = RGBColor(128, 128, 128);

/// Colours of paper and ink follow the reader's.
pub(super) const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
                     rect[fill=\"#FFFFFF\"] { fill: #0d1117 } text { fill: #e6edf3 } \
                     [stroke=\"#000000\"] { stroke: #e6edf3 } [stroke=\"#808080\"] { stroke: #6e7681 } }</style>";

impl Plot<'_> {
    /// Write the plot as an SVG file.
    ///
    /// # Errors
    /// Without any mark, and as the file system says.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
        // Behind the first tag.
        if let Some(at) = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1)) {
            svg.insert_str(at, STYLE);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(path, svg)?)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn Error>> {
        let axis = self.scale().ok_or("nothing was measured")?;
        let row = ROW.0 + ROW.1 * self.series.len() as u32;
        let bottom = (ABOVE + row * self.categories.len() as u32) as i32;
        let area = SVGBackend::with_string(svg, (WIDTH, bottom as u32 + BELOW)).into_drawing_area();
        area.fill(&WHITE)?;
        text(&area, self.title, (WIDTH as i32 / 2, 22), HPos::Center, 18)?;
        self.legend(&area)?;
        for (value, name) in axis.ticks() {
            let x = axis.place(value);
            line(&area, (x, ABOVE as i32), (x, bottom), GREY.mix(0.5))?;
            text(&area, &name, (x, bottom + 14), HPos::Center, 12)?;
        }
        text(&area, self.axis, ((LEFT + WIDTH - RIGHT) as i32 / 2, bottom + 38), HPos::Center, 14)?;
        for (index, category) in self.categories.iter().enumerate() {
            let top = (ABOVE + row * index as u32) as i32;
            line(&area, (LEFT as i32, top), ((WIDTH - RIGHT) as i32, top), GREY.mix(0.5))?;
            text(&area, category, (LEFT as i32 - 8, top + row as i32 / 2), HPos::Right, 13)?;
            for (number, (_, marks)) in self.series.iter().enumerate() {
                let y = top + (ROW.0 / 2 + ROW.1 * number as u32 + ROW.1 / 2) as i32;
                if let Some(Some(mark)) = marks.get(index) {
                    bar(&area, &axis, y, *mark, COLOURS[number % COLOURS.len()])?;
                }
            }
        }
        line(&area, (LEFT as i32, bottom), ((WIDTH - RIGHT) as i32, bottom), BLACK)?;
        area.present()?;
        Ok(())
    }

    /// Names of the series, if there are several.
    fn legend(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        if self.series.len() < 2 {
            return Ok(());
        }
        let step = (WIDTH - LEFT - RIGHT) as i32 / self.series.len() as i32;
        for (number, (name, _)) in self.series.iter().enumerate() {
            let x = LEFT as i32 + step * number as i32 + 10;
            area.draw(&Circle::new((x, 50), 4, COLOURS[number % COLOURS.len()].filled()))?;
            text(area, name, (x + 10, 50), HPos::Left, 13)?;
        }
        Ok(())
    }

    fn scale(&self) -> Option<Scale> {
        let marks = || self.series.iter().flat_map(|(_, marks)| marks.iter().flatten());
        let low = marks().map(|mark| mark.min).filter(|min| *min > 0.0).min_by(f64::total_cmp);
        let high = marks().map(|mark| mark.max).max_by(f64::total_cmp)?;
        let least = marks().map(|mark| mark.min).fold(0.0, f64::min);
        let low = if self.log { low? * 0.8 } else { least * 1.05 };
        (high > low).then_some(Scale { log: self.log, low, high: high * if self.log { 1.25 } else { 1.05 } })
    }
}

/// The mapping from values to pixels.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    fn place(&self, value: f64) -> i32 {
        let share = if self.log {
            // What is zero lies at the edge.
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        LEFT as i32 + (share * f64::from(WIDTH - RIGHT - LEFT)).round() as i32
    }

    /// Values with lines and names: 1, 2 and 5 of each decade, or some ten steps.
    fn ticks(&self) -> Vec<(f64, String)> {
        let decade = |of: f64| 10f64.powf(of.log10().floor());
        let mut ticks = Vec::new();
        if self.log {
            let mut unit = decade(self.low);
            while unit <= self.high {
                ticks.extend([1.0, 2.0, 5.0].map(|times| times * unit));
                unit *= 10.0;
            }
        } else {
            let rough = (self.high - self.low) / 8.0;
            let unit = decade(rough);
            let step =
                [1.0, 2.0, 5.0, 10.0].map(|times| times * unit).into_iter().find(|step| *step >= rough);
            let step = step.unwrap_or(rough);
            ticks.extend((-10..=10).map(|count| f64::from(count) * step));
        }
        ticks.retain(|value| (self.low..=self.high).contains(value));
        // No more digits than floating point means.
        ticks.into_iter().map(|value| (value, format!("{}", (value * 1e6).round() / 1e6))).collect()
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(area: &Area<'_>, what: &str, at: (i32, i32), side: HPos, size: i32) -> Result<(), Box<dyn Error>> {
    // The library makes fonts smaller than it is told, to leave room for a line.
    let style =
        ("sans-serif", f64::from(size) * 1.24).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
    Ok(area.draw(&Text::new(what, at, style))?)
}

fn line(
    area: &Area<'_>,
    from: (i32, i32),
    to: (i32, i32),
    colour: impl Into<ShapeStyle>,
) -> Result<(), Box<dyn Error>> {
    Ok(area.draw(&PathElement::new(vec![from, to], colour))?)
}

/// The median as a disc, the range as a line with ends.
fn bar(area: &Area<'_>, scale: &Scale, y: i32, mark: Mark, colour: RGBColor) -> Result<(), Box<dyn Error>> {
    let [min, value, max] = [mark.min, mark.value, mark.max].map(|value| scale.place(value));
    line(area, (min, y), (max, y), colour)?;
    for end in [min, max] {
        line(area, (end, y - 3), (end, y + 3), colour)?;
    }
    Ok(area.draw(&Circle::new((value, y), 4, colour.filled()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_edges_in_their_order() {
        for log in [true, false] {
            let scale = Scale { log, low: if log { 1.0 } else { 0.0 }, high: 1000.0 };
            let places = [1.0, 10.0, 100.0, 1000.0].map(|value| scale.place(value));
            assert!(places.is_sorted() && places[0] >= LEFT as i32, "{places:?}");
            assert_eq!(places[3], (WIDTH - RIGHT) as i32);
            let ticks = scale.ticks();
            assert!((5..=11).contains(&ticks.len()), "{ticks:?}");
        }
        let negative = Scale { log: false, low: -50.0, high: 50.0 };
        assert_eq!((negative.place(-50.0), negative.place(50.0)), (LEFT as i32, (WIDTH - RIGHT) as i32));
        assert!(negative.ticks().iter().any(|(value, _)| *value < 0.0));
        let log = Scale { log: true, low: 1.0, high: 100.0 };
        assert_eq!(log.place(10.0) - log.place(1.0), log.place(100.0) - log.place(10.0));
        assert_eq!(log.place(0.0), log.place(1.0));
    }

    #[test]
    fn a_plot_names_what_it_shows() {
        let mark = Mark { min: 1.0, value: 2.0, max: 4.0 };
        let series =
            vec![("small".to_owned(), vec![Some(mark), None]), ("large".to_owned(), vec![None, Some(mark)])];
        let plot =
            Plot { title: "A title", axis: "time, us", log: true, categories: vec!["one", "two"], series };
        let path = std::env::temp_dir().join(format!("ravelin-plot-{}.svg", std::process::id()));
        plot.write(&path).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        for text in ["A title", "time, us", "one", "two", "small", "large", "prefers-color-scheme: dark"] {
            assert!(svg.contains(text), "{text}");
        }
        // Two marks and two of the legend.
        assert_eq!(svg.matches("<circle").count(), 4);
        let empty = Plot { series: vec![], ..plot };
        assert!(empty.write(&path).is_err());
    }
}
