//! The files of the contract, as bytes by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use include_dir::{Dir, include_dir};

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/schemas");

/// The console's own contract, beside upstream's.
const CONSOLE: &str = "console.json";

/// The contents of a `schemas` folder: names relative to it, with `/` between folders.
#[derive(Clone, Debug, Default)]
pub struct SchemaFiles {
    files: Arc<BTreeMap<String, Vec<u8>>>,
}

impl SchemaFiles {
    /// The contract that this binary was built with.
    pub fn built_in() -> SchemaFiles {
        let mut files = BTreeMap::new();
        gather(&BUILT_IN, &mut files);
        SchemaFiles { files: Arc::new(files) }
    }

    /// The file with all that the gate adds to upstream's contract.
    pub const GATE: &'static str = "gate.json";

    /// The gate's additions to upstream's contract, as OpenAPI: always the built-in one.
    pub fn of_gate() -> &'static [u8] {
        BUILT_IN.get_file(SchemaFiles::GATE).map_or(&[], |file| file.contents())
    }

    /// The console's API as OpenAPI: always the built-in one.
    pub fn of_console() -> &'static [u8] {
        BUILT_IN.get_file(CONSOLE).map_or(&[], |file| file.contents())
    }

    pub fn insert(&mut self, name: &str, content: Vec<u8>) {
        Arc::make_mut(&mut self.files).insert(name.to_owned(), content);
    }

    pub fn read(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// The schema files: those beside `openapi.json`, and that file itself.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let own = [CONSOLE, SchemaFiles::GATE];
        self.all().filter(move |(name, _)| !name.contains('/') && name.ends_with(".json") && !own.contains(name))
    }

    /// The files of a folder, by their names in it.
    pub fn folder<'s>(&'s self, folder: &'s str) -> impl Iterator<Item = (&'s str, &'s [u8])> {
        self.all().filter_map(move |(name, content)| {
            let inside = name.strip_prefix(folder)?.strip_prefix('/')?;
            (!inside.contains('/')).then_some((inside, content))
        })
    }

    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()))
    }
}

fn gather(dir: &Dir<'_>, files: &mut BTreeMap<String, Vec<u8>>) {
    for file in dir.files() {
        files.insert(file.path().to_string_lossy().replace('\\', "/"), file.contents().to_vec());
    }
    for inner in dir.dirs() {
        gather(inner, files);
    }
}
