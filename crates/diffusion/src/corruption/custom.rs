//! A user's own linear map from a file.
//!
//! Two formats. JSON, because a kernel is easily written by hand:
//!
//! ```json
//! { "kernel": [0.25, 0.5, 0.25], "boundary": "reflect" }
//! { "kernel": [[0, 1, 0], [1, 4, 1], [0, 0, 2]] }
//! { "rows": [[1, 0], [0, 1]], "cols": [[0.5, 0.5], [0.5, 0.5]] }
//! { "matrix": [[1, 0], [0, 1]] }
//! ```
//!
//! And safetensors with tensors of the same names (f32 or f64), because a dense matrix of an image is large and every
//! Python library writes it exactly.
//!
//! A kernel in one dimension acts along columns and rows; one in two dimensions is taken apart into as many such pairs as
//! its rank. `out[i][j] = sum kernel[a][b] in[i + a - half][j + b - half]`, the correlation of SciPy.

use super::registry::{CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Boundary, Corruption, CorruptionError, Levels, LinearMap, Shape, SharedMap, convolution_matrix};
use crate::linalg::Matrix;
use safetensors::{Dtype, SafeTensors};
use softdiff_engine::HintedMessage;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::regular_file;
use std::path::Path;

/// What a JSON file may be.
const FORMS: &str =
    r#"write {"kernel": [0.25, 0.5, 0.25]}, {"rows": [[...], ...], "cols": [[...], ...]} or {"matrix": [[...], ...]}"#;
/// Files above this size are refused.
const LARGEST_FILE: u64 = 256 << 20;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: "custom",
    about: "towards a linear map of your own",
    parameters: &[CorruptionParameter {
        key: "map",
        kind: ParameterKind::File,
        about: "name a .json or .safetensors file with the map",
    }],
    erases: false,
    corrupts: true,
    build: |spec, shape| Ok(Box::new(Custom::from_file(shape, Path::new(spec.file("map")))?)),
};

