//! Train a network of your own: two convolutions, with the time added in between.

use softdiff::engine::op::Window;
use softdiff::engine::{Graph, Init, Result, Var};
use softdiff::{Dataset, Network, Path, Shape, Training};

struct Plain {
    width: usize,
}

impl Network for Plain {
    fn emit(&self, g: &mut Graph, x: Var, t: Var, _training: bool) -> Result<Var> {
        let (n, channels, init) = (g.shape(x)[0], g.shape(x)[3], Init::Normal { deviation: 0.1 });
        let frequencies = g.constant([1, 8], (0..8).map(|k| 1.5f64.powi(k)).collect())?;
        let sinusoids = g.sinusoids(t, frequencies)?;
        let weight = g.param("time", [self.width, 16], init)?;
        let time = g.linear(sinusoids, weight, None)?;
        let time = g.reshape(time, [n, 1, 1, self.width])?;
        let weight = g.param("in", [self.width, 3, 3, channels], init)?;
        let h = g.conv2d(x, weight, None, Window::same(3))?;
        let h = g.add(h, time)?;
        let h = g.silu(h)?;
        let weight = g.param("out", [channels, 3, 3, self.width], init)?;
        g.conv2d(h, weight, None, Window::same(3))
    }
}

pub(crate) fn run(images: Dataset, steps: u64) -> std::result::Result<Dataset, Box<dyn std::error::Error>> {
    let shape = Shape::new(images.height(), images.width(), images.channels());
    let path = Path::variance_exploding(shape, 0.01, 10.0)?;
    let trained = Training::new(images, path).network(Plain { width: 32 }).steps(steps).run()?;
    Ok(trained.model().sample(0..16).steps(20).images()?)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    println!("{:?}", run(Dataset::open("embedded:fashion-mnist")?, 500)?.statistics());
    Ok(())
}
