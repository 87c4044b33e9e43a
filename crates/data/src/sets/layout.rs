//! What the folders of a tree of pictures mean: parts (`train`, `test`) and classes.

use super::Split;

/// The meaning of each path, in the order given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FolderLayout {
    /// The part each picture belongs to; `All` for every one when the tree has no parts.
    pub splits: Vec<Split>,
    /// The class of each image, when the tree has classes.
    pub labels: Option<Vec<u32>>,
    /// The names of the classes, sorted.
    pub classes: Vec<String>,
}

/// Reads the folders of `paths` (relative, with `/`): leading folders that all share are dropped; then `train/` and `test/`
/// are parts; then the first folder is the class, if there are several.
pub fn arrange(paths: &[String]) -> FolderLayout {
    let mut folders: Vec<Vec<&str>> = paths.iter().map(|path| folders_of(path)).collect();
    drop_shared(&mut folders);
    let splits: Option<Vec<Split>> = folders.iter().map(|folders| Split::of_name(folders.first()?)).collect();
    let splits = match splits {
        Some(splits) => {
            folders.iter_mut().for_each(|folders| drop(folders.drain(..1)));
            drop_shared(&mut folders);
            splits
        }
        None => vec![Split::All; paths.len()],
    };
    let names: Option<Vec<&str>> = folders.iter().map(|folders| folders.first().copied()).collect();
    let names = names.unwrap_or_default();
    let mut classes = names.clone();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() < 2 {
        return FolderLayout { splits, labels: None, classes: Vec::new() };
    }
    let label = |name: &&str| classes.binary_search(name).unwrap_or(0) as u32;
    let labels = Some(names.iter().map(label).collect());
    FolderLayout { splits, labels, classes: classes.into_iter().map(String::from).collect() }
}

fn folders_of(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.pop();
    parts
}

fn drop_shared(folders: &mut [Vec<&str>]) {
    let mut depth = 0;
    // A folder that is a part stays, even if it is the only one.
    while let Some(first) = folders.first().and_then(|folders| folders.get(depth)).copied()
        && Split::of_name(first).is_none()
        && folders.iter().all(|folders| folders.get(depth) == Some(&first))
    {
        depth += 1;
    }
    folders.iter_mut().for_each(|folders| drop(folders.drain(..depth)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(paths: &[&str]) -> FolderLayout {
        arrange(&paths.iter().map(|path| path.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn one_folder_has_no_classes() {
        let layout = arranged(&["faces/000001.jpg", "faces/000002.jpg"]);
        assert_eq!(layout, FolderLayout { splits: vec![Split::All; 2], labels: None, classes: vec![] });
    }

    #[test]
    fn several_folders_are_classes_in_the_order_of_their_names() {
        let layout = arranged(&["set/dog/a/1.png", "set/cat/2.png", "set/dog/3.png"]);
        assert_eq!(layout.classes, ["cat", "dog"]);
        assert_eq!(layout.labels.unwrap(), [1, 0, 1]);
    }

    #[test]
    fn a_picture_outside_every_class_means_there_are_none() {
        assert_eq!(arranged(&["cat/1.png", "dog/2.png", "3.png"]).labels, None);
    }

    #[test]
    fn train_and_test_are_parts_and_classes_lie_below_them() {
        let layout = arranged(&["d/train/cat/1.png", "d/test/dog/2.png", "d/val/cat/3.png"]);
        assert_eq!(layout.splits, [Split::Train, Split::Test, Split::Test]);
        assert_eq!(layout.labels.unwrap(), [0, 1, 0]);
        assert_eq!(arranged(&["train/1.png"]).splits, [Split::Train]);
    }
}
