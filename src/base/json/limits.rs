//! The bounds of the parser.

/// The most memory that one value of a tree takes: an object of one member, whose node has places for eleven.
pub const TREE_BYTES_A_VALUE: usize = 576;

/// The bounds of the parser.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub depth: usize,
    pub number_length: usize,
    /// The most values, at any depth: a text of a few bytes can be a tree of a hundred times its size.
    pub values: usize,
    /// Refuses numbers that float and integer parsers would read differently.
    pub plain_numbers: bool,
}

impl Limits {
    /// For callers' bodies. The longest documented one has some hundred values.
    pub const REQUEST: Limits = Limits { depth: 32, number_length: 32, values: 16_384, plain_numbers: true };
    /// For what people send to the console: a set of policies is a few texts.
    pub const PERSON: Limits = Limits { values: 16_384, ..Limits::ANSWER };
    /// For Sluice's own files, and for what it has read with other bounds before.
    pub const ANSWER: Limits = Limits { depth: 64, number_length: 64, values: usize::MAX, plain_numbers: false };
    /// For upstream's answers, as a list of their values.
    pub const UPSTREAM: Limits = Limits { values: 131_072, ..Limits::ANSWER };
    /// For upstream's answers and the documents of others, as a tree. A page of a hundred payments has some thousand.
    pub const UPSTREAM_TREE: Limits = Limits { values: 32_768, ..Limits::ANSWER };
}