/// `C = (1 - level) I + level W` for a user's map W.
///
/// Nothing is known of W, so the norm may exceed one: [`Corruption::norm_bound`] is measured when it is made.
#[derive(Debug, Clone)]
pub struct Custom {
    shape: Shape,
    full: SharedMap,
    norm: f64,
    hash: ContentHash,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonMap {
    kernel: Option<MapKernel>,
    boundary: Option<Boundary>,
    rows: Option<Vec<Vec<f64>>>,
    cols: Option<Vec<Vec<f64>>>,
    matrix: Option<Vec<Vec<f64>>>,
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a kernel is a list of numbers, or a list of rows of numbers")]
enum MapKernel {
    Line(Vec<f64>),
    Plane(Vec<Vec<f64>>),
}

impl Custom {
    /// Towards the map `full`.
    pub fn new(shape: Shape, full: LinearMap) -> Result<Self, CorruptionError> {
        let norm = full.norm(shape)?.value.max(1.0);
        let hash = ContentHash::of(format!("{full:?}").as_bytes());
        Ok(Custom { shape, full: SharedMap::new(full), norm, hash })
    }

    /// Towards the correlation with a kernel, as SciPy's: `out[i][j] = sum kernel[a][b] in[i + a - half][j + b - half]`.
    pub fn from_kernel(shape: Shape, kernel: Matrix, boundary: Boundary) -> Result<Self, CorruptionError> {
        let fail = |problem| CorruptionError::File { path: "the kernel".to_owned(), problem };
        Self::new(shape, from_plane(shape, kernel, boundary).map_err(fail)?)
    }

    /// Towards a matrix on the flattened image, rows, columns, channels.
    pub fn from_matrix(shape: Shape, matrix: Matrix) -> Result<Self, CorruptionError> {
        matrix.check_finite()?;
        let full = LinearMap::Dense(matrix);
        full.check(shape)?;
        Self::new(shape, full)
    }

    /// Towards the map in a `.json` or `.safetensors` file.
    pub fn from_file(shape: Shape, path: &Path) -> Result<Self, CorruptionError> {
        let fail = |problem: HintedMessage| CorruptionError::File { path: path.display().to_string(), problem };
        let bytes = regular_file::read(path, LARGEST_FILE).map_err(|e| fail(e.to_string().into()))?;
        let full = match path.extension().and_then(|e| e.to_str()) {
            Some("json") => from_json(shape, &bytes).map_err(fail)?,
            Some("safetensors") => from_safetensors(shape, &bytes).map_err(fail)?,
            _ => return Err(fail("the name must end in .json or .safetensors".into())),
        };
        full.check(shape)?;
        Self::new(shape, full)
    }
}

fn from_json(shape: Shape, bytes: &[u8]) -> Result<LinearMap, HintedMessage> {
    let map: JsonMap = serde_json::from_slice(bytes).map_err(|error| HintedMessage::new(error.to_string(), FORMS))?;
    let boundary = map.boundary.unwrap_or_default();
    match (map.kernel, map.rows, map.cols, map.matrix) {
        (Some(MapKernel::Line(taps)), None, None, None) => from_kernel(shape, &taps, boundary),
        (Some(MapKernel::Plane(rows)), None, None, None) => from_plane(shape, from_nested(rows)?, boundary),
        (None, Some(rows), Some(cols), None) => {
            Ok(LinearMap::Separable { rows: from_nested(rows)?, cols: from_nested(cols)? })
        }
        (None, None, None, Some(matrix)) => Ok(LinearMap::Dense(from_nested(matrix)?)),
        _ => Err(HintedMessage::new("it is not one map", FORMS)),
    }
}

fn from_safetensors(shape: Shape, bytes: &[u8]) -> Result<LinearMap, HintedMessage> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let has = |name| tensors.tensor(name).is_ok();
    if has("matrix") {
        return Ok(LinearMap::Dense(tensor_matrix(&tensors, "matrix")?));
    }
    if has("rows") && has("cols") {
        return Ok(LinearMap::Separable {
            rows: tensor_matrix(&tensors, "rows")?,
            cols: tensor_matrix(&tensors, "cols")?,
        });
    }
    if has("kernel") {
        return match tensor_values(&tensors, "kernel")? {
            (sizes, taps) if sizes.len() == 1 => from_kernel(shape, &taps, Boundary::default()),
            _ => from_plane(shape, tensor_matrix(&tensors, "kernel")?, Boundary::default()),
        };
    }
    Err("no tensor named \"matrix\", no pair \"rows\" and \"cols\", and no \"kernel\"".into())
}

fn odd(taps: usize) -> Result<(), HintedMessage> {
    if taps.is_multiple_of(2) {
        let hint = "give an odd number, the middle one is the centre";
        return Err(HintedMessage::new(format!("the kernel has {taps} taps"), hint));
    }
    Ok(())
}

/// A kernel in two dimensions: `K = sum_k u_k v_k^T` by elimination with the largest entry as pivot, which ends at the rank,
/// and a pair of matrices for each term.
fn from_plane(shape: Shape, mut kernel: Matrix, boundary: Boundary) -> Result<LinearMap, HintedMessage> {
    odd(kernel.rows())?;
    odd(kernel.cols())?;
    kernel.check_finite().map_err(|error| HintedMessage::of(error).at("the kernel"))?;
    let (mut terms, mut largest) = (Vec::new(), 0.0);
    loop {
        let places = (0..kernel.rows()).flat_map(|i| (0..kernel.cols()).map(move |j| (i, j)));
        let Some((i, j)) = places.max_by(|&a, &b| kernel[a].abs().total_cmp(&kernel[b].abs())) else { break };
        let pivot = kernel[(i, j)];
        largest = f64::max(largest, pivot.abs());
        if pivot.abs() <= 16.0 * f64::EPSILON * largest {
            break;
        }
        let column: Vec<f64> = (0..kernel.rows()).map(|row| kernel[(row, j)] / pivot).collect();
        let row = kernel.row(i).to_vec();
        kernel = Matrix::from_fn(kernel.rows(), kernel.cols(), |a, b| {
            // Exactly nothing is left where the pivot was.
            if a == i || b == j { 0.0 } else { kernel[(a, b)] - column[a] * row[b] }
        });
        terms.push(LinearMap::Separable {
            rows: convolution_matrix(&column, shape.height, boundary),
            cols: convolution_matrix(&row, shape.width, boundary),
        });
    }
    Ok(LinearMap::Sum(terms))
}

fn from_kernel(shape: Shape, kernel: &[f64], boundary: Boundary) -> Result<LinearMap, HintedMessage> {
    odd(kernel.len())?;
    if let Some(tap) = kernel.iter().find(|tap| !tap.is_finite()) {
        return Err(HintedMessage::new(format!("the kernel has a tap of {tap}"), "every tap must be finite"));
    }
    Ok(LinearMap::Separable {
        rows: convolution_matrix(kernel, shape.height, boundary),
        cols: convolution_matrix(kernel, shape.width, boundary),
    })
}

fn from_nested(rows: Vec<Vec<f64>>) -> Result<Matrix, HintedMessage> {
    let (height, width) = (rows.len(), rows.first().map_or(0, Vec::len));
    if let Some(odd) = rows.iter().position(|row| row.len() != width) {
        let message = format!("row {odd} has {} values, row 0 has {width}", rows[odd].len());
        return Err(HintedMessage::new(message, "all rows must be equally long"));
    }
    Matrix::from_vec(height, width, rows.concat()).map_err(HintedMessage::of)
}

fn tensor_values(tensors: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f64>), HintedMessage> {
    let tensor = tensors.tensor(name).map_err(|e| e.to_string())?;
    let values: Vec<f64> = match tensor.dtype() {
        Dtype::F64 => tensor.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
        Dtype::F32 => tensor.data().as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
        other => {
            return Err(HintedMessage::new(format!("tensor \"{name}\" is {other:?}"), "store it as F64 or F32"));
        }
    };
    match values.iter().find(|v| !v.is_finite()) {
        Some(bad) => Err(HintedMessage::new(format!("tensor \"{name}\" contains {bad}"), "every value must be finite")),
        None => Ok((tensor.shape().to_vec(), values)),
    }
}

fn tensor_matrix(tensors: &SafeTensors<'_>, name: &str) -> Result<Matrix, HintedMessage> {
    let (shape, values) = tensor_values(tensors, name)?;
    match shape[..] {
        [rows, cols] => Matrix::from_vec(rows, cols, values).map_err(HintedMessage::of),
        _ => Err(HintedMessage::new(format!("tensor \"{name}\" has shape {shape:?}"), "a matrix has two sizes")),
    }
}

impl Corruption for Custom {
    fn name(&self) -> &str {
        "custom"
    }

