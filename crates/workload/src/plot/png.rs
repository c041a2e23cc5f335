//! PNG renderer: draws the shapes pixel by pixel, with the drawing library's own
//! fixed-width font, so that no font of the machine is needed.

use std::convert::Infallible;
use std::io;

use embedded_graphics::Drawable;
use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::{FONT_6X12, FONT_9X18_BOLD};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::primitives::{Circle, Line, Primitive, PrimitiveStyle};
use embedded_graphics::text::{Alignment, Text};

use super::{Anchor, Colour, SIZE, Shape};

const WIDTH: usize = SIZE.0 as usize;
const HEIGHT: usize = SIZE.1 as usize;

/// An RGB image, three bytes per pixel.
struct Picture(Vec<u8>);

impl OriginDimensions for Picture {
    fn size(&self) -> Size {
        Size::new(WIDTH as u32, HEIGHT as u32)
    }
}

impl DrawTarget for Picture {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(Point { x, y }, colour) in pixels {
            let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
                continue;
            };
            if x < WIDTH && y < HEIGHT {
                let at = (y * WIDTH + x) * 3;
                self.0[at..at + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

const fn rgb(Colour(red, green, blue): Colour) -> Rgb888 {
    Rgb888::new(red, green, blue)
}

fn point((x, y): (f64, f64)) -> Point {
    Point::new(x.round() as i32, y.round() as i32)
}

fn draw(shape: &Shape, picture: &mut Picture) -> Result<(), Infallible> {
    match shape {
        Shape::Line {
            points,
            colour,
            width,
        } => {
            let style = PrimitiveStyle::with_stroke(rgb(*colour), width.round() as u32);
            // Segment by segment, because the library's join of long segments overflows.
            points.windows(2).try_for_each(|ends| {
                let piece = Line::new(point(ends[0]), point(ends[1]));
                piece.into_styled(style).draw(picture)
            })
        }
        Shape::Dot { at, colour } => Circle::with_center(point(*at), 7)
            .into_styled(PrimitiveStyle::with_fill(rgb(*colour)))
            .draw(picture),
        Shape::Text {
            at,
            anchor,
            text,
            colour,
            large,
        } => {
            let font = if *large { &FONT_9X18_BOLD } else { &FONT_6X12 };
            let style = MonoTextStyle::new(font, rgb(*colour));
            let alignment = match anchor {
                Anchor::Start => Alignment::Left,
                Anchor::Middle => Alignment::Center,
                Anchor::End => Alignment::Right,
            };
            Text::with_alignment(text, point(*at), style, alignment)
                .draw(picture)
                .map(drop)
        }
    }
}

pub(super) fn write(shapes: &[Shape]) -> io::Result<Vec<u8>> {
    let mut picture = Picture(vec![255; WIDTH * HEIGHT * 3]);
    for shape in shapes {
        let Ok(()) = draw(shape, &mut picture);
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(io::Error::other)?;
    writer
        .write_image_data(&picture.0)
        .map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)?;
    Ok(bytes)
}

/// Decodes the pixels of a PNG, for tests.
#[cfg(test)]
pub(super) fn read(bytes: &[u8]) -> Vec<u8> {
    let mut reader = png::Decoder::new(io::Cursor::new(bytes))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    pixels
}
