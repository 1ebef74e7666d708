//! Finds the operation of a method and a path.

use std::sync::Arc;

use http::Method;

use super::operation::Operation;

/// An operation, and the values of its path parameters as the caller wrote them.
#[derive(Debug)]
pub struct Route {
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

/// Finds among operations in any order: a literal beats a parameter at the first segment where two templates differ.
pub(super) fn find(operations: &[Arc<Operation>], method: &Method, path: &str) -> Result<Route, NotFound> {
    let segments: Vec<&str> = path.strip_prefix('/').ok_or(NotFound::Path)?.split('/').collect();
    let fitting = || operations.iter().filter(|o| o.enabled && o.template.fits(&segments));
    let best = fitting().map(|o| o.template.precedence()).min().ok_or(NotFound::Path)?;
    let same_path = || fitting().filter(|o| o.template.precedence() == best);
    let Some(operation) = same_path().find(|o| o.method == *method) else {
        return Err(NotFound::Method { allowed: same_path().map(|o| o.method.clone()).collect() });
    };
    Ok(Route { operation: operation.clone(), path_parameters: operation.template.values(&segments) })
}