    fn describe(&self) -> String {
        format!("custom({})", self.hash)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        Ok(LinearMap::Sum(vec![LinearMap::Scale(1.0 - level), LinearMap::Shared(self.full.clone()).scaled(level)]))
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level)?;
        Ok(LinearMap::Sum(vec![LinearMap::Scale(-1.0), LinearMap::Shared(self.full.clone())]))
    }

    fn is_straight(&self) -> bool {
        true
    }

    fn norm_bound(&self) -> f64 {
        self.norm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::Hint;

    const SHAPE: Shape = Shape { height: 2, width: 2, channels: 1 };

    #[test]
    fn the_three_json_forms_are_read() {
        let kernel = from_json(SHAPE, br#"{"kernel": [0.25, 0.5, 0.25], "boundary": "reflect"}"#).unwrap();
        let half = Matrix::from_fn(2, 2, |i, j| if i == j { 0.75 } else { 0.25 });
        assert_eq!(kernel, LinearMap::Separable { rows: half.clone(), cols: half });
        assert!(from_json(SHAPE, br#"{"rows": [[1,0],[0,1]], "cols": [[1,0],[0,1]]}"#).is_ok());
        assert!(matches!(from_json(SHAPE, br#"{"matrix": [[1]]}"#), Ok(LinearMap::Dense(_))));
    }

    #[test]
    fn a_kernel_in_two_dimensions_is_the_sum_over_its_taps_in_as_few_terms_as_its_rank() {
        let shape = Shape::new(6, 5, 2);
        let taps = [[0.1, 0.4, -0.2], [0.0, 1.0, 0.3], [0.2, 0.8, -0.4], [0.7, 0.0, 0.5], [0.1, 0.2, 0.0]];
        let mut stream = softdiff_engine::rng::RandomStream::new(2, "kernel");
        let image = stream.normals(shape.len());
        let at = |row: i64, col: i64, channel: usize| {
            let inside = (0..6).contains(&row) && (0..5).contains(&col);
            if inside { image[(row as usize * 5 + col as usize) * 2 + channel] } else { 0.0 }
        };
        let json = format!("{{\"kernel\": {}}}", serde_json::to_string(&taps).unwrap());
        let map = from_json(shape, json.as_bytes()).unwrap();
        let found = map.apply(shape, &image).unwrap();
        for (place, found) in found.iter().enumerate() {
            let (row, col, channel) = ((place / 10) as i64, (place / 2 % 5) as i64, place % 2);
            let mut expected = 0.0;
            for (a, line) in (-2..).zip(&taps) {
                for (b, tap) in (-1..).zip(line) {
                    expected += tap * at(row + a, col + b, channel);
                }
            }
            assert!((found - expected).abs() < 1e-14, "{found} not {expected}");
        }
        let rank = |json: &str| match from_json(shape, json.as_bytes()).unwrap() {
            LinearMap::Sum(terms) => terms.len(),
            _ => 0,
        };
        assert_eq!(rank(&json), 3);
        assert_eq!(rank(r#"{"kernel": [[1, 2, 1], [2, 4, 2], [1, 2, 1]], "boundary": "reflect"}"#), 1);
        assert_eq!(rank(r#"{"kernel": [[0, 1, 0], [1, -4, 1], [0, 1, 0]]}"#), 2);
        assert!(
            from_json(shape, br#"{"kernel": [[1, 2], [2, 4], [1, 2]]}"#).unwrap_err().to_string().contains("2 taps")
        );
    }

    #[test]
    fn unusable_files_say_what_is_wrong() {
        let problem = |text: &str| from_json(SHAPE, text.as_bytes()).unwrap_err().in_full();
        assert!(problem(r#"{"kernel": [0.5, 0.5]}"#).contains("odd number"));
        assert!(problem(r#"{"rows": [[1]]}"#).contains("it is not one map"));
        for no_map in ["[0.25, 0.5, 0.25]", r#"{"kernel": "wide"}"#, "{}"] {
            let error = from_json(SHAPE, no_map.as_bytes()).unwrap_err();
            assert!(error.hint().is_some_and(|hint| hint.contains(r#"{"kernel": [0.25, 0.5, 0.25]}"#)), "{error:?}");
        }
        assert!(problem(r#"{"kernel": "wide"}"#).contains("a kernel is a list of numbers, or a list of rows"));
        assert!(problem(r#"{"matrix": [[1, 2], [3]]}"#).contains("row 1 has 1 values"));
        assert!(problem(r#"{"matrx": []}"#).contains("unknown field"));
        assert!(from_safetensors(SHAPE, b"not a file").is_err());
        let missing = Custom::from_file(SHAPE, Path::new("no/such/map.json")).unwrap_err().to_string();
        assert!(missing.starts_with("no/such/map.json: "));
    }

    #[test]
    fn a_matrix_of_the_wrong_size_names_the_right_one() {
        let error = LinearMap::Dense(Matrix::identity(3)).check(SHAPE).unwrap_err().in_full();
        assert_eq!(error, "a dense matrix of size 3x3 does not fit images of 2x2x1; it must be 4x4");
    }
}
