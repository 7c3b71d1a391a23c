//! The plot of the most interesting benchmarks, with a bar for each contestant.

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea as _, RGBColor, Rectangle, SVGBackend, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, TextStyle, WHITE};

use crate::contestants::Fault;
use crate::measure::Measure;
use crate::table::figure;

/// A panel of the plot: one metric of one benchmark, with a title.
struct Panel {
    title: &'static str,
    row: &'static str,
    metric: &'static str,
}

const PANELS: &[Panel] = &[
    panel(
        "uncontended pair, p50 in µs (less is better)",
        "uncontended",
        "p50_us",
    ),
    panel(
        "64 tasks, own keys: pairs a second (more is better)",
        "distinct_64",
        "per_s",
    ),
    panel(
        "1024 tasks, own keys: pairs a second (more is better)",
        "distinct_1024",
        "per_s",
    ),
    panel(
        "one key, 64 tasks: sections a second (more is better)",
        "hot_1x64_0ms",
        "per_s",
    ),
    panel(
        "one key, 4 x 16 tasks: sections a second (more is better)",
        "hot_4x16_0ms",
        "per_s",
    ),
    panel(
        "one key, 4 x 16, 1 ms: longest wait in ms (less is better)",
        "hot_4x16_1ms",
        "longest_wait_ms",
    ),
];

const COLUMNS: usize = 2;
const WIDTH: u32 = 1_000;
/// The height of a panel, and of a bar with the space below it, in pixels.
const PANEL: u32 = 250;
const BAR: i32 = 24;
/// The left end of the bars, and the length of the longest one, in pixels.
const LEFT: i32 = 130;
const LONGEST: f64 = 250.0;
const TOP: i32 = 44;

const OURS: RGBColor = RGBColor(0x1d, 0x4e, 0xd8);
const OTHERS: RGBColor = RGBColor(0x94, 0xa3, 0xb8);
const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);

const fn panel(title: &'static str, row: &'static str, metric: &'static str) -> Panel {
    Panel { title, row, metric }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the plot as SVG.
pub(crate) fn draw(measures: &[Measure]) -> Result<String, Fault> {
    let rows = PANELS.len().div_ceil(COLUMNS);
    let height = PANEL * u32::try_from(rows)?;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, place) in PANELS.iter().zip(area.split_evenly((rows, COLUMNS))) {
        let found = |measure: &&Measure| measure.row == panel.row && measure.metric == panel.metric;
        let mut bars: Vec<_> = measures.iter().filter(found).collect();
        bars.sort_by_key(|measure| (measure.contestant != "leasehold", &measure.contestant));
        draw_panel(&place, panel.title, &bars)?;
    }
    area.present()?;
    drop(area);
    Ok(svg)
}

fn draw_panel(area: &Area, title: &str, bars: &[&Measure]) -> Result<(), Fault> {
    let heading = style(15, HPos::Left);
    area.draw(&Text::new(title, (16, TOP / 2), heading))?;
    let longest = bars
        .iter()
        .map(|bar| bar.median)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut top = TOP;
    for bar in bars {
        let color = if bar.contestant == "leasehold" {
            OURS
        } else {
            OTHERS
        };
        #[allow(clippy::cast_possible_truncation, reason = "at most the longest bar")]
        let right = LEFT + (LONGEST * bar.median / longest).round() as i32;
        let middle = top + BAR / 2 - 2;
        let body = [(LEFT, top), (right.max(LEFT + 1), top + BAR - 6)];
        area.draw(&Rectangle::new(body, color.filled()))?;
        let name = Text::new(
            bar.contestant.clone(),
            (LEFT - 8, middle),
            style(13, HPos::Right),
        );
        area.draw(&name)?;
        let value = Text::new(
            figure(bar.median),
            (right + 8, middle),
            style(13, HPos::Left),
        );
        area.draw(&value)?;
        top += BAR;
    }
    Ok(())
}

fn style(size: u32, anchor: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size).into_font();
    TextStyle::from(font)
        .color(&INK)
        .pos(Pos::new(anchor, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contestant_has_a_bar() {
        let bar =
            |who: &str, value| Measure::new("uncontended", who, "p50_us", &[value], "2026-01-31");
        let svg = draw(&[bar("rslock", 50.0), bar("leasehold", 25.0)]).expect("it can be drawn");
        assert!(svg.contains("rslock") && svg.contains("leasehold"), "{svg}");
        assert_eq!(
            svg.matches("<rect").count(),
            3,
            "two bars on a background: {svg}"
        );
    }
}
