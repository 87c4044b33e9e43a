//! A file system in memory that remembers what it was asked, to look at every state that a power loss can leave.
//!
//! What a call changes stays in doubt until a sync confirms it: bytes by a sync of the file, names by a sync of the
//! folder they are in. Of what is in doubt a power loss leaves any part: a change may be there or not whatever became
//! of the ones before it, and of a write also only the first half.

use softdiff::run::fs::{AtomicFs, Fs, FsFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard};

type Inode = usize;
const ROOT: Inode = 0;

/// Files and folders by number; a folder's names lead to numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    File(Vec<u8>),
    Folder(BTreeMap<String, Inode>),
}

#[derive(Clone, Debug)]
enum Change {
    /// A name that leads to something from now on.
    Link {
        folder: Inode,
        name: String,
        inode: Inode,
    },
    Unlink {
        folder: Inode,
        name: String,
    },
    Rename {
        folder: Inode,
        from: String,
        to: String,
        inode: Inode,
    },
    Write {
        file: Inode,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: Inode,
        length: usize,
    },
    /// A file: its bytes are durable. A folder: its names are.
    Sync {
        inode: Inode,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nodes(Vec<Node>);

impl Nodes {
    fn names(&mut self, folder: Inode) -> &mut BTreeMap<String, Inode> {
        match &mut self.0[folder] {
            Node::Folder(names) => names,
            Node::File(_) => panic!("{folder} is a file"),
        }
    }

    fn apply(&mut self, change: &Change, torn: bool) {
        match change {
            Change::Link { folder, name, inode } => {
                self.names(*folder).insert(name.clone(), *inode);
            }
            Change::Unlink { folder, name } => {
                self.names(*folder).remove(name);
            }
            Change::Rename { folder, from, to, inode } => {
                let names = self.names(*folder);
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Change::Write { file, at, bytes } => {
                let Node::File(content) = &mut self.0[*file] else { panic!("{file} is a folder") };
                let bytes = if torn { &bytes[..bytes.len() / 2] } else { bytes };
                let end = at + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*at..end].copy_from_slice(bytes);
            }
            Change::Cut { file, length } => {
                let Node::File(content) = &mut self.0[*file] else { panic!("{file} is a folder") };
                content.truncate(*length);
            }
            Change::Sync { .. } => {}
        }
    }

    /// Empties what no name leads to and no later change will: nobody can see it any more.
    fn forget_unseen(&mut self, later: &[Change]) {
        let mut waiting = vec![ROOT];
        waiting.extend(later.iter().filter_map(|change| match change {
            Change::Link { inode, .. } | Change::Rename { inode, .. } => Some(*inode),
            _ => None,
        }));
        let mut seen = BTreeSet::new();
        while let Some(inode) = waiting.pop() {
            if seen.insert(inode)
                && let Node::Folder(names) = &self.0[inode]
            {
                waiting.extend(names.values());
            }
        }
        for (inode, node) in self.0.iter_mut().enumerate() {
            if !seen.contains(&inode) {
                *node = node.emptied();
            }
        }
    }
}

#[derive(Debug)]
struct Memory {
    /// Before the first change.
    begun: Nodes,
    now: Nodes,
    changes: Vec<Change>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PowerFs(Arc<Mutex<Memory>>);

impl PowerFs {
    /// An empty one.
    pub fn new() -> PowerFs {
        PowerFs::of(Nodes(vec![Node::Folder(BTreeMap::new())]))
    }

    fn of(nodes: Nodes) -> PowerFs {
        PowerFs(Arc::new(Mutex::new(Memory { begun: nodes.clone(), now: nodes, changes: vec![] })))
    }

    /// Changes and syncs so far.
    pub fn changes(&self) -> usize {
        self.memory().changes.len()
    }

    /// Every different state that a power loss after the first `count` changes can leave.
    pub fn after_power_loss(&self, count: usize) -> Vec<PowerFs> {
        let memory = self.memory();
        let happened = &memory.changes[..count];
        let mut base = memory.begun.clone();
        // All nodes exist from the beginning, though no name leads to them yet.
        base.0.extend(memory.now.0[base.0.len()..].iter().map(Node::emptied));
        let mut states = BTreeSet::from([base]);
        for (at, change) in happened.iter().enumerate() {
            let later = &happened[at + 1..];
            let subject = change.subject();
            let certain = later.iter().any(|c| matches!(c, Change::Sync { inode } if *inode == subject));
            let mut next = BTreeSet::new();
            for state in states {
                let with = |torn| {
                    let mut state = state.clone();
                    state.apply(change, torn);
                    state.forget_unseen(later);
                    state
                };
                next.insert(with(false));
                if !certain && matches!(change, Change::Write { .. }) {
                    next.insert(with(true));
                }
                if !certain {
                    next.insert(state);
                }
            }
            states = next;
        }
        states.into_iter().map(PowerFs::of).collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap()
    }

    fn change(&self, change: Change) {
        let mut memory = self.memory();
        memory.now.apply(&change, false);
        memory.changes.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<Inode> {
        let memory = self.memory();
        let mut inode = ROOT;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            let Node::Folder(names) = &memory.now.0[inode] else { return Err(ErrorKind::NotADirectory.into()) };
            inode = *names.get(name.to_str().unwrap()).ok_or(ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    fn place(&self, path: &Path) -> io::Result<(Inode, String)> {
        let name = path.file_name().unwrap().to_str().unwrap();
        Ok((self.find(path.parent().unwrap())?, name.into()))
    }

    fn add(&self, path: &Path, node: Node) -> io::Result<Inode> {
        let (folder, name) = self.place(path)?;
        let inode = {
            let mut memory = self.memory();
            memory.now.0.push(node);
            memory.now.0.len() - 1
        };
        self.change(Change::Link { folder, name, inode });
        Ok(inode)
    }

    fn content(&self, file: Inode) -> Vec<u8> {
        match &self.memory().now.0[file] {
            Node::File(bytes) => bytes.clone(),
            Node::Folder(_) => panic!("{file} is a folder"),
        }
    }

    fn writer(&self, file: Inode) -> Box<dyn FsFile> {
        Box::new(PowerFile { fs: self.clone(), file })
    }
}

impl Node {
    fn emptied(&self) -> Node {
        match self {
            Node::File(_) => Node::File(vec![]),
            Node::Folder(_) => Node::Folder(BTreeMap::new()),
        }
    }
}

impl Change {
    /// Whose sync makes it durable.
    fn subject(&self) -> Inode {
        match self {
            Change::Link { folder: inode, .. }
            | Change::Unlink { folder: inode, .. }
            | Change::Rename { folder: inode, .. }
            | Change::Write { file: inode, .. }
            | Change::Cut { file: inode, .. }
            | Change::Sync { inode } => *inode,
        }
    }
}

struct PowerFile {
    fs: PowerFs,
    file: Inode,
}

impl Write for PowerFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.fs.content(self.file).len();
        self.fs.change(Change::Write { file: self.file, at, bytes: bytes.into() });
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FsFile for PowerFile {
    fn sync(&mut self) -> io::Result<()> {
        self.fs.change(Change::Sync { inode: self.file });
        Ok(())
    }
}

impl AtomicFs for PowerFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        match self.find(path) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => Ok(self.writer(self.add(path, Node::File(vec![]))?)),
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        let ((folder, from), (other, to)) = (self.place(from)?, self.place(to)?);
        assert_eq!(folder, other, "a rename between folders needs two syncs, which is not modelled");
        self.change(Change::Rename { folder, from, to, inode });
        Ok(())
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        let (folder, name) = self.place(path)?;
        self.change(Change::Unlink { folder, name });
        Ok(())
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.change(Change::Sync { inode: self.find(path)? });
        Ok(())
    }
}

impl Fs for PowerFs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let Err(_) = self.find(path) else { return Ok(()) };
        let parent = path.parent().unwrap();
        self.create_folder(parent)?;
        self.add(path, Node::Folder(BTreeMap::new()))?;
        self.sync_folder(parent)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        if let Ok(file) = self.find(path) {
            self.change(Change::Cut { file, length: 0 });
            return Ok(self.writer(file));
        }
        self.create_new(path)
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.find(path).map(|file| self.writer(file)).or_else(|_| self.create_new(path))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(io::Cursor::new(self.content(self.find(path)?))))
    }
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = self.find(path)?;
        self.change(Change::Cut { file, length: length as usize });
        self.change(Change::Sync { inode: file });
        Ok(())
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        for name in self.list(path)? {
            self.remove_file(&path.join(name))?;
        }
        self.remove_file(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let folder = self.find(path)?;
        Ok(self.memory().now.clone().names(folder).keys().cloned().collect())
    }
    fn free_space(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}
