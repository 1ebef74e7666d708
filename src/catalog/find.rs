//! From a method and a path to an operation.

use std::sync::Arc;

use http::Method;

use super::operation::Operation;

/// An operation, and the values of its path parameters as the caller wrote them.
#[derive(Debug)]
pub struct Found {
    pub operation: Arc<Operation>,
    pub path_parameters: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No operation has this path.
    Path,
    /// The path is known, with these methods.
    Method { allowed: Vec<Method> },
}

/// `operations` need no order: a literal beats a parameter at the first place where two templates differ.
pub(super) fn find(operations: &[Arc<Operation>], method: &Method, path: &str) -> Result<Found, NotFound> {
    let fits = |o: &Arc<Operation>| o.template.matches(path).map(|values| (o.template.precedence(), o.clone(), values));
    let candidates: Vec<_> = operations.iter().filter(|o| o.enabled).filter_map(fits).collect();
    let best = candidates.iter().map(|(precedence, ..)| precedence).min().ok_or(NotFound::Path)?;
    let same_path = || candidates.iter().filter(|(precedence, ..)| precedence == best);
    let Some((_, operation, values)) = same_path().find(|(_, o, _)| o.method == *method) else {
        return Err(NotFound::Method { allowed: same_path().map(|(_, o, _)| o.method.clone()).collect() });
    };
    let names = operation.template.parameters().map(str::to_owned);
    Ok(Found { operation: operation.clone(), path_parameters: names.zip(values.iter().cloned()).collect() })
}
