//! The names that pytorch-fid and torch-fidelity give to the units.

/// Their names of our stem, in order.
const STEM: [(&str, &str); 5] = [
    ("conv", "Conv2d_1a_3x3"),
    ("conv_1", "Conv2d_2a_3x3"),
    ("conv_2", "Conv2d_2b_3x3"),
    ("conv_3", "Conv2d_3b_1x1"),
    ("conv_4", "Conv2d_4a_3x3"),
];

/// Their name of each block, and how they call its towers (first, second, and the lone convolution).
const BLOCKS: [(&str, &str, [&str; 3]); 11] = [
    ("mixed", "Mixed_5b", A),
    ("mixed_1", "Mixed_5c", A),
    ("mixed_2", "Mixed_5d", A),
    ("mixed_3", "Mixed_6a", ["branch3x3dbl", "", "branch3x3"]),
    ("mixed_4", "Mixed_6b", C),
    ("mixed_5", "Mixed_6c", C),
    ("mixed_6", "Mixed_6d", C),
    ("mixed_7", "Mixed_6e", C),
    ("mixed_8", "Mixed_7a", ["branch3x3", "branch7x7x3", ""]),
    ("mixed_9", "Mixed_7b", E),
    ("mixed_10", "Mixed_7c", E),
];
const A: [&str; 3] = ["branch5x5", "branch3x3dbl", "branch1x1"];
const C: [&str; 3] = ["branch7x7", "branch7x7dbl", "branch1x1"];
const E: [&str; 3] = ["branch3x3", "branch3x3dbl", "branch1x1"];

/// Their name of a unit, such as `Mixed_6b.branch7x7dbl_3` of `mixed_4.tower_1.conv_2`.
pub fn pytorch_name(unit: &str) -> Option<String> {
    if let Some((_, name)) = STEM.iter().find(|(ours, _)| *ours == unit) {
        return Some((*name).to_string());
    }
    let (block, unit) = unit.split_once('.')?;
    let (_, block, towers) = BLOCKS.iter().find(|(ours, ..)| *ours == block)?;
    let branch = match unit {
        "conv" => towers[2].to_string(),
        "tower_2.conv" | "tower_2_conv" => "branch_pool".to_string(),
        // Block E: one underscore, and pairs of convolutions side by side.
        "tower_conv" => "branch3x3_1".to_string(),
        "tower_mixed_conv" => "branch3x3_2a".to_string(),
        "tower_mixed_conv_1" => "branch3x3_2b".to_string(),
        "tower_1_conv" => "branch3x3dbl_1".to_string(),
        "tower_1_conv_1" => "branch3x3dbl_2".to_string(),
        "tower_1_mixed_conv" => "branch3x3dbl_3a".to_string(),
        "tower_1_mixed_conv_1" => "branch3x3dbl_3b".to_string(),
        _ => {
            let (tower, conv) = unit.split_once(".conv")?;
            let tower = towers[usize::from(tower == "tower_1")];
            let number = conv.strip_prefix('_').map_or(Some(0), |n| n.parse::<usize>().ok())?;
            format!("{tower}_{}", number + 1)
        }
    };
    Some(format!("{block}.{branch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_the_names_of_pytorch_fid() {
        for (ours, theirs) in [
            ("conv_4", "Conv2d_4a_3x3"),
            ("mixed.tower.conv_1", "Mixed_5b.branch5x5_2"),
            ("mixed_3.conv", "Mixed_6a.branch3x3"),
            ("mixed_3.tower.conv_2", "Mixed_6a.branch3x3dbl_3"),
            ("mixed_4.tower_1.conv_2", "Mixed_6b.branch7x7dbl_3"),
            ("mixed_8.tower.conv_1", "Mixed_7a.branch3x3_2"),
            ("mixed_8.tower_1.conv_3", "Mixed_7a.branch7x7x3_4"),
            ("mixed_9.tower_mixed_conv_1", "Mixed_7b.branch3x3_2b"),
            ("mixed_10.tower_2_conv", "Mixed_7c.branch_pool"),
            ("mixed_10.conv", "Mixed_7c.branch1x1"),
        ] {
            assert_eq!(pytorch_name(ours).as_deref(), Some(theirs));
        }
        assert_eq!(pytorch_name("mixed_11.conv"), None);
    }
}
