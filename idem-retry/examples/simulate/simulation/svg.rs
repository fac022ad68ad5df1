//! A plot with lines.

use std::fmt::Write as _;

/// What is plotted.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
    /// The largest value across and up, and the distance of the marks on the axes.
    pub(crate) across_to: (f64, f64),
    pub(crate) up_to: (f64, f64),
    /// A part of the plot that is shaded, and what it is.
    pub(crate) shaded: Option<(f64, f64, &'a str)>,
    pub(crate) lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Told apart by people who see colours differently too.
const COLOURS: [&str; 4] = ["#6b6b6b", "#d55e00", "#0072b2", "#009e73"];
const DASHES: [&str; 4] = ["2 3", "none", "none", "7 3"];

impl Plot<'_> {
    pub(crate) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        self.text(&mut svg, (WIDTH / 2.0, 20.0), "middle", self.title);
        if let Some((from, until, what)) = self.shaded {
            let (left, right) = (self.x(from), self.x(until));
            let (width, height) = (right - left, HEIGHT - TOP - BOTTOM);
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 fill=\"#eeeeee\"/>"
            );
            self.text(&mut svg, ((left + right) / 2.0, TOP + 14.0), "middle", what);
        }
        self.axes(&mut svg);
        for (index, (name, points)) in self.lines.iter().enumerate() {
            self.line(&mut svg, index, name, points);
        }
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for at in marks(self.up_to) {
            let y = self.y(at);
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#dddddd\"/>");
            self.text(svg, (LEFT - 6.0, y + 4.0), "end", &at.to_string());
        }
        for at in marks(self.across_to) {
            self.text(svg, (self.x(at), bottom + 16.0), "middle", &at.to_string());
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#000000\"/>"
        );
        self.text(svg, (WIDTH / 2.0, HEIGHT - 12.0), "middle", self.across);
        self.text(svg, (6.0, TOP - 10.0), "start", self.up);
    }

    fn line(&self, svg: &mut String, index: usize, name: &str, points: &[(f64, f64)]) {
        let (colour, dash) = (COLOURS[index], DASHES[index]);
        let style = format!("stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"");
        let points: Vec<_> = points
            .iter()
            .map(|(across, up)| format!("{:.1},{:.1}", self.x(*across), self.y(*up)))
            .collect();
        let points = points.join(" ");
        let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" {style}/>");
        let (left, y) = (LEFT + 12.0, TOP + 12.0 + 16.0 * index as f64);
        let _ = writeln!(svg, "<path d=\"M{left} {y}h24\" {style}/>");
        self.text(svg, (left + 30.0, y + 4.0), "start", name);
    }

    fn text(&self, svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }

    fn x(&self, across: f64) -> f64 {
        LEFT + across / self.across_to.0 * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, up: f64) -> f64 {
        HEIGHT - BOTTOM - up / self.up_to.0 * (HEIGHT - TOP - BOTTOM)
    }
}

fn marks((most, step): (f64, f64)) -> impl Iterator<Item = f64> {
    (0_u32..).map(move |count| f64::from(count) * step).take_while(move |at| *at <= most)
}
